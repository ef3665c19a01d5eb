//! Updates of capacity: what both ends write and read, and what is refused.

mod division;
mod lines;
mod refused;
mod written;

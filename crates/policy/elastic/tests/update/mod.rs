//! Updates of capacity: the text that both ends write and read, and refusals.

mod division;
mod lines;
mod refused;
mod written;

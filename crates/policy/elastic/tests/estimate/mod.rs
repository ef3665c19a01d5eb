//! A server with neighbours, and the laws that estimate what it can carry: side by side, and what must hold for any
//! input.

mod laws;
mod model;
mod random;

//! The scaler against a cloud that is late, fails and forgets: a story as a table, and random sequences under an
//! observer.

mod cloud;
mod random;
mod story;

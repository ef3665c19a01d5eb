//! The scaler against a cloud that is late, fails and loses requests: a sequence as a table, and random sequences under
//! an observer.

mod cloud;
mod random;
mod story;

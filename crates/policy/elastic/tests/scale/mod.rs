//! The scaler against a cloud that is late, fails and forgets: a story as a table, and random ones under an observer.

mod cloud;
mod random;
mod story;

//! The front-end queue: what each rule says, and all of them under random operations.

mod checker;
mod random;
mod rules;
mod standing;
mod unanswered;

//! Queue in front of servers: each rule by an example, and all rules under random operations.

mod checker;
mod random;
mod rules;
mod standing;
mod unanswered;

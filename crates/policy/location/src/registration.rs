//! One REGISTER on its way through a store.

use crate::{Answer, Ask, Decision, Purpose, Record, Register, Registrar, Replaced, Reply, StoreError};
use base::UnixTime;

/// How often a decision is made anew because somebody else was faster. Each time one of them gets through, so more
/// than this is a flood of requests for one address-of-record.
const TRIES_MAX: u8 = 5;

/// What is to be done next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ask the store, and give its answer to [`Registration::reply`].
    Ask(Ask),
    /// Answer the request; this registration is over.
    Done(Answer),
}

/// A REGISTER under way: read, decide, replace; from the beginning when the record has changed in between.
#[derive(Clone, Debug)]
pub struct Registration {
    register: Register,
    /// The answer to give once the replacement is done.
    promised: Option<Answer>,
    tries: u8,
}

impl Registration {
    /// Begins, and asks for the record. The registrar has to serve the Request-URI ([`Registrar::serves`]).
    pub fn begin(register: Register) -> (Self, Step) {
        let first = Step::Ask(Ask::Read(register.aor.clone()));
        (Self { register, promised: None, tries: 0 }, first)
    }

    /// What the REGISTER is for.
    pub fn purpose(&self) -> Purpose {
        self.register.purpose()
    }

    /// The store has answered.
    pub fn reply(&mut self, now: UnixTime, registrar: &Registrar, reply: Reply) -> Step {
        match (reply, self.promised.take()) {
            (Reply::Read(Ok(record)), None) => self.decide(now, registrar, record),
            (Reply::Replaced(Ok(Replaced::Done)), Some(answer)) => Step::Done(answer),
            (Reply::Replaced(Ok(Replaced::Conflict)), Some(_)) if self.tries < TRIES_MAX => {
                Step::Ask(Ask::Read(self.register.aor.clone()))
            }
            // [10.3-17] The back end's commit failed: 500, or 503 where another registrar, or a later time, may help.
            (Reply::Read(Err(error)) | Reply::Replaced(Err(error)), _) => Step::Done(failure(&error)),
            _ => Step::Done(Answer::with(500, "Too Many Updates at Once", "Retry-After", b"1".to_vec())),
        }
    }

    fn decide(&mut self, now: UnixTime, registrar: &Registrar, present: Option<Record>) -> Step {
        self.tries += 1;
        match registrar.decide(now, &self.register, present.as_ref()) {
            Decision::Answer(answer) => Step::Done(answer),
            Decision::Replace(new, answer) => {
                self.promised = Some(answer);
                Step::Ask(Ask::Replace { aor: self.register.aor.clone(), expected: present, new })
            }
        }
    }
}

fn failure(error: &StoreError) -> Answer {
    match error {
        StoreError::Corrupt(_) => Answer::bare(500, "Location Service Failed"),
        StoreError::Full | StoreError::Unavailable(_) => {
            Answer::with(503, "Location Service Unavailable", "Retry-After", b"30".to_vec())
        }
    }
}

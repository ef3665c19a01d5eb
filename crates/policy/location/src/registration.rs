//! Processing of one REGISTER with a store.

use crate::{Answer, Ask, Decision, Purpose, Record, Register, Registrar, Replaced, Reply, StoreError};
use base::UnixTime;

/// Most decisions for one REGISTER when other requests change the record first. Each time one of them succeeds, so more
/// tries mean a flood of requests for one address-of-record.
const TRIES_MAX: u8 = 5;

/// Next step of a registration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Send this request to the store, and pass its reply to [`Registration::reply`].
    Ask(Ask),
    /// Send this response; the registration is over.
    Done(Answer),
}

/// A REGISTER in progress: read, decide, replace. Starts again if the record has changed meanwhile.
#[derive(Clone, Debug)]
pub struct Registration {
    register: Register,
    /// Response to send after the replacement.
    promised: Option<Answer>,
    tries: u8,
}

impl Registration {
    /// Starts a registration by reading the record. The registrar must serve the Request-URI ([`Registrar::serves`]).
    pub fn begin(register: Register) -> (Self, Step) {
        let first = Step::Ask(Ask::Read(register.aor.clone()));
        (Self { register, promised: None, tries: 0 }, first)
    }

    /// Purpose of the REGISTER.
    pub fn purpose(&self) -> Purpose {
        self.register.purpose()
    }

    /// Handles a reply of the store.
    pub fn reply(&mut self, now: UnixTime, registrar: &Registrar, reply: Reply) -> Step {
        match (reply, self.promised.take()) {
            (Reply::Read(Ok(record)), None) => self.decide(now, registrar, record),
            (Reply::Replaced(Ok(Replaced::Done)), Some(answer)) => Step::Done(answer),
            (Reply::Replaced(Ok(Replaced::Conflict)), Some(_)) if self.tries < TRIES_MAX => {
                Step::Ask(Ask::Read(self.register.aor.clone()))
            }
            // [10.3-17] The back end's commit failed: 500; or 503 if another registrar or a later try may succeed.
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

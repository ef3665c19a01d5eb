//! Processing of one REGISTER with a store.

use crate::{
    BindingsRecord, Purpose, Register, Registrar, RegistrarDecision, RegistrarResponse, Replaced, StoreError,
    StoreReply, StoreRequest,
};
use base::UnixTime;

/// Most decisions for one REGISTER, if each time another request changes the record first. At each conflict another
/// request has succeeded, so more conflicts mean a flood of requests for one address-of-record.
const TRIES_MAX: u8 = 5;

/// Next step of a registration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistrationStep {
    /// Send this request to the store, and pass its reply to [`Registration::reply`].
    Request(StoreRequest),
    /// Send this response; the registration is over.
    Done(RegistrarResponse),
}

/// A REGISTER in progress: read, decide, replace. Starts again if the record has changed meanwhile.
#[derive(Clone, Debug)]
pub struct Registration {
    register: Register,
    /// Response to send after the replacement.
    promised: Option<RegistrarResponse>,
    tries: u8,
}

impl Registration {
    /// Starts a registration by reading the record. The registrar must serve the Request-URI ([`Registrar::serves`]).
    pub fn begin(register: Register) -> (Self, RegistrationStep) {
        let first = RegistrationStep::Request(StoreRequest::Read(register.aor.clone()));
        (Self { register, promised: None, tries: 0 }, first)
    }

    /// Purpose of the REGISTER.
    pub fn purpose(&self) -> Purpose {
        self.register.purpose()
    }

    /// Handles a reply of the store.
    pub fn reply(&mut self, now: UnixTime, registrar: &Registrar, reply: StoreReply) -> RegistrationStep {
        match (reply, self.promised.take()) {
            (StoreReply::Read(Ok(record)), None) => self.decide(now, registrar, record),
            (StoreReply::Replaced(Ok(Replaced::Done)), Some(answer)) => RegistrationStep::Done(answer),
            (StoreReply::Replaced(Ok(Replaced::Conflict)), Some(_)) if self.tries < TRIES_MAX => {
                RegistrationStep::Request(StoreRequest::Read(self.register.aor.clone()))
            }
            // [10.3-17] The back end's commit failed: 500; or 503 if another registrar or a later try may succeed.
            (StoreReply::Read(Err(error)) | StoreReply::Replaced(Err(error)), _) => {
                RegistrationStep::Done(failure(&error))
            }
            _ => RegistrationStep::Done(RegistrarResponse::with(
                500,
                "Too Many Updates at Once",
                "Retry-After",
                b"1".to_vec(),
            )),
        }
    }

    fn decide(
        &mut self,
        now: UnixTime,
        registrar: &Registrar,
        present: Option<BindingsRecord>,
    ) -> RegistrationStep {
        self.tries += 1;
        match registrar.decide(now, &self.register, present.as_ref()) {
            RegistrarDecision::Answer(answer) => RegistrationStep::Done(answer),
            RegistrarDecision::Replace(new, answer) => {
                self.promised = Some(answer);
                RegistrationStep::Request(StoreRequest::Replace {
                    aor: self.register.aor.clone(),
                    expected: present,
                    new,
                })
            }
        }
    }
}

fn failure(error: &StoreError) -> RegistrarResponse {
    match error {
        StoreError::Corrupt(_) => RegistrarResponse::bare(500, "Location Service Failed"),
        StoreError::Full | StoreError::Unavailable(_) => {
            RegistrarResponse::with(503, "Location Service Unavailable", "Retry-After", b"30".to_vec())
        }
    }
}

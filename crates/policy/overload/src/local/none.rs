//! No local control.

use super::Controller;
use crate::signal::HostLoad;
use crate::{AdmissionVerdict, MessageClass};
use base::{Instant, Rng};

/// No control: every request is accepted, and lost if the buffer is full (Overload paper, VI-C, case 1).
#[derive(Clone, Copy, Debug)]
pub struct None;

impl Controller for None {
    fn name(&self) -> &'static str {
        "none"
    }

    fn judge(&mut self, _: Instant, _: MessageClass, _: &HostLoad, _: &mut Rng) -> AdmissionVerdict {
        AdmissionVerdict::Accept
    }
}

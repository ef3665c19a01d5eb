//! Continues a request after an answer of the store or the DNS, or after a timeout.

use super::services::{Registrar, STORE_SILENT, USERS_SILENT};
use super::waiting::{Pending, WaitEnd};
use crate::forward::contacts::NO_CONTACT;
use crate::outcome::question::StoreAnswer;
use crate::outcome::rejection::{Rejection, refused};
use crate::read::arrival::Inbound;
use crate::read::progress::{Progress, Stage};
use crate::step::Step;
use base::Flow;
use location::{StoreReply, targets};

impl Registrar {
    /// Continues a waiting request, with an answer or without, or ends it if its caller has cancelled it.
    pub(crate) fn resume(
        &mut self,
        step: &mut Step<'_>,
        inbound: Inbound<'_>,
        pending: Pending,
        is_cancelled: bool,
        end: WaitEnd,
        progress: &mut Progress,
    ) -> Result<Stage, Rejection> {
        match (pending, end) {
            (pending, _) if is_cancelled => {
                self.withdraw(&pending);
                Err(refused(487, "Request Terminated").into())
            }
            (Pending::User(claim, role), WaitEnd::Answered(StoreAnswer::User(Ok(secret)))) => {
                Ok(self.settle(step, inbound, &claim, role, secret.as_ref(), progress))
            }
            (Pending::Register(registration), WaitEnd::Answered(StoreAnswer::Location(reply, date))) => {
                self.go_on_registering(step, inbound, registration, reply, date, progress)?;
                Ok(Stage::Done)
            }
            (
                Pending::Location,
                WaitEnd::Answered(StoreAnswer::Location(StoreReply::Read(Ok(record)), date)),
            ) => {
                let bindings = record.map(|record| targets(&record, date)).unwrap_or_default();
                self.counters.look_ups.found += u64::from(!bindings.is_empty());
                self.counters.look_ups.not_found += u64::from(bindings.is_empty());
                progress.bindings = Some(bindings);
                Ok(Stage::GoesOn)
            }
            (
                Pending::Place(user),
                WaitEnd::Answered(StoreAnswer::Location(StoreReply::Read(Ok(record)), date)),
            ) => {
                self.learn_home(inbound, &user, record, date);
                Ok(Stage::GoesOn)
            }
            (Pending::Caller, end) => {
                progress.is_at_source = Some(has_registered(inbound.flow, &end));
                Ok(Stage::GoesOn)
            }
            (Pending::Name(_), WaitEnd::Resolved) => Ok(Stage::GoesOn),
            (Pending::Name(_), _) => Err(NO_CONTACT.into()),
            (pending @ Pending::User(..), _) => Err(self.unanswered(&pending, USERS_SILENT)),
            (pending, _) => Err(self.unanswered(&pending, STORE_SILENT)),
        }
    }
}

/// Returns whether a user has registered from this address over UDP, by the answer of a store. Without an answer the
/// result is `false`, and the call still proceeds.
fn has_registered(from: Flow, end: &WaitEnd) -> bool {
    let WaitEnd::Answered(StoreAnswer::Location(StoreReply::Read(Ok(Some(record))), date)) = end else {
        return false;
    };
    let sources = targets(record, *date).into_iter().filter_map(|binding| binding.source);
    sources.into_iter().any(|source| {
        source.connection.is_none() && (source.transport, source.peer) == (from.transport, from.peer)
    })
}

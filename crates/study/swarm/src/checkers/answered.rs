//! Ownership of calls, as seen in the answerers' responses.

use crate::RunRule;
use crate::call::is_initial_invite;
use crate::plan::answerer_address;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Message, Method};

/// The calls of all answerers.
#[derive(Default)]
pub(super) struct Answered {
    /// The answerer of each To tag in a 2xx to an INVITE.
    owners: BTreeMap<Vec<u8>, SocketAddr>,
    /// Call-IDs of the answered calls that have not ended, by answerer.
    open: BTreeMap<SocketAddr, BTreeSet<Vec<u8>>>,
    /// Call-IDs of calls that are lost because their answerer, or a process with their transaction, has died.
    lost: BTreeSet<Vec<u8>>,
    /// Call-IDs of calls that were sent to an answerer and got no response.
    unheard: BTreeSet<Vec<u8>>,
    /// Call-IDs of cancelled calls.
    cancelled: BTreeSet<Vec<u8>>,
}

impl Answered {
    /// Records a request that a process received.
    pub(super) fn request_received(&mut self, bytes: &[u8]) {
        if let Ok(request) = wire::scan(bytes)
            && request.method() == Some(Method::Cancel)
        {
            self.cancelled.insert(request.call_id().to_vec());
        }
    }

    /// Records a response of an answerer, and checks that it is not for an ACK (RFC 3261 §17).
    pub(super) fn response_sent(&mut self, from: SocketAddr, response: &Message<'_>) -> Result<(), String> {
        let Some(status) = response.status() else { return Ok(()) };
        self.unheard.remove(response.call_id());
        let open = self.open.entry(from).or_default();
        match (response.cseq().method, status) {
            (Method::Invite, 100..=299) => {
                open.insert(response.call_id().to_vec());
                if status >= 200
                    && let Some(tag) = response.to_tag()
                {
                    self.owners.insert(tag.to_vec(), from);
                }
            }
            (Method::Invite, _) | (Method::Bye, 200..) => {
                open.remove(response.call_id());
            }
            (Method::Ack, _) => return Err(RunRule::AckAnswered.broken(format_args!("{from}"))),
            _ => {}
        }
        Ok(())
    }

    /// A process with transactions of these calls died.
    pub(super) fn lose(&mut self, calls: impl IntoIterator<Item = Vec<u8>>) {
        self.lost.extend(calls);
    }

    /// An answerer died. Its answered calls are lost, which is no fault of a proxy.
    pub(super) fn died(&mut self, answerer: SocketAddr) {
        self.lost.append(self.open.entry(answerer).or_default());
    }

    /// Returns the number of calls lost with a process or answerer.
    pub(super) fn lost(&self) -> u64 {
        self.lost.len() as u64
    }

    /// Returns the number of other calls that were cancelled before any answerer responded.
    pub(super) fn given_up(&self) -> u64 {
        let unheard = self.cancelled.intersection(&self.unheard);
        unheard.filter(|call| !self.lost.contains(*call)).count() as u64
    }

    /// Checks a message sent to `to`: a request in a dialog may reach no other answerer than that of the call.
    pub(super) fn check(&mut self, bytes: &[u8], to: SocketAddr) -> Result<(), String> {
        let Ok(request) = wire::scan(bytes) else { return Ok(()) };
        if request.method().is_none() || !is_answerer(to) {
            return Ok(());
        }
        if is_initial_invite(&request) {
            self.unheard.insert(request.call_id().to_vec());
        }
        let owner = request.to_tag().and_then(|tag| self.owners.get(tag));
        match owner {
            Some(&owner) if owner != to => {
                let call = request.call_id().escape_ascii();
                let method = request.cseq().method.name();
                Err(RunRule::WrongAnswerer
                    .broken(format_args!("{method} of call {call} to {to}, not {owner}")))
            }
            _ => Ok(()),
        }
    }
}

fn is_answerer(address: SocketAddr) -> bool {
    address.ip() == answerer_address(0).ip()
}

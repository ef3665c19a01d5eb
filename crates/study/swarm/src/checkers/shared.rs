//! Checks which site keeps the state of each call, over all sites that share out call state.

use crate::call::{RequestName, is_initial_invite, request_of};
use crate::{RunRule, Sent};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Message, Method};

/// The calls of a run.
#[derive(Default)]
pub(super) struct Shared {
    /// The site that keeps the INVITE's transaction.
    kept: BTreeMap<RequestName, u16>,
    /// The calls that passed each site.
    seen: BTreeMap<u16, BTreeSet<RequestName>>,
    /// Calls that a site has forgotten. A later copy is new to it, and its state may be kept again.
    forgotten: BTreeSet<RequestName>,
}

fn scanned(sent: &[Sent]) -> impl Iterator<Item = Message<'_>> {
    sent.iter().filter_map(|one| wire::scan(&one.bytes).ok())
}

impl Shared {
    /// A site that shares state got `bytes` and sent `sent`. The site that keeps a call's state sends 100 (RFC 3261
    /// §16.2). Checks that no second site sends 100 while the transaction exists.
    pub(super) fn datagram(&mut self, site: u16, bytes: &[u8], sent: &[Sent]) -> Result<(), String> {
        let Ok(request) = wire::scan(bytes) else { return Ok(()) };
        if !is_initial_invite(&request) {
            return Ok(());
        }
        let call = request_of(&request);
        let name = || request.call_id().escape_ascii().to_string();
        self.seen.entry(site).or_default().insert(call.clone());
        let goes_on = scanned(sent).any(|message| message.method().is_some());
        if !goes_on || !scanned(sent).any(|message| message.status() == Some(100)) {
            return Ok(());
        }
        match self.kept.insert(call.clone(), site) {
            Some(before) if !self.forgotten.contains(&call) => {
                Err(RunRule::TwoStates.broken(format_args!("call {} at {before} and {site}", name())))
            }
            _ => Ok(()),
        }
    }

    /// Records messages that a site sent. The transaction of a refused call ends soon.
    pub(super) fn sent(&mut self, site: u16, sent: &[Sent]) {
        for message in scanned(sent).filter(|message| message.cseq().method == Method::Invite) {
            let call = request_of(&message);
            if message.status().is_some_and(|status| status >= 300) && self.kept.get(&call) == Some(&site) {
                self.kept.remove(&call);
            }
        }
    }

    /// The process of a site ended.
    pub(super) fn ended(&mut self, site: u16) {
        self.kept.retain(|_, at| *at != site);
        self.forgotten.extend(self.seen.remove(&site).unwrap_or_default());
    }
}

//! Who keeps the state of which call, over all sites that share it out.

use crate::call::{RequestName, begins, request_of};
use crate::{RunRule, Sent};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Message, Method};

/// The calls of a run.
#[derive(Default)]
pub(super) struct Shared {
    /// The site that keeps the INVITE's transaction.
    kept: BTreeMap<RequestName, u16>,
    /// The calls that came by each site.
    seen: BTreeMap<u16, BTreeSet<RequestName>>,
    /// Calls that a site has forgotten since: copies that come later are new to it, and may be kept once more.
    forgotten: BTreeSet<RequestName>,
}

fn scanned(sent: &[Sent]) -> impl Iterator<Item = Message<'_>> {
    sent.iter().filter_map(|one| wire::scan(&one.bytes).ok())
}

impl Shared {
    /// A site that shares out got `bytes` and sent `sent`. Of a call that goes on, who keeps its state answers 100
    /// (RFC 3261 §16.2), and until its transaction is over nobody else does.
    pub(super) fn datagram(&mut self, site: u16, bytes: &[u8], sent: &[Sent]) -> Result<(), String> {
        let Ok(request) = wire::scan(bytes) else { return Ok(()) };
        if !begins(&request) {
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

    /// A site sent this: the transaction of a call that is refused is over soon.
    pub(super) fn sent(&mut self, site: u16, sent: &[Sent]) {
        for message in scanned(sent).filter(|message| message.cseq().method == Method::Invite) {
            let call = request_of(&message);
            if message.status().is_some_and(|status| status >= 300) && self.kept.get(&call) == Some(&site) {
                self.kept.remove(&call);
            }
        }
    }

    /// The process of a site has ended.
    pub(super) fn ended(&mut self, site: u16) {
        self.kept.retain(|_, at| *at != site);
        self.forgotten.extend(self.seen.remove(&site).unwrap_or_default());
    }
}

//! Requests that wait for a store. The process handles them after the answer, or a timeout.

use crate::Sent;
use crate::watch::ServerId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::Method;

/// Waiting requests of one site with a store of users.
#[derive(Default)]
pub(super) struct Waiting {
    /// INVITEs for which no message was sent yet, and their sources.
    requests: BTreeMap<ServerId, (SocketAddr, Vec<u8>)>,
    /// INVITEs that were forwarded.
    gone: BTreeSet<ServerId>,
}

/// A request that has waited, and the messages sent for it.
pub(super) struct Waited {
    pub(super) from: SocketAddr,
    pub(super) bytes: Vec<u8>,
    pub(super) sent: Vec<Sent>,
}

impl Waiting {
    /// The process got `bytes` from `from` and sent `sent`.
    pub(super) fn datagram(&mut self, from: SocketAddr, bytes: &[u8], sent: &[Sent]) {
        let Ok(request) = wire::scan(bytes) else { return };
        if request.method() != Some(Method::Invite) || request.to_tag().is_some() {
            return;
        }
        let Some(id) = ServerId::of(&request) else { return };
        if sent.iter().any(|one| !one.bytes.starts_with(b"SIP/2.0 ")) {
            self.gone.insert(id);
        } else if sent.is_empty() && !self.gone.contains(&id) {
            self.requests.entry(id).or_insert_with(|| (from, bytes.to_vec()));
        }
    }

    /// Returns the requests whose wait these messages end, and the other messages.
    pub(super) fn over(&mut self, sent: &[Sent]) -> (Vec<Waited>, Vec<Sent>) {
        let (mut waited, mut others): (BTreeMap<ServerId, Waited>, _) = (BTreeMap::new(), Vec::new());
        for one in sent {
            let id = wire::scan(&one.bytes).ok().and_then(|message| ServerId::of_sent(&message));
            if let Some((id, (from, bytes))) =
                id.clone().and_then(|id| Some((id.clone(), self.requests.remove(&id)?)))
            {
                waited.insert(id, Waited { from, bytes, sent: Vec::new() });
            }
            match id.and_then(|id| waited.get_mut(&id)) {
                Some(request) => request.sent.push(one.clone()),
                None => others.push(one.clone()),
            }
        }
        (waited.into_values().collect(), others)
    }
}

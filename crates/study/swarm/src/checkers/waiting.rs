//! Requests that wait for a store: what comes of them is sent when it has answered, or has not for too long.

use crate::Sent;
use crate::watch::ServerId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::Method;

/// Of one site that asks a store about callers.
#[derive(Default)]
pub(super) struct Waiting {
    /// INVITEs that came in, and for which nothing was sent, with their sources.
    requests: BTreeMap<ServerId, (SocketAddr, Vec<u8>)>,
    /// Those that went on.
    gone: BTreeSet<ServerId>,
}

/// A request that has waited, and what was sent for it.
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

    /// The requests whose wait is over, since this was sent, and what was sent besides.
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

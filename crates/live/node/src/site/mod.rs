//! State that all ways of forwarding share: addresses, secrets, names, remote targets, the reading of messages, and
//! this proxy's own responses.

pub(crate) mod allowance;
pub(crate) mod edit;
pub(crate) mod keep_alive;
pub(crate) mod large;
pub(crate) mod leave;
pub(crate) mod marks;
pub(crate) mod names;
pub(crate) mod pools;
pub(crate) mod record;
pub(crate) mod remote_targets;
pub(crate) mod reply;
pub(crate) mod routes;
pub(crate) mod settings;
pub(crate) mod sharing;

use crate::address::client_flow::ClientFlow;
use crate::address::target::Target;
use crate::address::topology::AddressTable;
use crate::admission::Admission;
use crate::message::route_header::RouteHeader;
use crate::message::validate::{ADDED, LARGEST, check_loop};
use crate::outcome::counters::{Drop, ShardCounters};
use crate::outcome::event::ShardEvent;
use crate::outcome::failure::{Failure, FailureCause, Throttle};
use crate::outcome::rejection::Refused;
use crate::seen::Seen;
use crate::site::keep_alive::KeepAlives;
use crate::site::large::LargeRequestTable;
use crate::site::names::Names;
use crate::site::remote_targets::{KnownTarget, RemoteTargets, Side, TargetRefresh};
use crate::site::routes::Routes;
use crate::site::settings::PipelineSettings;
use crate::site::sharing::Sharing;
use crate::token::branch::Routing;
use crate::token::dialog::VerifiedToken;
use crate::token::{KeyIndex, Tokens};
use crate::trace::failed::{FailedRequest, Tried, TriedResult};
use crate::trace::ring::FailureRing;
use balance::{Direction, PoolId};
use base::{Flow, Instant, Ledger, Operation, Outbox, UnixTime};
use route::Network;
use std::collections::BTreeMap;
use std::sync::Arc;
use transaction::Keys;
use wire::{Edits, Message};

/// Counts of messages forwarded to next hops without a transaction, and of their responses.
#[derive(Clone, Copy, Default)]
pub(crate) struct RelayCounts {
    pub(crate) requests: u64,
    pub(crate) responses: u64,
}

pub(crate) struct Site {
    pub(crate) topology: Arc<AddressTable>,
    pub(crate) tokens: Tokens,
    pub(crate) settings: PipelineSettings,
    pub(crate) counters: ShardCounters,
    pub(crate) relayed: RelayCounts,
    pub(crate) ledger: Ledger,
    pub(crate) names: Names,
    pub(crate) targets: RemoteTargets,
    pub(crate) routes: Arc<Routes>,
    /// The realm of the registrar, if its users authenticate. Credentials for it are not forwarded.
    pub(crate) realm: Option<Box<[u8]>>,
    /// Networks whose elements may state the identity of a caller.
    pub(crate) trusted: Box<[Network]>,
    /// The neighbours with which the state of calls is shared out, if there are any.
    pub(crate) sharing: Option<Box<Sharing>>,
    /// Rate limits of sources, overload control and tickets.
    pub(crate) admission: Admission,
    /// Results of recent requests.
    pub(crate) seen: Seen,
    /// Limits the reports that the session table had no room.
    pub(crate) no_room: Throttle,
    /// Limits the reports that no member of a pool took new calls, by pool.
    pub(crate) no_server: BTreeMap<PoolId, Throttle>,
    /// Limits the reports that the members of a pool were at a limit, by pool.
    pub(crate) at_limit: BTreeMap<PoolId, Throttle>,
    /// Whether it was reported that a node answers without Record-Route.
    pub(crate) has_reported_unrecorded: bool,
    /// Whether it was reported that a proxy passes REGISTERs on without Path.
    pub(crate) has_reported_pathless: bool,
    /// Requests that are too long for UDP.
    pub(crate) large: LargeRequestTable,
    /// The clients that get keep-alives.
    pub(crate) keep_alives: KeepAlives,
    pub(crate) edits: Edits,
    /// Buffer for header fields being added, kept to reuse its memory.
    pub(crate) scratch: Vec<u8>,
    /// Time of the last change of the key of new tokens, if there was a change.
    pub(crate) rekeyed: Option<Instant>,
    pub(crate) now: Instant,
    /// The last failed requests.
    pub(crate) failures: FailureRing,
    /// Failure of the current message.
    failure: Option<FailureCause>,
    /// Index of the rule whose request failed.
    failed_rule: Option<usize>,
}

impl Site {
    /// Creates the state. `keys` are keys that only this shard of this process has.
    pub(crate) fn new(
        topology: Arc<AddressTable>,
        tokens: Tokens,
        settings: PipelineSettings,
        keys: Keys,
    ) -> Self {
        let admission = Admission::new(tokens.call_hash().words());
        Self {
            topology,
            tokens,
            settings,
            counters: ShardCounters::default(),
            relayed: RelayCounts::default(),
            ledger: Ledger::default(),
            names: Names::default(),
            targets: RemoteTargets::default(),
            routes: Arc::default(),
            realm: None,
            trusted: Box::default(),
            sharing: None,
            admission,
            seen: Seen::new(keys),
            no_server: BTreeMap::new(),
            no_room: Throttle::default(),
            at_limit: BTreeMap::new(),
            has_reported_unrecorded: false,
            has_reported_pathless: false,
            large: LargeRequestTable::default(),
            keep_alives: KeepAlives::default(),
            edits: Edits::new(),
            scratch: Vec::new(),
            rekeyed: None,
            now: Instant::ZERO,
            failures: FailureRing::default(),
            failure: None,
            failed_rule: None,
        }
    }

    pub(crate) fn unix(&self) -> u32 {
        self.settings.unix(self.now)
    }

    /// Returns the date for nonces, by the same clock as for tokens.
    pub(crate) fn date(&self) -> UnixTime {
        UnixTime::from_secs(self.settings.epoch_unix) + self.now.saturating_since(Instant::ZERO)
    }

    /// Returns the key for branches of a request or session that began at `began`. All copies of a request must have
    /// the same branch (RFC 3261 §16.11), even if the key changes between them.
    pub(crate) fn key_since(&self, began: impl FnOnce() -> Instant) -> KeyIndex {
        let is_older = self.rekeyed.is_some_and(|rekeyed| began() <= rekeyed);
        if is_older { self.tokens.before() } else { KeyIndex::CURRENT }
    }

    /// Reads a received message; counts it if it is unreadable.
    pub(crate) fn read<'a>(&mut self, bytes: &'a [u8]) -> Option<Message<'a>> {
        self.ledger.charge(Operation::Scan);
        let scanned = wire::scan(bytes);
        match &scanned {
            Err(discard) => self.discard(Drop::Unreadable(*discard)),
            Ok(message) if message.status().is_some() => self.counters.responses += 1,
            Ok(_) => self.counters.requests += 1,
        }
        scanned.ok()
    }

    /// Drops a received ACK to a response of this process.
    pub(crate) fn drop_acknowledgement(&mut self) {
        self.ledger.charge(Operation::Scan);
        self.counters.requests += 1;
        self.discard(Drop::Ack);
    }

    /// RFC 3261 §16.3 step 4: returns the hash of the routing decision. Fails if the request was here before with the
    /// same hash.
    pub(crate) fn routing(
        &self,
        message: &Message<'_>,
        route: &RouteHeader<'_>,
        direction: Direction,
        key: KeyIndex,
    ) -> Result<u32, Refused> {
        let routing = Routing {
            call_id: message.call_id(),
            cseq: message.cseq().number,
            direction,
            from_tag: message.from_tag().unwrap_or_default(),
            uri: message.uri().unwrap_or_default(),
            next: route.next.or(route.last).unwrap_or_default(),
        };
        check_loop(&self.topology, &self.tokens, message, &routing, key)
    }

    /// Returns facts about the target of a request within a dialog, if the request may go there. It may if its token
    /// names the target, or if the other party has moved there.
    pub(crate) fn led(
        &mut self,
        message: &Message<'_>,
        held: &VerifiedToken,
        target: &Target<'_>,
    ) -> Option<KnownTarget> {
        let by_token = self.tokens.leads_to(held, target);
        let KnownTarget { heard, flow } = KnownTarget { heard: held.token.heard, flow: held.token.flow };
        if by_token && flow.is_none() {
            return Some(KnownTarget { heard, flow });
        }
        // A client that is reached by its connection may meanwhile have opened another connection. Over UDP it is
        // reached at the address that it registered from, as the token says.
        let is_proven = |by: &ClientFlow| by.is_connection() || flow == Some(*by);
        let by = Side::of(held.by_initiator);
        let asked = TargetRefresh::new(&self.tokens, message, by.other(), by, target);
        let moved = self.targets.leads_to(asked);
        let moved = moved.map(|(heard, flow)| KnownTarget { heard, flow: flow.filter(is_proven) });
        let leads = moved.filter(|led| !by_token || led.heard || led.flow.is_some());
        leads.or(by_token.then_some(KnownTarget { heard, flow }))
    }

    /// Sends `message` with the collected edits.
    pub(crate) fn send_edited(&mut self, message: &Message<'_>, way: Flow, out: &mut Outbox<ShardEvent>) {
        self.ledger.charge(Operation::Forward);
        let (edits, overload) = (&self.edits, &self.admission.overload);
        out.send(way, |buffer| {
            let start = buffer.len();
            edits.render(message, buffer);
            if message.status().is_some() {
                overload.tell(buffer, start, way);
            }
            // For a request, the room was checked before. A response has lost a Via.
            debug_assert!(buffer.len() - start <= (message.bytes().len() + ADDED).min(LARGEST));
        });
    }

    pub(crate) fn discard(&mut self, drop: Drop) {
        self.ledger.charge(Operation::Discard);
        self.counters.dropped(drop);
        self.failed(FailureCause::Dropped(drop));
    }

    /// Records that the current message has failed.
    pub(crate) fn failed(&mut self, cause: FailureCause) {
        if cause.is_news() {
            self.failure = Some(cause);
        } else {
            self.failed_rule = None;
        }
    }

    /// Records the rule of the current request, which has failed.
    pub(crate) fn failed_by_rule(&mut self, rule: Option<usize>) {
        self.failed_rule = rule;
    }

    /// Reports the failure of the current message, if there is one.
    pub(crate) fn tell(&mut self, flow: Flow, message: Option<&Message<'_>>, out: &mut Outbox<ShardEvent>) {
        if let Some(cause) = self.failure.take() {
            let rule = self.failed_rule.take();
            self.tell_failure(flow, message, cause, rule, out);
        }
    }

    #[cold]
    fn tell_failure(
        &mut self,
        flow: Flow,
        message: Option<&Message<'_>>,
        cause: FailureCause,
        rule: Option<usize>,
        out: &mut Outbox<ShardEvent>,
    ) {
        if self.settings.tell_failures {
            out.event(ShardEvent::Failed(Box::new(Failure::new(message, flow.peer, cause))));
        }
        let Some(request) = message.filter(|message| message.status().is_none() && cause.is_failure()) else {
            return;
        };
        let (now, routes) = (self.now, &self.routes);
        self.failures.note(now, flow.peer.ip(), cause, false, || {
            let rule = rule.and_then(|rule| routes.table.rules().get(rule));
            let route = rule.map_or("", |rule| &*rule.name).into();
            FailedRequest { route, ..FailedRequest::new(now, request, flow.remote(), cause) }
        });
    }

    /// Records the failure response to a request that was forwarded without a transaction, from `target` to `back`.
    pub(crate) fn failed_there(
        &mut self,
        response: &Message<'_>,
        cause: FailureCause,
        target: Flow,
        result: TriedResult,
        back: Flow,
    ) {
        if !cause.is_failure() {
            return;
        }
        let now = self.now;
        self.failures.note(now, back.peer.ip(), cause, true, || {
            let tried = Box::new([Tried { target: target.remote(), at: now, result }]);
            FailedRequest { tried, ..FailedRequest::new(now, response, back.remote(), cause) }
        });
    }
}

//! What all ways of forwarding share: addresses, secrets, names, remote targets, the reading of messages, and our own answers.

pub(crate) mod allowance;
pub(crate) mod edit;
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
use crate::address::topology::Topology;
use crate::admission::Admission;
use crate::message::route_header::RouteHeader;
use crate::message::validate::{ADDED, LARGEST, check_loop};
use crate::outcome::counters::{Drop, ShardCounters};
use crate::outcome::event::ShardEvent;
use crate::outcome::failure::{Failure, FailureCause, Throttle};
use crate::outcome::rejection::Refused;
use crate::seen::Seen;
use crate::site::large::LargeRequestTable;
use crate::site::names::Names;
use crate::site::remote_targets::{KnownTarget, RemoteTargets, Side, TargetRefresh};
use crate::site::routes::Routes;
use crate::site::settings::PipelineSettings;
use crate::site::sharing::Sharing;
use crate::token::branch::Routing;
use crate::token::dialog::VerifiedToken;
use crate::token::{KeyIndex, Tokens};
use balance::{Direction, PoolId};
use base::{Flow, Instant, Ledger, Operation, Outbox, UnixTime};
use route::Network;
use std::collections::BTreeMap;
use std::sync::Arc;
use transaction::Keys;
use wire::{Edits, Message};

/// What went to next hops without a transaction, and came back from there.
#[derive(Clone, Copy, Default)]
pub(crate) struct RelayCounts {
    pub(crate) requests: u64,
    pub(crate) responses: u64,
}

pub(crate) struct Site {
    pub(crate) topology: Arc<Topology>,
    pub(crate) tokens: Tokens,
    pub(crate) settings: PipelineSettings,
    pub(crate) counters: ShardCounters,
    pub(crate) relayed: RelayCounts,
    pub(crate) ledger: Ledger,
    pub(crate) names: Names,
    pub(crate) targets: RemoteTargets,
    pub(crate) routes: Arc<Routes>,
    /// The realm of the registrar, if its users authenticate: credentials for it go no further.
    pub(crate) realm: Option<Box<[u8]>>,
    /// Networks whose elements say who a caller is.
    pub(crate) trusted: Box<[Network]>,
    /// With whom the state of calls is shared out, if with anybody.
    pub(crate) sharing: Option<Box<Sharing>>,
    /// What sources may begin here.
    pub(crate) admission: Admission,
    /// What became of the requests of late.
    pub(crate) seen: Seen,
    /// The session table had no room: told of at most once a second.
    pub(crate) no_room: Throttle,
    /// The same of each pool of which no member took new calls.
    pub(crate) no_server: BTreeMap<PoolId, Throttle>,
    /// The same of each pool whose members were at a limit.
    pub(crate) at_limit: BTreeMap<PoolId, Throttle>,
    /// It has been told that a node answers without Record-Route.
    pub(crate) is_unrecorded_told: bool,
    /// It has been told that a proxy passes REGISTERs on without Path.
    pub(crate) is_pathless_told: bool,
    /// Requests that are too long for UDP.
    pub(crate) large: LargeRequestTable,
    pub(crate) edits: Edits,
    /// Texts of the headers being added, kept for their memory.
    pub(crate) scratch: Vec<u8>,
    /// When the key of new tokens changed, if it did.
    pub(crate) rekeyed: Option<Instant>,
    /// The time of the last input.
    pub(crate) now: Instant,
    /// Why the current message failed.
    failure: Option<FailureCause>,
}

impl Site {
    /// `keys` are of this process and shard alone.
    pub(crate) fn new(
        topology: Arc<Topology>,
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
            is_unrecorded_told: false,
            is_pathless_told: false,
            large: LargeRequestTable::default(),
            edits: Edits::new(),
            scratch: Vec::new(),
            rekeyed: None,
            now: Instant::ZERO,
            failure: None,
        }
    }

    /// Unix time now, in seconds.
    pub(crate) fn unix(&self) -> u32 {
        self.settings.unix(self.now)
    }

    /// The date by the clock of the tokens, for nonces.
    pub(crate) fn date(&self) -> UnixTime {
        UnixTime::from_secs(self.settings.epoch_unix) + self.now.saturating_since(Instant::ZERO)
    }

    /// The key of the branches of a request or session that began then: copies of a request have one branch (RFC 3261
    /// §16.11), also when the key changes between them.
    pub(crate) fn key_since(&self, began: impl FnOnce() -> Instant) -> KeyIndex {
        let is_older = self.rekeyed.is_some_and(|rekeyed| began() <= rekeyed);
        if is_older { self.tokens.before() } else { KeyIndex::CURRENT }
    }

    /// Reads a message that came in; one that is none has been counted.
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

    /// RFC 3261 §16.3 step 4: the hash of the routing decision, unless the request has come this way with the same
    /// one.
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

    /// Whether a request within a dialog may go to this target, by the token that it has, or since the other party has
    /// moved there.
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
        // A client that is reached by its connection may have opened another one since. Over UDP it is reached where the
        // token says that it has registered from.
        let is_proven = |by: &ClientFlow| by.is_connection() || flow == Some(*by);
        let by = Side::of(held.by_initiator);
        let asked = TargetRefresh::new(&self.tokens, message, by.other(), by, target);
        let moved = self.targets.leads_to(asked);
        let moved = moved.map(|(heard, flow)| KnownTarget { heard, flow: flow.filter(is_proven) });
        let leads = moved.filter(|led| !by_token || led.heard || led.flow.is_some());
        leads.or(by_token.then_some(KnownTarget { heard, flow }))
    }

    /// Sends `message` with the edits collected for it.
    pub(crate) fn send_edited(&mut self, message: &Message<'_>, way: Flow, out: &mut Outbox<ShardEvent>) {
        self.ledger.charge(Operation::Forward);
        let (edits, overload) = (&self.edits, &self.admission.overload);
        out.send(way, |buffer| {
            let start = buffer.len();
            edits.render(message, buffer);
            if message.status().is_some() {
                overload.tell(buffer, start, way);
            }
            // A response has lost a Via; a request had to leave room.
            debug_assert!(buffer.len() - start <= (message.bytes().len() + ADDED).min(LARGEST));
        });
    }

    pub(crate) fn discard(&mut self, drop: Drop) {
        self.ledger.charge(Operation::Discard);
        self.counters.dropped(drop);
        self.failed(FailureCause::Dropped(drop));
    }

    /// The message in work has failed.
    pub(crate) fn failed(&mut self, cause: FailureCause) {
        if self.settings.tell_failures && cause.is_news() {
            self.failure = Some(cause);
        }
    }

    /// Tells of the message in work, if it has failed.
    pub(crate) fn tell(&mut self, flow: Flow, message: Option<&Message<'_>>, out: &mut Outbox<ShardEvent>) {
        if let Some(cause) = self.failure.take() {
            out.event(ShardEvent::Failed(Box::new(Failure::new(message, flow.peer, cause))));
        }
    }
}

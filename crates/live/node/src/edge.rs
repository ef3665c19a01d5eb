//! The edge of a shard, the same however it forwards: our addresses and secrets, what names and dialogs are known of,
//! the reading of messages, and our own answers.

use crate::admission::Gate;
use crate::counters::{Drop, ShardCounters};
use crate::event::ShardEvent;
use crate::failure::{Failure, FailureCause, Throttle};
use crate::large::LargeRequestTable;
use crate::names::Names;
use crate::refusals::Refusals;
use crate::rejection::Refused;
use crate::remote_targets::{Led, RemoteTargets, Side, TargetRefresh};
use crate::route_header::RouteHeader;
use crate::routes::Routes;
use crate::settings::PipelineSettings;
use crate::sharing::Sharing;
use crate::target::Target;
use crate::token::Tokens;
use crate::token::branch::Routing;
use crate::token::dialog::VerifiedToken;
use crate::topology::Topology;
use crate::validate::{ADDED, LARGEST, check_loop};
use balance::{Direction, PoolId};
use base::{Flow, Instant, Ledger, Operation, Outbox, UnixTime};
use route::Network;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{Edits, Message};

/// What went to next hops without a transaction, and came back from there.
#[derive(Clone, Copy, Default)]
pub(crate) struct RelayCounts {
    pub(crate) requests: u64,
    pub(crate) responses: u64,
}

pub(crate) struct Edge {
    pub(crate) topology: Arc<Topology>,
    pub(crate) tokens: Tokens,
    pub(crate) settings: PipelineSettings,
    pub(crate) counters: ShardCounters,
    pub(crate) relayed: RelayCounts,
    pub(crate) ledger: Ledger,
    pub(crate) names: Names,
    pub(crate) targets: RemoteTargets,
    pub(crate) routes: Arc<Routes>,
    /// The realm of the home domain, if its users authenticate: credentials for it go no further.
    pub(crate) realm: Option<Box<[u8]>>,
    /// Networks whose elements say who a caller is.
    pub(crate) trusted: Box<[Network]>,
    /// With whom the state of calls is shared out, if with anybody.
    pub(crate) sharing: Option<Box<Sharing>>,
    /// What sources may begin here.
    pub(crate) gate: Gate,
    /// The INVITEs that were refused.
    pub(crate) refusals: Refusals,
    /// No server took new calls, and the session table had no room: each is told of at most once a second.
    pub(crate) no_server: Throttle,
    pub(crate) no_room: Throttle,
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
    /// What the message in work failed of.
    failure: Option<FailureCause>,
}

impl Edge {
    /// `secret` is of this process and shard alone.
    pub(crate) fn new(
        topology: Arc<Topology>,
        tokens: Tokens,
        settings: PipelineSettings,
        secret: [u8; 16],
    ) -> Self {
        let gate = Gate::new(tokens.call_hash().words());
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
            gate,
            refusals: Refusals::new(secret),
            no_server: Throttle::default(),
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
    /// one. `older` as in [`Tokens::write_branch`].
    pub(crate) fn routing(
        &self,
        message: &Message<'_>,
        route: &RouteHeader<'_>,
        direction: Direction,
        older: bool,
    ) -> Result<u32, Refused> {
        let routing = Routing {
            call_id: message.call_id(),
            cseq: message.cseq().number,
            direction,
            from_tag: message.from_tag().unwrap_or_default(),
            uri: message.uri().unwrap_or_default(),
            next: route.next.or(route.last).unwrap_or_default(),
        };
        check_loop(&self.topology, &self.tokens, message, &routing, older)
    }

    /// Whether a request within a dialog may go to this target, by the token that it has, or since the other party has
    /// moved there.
    pub(crate) fn led(
        &mut self,
        message: &Message<'_>,
        held: &VerifiedToken,
        target: &Target<'_>,
    ) -> Option<Led> {
        let by_token = self.tokens.leads_to(held, target);
        let Led { heard, flow } = Led { heard: held.token.heard, flow: held.token.flow };
        // A client that is reached by its connection may have opened another one since.
        if by_token && flow.is_none() {
            return Some(Led { heard, flow });
        }
        let (side, by_initiator) = (Side::of(!held.by_initiator), held.by_initiator);
        let asked = TargetRefresh::new(&self.tokens, message, side, by_initiator, target);
        let moved = self.targets.leads_to(asked).map(|(heard, flow)| Led { heard, flow });
        moved.or(by_token.then_some(Led { heard, flow }))
    }

    /// Sends `message` with the edits collected for it.
    pub(crate) fn send_edited(&mut self, message: &Message<'_>, way: Flow, out: &mut Outbox<ShardEvent>) {
        self.ledger.charge(Operation::Forward);
        let (edits, overload) = (&self.edits, &self.gate.overload);
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

//! The edge of a shard, the same however it forwards: our addresses and secrets, what names and dialogs are known of, the
//! reading of messages, and our own answers.

use crate::begun::{Asker, Begun};
use crate::failure::{Failure, FailureCause};
use crate::names::Names;
use crate::refusals::Refusals;
use crate::reply::{self, Halt, Own};
use crate::route::RouteInfo;
use crate::routes::{Refuser, Routes};
use crate::setup::PipelineSettings;
use crate::sharing::Sharing;
use crate::targets::Targets;
use crate::token::Tokens;
use crate::token::branch::Routing;
use crate::validate::{ADDED, LARGEST, Refused, check_loop};
use crate::{Drop, ShardCounters, ShardEvent, Topology};
use ::route::{Network, RateLimits, RateSettings, Target};
use balance::Direction;
use base::{Flow, Instant, Ledger, Operation, Outbox};
use core::cell::Cell;
use std::sync::Arc;
use wire::{Edits, Message};

/// What went to next hops without a transaction, and came back from there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Passed {
    pub(crate) requests: u64,
    pub(crate) responses: u64,
}

pub(crate) struct Edge {
    pub(crate) topology: Arc<Topology>,
    pub(crate) tokens: Tokens,
    pub(crate) settings: PipelineSettings,
    pub(crate) counters: ShardCounters,
    pub(crate) passed: Passed,
    pub(crate) ledger: Ledger,
    pub(crate) names: Names,
    pub(crate) targets: Targets,
    pub(crate) routes: Arc<Routes>,
    /// The realm of the home domain, if its users authenticate: credentials for it go no further.
    pub(crate) realm: Option<Box<[u8]>>,
    /// Networks whose elements say who a caller is.
    pub(crate) trusted: Box<[Network]>,
    /// With whom the state of calls is shared out, if with anybody.
    pub(crate) sharing: Option<Box<Sharing>>,
    /// What each source may begin.
    pub(crate) rates: RateLimits,
    /// What was begun of late.
    pub(crate) begun: Begun,
    /// The INVITEs that were refused, where requests are forwarded with transactions.
    pub(crate) refusals: Option<Box<Refusals>>,
    /// It has been told that a node answers without Record-Route.
    pub(crate) is_unrecorded_told: bool,
    /// It has been told that a proxy passes REGISTERs on without Path.
    pub(crate) is_pathless_told: bool,
    /// Who has refused the last request that an access list or a rule has refused.
    pub(crate) refuser: Cell<Option<Refuser>>,
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
    pub(crate) fn new(topology: Arc<Topology>, tokens: Tokens, settings: PipelineSettings) -> Self {
        let rates = RateLimits::new(RateSettings::default(), tokens.call_hash().words());
        Self {
            topology,
            tokens,
            settings,
            counters: ShardCounters::default(),
            passed: Passed::default(),
            ledger: Ledger::default(),
            names: Names::default(),
            targets: Targets::default(),
            routes: Arc::default(),
            realm: None,
            trusted: Box::default(),
            sharing: None,
            rates,
            begun: Begun::default(),
            refusals: None,
            is_unrecorded_told: false,
            is_pathless_told: false,
            refuser: Cell::default(),
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

    /// RFC 3261 §16.3 step 4: the hash of the routing decision, unless the request has come this way with the same one.
    /// `older` as in [`Tokens::write_branch`].
    pub(crate) fn routing(
        &self,
        message: &Message<'_>,
        route: &RouteInfo<'_>,
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
        check_loop(&self.topology, &self.tokens, message, (&routing, older))
    }

    /// Answers a request ourselves, statelessly (RFC 3261 §8.2.7). An ACK gets nothing.
    pub(crate) fn answer(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        own: Own<'_>,
        out: &mut Outbox<ShardEvent>,
    ) {
        match reply::answer(message, flow, own, self, out) {
            Ok(()) => {
                if let (Some(refusals), Own::Refused(refusal)) = (&mut self.refusals, own) {
                    refusals.note(message, refusal);
                }
                self.ledger.charge(Operation::Reject);
                self.begun.answered(&self.tokens, message, (Asker::Here, own.status()));
                self.failed(FailureCause::Refused { status: own.status(), reason: own.label() });
                self.counters.replied(own.status(), own.label());
            }
            Err(drop) => self.discard(drop),
        }
    }

    /// Tells who sent a request that it waits here (RFC 3261 §17.2.1).
    pub(crate) fn trying(&mut self, flow: Flow, message: &Message<'_>, out: &mut Outbox<ShardEvent>) {
        let own = Own::Trying;
        if reply::answer(message, flow, own, self, out).is_ok() {
            self.counters.replied(own.status(), own.label());
        }
    }

    /// Gives a request that is not forwarded what it gets instead.
    pub(crate) fn halt(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        halt: Halt,
        out: &mut Outbox<ShardEvent>,
    ) {
        match halt {
            Halt::Answered(own) => self.answer(flow, message, own, out),
            Halt::ByRule(rule) => {
                let routes = Arc::clone(&self.routes);
                if let Target::Answer(answer) = &routes.rule(rule).target {
                    self.answer(flow, message, Own::ByRule(answer), out);
                }
            }
            Halt::Dropped(drop) => self.discard(drop),
        }
    }

    /// Sends `message` with the edits collected for it.
    pub(crate) fn send_edited(&mut self, message: &Message<'_>, way: Flow, out: &mut Outbox<ShardEvent>) {
        self.ledger.charge(Operation::Forward);
        let edits = &self.edits;
        out.send(way, |buffer| {
            let start = buffer.len();
            edits.render(message, buffer);
            // A response has lost a Via; a request had to leave room.
            debug_assert!(buffer.len() - start <= (message.bytes().len() + ADDED).min(LARGEST));
        });
    }

    /// A response goes back that a next hop has sent.
    pub(crate) fn heed(&mut self, response: &Message<'_>) {
        self.begun.heard(&self.tokens, response);
        if let Some(cause) = FailureCause::of_response(response) {
            self.failed(cause);
        }
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

//! State distribution on the wire: whether this shard keeps the transaction of a request that begins something, the marks in
//! our Via of requests, and the notices in the Via of whom a response goes to.
//!
//! Marks and notices count from trusted neighbours alone. Of a stranger's request only our own Via is ever looked at by the next
//! proxy, and a stranger's notice in the Via of somebody before us is taken out of the response.

use crate::Tokens;
use crate::edge::Edge;
use crate::token::branch::has_cookie;
use ::route::Network;
use base::Instant;
use core::fmt::Write as _;
use core::hash::Hasher;
use core::time::Duration;
use distribute::{Call, Decision, Distributor, Function, Mark, NextHop, Notice, Settings};
use std::net::{IpAddr, SocketAddr};
use wire::{Message, Method, request_source_target};

/// With whom the state of calls is shared out, and how.
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    /// Where proxies are that do so, too, and whose word counts.
    pub neighbours: Vec<Network>,
    /// How the shares are found.
    pub settings: Settings,
}

/// What a call with transactions costs this proxy more than one without (`state_cost` of the settings): as measured, see
/// docs/state-distribution.md.
const STATE_COST: f64 = 0.7;

impl Default for Distribution {
    /// Without neighbours, and with what this proxy's transactions cost.
    fn default() -> Self {
        Self { neighbours: Vec::new(), settings: Settings { state_cost: STATE_COST, ..Settings::default() } }
    }
}

impl Distribution {
    /// The part of one of so many shards.
    #[must_use]
    fn share(&self, shards: usize) -> Settings {
        let Settings { delta_c, remembered, .. } = self.settings;
        let shards = shards.max(1);
        Settings {
            delta_c: delta_c / shards as f64,
            remembered: remembered.div_ceil(shards),
            ..self.settings
        }
    }
}

/// What a shard, or a process, has made of the requests that began something.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SharingReport {
    /// Forwarded with a transaction.
    pub kept: u64,
    /// Forwarded without one, for somebody behind to keep.
    pub passed_open: u64,
    /// Forwarded without one, since somebody before keeps it.
    pub passed_kept: u64,
    /// How busy the process was in the last period, from 0 to 1.
    pub utilisation: f64,
    /// Neighbours that are told to send no more calls without state.
    pub throttled: usize,
}

impl SharingReport {
    /// Adds what another shard of the process did.
    pub fn merge(&mut self, other: &Self) {
        self.kept += other.kept;
        self.passed_open += other.passed_open;
        self.passed_kept += other.passed_kept;
        self.utilisation = self.utilisation.max(other.utilisation);
        // All shards hear of the same neighbours.
        self.throttled = self.throttled.max(other.throttled);
    }
}

/// A shard's part in it.
pub(crate) struct Sharing {
    neighbours: Vec<Network>,
    distributor: Distributor<SocketAddr>,
    report: SharingReport,
}

impl Sharing {
    /// `salt` is another one in each shard of each process; `report` is what it did with other settings.
    pub(crate) fn new(distribution: &Distribution, shards: usize, salt: u64, report: SharingReport) -> Self {
        Self {
            neighbours: distribution.neighbours.clone(),
            distributor: Distributor::new(distribution.share(shards), salt),
            report,
        }
    }

    fn neighbour(&self, at: SocketAddr) -> Option<SocketAddr> {
        self.neighbours.iter().any(|network| network.contains(at.ip())).then_some(at)
    }

    /// A period of this length is over.
    pub(crate) fn period(&mut self, now: Instant, length: Duration, utilisation: f64) {
        self.distributor.on_period(now, length, utilisation);
        self.report.utilisation = utilisation;
    }

    pub(crate) fn report(&self) -> SharingReport {
        let told = self.distributor.upstream().map(|neighbour| self.distributor.notice(Some(neighbour)));
        SharingReport { throttled: told.filter(|notice| notice.throttled).count(), ..self.report }
    }

    /// What a request came with.
    fn mark(&self, message: &Message<'_>, from: SocketAddr) -> Mark {
        let value = || param(message, message.top_via(), Mark::PARAMETER);
        self.neighbour(from).and_then(|_| Mark::parse(value()?)).unwrap_or_default()
    }
}

impl Edge {
    /// Who keeps the transaction of a request that begins something and that goes on to `to`; `has_room`: there is room for it
    /// here. A copy of one that is kept here must not be asked for: it belongs to its transaction.
    pub(crate) fn who_keeps(
        &mut self,
        message: &Message<'_>,
        (from, to): (SocketAddr, SocketAddr),
        has_room: bool,
    ) -> Decision {
        let Some(sharing) = &mut self.sharing else { return Decision::Keep };
        let call = Call {
            from: sharing.neighbour(from),
            // One that has said nothing, or nothing lately, may not know of this: then nobody behind would keep the call.
            to: sharing
                .neighbour(to)
                .filter(|to| sharing.distributor.hears(self.now, *to))
                .map_or(NextHop::Exit, NextHop::Neighbour),
            kept: sharing.mark(message, from).has(Function::State),
            key: copies_key(&self.tokens, message, from),
        };
        let elsewhere =
            if has_room { None } else { sharing.distributor.on_call_without_room(self.now, call) };
        let decision = elsewhere.unwrap_or_else(|| sharing.distributor.on_call(self.now, call));
        match decision {
            Decision::Keep => sharing.report.kept += 1,
            Decision::PassOpen => sharing.report.passed_open += 1,
            Decision::PassKept => sharing.report.passed_kept += 1,
        }
        decision
    }

    /// Appends the mark to our Via of a request that begins something, for a neighbour.
    pub(crate) fn write_mark(
        &mut self,
        message: &Message<'_>,
        (from, to): (SocketAddr, SocketAddr),
        keeps: bool,
    ) {
        let Some(sharing) = &self.sharing else { return };
        if sharing.neighbour(to).is_none() {
            return;
        }
        let mark = sharing.mark(message, from);
        let mark = if keeps { mark.with(Function::State) } else { mark };
        write_param(&mut self.scratch, Mark::PARAMETER, mark);
    }

    /// A response of ours, as is proved by now: what the neighbour that sent it tells.
    pub(crate) fn hear_notice(&mut self, response: &Message<'_>, from: SocketAddr) {
        let Some(sharing) = &mut self.sharing else { return };
        let Some(neighbour) = sharing.neighbour(from) else { return };
        let value = param(response, response.top_via(), Function::State.notice_parameter());
        if let Some(notice) = value.and_then(Notice::parse) {
            sharing.distributor.on_notice(self.now, neighbour, notice);
        }
    }

    /// Puts into the Via of whom a response goes to what he is told, if he is a neighbour; and nothing else of this kind,
    /// whoever has written it.
    pub(crate) fn tell_notice(&mut self, response: &Message<'_>, to: SocketAddr) {
        let Self { sharing: Some(sharing), scratch, edits, .. } = self else { return };
        let Some(via) = response.second_via() else { return };
        let bytes = response.bytes();
        scratch.clear();
        let mut done = via.value.start;
        for param in via.params(bytes).filter(|param| is_notice(param.name)) {
            scratch.extend_from_slice(&bytes[done as usize..param.whole.start as usize]);
            done = param.whole.end;
        }
        let was_clean = done == via.value.start;
        scratch.extend_from_slice(&bytes[done as usize..via.value.end as usize]);
        let neighbour = sharing.neighbour(to);
        if let Some(neighbour) = neighbour {
            let notice = sharing.distributor.notice(Some(neighbour));
            write_param(scratch, Function::State.notice_parameter(), notice);
        }
        if neighbour.is_some() || !was_clean {
            edits.replace(response, via.value.of(bytes), scratch);
        }
    }
}

/// The key of a transaction, under a secret: the same for each copy of its request that comes from `from`, for its CANCEL and for
/// the ACK to its failure (RFC 3261 §9.1, §17.1.1.3, §17.2.3), and for no other request. Another branch of a request that was
/// forked, or one that comes back with another Request-URI (a spiral, §16.3 step 4), goes a way of its own; and what is said
/// of an OPTIONS says nothing of an INVITE.
pub(crate) fn copies_key(tokens: &Tokens, message: &Message<'_>, from: SocketAddr) -> u64 {
    let via = message.top_via();
    let target = request_source_target(via, from).unwrap_or(from);
    // The branch of an RFC 2543 peer tells nothing (§17.2.3), and the one of its CANCEL may be another.
    let branch = via.branch.filter(|branch| has_cookie(branch)).unwrap_or_default();
    let (from_tag, uri) = (message.from_tag().unwrap_or_default(), message.uri().unwrap_or_default());
    let method = message.method().unwrap_or(Method::Other);
    let (class, name) = match method {
        Method::Ack | Method::Cancel => (Method::Invite, &[][..]),
        Method::Other => (method, message.cseq().method_name.of(message.bytes())),
        _ => (method, &[][..]),
    };
    let ip = match target.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    // In one piece: the hasher is slow with small ones.
    let mut fixed = [0; 35];
    fixed[..16].copy_from_slice(&ip.octets());
    fixed[16..18].copy_from_slice(&target.port().to_be_bytes());
    fixed[18] = class as u8;
    fixed[19..23].copy_from_slice(&message.cseq().number.to_be_bytes());
    for (place, text) in fixed[23..].chunks_exact_mut(4).zip([from_tag, uri, branch]) {
        place.copy_from_slice(&(text.len() as u32).to_be_bytes());
    }
    let mut hasher = tokens.kept_hasher();
    for text in [&fixed, from_tag, uri, branch, name, message.call_id()] {
        hasher.write(text);
    }
    hasher.finish()
}

fn is_notice(name: &[u8]) -> bool {
    Function::ALL.iter().any(|function| name.eq_ignore_ascii_case(function.notice_parameter().as_bytes()))
}

/// The value of a parameter. One that comes twice counts as absent: nobody knows which one is meant.
fn param<'a>(message: &Message<'a>, via: &wire::Via<'a>, name: &str) -> Option<&'a [u8]> {
    let mut found =
        via.params(message.bytes()).filter(|param| param.name.eq_ignore_ascii_case(name.as_bytes()));
    let first = found.next()?;
    if found.next().is_some() { None } else { first.value }
}

fn write_param(out: &mut Vec<u8>, name: &str, value: impl core::fmt::Display) {
    /// Text as bytes.
    struct Text<'a>(&'a mut Vec<u8>);
    impl core::fmt::Write for Text<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    write!(Text(out), ";{name}={value}").expect("there is always room");
}

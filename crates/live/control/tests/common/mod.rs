//! A control plane whose shards and DNS are played by the test.

use balance::PolicyKind;
use base::{Flow, Instant, Outbox, Peer, Transport};
use control::{
    Address, Control, ControlEffect, ControlInput, ControlSettings, DnsQuestion, Egress, FoundAddresses,
    LogEntry, MemberSettings, PoolSettings, QuestionId,
};
use node::{Port, Setup, ShardSettings, TokenKey, Tokens};
use route::Service;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const A: &str = "127.0.0.1:5081";
pub(crate) const B: &str = "127.0.0.1:5082";
pub(crate) const C: &str = "127.0.0.1:5083";

/// Time without a sign after which a call is over.
pub(crate) const CALL: Duration = Duration::from_mins(1);

pub(crate) fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Returns a member from its text in a configuration: an address or a name.
pub(crate) fn member(text: &str) -> MemberSettings {
    let address = match text.parse() {
        Ok(peer) => Address::Socket(peer),
        Err(_) if text.starts_with('_') => Address::Srv(text.to_owned()),
        Err(_) => Address::Host { transport: Transport::Udp, name: text.to_owned(), port: None },
    };
    MemberSettings::new(address)
}

pub(crate) fn settings(members: &[&str]) -> ControlSettings {
    let sessions = balance::SessionSettings { call_lifetime: CALL, ..balance::SessionSettings::default() };
    let tokens = Tokens::new(TokenKey([1; 16]), &[], Duration::from_hours(1));
    ControlSettings {
        pools: vec![PoolSettings::new("servers", Service::Balance, PolicyKind::RoundRobin)],
        members: members.iter().copied().map(member).collect(),
        shards: ShardSettings { sessions, ..ShardSettings::new(tokens, 0) },
        own_names: Vec::new(),
        token_lifetime: Duration::from_hours(1),
        refresh: Duration::from_secs(30),
        stop_wait: Duration::from_mins(5),
    }
}

/// Listeners for IPv4 only, over UDP and TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Four;

impl Egress for Four {
    fn toward(&self, peer: Peer) -> Option<Flow> {
        let listener = [Transport::Udp, Transport::Tcp].iter().position(|one| *one == peer.transport)? as u16;
        let flow = Flow { transport: peer.transport, listener, peer: peer.address, connection: None };
        peer.address.is_ipv4().then_some(flow)
    }
}

/// A control plane with its effects and the time.
pub(crate) struct Bed {
    pub(crate) control: Control<Four>,
    pub(crate) out: Outbox<ControlEffect>,
    pub(crate) now: Instant,
}

impl Bed {
    pub(crate) fn new(settings: ControlSettings) -> Self {
        let (now, mut out) = (Instant::ZERO, Outbox::default());
        let at = "127.0.0.1:5060".parse().expect("an address");
        let ports = vec![Port::udp(at), Port::new(Transport::Tcp, at, at)].into();
        let local = [Some("127.0.0.1:7000".parse().expect("an address")), None];
        let control = Control::new(now, settings, ports, Four, ([9; 16], local), &mut out);
        Self { control, out, now }
    }

    pub(crate) fn of(members: &[&str]) -> Self {
        Self::new(settings(members))
    }

    pub(crate) fn handle(&mut self, input: ControlInput<'_>) {
        self.control.handle(self.now, input, &mut self.out);
    }

    pub(crate) fn reload(&mut self, settings: ControlSettings) {
        self.handle(ControlInput::Settings { settings: Box::new(settings), is_other_resolver: false });
    }

    pub(crate) fn pass(&mut self, length: Duration) {
        self.now += length;
    }

    /// Returns the effects since the last call.
    pub(crate) fn effects(&mut self) -> Vec<ControlEffect> {
        let effects = self.out.drain_events().collect();
        self.out.clear();
        effects
    }

    pub(crate) fn entries(&mut self) -> Vec<LogEntry> {
        let entry = |effect| match effect {
            ControlEffect::Log(entry) => Some(entry),
            _ => None,
        };
        self.effects().into_iter().filter_map(entry).collect()
    }

    /// Returns the questions since the last call, with the name of each.
    pub(crate) fn questions(&mut self) -> Vec<(QuestionId, String)> {
        let question = |effect| match effect {
            ControlEffect::LookUp { id, question } => Some((
                id,
                match question {
                    DnsQuestion::Addresses { name, .. }
                    | DnsQuestion::Services(name)
                    | DnsQuestion::Sip { name, .. }
                    | DnsQuestion::Domain { name, .. } => name,
                },
            )),
            _ => None,
        };
        self.effects().into_iter().filter_map(question).collect()
    }

    pub(crate) fn answer(&mut self, id: QuestionId, addresses: Result<&[&str], &str>) {
        let answer = addresses.map(found).map_err(str::to_owned);
        self.handle(ControlInput::Answer { id, answer });
    }

    pub(crate) fn setup(&self) -> &Arc<Setup> {
        self.control.setup()
    }

    /// Returns the present members.
    pub(crate) fn members(&self) -> Vec<String> {
        let listed = self.control.listed().into_iter().filter(|listed| listed.node.member);
        listed.map(|member| member.peer.to_string()).collect()
    }

    /// Returns the addresses by slot, and whether tokens lead there.
    pub(crate) fn slots(&self) -> Vec<(usize, String, bool)> {
        let leads = |peer| self.setup().topology.slot_at(peer).is_some();
        let listed = self.control.listed().into_iter();
        listed.map(|m| (m.slot.index(), m.peer.to_string(), leads(m.peer))).collect()
    }
}

/// Returns hosts with one address each.
pub(crate) fn found(addresses: &[&str]) -> FoundAddresses {
    let host = |address: &&str| {
        let address: SocketAddr = address.parse().expect("an address");
        (address.to_string(), address.port(), 1.0, [Ok(vec![address.ip()]), Ok(vec![])])
    };
    FoundAddresses::new(addresses.iter().map(host), "the DNS has no A record of this name".to_owned())
}

/// Returns the peer at an address over UDP.
pub(crate) fn udp(address: SocketAddr) -> Peer {
    Peer::new(Transport::Udp, address)
}

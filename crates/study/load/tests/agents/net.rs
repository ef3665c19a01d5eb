//! A network in virtual time between one caller and some answerers: delay, loss, stalls and misrouting.
use base::{Flow, Instant, Outbox, Rng, Transport};
use load::{
    AgentEvent, AgentInput, Answerer, AnswererConfig, Caller, CallerConfig, RandomTime, ServiceModel, Timers,
};
use rand_distr::{Distribution, StandardUniform};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Port of the caller; answerer `n` has port `CALLER_PORT + n + 1`.
const CALLER_PORT: u16 = 20_000;

/// A period in which an agent neither reads nor acts.
#[derive(Clone, Copy)]
pub(crate) struct Stall {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

pub(crate) struct Net {
    pub(crate) caller: Caller,
    pub(crate) answerers: Vec<Answerer>,
    pub(crate) now: Instant,
    /// One-way delay.
    pub(crate) delay: Duration,
    /// Share of the datagrams that are lost, in each direction.
    pub(crate) loss: f64,
    pub(crate) caller_stall: Option<Stall>,
    pub(crate) answerer_stall: Option<Stall>,
    /// Changes the destination of a datagram.
    pub(crate) redirect: fn(&[u8], SocketAddr) -> SocketAddr,
    /// Everything sent: time, destination, text.
    pub(crate) trace: Vec<(Instant, SocketAddr, String)>,
    pub(crate) events: Vec<AgentEvent>,
    rng: Rng,
    in_flight: BTreeMap<(Instant, usize), (SocketAddr, SocketAddr, Vec<u8>)>,
}

pub(crate) fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

pub(crate) fn caller_config(rate: f64, calls: u64) -> CallerConfig {
    CallerConfig {
        transport: Transport::Udp,
        listener: 0,
        connections: 1,
        local: address(CALLER_PORT),
        target: address(CALLER_PORT + 1),
        outbound: false,
        uri: "sip:service@127.0.0.1:20001".to_owned(),
        arrivals: load::ArrivalPlan {
            calls_max: Some(calls),
            ..load::ArrivalPlan::steady(load::ArrivalProcess::Poisson, rate)
        },
        holding: RandomTime::Fixed(Duration::from_secs(5)),
        answer_wait: Duration::from_mins(3),
        timers: Timers::default(),
    }
}

pub(crate) fn answerer_config(index: u16) -> AnswererConfig {
    AnswererConfig {
        transport: Transport::Udp,
        listener: 0,
        local: address(CALLER_PORT + 1 + index),
        name: format!("answerer-{index}"),
        ring: RandomTime::Fixed(Duration::ZERO),
        trying: false,
        service: ServiceModel::default(),
        timers: Timers::default(),
    }
}

impl Net {
    pub(crate) fn new(caller: CallerConfig, answerers: Vec<AnswererConfig>, seed: u64) -> Self {
        let rng = Rng::from_seed(seed);
        let answerers = answerers
            .into_iter()
            .enumerate()
            .map(|(index, config)| Answerer::new(config, rng.fork(&format!("answerer {index}"))));
        Self {
            caller: Caller::new(caller, Instant::ZERO, rng.fork("caller")),
            answerers: answerers.collect(),
            now: Instant::ZERO,
            delay: Duration::from_millis(1),
            loss: 0.0,
            caller_stall: None,
            answerer_stall: None,
            redirect: |_, to| to,
            trace: Vec::new(),
            events: Vec::new(),
            rng: rng.fork("network"),
            in_flight: BTreeMap::new(),
        }
    }

    /// Runs until the caller has finished, then until no event is left.
    pub(crate) fn run(&mut self) {
        while let Some(at) = self.next() {
            assert!(
                at < Instant::from_millis(3_600_000),
                "nothing ends: {}",
                self.caller.results().progress()
            );
            self.now = self.now.max(at);
            self.step();
        }
        assert!(self.caller.finished());
        assert_eq!(self.caller.deadline(), None);
    }

    /// Runs until this time, counted from the start.
    pub(crate) fn run_until(&mut self, seconds: f64) {
        let end = Instant::ZERO + Duration::from_secs_f64(seconds);
        while let Some(at) = self.next().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = end;
    }

    /// Sends a datagram.
    pub(crate) fn inject(&mut self, from: SocketAddr, to: SocketAddr, text: &str) {
        self.transmit(from, to, text.as_bytes());
    }

    /// Messages sent to the caller (`true`) or to answerers, by start line.
    pub(crate) fn sent(&self, to_caller: bool, start: &str) -> Vec<&(Instant, SocketAddr, String)> {
        let caller = address(CALLER_PORT);
        self.trace
            .iter()
            .filter(|(_, to, text)| (*to == caller) == to_caller && text.starts_with(start))
            .collect()
    }

    /// Time of the next event; a stalled agent has none before the stall ends.
    fn next(&self) -> Option<Instant> {
        let caller = self.caller.deadline().map(|at| awake(self.caller_stall, at));
        let answerers = self.answerers.iter().filter_map(Answerer::deadline);
        let answerers = answerers.map(|at| awake(self.answerer_stall, at));
        let arrival = self.in_flight.first_key_value().map(|(&(at, _), _)| at);
        caller.into_iter().chain(answerers).chain(arrival).min()
    }

    fn step(&mut self) {
        let mut out = Outbox::default();
        if let Some(entry) = self.in_flight.first_entry()
            && entry.key().0 <= self.now
        {
            let (from, to, bytes) = entry.remove();
            let index = usize::from(to.port() - CALLER_PORT);
            let stall = if index == 0 { self.caller_stall } else { self.answerer_stall };
            if awake(stall, self.now) > self.now {
                // The datagram waits in the socket's buffer.
                let at = (awake(stall, self.now), self.trace.len() + self.in_flight.len());
                self.in_flight.insert(at, (from, to, bytes));
                return;
            }
            let input = AgentInput::Message { from: Flow::udp(0, from), bytes: &bytes };
            match index {
                0 => self.caller.handle(self.now, input, &mut out),
                _ => self.answerers[index - 1].handle(self.now, input, &mut out),
            }
            self.flush(to, &mut out);
        } else {
            if awake(self.caller_stall, self.now) == self.now {
                self.caller.handle(self.now, AgentInput::Tick, &mut out);
                self.flush(address(CALLER_PORT), &mut out);
            }
            for index in 0..self.answerers.len() {
                if awake(self.answerer_stall, self.now) == self.now {
                    self.answerers[index].handle(self.now, AgentInput::Tick, &mut out);
                    self.flush(address(CALLER_PORT + 1 + index as u16), &mut out);
                }
            }
        }
    }

    fn flush(&mut self, from: SocketAddr, out: &mut Outbox<AgentEvent>) {
        self.events.extend(out.drain_events());
        for transmit in out.transmits() {
            self.transmit(from, transmit.flow.peer, out.message(transmit));
        }
        out.clear();
    }

    fn transmit(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let to = (self.redirect)(bytes, to);
        self.trace.push((self.now, to, String::from_utf8_lossy(bytes).into_owned()));
        let draw: f64 = StandardUniform.sample(&mut self.rng);
        if draw >= self.loss {
            self.in_flight.insert((self.now + self.delay, self.trace.len()), (from, to, bytes.to_vec()));
        }
    }
}

fn awake(stall: Option<Stall>, at: Instant) -> Instant {
    match stall {
        Some(Stall { from, until }) if (from..until).contains(&at) => until,
        _ => at,
    }
}

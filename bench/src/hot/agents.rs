//! Calls between a caller and an answerer without a proxy.

use super::Length;
use anyhow::{Result, ensure};
use base::{Flow, Instant, Outbox, Rng, Transport};
use core::time::Duration;
use load::{
    AgentEvent, AgentInput, Answerer, AnswererConfig, ArrivalPlan, ArrivalProcess, Caller, CallerConfig,
    RandomTime, ServiceModel, Timers,
};
use std::collections::VecDeque;
use std::net::SocketAddr;

const CALLER: ([u8; 4], u16) = ([127, 0, 0, 1], 5070);
const ANSWERER: ([u8; 4], u16) = ([127, 0, 0, 1], 5080);
/// Calls a second.
const RATE: f64 = 10.0;
/// Calls of 64*T1 (32 s), after which the answerer forgets a transaction, and of a call's length.
const WARM_UP: u64 = 400;
const CALLS: u64 = 400;

fn caller(calls: u64) -> Caller {
    let config = CallerConfig {
        transport: Transport::Udp,
        listener: 0,
        connections: 1,
        local: CALLER.into(),
        target: ANSWERER.into(),
        outbound: false,
        uri: "sip:service@127.0.0.1:5080".to_owned(),
        arrivals: ArrivalPlan {
            calls_max: Some(calls),
            ..ArrivalPlan::steady(ArrivalProcess::Poisson, RATE)
        },
        holding: RandomTime::Fixed(Duration::from_secs(5)),
        answer_wait: Duration::from_mins(3),
        timers: Timers::default(),
    };
    Caller::new(config, Instant::ZERO, Rng::from_seed(1))
}

fn answerer() -> Answerer {
    let config = AnswererConfig {
        transport: Transport::Udp,
        listener: 0,
        local: ANSWERER.into(),
        name: "answerer".to_owned(),
        ring: RandomTime::Fixed(Duration::ZERO),
        trying: false,
        service: ServiceModel::default(),
        timers: Timers::default(),
    };
    Answerer::new(config, Rng::from_seed(2))
}

/// Datagrams in flight, without delay.
#[derive(Default)]
struct Way(VecDeque<(SocketAddr, Vec<u8>)>);

impl Way {
    fn take(&mut self, out: &mut Outbox<AgentEvent>) {
        self.0.extend(out.transmits().iter().map(|sent| (sent.flow.peer, out.message(sent).to_vec())));
        out.clear();
    }
}

/// Runs calls until all have ended; a long run has more of them.
pub(super) fn calls(length: Length) -> Result<u64> {
    let calls = length.pick(WARM_UP, WARM_UP + CALLS);
    let (mut caller, mut answerer) = (caller(calls), answerer());
    let (mut way, mut out) = (Way::default(), Outbox::default());
    while let Some(now) =
        Instant::earliest(caller.deadline(), answerer.deadline()).filter(|_| !caller.finished())
    {
        caller.handle(now, AgentInput::Tick, &mut out);
        way.take(&mut out);
        answerer.handle(now, AgentInput::Tick, &mut out);
        way.take(&mut out);
        while let Some((to, bytes)) = way.0.pop_front() {
            if to == CALLER.into() {
                caller.handle(
                    now,
                    AgentInput::Message { from: Flow::udp(0, ANSWERER.into()), bytes: &bytes },
                    &mut out,
                );
            } else {
                answerer.handle(
                    now,
                    AgentInput::Message { from: Flow::udp(0, CALLER.into()), bytes: &bytes },
                    &mut out,
                );
            }
            way.take(&mut out);
        }
    }
    let completed = caller.results().calls_completed;
    ensure!(completed == calls, "{completed} of {calls} calls were completed");
    Ok(calls)
}

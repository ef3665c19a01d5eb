//! The acts: their sides, their events and their verdicts.

use super::cast::{CAST, Part, rate};
use super::measured::{IN_TIME, Measured};
use crate::command::demo::neighbour::SHARE;
use crate::command::load::table::percentile;
use load::{ArrivalPlan, ArrivalProcess, CallResults, RateStep, Times};
use std::time::Duration;

/// Time of an act until its event, in seconds.
pub(super) const EVENT_AT: f64 = 2.0;
/// Time from the overload to the measurement of what is served: calls that waited before the law knew the limit are over.
const SETTLE: f64 = 4.0;

/// Disturbance in an act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    None,
    Crash,
    Slowdown,
    Overload,
    Restart,
}

/// The same calls and the same event on several sides.
pub(super) struct Act {
    pub(super) title: &'static str,
    pub(super) event: Event,
    /// Text about the event, after it.
    pub(super) news: &'static str,
    /// Names of the sides, with the keys of their pools. Without a pool, each caller calls one server. The first of two
    /// sides is the plain alternative.
    pub(super) sides: Vec<(String, Option<String>)>,
    pub(super) servers: &'static [Part],
    /// Time in which calls are started, in seconds.
    pub(super) seconds: f64,
    /// Mean service time of a BYE on a server without slowdown.
    pub(super) service: Duration,
    /// Time for which the servers ring.
    pub(super) ring: Duration,
    /// Calls before and after the event, as shares of the capacity of all servers.
    pub(super) loads: [f64; 2],
}

/// Returns all acts. The first one compares these policies for this time.
pub(super) fn acts(policies: &[&str], seconds: f64) -> Vec<Act> {
    let limited = |law: &str| Some(format!("overload = {{ law = \"{law}\" }}"));
    let policy = |name: &str| Some(format!("policy = \"{name}\"\noverload = {{ law = \"none\" }}"));
    let two =
        |without: &str, plain, with: &str, pool| vec![(without.to_owned(), plain), (with.to_owned(), pool)];
    let act = |title, event, news, sides| Act {
        title,
        event,
        news,
        sides,
        servers: &CAST,
        seconds: 6.0,
        service: Duration::from_millis(4),
        ring: Duration::ZERO,
        loads: [0.5; 2],
    };
    let crash =
        two("without: one server for each caller", None, "with: a pool, as by default", Some(String::new()));
    let slowdown =
        two("without: round-robin", policy("round-robin"), "with: tlwl, the default", policy("tlwl"));
    let overload = two("without: no limit", limited("none"), "with: law gradient", limited("gradient"));
    let restart =
        two("without: kill, then start", Some(String::new()), "with: takeover", Some(String::new()));
    vec![
        Act {
            seconds,
            service: Duration::from_millis(7),
            // A slow server with as many calls as a fast one is then close to its limit.
            loads: [0.7; 2],
            ..act(
                "servers of unequal speed",
                Event::None,
                "servers of unequal speed",
                policies.iter().map(|name| ((*name).to_owned(), policy(name))).collect(),
            )
        },
        act("a server dies", Event::Crash, "fast-1 is dead on both sides", crash),
        Act {
            seconds: 8.0,
            ..act("a server becomes slow", Event::Slowdown, "fast-1 is slow on both sides", slowdown)
        },
        Act {
            servers: &CAST[..1],
            seconds: 10.0,
            service: Duration::from_millis(5),
            loads: [0.5, 10.0],
            ..act("too many calls", Event::Overload, "ten times the capacity arrives", overload)
        },
        Act {
            ring: Duration::from_millis(500),
            ..act("the balancer is restarted", Event::Restart, "new processes run on both sides", restart)
        },
    ]
}

impl Act {
    /// Calls a second before and after the event.
    pub(super) fn rates(&self) -> [f64; 2] {
        self.loads.map(|load| rate(load, self.servers, self.service))
    }

    /// Time at which the measurement starts, in seconds.
    pub(super) fn measured_from(&self) -> f64 {
        match self.event {
            Event::None => 0.0,
            Event::Overload => EVENT_AT + SETTLE,
            _ => EVENT_AT,
        }
    }

    /// Starts of the calls of one of `callers` equal callers.
    pub(super) fn arrivals(&self, callers: usize) -> ArrivalPlan {
        let [before, after] = self.rates().map(|rate| rate / callers as f64);
        let step = |at, rate| RateStep { at: Duration::from_secs_f64(at), rate, ramp: false };
        ArrivalPlan {
            steps: vec![step(0.0, before), step(EVENT_AT, after)],
            duration: Some(Duration::from_secs_f64(self.seconds)),
            ..ArrivalPlan::steady(ArrivalProcess::Poisson, before)
        }
    }

    /// Calls that the event may have cost: without an answer, or after a restart without an end.
    pub(super) fn missing(&self, results: &CallResults) -> u64 {
        let &CallResults { calls_started, calls_answered, calls_completed, .. } = results;
        calls_started - if self.event == Event::Restart { calls_completed } else { calls_answered }
    }

    /// A sentence about what was measured, whether or not it is what was expected.
    pub(super) fn verdict(&self, sides: &[Measured]) -> String {
        let p99 = |times: &Times| format!("{} ms", percentile(times, 99.0));
        let after = |side: &Measured| p99(&side.end.invite_response.since(&side.before.invite_response));
        let missing =
            |side: &Measured| format!("{} of {} calls", self.missing(&side.end), side.end.calls_started);
        let (plain, with) = (&sides[0], &sides[sides.len() - 1]);
        match self.event {
            Event::None => {
                let each = self
                    .sides
                    .iter()
                    .zip(sides)
                    .map(|((name, _), side)| format!("{} with {name}", after(side)));
                format!("99 % of the calls were answered within {}.", each.collect::<Vec<_>>().join(", "))
            }
            Event::Crash => format!(
                "A server died: {} got no answer without failover, and {} with it; {} answered calls ended with the \
                 server.",
                missing(plain),
                missing(with),
                with.end.calls_answered - with.end.calls_completed,
            ),
            Event::Slowdown => format!(
                "A server lost {:.0} % of its processor: {:.0} % of the calls and p99 {} with round-robin, {:.0} % and {} \
                 with tlwl (before: {:.0} %, {}).",
                100.0 * SHARE,
                plain.share_after(),
                after(plain),
                with.share_after(),
                after(with),
                with.share_before(),
                p99(&with.before.invite_response),
            ),
            Event::Overload => format!(
                "A server for {:.0} calls/s got {:.0}: from {SETTLE} s later on, it answered {:.0} calls/s within {} s \
                 without a limit, and {:.0} with the law gradient.",
                rate(1.0, self.servers, self.service),
                self.rates()[1],
                plain.served_per_second(),
                IN_TIME.as_secs(),
                with.served_per_second(),
            ),
            Event::Restart => format!(
                "The balancer was restarted under {} calls: {} were lost by kill and start, and {} by a takeover.",
                with.before.calls_in_progress,
                missing(plain),
                missing(with),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KNOWN, balancer};
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    #[test]
    fn every_pool_makes_a_valid_configuration() {
        let [address, member] = [5070, 5071].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        for (name, pool) in acts(&KNOWN, 1.0).into_iter().flat_map(|act| act.sides) {
            let Some(pool) = pool else { continue };
            let config = config::parse(&balancer::text(address, &pool, &[member]), &name);
            assert_eq!(config.unwrap().members().len(), 1);
        }
    }

    #[test]
    fn verdicts_are_what_was_measured_even_if_the_feature_fails() {
        let side = |calls_started, calls_answered, calls_completed| {
            let end =
                CallResults { calls_started, calls_answered, calls_completed, ..CallResults::default() };
            Measured {
                before: CallResults { calls_in_progress: 7, ..CallResults::default() },
                end,
                seconds: 2.0,
            }
        };
        let sides = [side(100, 100, 100), side(90, 80, 75)];
        let expected = [
            "within - ms with tjsq, - ms with tlwl.",
            "0 of 100 calls got no answer without failover, and 10 of 90 calls with it; 5 answered calls",
            "processor: 0 % of the calls and p99 - ms with round-robin, 0 % and - ms with tlwl",
            "for 73 calls/s got 727: from 4 s later on, it answered 0 calls/s within 1 s without a limit, and 0 ",
            "under 7 calls: 0 of 100 calls were lost by kill and start, and 15 of 90 calls by a takeover.",
        ];
        for (act, expected) in acts(&["tjsq", "tlwl"], 1.0).iter().zip(expected) {
            let verdict = act.verdict(&sides);
            assert!(verdict.contains(expected), "{verdict}");
        }
    }
}

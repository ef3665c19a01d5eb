//! Whatever a hostile member makes of the probes that it sees, sent from wherever it likes, it decides about itself alone.

use balance::Slot;
use base::{Instant, Outbox};
use node::{Outcome, ProbeSettings, Prober};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

const MEMBERS: u16 = 4;

fn member(slot: u16) -> SocketAddr {
    SocketAddr::new([127, 0, 1, slot as u8 + 1].into(), 5060)
}

/// One thing that it does with one of the probes it has seen.
#[derive(Clone, Debug)]
struct Move {
    /// Which probe, counted from the last.
    back: usize,
    /// Whose source address it forges.
    source: u16,
    /// An answer with this status, or an ICMP error.
    status: Option<u16>,
    /// A character of the probe, and what it becomes.
    changed: Option<(usize, u8)>,
    /// Time that passes before.
    wait: u64,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let digit = proptest::sample::select(b"0123456789abcdef-".to_vec());
    let changed = proptest::option::of((0..400_usize, digit));
    let status = proptest::option::of(proptest::sample::select(vec![200, 404, 503]));
    let one = (0..4_usize, 0..MEMBERS, status, changed, 0..700_u64);
    let one =
        one.prop_map(|(back, source, status, changed, wait)| Move { back, source, status, changed, wait });
    proptest::collection::vec(one, 1..40)
}

proptest! {
    #[test]
    fn a_member_decides_about_itself_alone(moves in moves()) {
        let settings = ProbeSettings {
            periodic: true,
            interval: Duration::from_secs(1),
            // Nobody answers in this test, and nobody runs out of time.
            timeout: Duration::from_hours(1),
            t1: Duration::from_millis(300),
        };
        let mut prober = Prober::new(settings, [9; 16], [Some("127.0.0.1:7000".parse().unwrap()), None]);
        let targets: Vec<_> = (0..MEMBERS).map(|slot| (Slot(slot), member(slot))).collect();
        prober.set_targets(Instant::ZERO, &targets);
        let mut out = Outbox::<Outcome>::default();
        let mut now = Instant::from_millis(1_000);
        for Move { back, source, status, changed, wait } in moves {
            now += Duration::from_millis(wait);
            prober.tick(now, &mut out);
            let seen: Vec<_> = out.transmits().iter().filter(|sent| sent.flow.peer == member(0)).collect();
            let Some(probe) = seen.iter().rev().nth(back) else { continue };
            let mut probe = out.message(probe).to_vec();
            if let Some((at, with)) = changed && let Some(byte) = probe.get_mut(at) {
                *byte = with;
            }
            match status {
                None => prober.unreachable(now, member(source), &probe, &mut out),
                Some(status) => {
                    let Ok(request) = wire::scan(&probe) else { continue };
                    let mut answer = Vec::new();
                    let from = member(source);
                    wire::write_response(&request, from, status, "x", "t", &[], &mut answer);
                    prober.receive(from, &answer, &mut out);
                }
            }
            for outcome in out.events() {
                prop_assert_eq!(outcome.slot, Slot(0), "{:?}", outcome);
            }
        }
    }
}

//! A hostile member may forge answers and errors from the probes that it sees, with any source address. It can only
//! change its own health.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::{Bed, settings, udp};
use control::{ControlInput, ProbeSettings};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

const MEMBERS: u16 = 4;

fn member(slot: u16) -> SocketAddr {
    SocketAddr::new([127, 0, 1, slot as u8 + 1].into(), 5060)
}

/// An action of the hostile member with a probe that it has seen.
#[derive(Clone, Debug)]
struct Move {
    /// Index of the probe, counted from the last.
    back: usize,
    /// Member whose source address is forged.
    source: u16,
    /// Status of the forged answer; `None` for an ICMP error.
    status: Option<u16>,
    /// Position of a changed character of the probe, and its new value.
    changed: Option<(usize, u8)>,
    /// Time in milliseconds before the action.
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
        let probes = ProbeSettings {
            periodic: true,
            interval: Duration::from_secs(1),
            // No member answers in this test, and no probe times out.
            timeout: Duration::from_hours(1),
            t1: Duration::from_millis(300),
        };
        let names: Vec<_> = (0..MEMBERS).map(|slot| member(slot).to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut settings = settings(&names);
        settings.pools[0].probes = probes;
        let mut bed = Bed::new(settings);
        bed.pass(Duration::from_secs(1));
        let mut has_decided = false;
        for Move { back, source, status, changed, wait } in moves {
            bed.pass(Duration::from_millis(wait));
            bed.handle(ControlInput::Timer);
            let seen: Vec<_> = bed.out.transmits().iter().filter(|sent| sent.flow.peer == member(0)).collect();
            let Some(probe) = seen.iter().rev().nth(back) else { continue };
            let mut probe = bed.out.message(probe).to_vec();
            if let Some((at, with)) = changed && let Some(byte) = probe.get_mut(at) {
                *byte = with;
            }
            match status {
                None => bed.handle(ControlInput::ProbeRefused { by: udp(member(source)), quoted: &probe }),
                Some(status) => {
                    let Ok(request) = wire::scan(&probe) else { continue };
                    let mut bytes = Vec::new();
                    let from = member(source);
                    wire::write_response(&request, from, status, "x", "t", &[], &mut bytes);
                    bed.handle(ControlInput::ProbeMessage { from: udp(from), bytes: &bytes });
                }
            }
            let listed = bed.control.listed();
            has_decided |= listed[0].last_probe.is_some();
            for other in &listed[1..] {
                prop_assert_eq!(other.last_probe, None, "{}", other.peer);
                prop_assert!(other.node.is_up());
            }
            let sane = source == 0 && changed.is_none() && back == 0 && status.is_some();
            prop_assert!(!sane || has_decided, "its own answer to its last probe counts");
        }
    }
}

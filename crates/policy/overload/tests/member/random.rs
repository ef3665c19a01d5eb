//! Random sequences of reports to a limit, compared with a simple list of open requests.

use base::Instant;
use core::time::Duration;
use overload::member::{MemberLaw, MemberLimit, RequestKind};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Send,
    Answer {
        which: usize,
        works: bool,
    },
    Lose {
        which: usize,
    },
    Leave {
        which: usize,
    },
    Note {
        took: u64,
    },
    /// The server has died: responses to its earlier requests no longer count, if they are reported at all.
    Die,
    Late {
        which: usize,
        works: bool,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0..64usize;
    prop_oneof![
        3 => (0..400u64).prop_map(Step::Wait),
        1 => (0..8_000u64).prop_map(Step::Wait),
        12 => Just(Step::Send),
        8 => (which(), any::<bool>()).prop_map(|(which, works)| Step::Answer { which, works }),
        2 => which().prop_map(|which| Step::Lose { which }),
        1 => which().prop_map(|which| Step::Leave { which }),
        1 => (0..2_000u64).prop_map(|took| Step::Note { took }),
        1 => Just(Step::Die),
        1 => (which(), any::<bool>()).prop_map(|(which, works)| Step::Late { which, works }),
        1 => Just(Step::Restart),
    ]
}

/// Time after which an unanswered request may no longer count.
const COUNTS: Duration = Duration::from_secs(4);

fn check(limit: &MemberLimit, now: Instant, open: &[Instant]) {
    let counted = limit.open(now);
    assert!(counted as usize <= open.len(), "{counted} of {} open", open.len());
    if let Some(most) = limit.limit(now) {
        assert!(most >= 1, "a limit of {most}");
    }
    if limit.limit(now).is_none() {
        assert!(limit.has_room(now, false), "without a limit there is room");
    }
    assert!(
        !limit.has_room(now, false) || limit.has_room(now, true),
        "with room, a request with priority has room as well"
    );
    // After four seconds of silence all open requests and failures are forgotten.
    let later = now + COUNTS + Duration::from_millis(250);
    assert!(limit.open(later) == 0 && limit.has_room(later, false), "after silence there is room");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_limit_has_room_for_one_counts_open_requests_and_recovers(
        steps in prop::collection::vec(step(), 1..600),
        law in prop::sample::select(MemberLaw::ALL.to_vec()),
    ) {
        let (mut limit, mut now, mut open) = (MemberLimit::new(law), Instant::from_millis(1), Vec::new());
        let mut dead = Vec::new();
        for step in steps {
            let take = |open: &mut Vec<Instant>, which: usize| {
                (!open.is_empty()).then(|| open.remove(which % open.len()))
            };
            match step {
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Send => {
                    limit.sent(now);
                    open.push(now);
                }
                Step::Answer { which, works } => {
                    if let Some(sent) = take(&mut open, which) {
                        limit.answered(now, RequestKind::Invite, sent, works);
                    }
                }
                Step::Lose { which } => {
                    if let Some(sent) = take(&mut open, which) {
                        limit.lost(now, sent);
                    }
                }
                Step::Leave { which } => {
                    if let Some(sent) = take(&mut open, which) {
                        limit.left(sent);
                    }
                }
                Step::Note { took } => {
                    let sent = now.as_nanos().saturating_sub(took * 1_000_000);
                    limit.noted(now, RequestKind::Bye, Instant::from_nanos(sent));
                }
                Step::Die => {
                    dead.append(&mut open);
                    limit.forget_open();
                    assert_eq!(limit.open(now), 0, "a dead server has no open requests");
                }
                Step::Late { which, works } => {
                    if let Some(sent) = take(&mut dead, which) {
                        limit.answered(now, RequestKind::Invite, sent, works);
                    }
                }
                Step::Restart => {
                    dead.append(&mut open);
                    limit.restart(now);
                    assert!(limit.limit(now).is_some_and(|most| most >= 2));
                }
            }
            check(&limit, now, &open);
        }
    }
}

#[test]
fn no_request_of_a_burst_at_the_start_is_refused() {
    let mut limit = MemberLimit::new(MemberLaw::default());
    for n in 0..5_000 {
        let now = Instant::from_nanos(n * 10_000);
        assert!(limit.has_room(now, false), "call {n}");
        limit.sent(now);
    }
}

#[test]
fn the_limit_of_a_server_that_is_back_starts_low_and_doubles() {
    let mut limit = MemberLimit::new(MemberLaw::default());
    limit.restart(Instant::from_millis(1));
    let mut most = Vec::new();
    for round in 0..5 {
        let mut sent = 0;
        let now = Instant::from_millis(1 + round * 120);
        while limit.has_room(now, false) {
            limit.sent(now);
            sent += 1;
        }
        most.push(sent);
        for _ in 0..sent {
            limit.answered(Instant::from_millis(106 + round * 120), RequestKind::Invite, now, true);
        }
    }
    assert_eq!(most, [8, 16, 32, 64, 128]);
}

#[test]
fn a_server_that_refuses_at_once_has_no_room_at_once() {
    let mut limit = MemberLimit::new(MemberLaw::default());
    let mut sent = 0;
    for n in 0..20_000 {
        let now = Instant::from_millis(n);
        if limit.has_room(now, false) {
            limit.sent(now);
            limit.lost(now, now);
            sent += 1;
        }
    }
    assert!(sent < 1_500, "{sent} of 20,000 in 20 s");
}

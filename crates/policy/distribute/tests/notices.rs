//! Handling of notices and marks: order, silence, strangers.

use base::Instant;
use core::time::Duration;
use distribute::{
    Call, DistributionSettings, Distributor, Mark, NextHop, Notice, ShareLaw, StateDecision,
    UtilisationSource,
};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

/// A call from a client through this node to neighbour 1.
fn call(key: u64) -> Call<u8> {
    Call { from: None, to: NextHop::Neighbour(1), kept: false, key }
}

/// A node at 95 %, with calls to neighbour 1, which has sent `notice`.
fn node(notice: Notice) -> (Distributor<u8>, Instant) {
    let mut node = Distributor::new(DistributionSettings::default(), 5);
    let now = Instant::ZERO + SECOND;
    node.on_notice(now, 1, notice);
    period(&mut node, now);
    (node, now)
}

fn period(node: &mut Distributor<u8>, now: Instant) {
    for key in 0..100 {
        node.on_call(now, call(key));
    }
    node.on_period(now, SECOND, 0.95);
}

/// Line 2 of the paper's algorithm: the capacities are configured, and the calls are counted.
#[test]
fn utilisation_is_computed_from_calls_if_configured() {
    let load = UtilisationSource::Computed { stateful: 200.0, stateless: 400.0 };
    for (keep, expected) in [(1.0, 100.0 / 200.0), (0.0, 100.0 / 400.0)] {
        let settings =
            DistributionSettings { load, law: ShareLaw::Fixed, keep, ..DistributionSettings::default() };
        let mut node = Distributor::new(settings, 5);
        period(&mut node, Instant::ZERO + SECOND);
        assert!((node.utilisation() - expected).abs() < 1e-9, "{} with {keep}", node.utilisation());
    }
}

#[test]
fn without_a_cost_of_state_the_share_is_unchanged() {
    let settings = DistributionSettings { state_cost: 0.0, high: 1.0, ..DistributionSettings::default() };
    let mut node = Distributor::new(settings, 5);
    let mut now = Instant::ZERO;
    for _ in 0..3 {
        now += SECOND;
        for key in 0..100 {
            node.on_call(now, call(key));
        }
        node.on_period(now, SECOND, 1.0);
    }
    assert!((node.keep(1) - 1.0).abs() < 1e-9, "{}", node.keep(1));
}

#[test]
fn a_silent_neighbour_counts_as_having_room() {
    let (mut node, mut now) = node(Notice::new(true, 0.97, 0.97, 1));
    assert!(node.notice(None).throttled);
    assert!((node.notice(None).level() - 0.95).abs() < 1e-9);
    let kept = node.keep(1);
    for _ in 0..4 {
        now += SECOND;
        period(&mut node, now);
    }
    assert!(!node.notice(None).throttled, "all notices have expired");
    assert!(node.keep(1) < kept, "calls are forwarded without state again");
}

/// A notice outlives the two after it, and covers a neighbour with few calls if periods are short.
#[test]
fn a_notice_is_valid_for_periods_and_at_least_3_5_seconds() {
    for (period, validity) in [(200, 3_500), (1_000, 3_500), (2_000, 7_000), (60_000, 210_000)] {
        let settings =
            DistributionSettings { period: Duration::from_millis(period), ..DistributionSettings::default() };
        let mut node = Distributor::new(settings, 5);
        let told = Instant::ZERO + SECOND;
        node.on_notice(told, 1, Notice::new(true, 0.97, 0.97, 1));
        let is_valid = |after: u64| node.has_notice(told + Duration::from_millis(after), 1);
        assert!(is_valid(validity - 1), "with periods of {period} ms");
        assert!(!is_valid(validity), "with periods of {period} ms");
    }
}

/// The paper's `deltaC` is given away once a period, whatever its length.
#[test]
fn the_paper_s_law_gives_away_delta_c_in_each_period() {
    for period in [Duration::from_millis(500), Duration::from_secs(4)] {
        let settings = DistributionSettings {
            law: ShareLaw::Paper,
            delta_c: 10.0,
            period,
            ..DistributionSettings::default()
        };
        let mut node = Distributor::new(settings, 5);
        let mut now = Instant::ZERO;
        for (nth, limit) in (1_u64..).zip([90.0, 80.0, 70.0]) {
            now += period;
            for key in 0..(100.0 * period.as_secs_f64()) as u64 {
                node.on_call(now, call(nth << 32 | key));
            }
            node.on_period(now, period, 0.95);
            assert!((node.keep(1) - limit / 100.0).abs() < 1e-9, "{} with {period:?}", node.keep(1));
        }
    }
}

#[test]
fn an_older_notice_is_ignored_until_the_newer_one_expires() {
    let (mut node, mut now) = node(Notice::new(true, 0.97, 0.97, 900));
    node.on_notice(now, 1, Notice::new(false, 0.2, 0.2, 899));
    period(&mut node, now);
    assert!(node.notice(None).throttled, "notice 899 is older and arrived late");
    // The neighbour restarts, and counts from the beginning.
    now += Duration::from_secs(4);
    node.on_notice(now, 1, Notice::new(false, 0.2, 0.2, 1));
    period(&mut node, now);
    assert!(!node.notice(None).throttled);
    // One hop away, it counts as slightly busier.
    assert!((node.notice(None).least() - 0.22).abs() < 1e-9);
}

#[test]
fn a_strangers_mark_does_not_count() {
    let mut node = Distributor::<u8>::new(DistributionSettings::default(), 5);
    let marked = Call { kept: true, ..call(1) };
    assert_eq!(node.on_call(Instant::ZERO, marked), StateDecision::Keep);
    assert_eq!(node.on_call(Instant::ZERO, Call { from: Some(9), ..marked }), StateDecision::PassKept);
    let leaves = Call { to: NextHop::Exit, ..marked };
    assert_eq!(node.on_call(Instant::ZERO, leaves), StateDecision::Keep);
}

/// Neighbour 9 sends only to 1, neighbour 8 only to 2: each gets the values of its own path.
#[test]
fn each_neighbour_gets_notices_about_the_paths_of_its_own_calls() {
    let mut node = Distributor::<u8>::new(DistributionSettings::default(), 5);
    let now = Instant::ZERO + SECOND;
    node.on_notice(now, 1, Notice::new(true, 0.99, 0.99, 1));
    node.on_notice(now, 2, Notice::new(false, 0.3, 0.3, 1));
    for (from, to) in [(9, 1), (8, 2)] {
        node.on_call(now, Call { from: Some(from), to: NextHop::Neighbour(to), kept: true, key: 0 });
    }
    node.on_period(now, SECOND, 0.95);
    assert!(node.notice(Some(9)).throttled);
    assert!(!node.notice(Some(8)).throttled);
    assert_eq!(node.upstream().collect::<Vec<_>>(), [8, 9]);
    // A neighbour that sends nothing any more gets no more notices.
    let later = now + Duration::from_secs(4);
    node.on_period(later, SECOND, f64::NAN);
    assert_eq!(node.upstream().count(), 0);
    assert!((node.notice(Some(9)).level() - 0.95).abs() < 1e-9, "an invalid measurement changes nothing");
}

/// Half of neighbour 9's calls leave here, half go on to a node with room. It cannot send more of one kind without more
/// of the other, so the level is that of this node. It is not throttled, since there is room.
#[test]
fn the_level_is_that_of_the_busiest_path_and_throttling_uses_the_least() {
    let mut node = Distributor::<u8>::new(DistributionSettings::default(), 5);
    let now = Instant::ZERO + SECOND;
    node.on_notice(now, 1, Notice::new(false, 0.3, 0.3, 1));
    for to in [NextHop::Exit, NextHop::Neighbour(1)] {
        node.on_call(now, Call { from: Some(9), to, kept: false, key: 0 });
    }
    node.on_period(now, SECOND, 0.95);
    let notice = node.notice(Some(9));
    assert!((notice.level() - 0.95).abs() < 1e-9 && (notice.least() - 0.32).abs() < 1e-9, "{notice}");
    assert!(!notice.throttled);
}

proptest! {
    /// No bytes from the wire cause a panic, and an accepted value is written with the same meaning.
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "(un)?throttle[.][0-9]{0,5}[.][0-9]{0,5}[.][0-9]{0,21}".prop_map(String::into_bytes),
            "[a-zA-Z.]{0,34}".prop_map(String::into_bytes),
        ],
    ) {
        if let Some(notice) = Notice::parse(&bytes) {
            prop_assert_eq!(Notice::parse(notice.to_string().as_bytes()), Some(notice));
            prop_assert!((0.0..=1.0).contains(&notice.level()));
        }
        if let Some(mark) = Mark::parse(&bytes) {
            prop_assert_eq!(Mark::parse(mark.to_string().as_bytes()), Some(mark));
        }
    }
}

/// When no later node has room, the entry accepts fewer calls. Without calls, or with calls that leave the network, it
/// accepts all again.
#[test]
fn an_entry_without_busy_paths_accepts_all_calls_again() {
    for leaves in [false, true] {
        let mut node = Distributor::new(DistributionSettings::default(), 5);
        let mut now = Instant::ZERO;
        for sequence in 0..20 {
            now += SECOND;
            node.on_notice(now, 1, Notice::new(true, 1.0, 1.0, sequence));
            for key in 0..100 {
                node.on_call(now, call(key));
            }
            node.on_period(now, SECOND, 1.0);
        }
        assert!(node.accepted_share() < 0.7, "{}", node.accepted_share());
        for _ in 0..10 {
            now += SECOND;
            for key in 0..if leaves { 100 } else { 0 } {
                node.on_call(now, Call { to: NextHop::Exit, ..call(key) });
            }
            node.on_period(now, SECOND, 0.3);
        }
        assert!((node.accepted_share() - 1.0).abs() < 1e-9, "{}", node.accepted_share());
    }
}

/// With two functions in turn, a function without calls delays neither giving the other away nor taking it back.
#[test]
fn an_unused_function_does_not_delay_the_other() {
    let (mut first, mut now) = node(Notice::new(false, 0.2, 0.2, 1));
    let mut last = Distributor::new(DistributionSettings::default(), 6);
    let kept = first.keep(1);
    assert!(kept > 0.0 && kept < 1.0, "{kept}");
    let mut sequence = 1;
    let mut period = |first: &mut Distributor<u8>, last: &mut Distributor<u8>, first_has_calls, busy| {
        now += SECOND;
        sequence += 1;
        first.on_notice(now, 1, Notice::new(false, 0.2, 0.2, sequence));
        last.on_notice(now, 1, Notice::new(false, 0.2, 0.2, sequence));
        for key in 0..100 {
            if first_has_calls { &mut *first } else { &mut *last }.on_call(now, call(key));
        }
        first.on_period_before(last, now, SECOND, busy);
    };
    period(&mut first, &mut last, false, 0.95);
    assert!(last.keep(1) < 1.0 && (first.keep(1) - kept).abs() < 1e-9);
    for _ in 0..2 {
        period(&mut first, &mut last, true, 0.3);
    }
    assert!(last.keep(1) < 1.0 && first.keep(1) > kept, "{}", first.keep(1));
}

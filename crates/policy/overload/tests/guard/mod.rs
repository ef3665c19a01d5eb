//! Decisions of a guard: each of its controllers alone, and all of them under any sequence of inputs.

mod random;

use base::{Instant, Rng};
use core::time::Duration;
use overload::end_to_end::{DownstreamPath, TargetServer};
use overload::hop::{self, ClientLimit, ReceiverLaw, RequestOutcome};
use overload::local::{bang_bang, delay, occupancy};
use overload::retry_after::{self, During};
use overload::{
    FeedbackLaw, Guard, LocalLaw, MessageClass, NEIGHBOURS_MAX, OverloadSettings, RejectAt, Rejection,
    RequestPath, Scope, Settled, Tier, UpstreamFeedback,
};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const BUSY: Rejection = Rejection { status: 503, retry_after: 0 };

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn guard(settings: OverloadSettings) -> Guard<u32> {
    Guard::new(at(0), settings, 1, MILLI, Rng::from_seed(1))
}

/// Path from one neighbour to another, both with feedback.
fn way(from: u32, to: u32) -> RequestPath<u32> {
    RequestPath { from: Some(from), takes_feedback: true, to: Some(to), path: None, is_onward: false }
}

/// Path from user agents.
fn from_agents(to: u32) -> RequestPath<u32> {
    RequestPath { from: None, takes_feedback: false, to: Some(to), path: None, is_onward: false }
}

fn hop(limit: Option<ClientLimit>, sequence: u64) -> UpstreamFeedback {
    let validity = limit.map_or(Duration::ZERO, |_| SECOND);
    UpstreamFeedback::Hop(hop::Feedback { limit, validity, sequence })
}

/// Number of accepted requests among 1000 new ones at one moment; each is answered at once.
fn taken(guard: &mut Guard<u32>, now: Instant, way: &RequestPath<u32>) -> usize {
    let mut take = || {
        let taken = guard.on_request(now, MessageClass::NewInvite, way).is_ok();
        if taken {
            let settled =
                Settled { from: way.from, to: way.to, outcome: RequestOutcome::Answered, is_last: true };
            guard.on_settled(now, &settled);
        }
        taken
    };
    (0..1_000).filter(|_| take()).count()
}

fn rate() -> OverloadSettings {
    OverloadSettings { feedback: FeedbackLaw::Hop(ReceiverLaw::Rate), ..OverloadSettings::default() }
}

fn loss() -> OverloadSettings {
    let law = occupancy::OccupancySettings::default();
    OverloadSettings {
        local: LocalLaw::Occupancy(law),
        feedback: FeedbackLaw::Hop(ReceiverLaw::Loss(law)),
        ..OverloadSettings::default()
    }
}

#[test]
fn a_neighbour_that_requests_a_pause_gets_no_new_requests_until_its_end() {
    // A host without any law respects it too.
    let mut guard = guard(OverloadSettings::default());
    assert!(guard.is_off() && guard.is_idle());
    guard.on_response(at(0), 7, 503, None, None);
    assert!(guard.is_off() && !guard.is_idle());
    assert_eq!(
        taken(&mut guard, at(0), &way(1, 7)),
        1_000,
        "a 503 without Retry-After concerns one request only"
    );
    guard.on_response(at(0), 7, 503, Some(SECOND * 10), None);
    assert!(!guard.is_open(at(9_999), 7) && guard.is_open(at(9_999), 8));
    let request = |guard: &mut Guard<u32>, class| guard.on_request(at(9_999), class, &way(1, 7));
    assert_eq!(request(&mut guard, MessageClass::NewInvite), Err(Rejection::NO_NEXT_HOP));
    assert_eq!(request(&mut guard, MessageClass::InDialog), Ok(()));
    assert_eq!(taken(&mut guard, at(10_000), &way(1, 7)), 1_000);
}

#[test]
fn the_meaning_of_a_503_in_a_pause_is_a_setting() {
    for (during, end) in [(During::Prolong, 15_000), (During::Ignore, 10_000)] {
        let mut guard = guard(OverloadSettings { during, ..OverloadSettings::default() });
        guard.on_response(at(0), 7, 503, Some(SECOND * 10), None);
        guard.on_response(at(5_000), 7, 503, Some(SECOND * 10), None);
        assert!(!guard.is_open(at(end - 1), 7) && guard.is_open(at(end), 7), "{during:?}");
    }
}

#[test]
fn a_full_queue_refuses_new_requests_with_the_pause_of_the_law() {
    let watermarks = bang_bang::BangBangSettings { high: 2, low: 1 };
    let law = retry_after::RetryAfterSettings { watermarks, pause: SECOND * 10 };
    let mut guard =
        guard(OverloadSettings { local: LocalLaw::RetryAfter(law), ..OverloadSettings::default() });
    for queue in 1..=3 {
        assert_eq!(guard.on_request(at(0), MessageClass::NewInvite, &from_agents(7)), Ok(()));
        guard.on_enqueue(at(0), MessageClass::NewInvite, queue);
    }
    assert_eq!((guard.waiting(), guard.acceptance(at(0))), (3, 0.0));
    let busy = Err(Rejection { status: 503, retry_after: 10 });
    for class in MessageClass::ALL {
        let is_first = class.tier() == Tier::First;
        let expected = if is_first { busy } else { Ok(()) };
        assert_eq!(guard.on_request(at(0), class, &from_agents(7)), expected, "{class:?}");
    }
    (0..3).rev().for_each(|queue| guard.on_dequeue(at(1), MessageClass::NewInvite, queue));
    assert_eq!((guard.waiting(), guard.acceptance(at(0))), (0, 1.0));
    assert_eq!(guard.on_request(at(1), MessageClass::NewInvite, &from_agents(7)), Ok(()));
}

#[test]
fn a_late_decision_accepts_a_request_and_refuses_it_at_its_turn() {
    let watermarks = bang_bang::BangBangSettings { high: 0, low: 0 };
    let settings = OverloadSettings { local: LocalLaw::BangBang(watermarks), ..rate() };
    let request = MessageClass::NewInvite;
    let mut late = guard(OverloadSettings { reject_at: RejectAt::Service, ..settings });
    late.on_enqueue(at(0), MessageClass::Response, 1);
    assert_eq!(late.on_request(at(0), request, &way(1, 7)), Ok(()));
    assert_eq!((late.under_way_from(1), late.under_way_to(7)), (1, 0), "the request is not sent yet");
    assert_eq!(late.on_turn(at(1), request, &way(1, 7)), Err(BUSY));
    assert_eq!((late.under_way_from(1), late.under_way_to(7)), (0, 0));
    let mut early = guard(settings);
    assert_eq!(early.on_request(at(0), request, &way(1, 7)), Ok(()));
    assert_eq!((early.under_way_from(1), early.under_way_to(7)), (1, 1));
    early.on_enqueue(at(0), request, 1);
    assert_eq!(early.on_request(at(0), request, &way(1, 7)), Err(BUSY));
    assert_eq!(early.on_turn(at(1), request, &way(1, 7)), Ok(()), "an accepted request is not decided again");
    assert_eq!((early.under_way_from(1), early.under_way_to(7)), (1, 1));
}

#[test]
fn each_downstream_neighbour_gets_its_own_limit() {
    let mut guard = guard(rate());
    guard.on_response(at(0), 7, 180, None, Some(&hop(Some(ClientLimit::Loss(0.3)), 1)));
    guard.on_response(at(0), 8, 180, None, Some(&hop(Some(ClientLimit::Loss(0.0)), 1)));
    // To a neighbour without feedback, and to user agents.
    let to_agents = RequestPath { to: None, ..way(1, 0) };
    assert_eq!([way(1, 9), to_agents].map(|way| taken(&mut guard, at(0), &way)), [1_000; 2]);
    assert!(taken(&mut guard, at(0), &way(1, 7)).abs_diff(300) < 50);
    assert_eq!(taken(&mut guard, at(999), &way(1, 8)), 0);
    assert_eq!(taken(&mut guard, at(1_000), &way(1, 8)), 1_000, "the validity of the feedback is over");
}

#[test]
fn unexpected_feedback_changes_nothing() {
    let mut guard = guard(OverloadSettings {
        local: LocalLaw::Delay(delay::DelaySettings::default()),
        ..OverloadSettings::default()
    });
    guard.on_response(at(0), 7, 180, None, Some(&hop(Some(ClientLimit::Loss(0.0)), 1)));
    assert_eq!(taken(&mut guard, at(0), &way(1, 7)), 1_000);
    assert!(!guard.gives_notice() && guard.notice(at(0), None).is_none());
}

#[test]
fn a_neighbour_that_falls_silent_is_probed_until_it_answers() {
    let mut guard = guard(rate());
    for _ in 0..3 {
        guard.on_request(at(0), MessageClass::NewInvite, &way(1, 7)).unwrap();
        let settled = Settled { from: Some(1), to: Some(7), outcome: RequestOutcome::Silent, is_last: true };
        guard.on_settled(at(0), &settled);
    }
    assert_eq!(taken(&mut guard, at(999), &way(1, 7)), 0);
    assert_eq!(taken(&mut guard, at(999), &way(1, 8)), 1_000, "the other neighbours are not silent");
    assert_eq!(guard.on_request(at(999), MessageClass::Closing, &way(1, 7)), Ok(()));
    assert_eq!(taken(&mut guard, at(1_000), &way(1, 7)), 1, "one probe");
    guard.on_response(at(1_001), 7, 100, None, None);
    assert_eq!(taken(&mut guard, at(1_001), &way(1, 7)), 1_000);
}

#[test]
fn at_the_edge_the_own_fraction_and_that_of_the_next_hop_count() {
    // Two seconds of saturation: f is 0.9 and 0.81.
    let mut guard = guard(loss());
    guard.tick(at(1_000), SECOND);
    guard.tick(at(2_000), SECOND * 2);
    assert!((guard.acceptance(at(0)) - 0.81).abs() < 1e-9);
    let mut tell = |limit: f64, sequence| {
        guard.on_response(at(2_000), 7, 180, None, Some(&hop(Some(ClientLimit::Loss(limit)), sequence)));
        let to_agents = RequestPath { to: None, ..from_agents(0) };
        [way(1, 7), from_agents(7), to_agents].map(|way| taken(&mut guard, at(2_000), &way))
    };
    for (measured, expected) in [(tell(1.0, 1), [1_000, 810, 810]), (tell(0.4, 2), [400, 400, 810])] {
        for (measured, expected) in measured.iter().zip(expected) {
            assert!(measured.abs_diff(expected) < 60, "{measured} of {expected}");
        }
    }
}

#[test]
fn the_own_fraction_follows_the_present_load() {
    let local = LocalLaw::Delay(delay::DelaySettings { onset: MILLI * 20, bound: MILLI * 40 });
    let mut guard = guard(OverloadSettings { local, ..loss() });
    guard.on_waited(at(0), MILLI * 40);
    let to_agents = RequestPath { to: None, ..from_agents(0) };
    assert_eq!([to_agents, from_agents(7)].map(|way| taken(&mut guard, at(0), &way)), [0; 2]);
    assert_eq!(taken(&mut guard, at(20), &from_agents(7)), 1_000, "half of the waiting messages were served");
}

#[test]
fn neighbours_get_the_limit_of_the_last_period_and_its_end() {
    let mut guard = guard(loss());
    let told = |guard: &mut Guard<u32>| match guard.notice(at(9_000), None) {
        Some(UpstreamFeedback::Hop(feedback)) => feedback.limit,
        other => panic!("{other:?}"),
    };
    assert!(guard.gives_notice());
    assert_eq!(told(&mut guard), None);
    assert_eq!(guard.deadline(), Some(at(1_000)));
    guard.tick(at(999), SECOND);
    assert_eq!(told(&mut guard), None, "no period is over yet");
    guard.tick(at(1_000), SECOND);
    assert_eq!(told(&mut guard), Some(ClientLimit::Loss(0.9)));
    // The host was suspended: one period of four seconds.
    guard.tick(at(5_000), SECOND * 5);
    assert_eq!((told(&mut guard), guard.deadline()), (Some(ClientLimit::Loss(0.9 * 0.9)), Some(at(6_000))));
    guard.tick(at(6_000), SECOND * 5);
    assert_eq!(told(&mut guard), None);
}

#[test]
fn periods_of_different_lengths_have_separate_busy_times() {
    let law = occupancy::OccupancySettings::default();
    let mut guard = guard(OverloadSettings { local: LocalLaw::Occupancy(law), ..rate() });
    // Idle for half a second, then saturation; the receiver's period is 100 ms.
    let mut deadlines = Vec::new();
    while let Some(now) = guard.deadline().filter(|now| *now <= at(1_000)) {
        deadlines.push(now.as_nanos() / 1_000_000);
        if now > at(500) {
            (0..8).for_each(|_| guard.note_wait(MILLI * 41));
        }
        guard.tick(now, now.saturating_since(at(500)));
        let limit = guard.notice(now, None);
        let is_limited = matches!(limit, Some(UpstreamFeedback::Hop(hop::Feedback { limit: Some(_), .. })));
        assert_eq!(is_limited, now > at(500), "{now}");
    }
    assert_eq!(deadlines, [100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]);
    assert!(guard.acceptance(at(0)) >= 1.0, "half a second of full load is below the target");
    guard.tick(at(2_000), Duration::from_millis(1_500));
    assert!((guard.acceptance(at(0)) - 0.9).abs() < 1e-9);
}

#[test]
fn messages_in_a_socket_count_like_messages_in_a_queue() {
    let law = delay::DelaySettings { onset: MILLI * 20, bound: MILLI * 40 };
    let mut guard = guard(OverloadSettings { local: LocalLaw::Delay(law), ..rate() });
    let mut after = |waited, millis, queued| {
        (0..queued).for_each(|queue| guard.on_enqueue(at(0), MessageClass::Response, queue + 1));
        guard.on_waited(at(0), MILLI * waited);
        let taken = taken(&mut guard, at(millis), &from_agents(7));
        (0..queued).rev().for_each(|queue| guard.on_dequeue(at(0), MessageClass::Response, queue));
        taken
    };
    assert_eq!([after(20, 0, 0), after(40, 0, 0), after(20, 0, 20)], [1_000, 0, 0]);
    assert!(after(30, 0, 0).abs_diff(500) < 60 && after(20, 0, 10).abs_diff(500) < 60);
    // No message was read since, so none came.
    assert_eq!(after(60, 40, 0), 1_000);
    // Rate feedback starts if every message waits for more than 40 ms, and ends after a second with little demand.
    let limited = |guard: &mut Guard<u32>, waits: &[u32], millis| {
        for wait in waits {
            (0..4).for_each(|_| guard.note_wait(MILLI * *wait));
        }
        guard.tick(at(millis), Duration::ZERO);
        let notice = guard.notice(at(millis), None);
        matches!(notice, Some(UpstreamFeedback::Hop(hop::Feedback { limit: Some(_), .. })))
    };
    assert!(!limited(&mut guard, &[60, 40], 100));
    assert!(limited(&mut guard, &[60, 41], 200));
    assert!((300..=1_100).step_by(100).all(|millis| limited(&mut guard, &[], millis)));
    assert!(!limited(&mut guard, &[], 1_200));
}

#[test]
fn a_triage_queue_counts_only_messages_that_are_served_before() {
    let law = delay::DelaySettings { onset: MILLI * 20, bound: MILLI * 40 };
    let mut settings = OverloadSettings { local: LocalLaw::Delay(law), ..OverloadSettings::default() };
    let taken = |settings, class| {
        let mut guard = guard(settings);
        (0..100).for_each(|queue| guard.on_enqueue(at(0), MessageClass::NewInvite, queue + 1));
        guard.on_request(at(0), class, &from_agents(7)).is_ok()
    };
    assert!(!taken(settings, MessageClass::NewInvite) && !taken(settings, MessageClass::Priority));
    settings.triage = Some(overload::Triage::default());
    assert!(!taken(settings, MessageClass::NewInvite) && taken(settings, MessageClass::Priority));
}

#[test]
fn a_scope_of_all_requests_limits_those_in_dialogs_last() {
    let passes = |scope, class| {
        let mut guard = guard(OverloadSettings { scope, ..rate() });
        guard.on_response(at(0), 7, 180, None, Some(&hop(Some(ClientLimit::Rate(0.0)), 1)));
        guard.on_request(at(0), class, &way(1, 7)).is_ok()
    };
    assert!(
        passes(Scope::NewRequests, MessageClass::InDialog)
            && !passes(Scope::NewRequests, MessageClass::NewInvite)
    );
    for class in MessageClass::ALL {
        let tier = class.tier();
        assert_eq!(passes(Scope::AllRequests, class), tier == Tier::Never, "{class:?}");
    }
}

#[test]
fn end_to_end_the_ingress_rejects_the_excess_of_the_target() {
    let law = occupancy::OccupancySettings::default();
    let feedback = FeedbackLaw::EndToEnd;
    let settings =
        OverloadSettings { local: LocalLaw::Occupancy(law), feedback, ..OverloadSettings::default() };
    let [mut ingress, mut core, mut target] = [0; 3].map(|_| guard(settings));
    // The target accepts nine tenths, the core everything.
    target.tick(at(1_000), SECOND);
    let path = |hops| DownstreamPath { target: TargetServer(5), hops };
    let notice = target.notice(at(1_000), Some(path(0)));
    core.on_response(at(1_001), 3, 200, None, notice.as_ref());
    let notice = core.notice(at(1_001), Some(path(1)));
    ingress.on_response(at(1_002), 2, 200, None, notice.as_ref());
    let now = at(1_002);
    let to =
        |guard: &mut Guard<u32>, way: RequestPath<u32>, path| taken(guard, now, &RequestPath { path, ..way });
    assert!(to(&mut ingress, from_agents(2), Some(path(2))).abs_diff(900) < 50);
    let other = DownstreamPath { target: TargetServer(6), hops: 2 };
    assert_eq!(to(&mut ingress, from_agents(2), Some(other)), 1_000);
    assert_eq!(to(&mut core, way(1, 3), Some(path(1))), 1_000, "inner servers accept every request");
    // For an unknown path only the local law remains, and a response on it carries no feedback.
    assert!(to(&mut target, from_agents(9), None).abs_diff(900) < 50);
    assert_eq!((target.gives_notice(), target.notice(now, None)), (true, None));
}

#[test]
fn a_restarted_host_has_no_state_and_its_periods_continue() {
    let mut guard = guard(OverloadSettings { local: loss().local, ..rate() });
    guard.on_request(at(0), MessageClass::NewInvite, &way(1, 7)).unwrap();
    guard.on_enqueue(at(0), MessageClass::NewInvite, 1);
    guard.on_waited(at(0), SECOND * 100);
    guard.on_response(at(0), 7, 503, Some(SECOND * 100), Some(&hop(Some(ClientLimit::Rate(0.0)), 1)));
    guard.tick(at(1_050), SECOND);
    assert!(guard.acceptance(at(0)) < 1.0);
    guard.forget();
    assert_eq!([guard.under_way_from(1), guard.under_way_to(7), guard.waiting() as u32], [0; 3]);
    assert_eq!((guard.acceptance(at(0)), guard.deadline()), (1.0, Some(at(1_150))));
    assert_eq!(taken(&mut guard, at(1_051), &way(1, 7)), 1_000);
    guard.tick(at(1_150), SECOND);
    assert!(matches!(
        guard.notice(at(1_150), None),
        Some(UpstreamFeedback::Hop(hop::Feedback { limit: None, .. }))
    ));
}

#[test]
fn neighbours_beyond_the_bound_have_no_share() {
    let mut guard = guard(rate());
    let neighbours = NEIGHBOURS_MAX as u32 + 1;
    for from in 0..neighbours {
        guard.on_request(at(0), MessageClass::NewInvite, &RequestPath { to: None, ..way(from, 0) }).unwrap();
    }
    assert_eq!([neighbours - 2, neighbours - 1].map(|from| guard.under_way_from(from)), [1, 0]);
    // A known neighbour stays known. Others get its place when it is forgotten.
    guard.on_request(at(1), MessageClass::NewInvite, &RequestPath { to: None, ..way(0, 0) }).unwrap();
    assert_eq!(guard.under_way_from(0), 2);
    guard.tick(at(11_000), Duration::ZERO);
    guard
        .on_request(at(11_000), MessageClass::NewInvite, &RequestPath { to: None, ..way(neighbours, 0) })
        .unwrap();
    assert_eq!([0, neighbours].map(|from| guard.under_way_from(from)), [0, 1]);
}

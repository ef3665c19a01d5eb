//! Properties of every reachable state of a branch and of a response context.

use proxy::{Branch, BranchAction, Context, ContextAction, ContextEvent, ProxyEvent};

const EVENTS: [ProxyEvent; 13] = [
    ProxyEvent::Response(100),
    ProxyEvent::Response(180),
    ProxyEvent::Response(200),
    ProxyEvent::Response(302),
    ProxyEvent::Response(408),
    ProxyEvent::Response(486),
    ProxyEvent::Response(503),
    ProxyEvent::Response(600),
    ProxyEvent::Timeout,
    ProxyEvent::Unreachable,
    ProxyEvent::FlowFailed,
    ProxyEvent::TimerC,
    ProxyEvent::Cancelled,
];

const CONTEXT_EVENTS: [ContextEvent; 11] = [
    ContextEvent::Provisional,
    ContextEvent::Success,
    ContextEvent::Failure(486),
    ContextEvent::Failure(503),
    ContextEvent::Failure(603),
    ContextEvent::Decided(486),
    ContextEvent::Decided(603),
    ContextEvent::Silence,
    ContextEvent::RingTimeOver,
    ContextEvent::Cancelled,
    ContextEvent::Exhausted,
];

/// Every state that is reachable from `start`, in order of discovery.
fn reachable<S: Copy + PartialEq, E: Copy>(
    start: impl IntoIterator<Item = S>,
    events: &[E],
    on: impl Fn(S, E) -> Option<S>,
) -> Vec<S> {
    let mut all: Vec<S> = start.into_iter().collect();
    let mut next = 0;
    while let Some(&state) = all.get(next) {
        next += 1;
        for &event in events {
            if let Some(after) = on(state, event).filter(|after| !all.contains(after)) {
                all.push(after);
            }
        }
    }
    all
}

fn branches() -> Vec<Branch> {
    let new = |invite| [false, true].map(|alternate| Branch::new(invite, alternate));
    reachable([true, false].into_iter().flat_map(new), &EVENTS, |mut branch, event| {
        branch.on(event);
        Some(branch)
    })
}

/// Whether this event needs a branch.
fn is_of_branch(event: ContextEvent) -> bool {
    matches!(
        event,
        ContextEvent::Provisional
            | ContextEvent::Failure(_)
            | ContextEvent::Decided(_)
            | ContextEvent::Silence
    )
}

fn pending(context: Context) -> u8 {
    let text = format!("{context:?}");
    let (_, after) = text.split_once("pending: ").expect("it is a field");
    after.split(',').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// One step, if the event is possible. The next group of one target starts at once.
fn step(mut context: Context, event: ContextEvent) -> Option<(Context, Vec<ContextAction>)> {
    if is_of_branch(event) && pending(context) == 0 {
        return None;
    }
    let actions: Vec<_> = context.on(event).into_iter().collect();
    if actions.contains(&ContextAction::NextGroup) {
        context.set_more(false);
        context.begin();
    }
    Some((context, actions))
}

/// Contexts with one or two branches, with and without another group.
fn contexts() -> Vec<Context> {
    let mut start = Vec::new();
    for invite in [true, false] {
        for branches in [1, 2] {
            for more in [false, true] {
                let mut context = Context::new(invite);
                (0..branches).for_each(|_| context.begin());
                context.set_more(more);
                start.push(context);
            }
        }
    }
    reachable(start, &CONTEXT_EVENTS, |context, event| step(context, event).map(|(after, _)| after))
}

#[test]
fn an_ended_branch_stays_ended_and_reports_only_a_2xx() {
    for branch in branches().into_iter().filter(|branch| branch.is_finished()) {
        for event in EVENTS {
            let mut after = branch;
            let actions = after.on(event);
            assert!(after.is_finished());
            let passes = branch.is_invite() && event == ProxyEvent::Response(200);
            assert_eq!(actions.is_empty(), !passes, "{branch:?} {event:?}: {actions:?}");
        }
    }
}

/// Timer C, the CANCEL that waits for a provisional response (§9.1), and silence, each after different events.
#[test]
fn a_branch_times_out_according_to_its_method() {
    use BranchAction::{Abandon, Cancel, Failure, Provisional, SetTimerC, Silence, StopTimerC, Success};
    use ProxyEvent::{Cancelled, Response, Timeout, TimerC};
    let cases: [(bool, &[ProxyEvent], &[BranchAction]); 12] = [
        (true, &[Timeout], &[StopTimerC, Failure(408)]),
        // RFC 4320 §4.2.
        (false, &[Timeout], &[Silence]),
        (true, &[TimerC], &[Abandon, Failure(408)]),
        (true, &[Response(180)], &[Provisional, SetTimerC]),
        (true, &[Response(180), TimerC], &[Cancel]),
        (true, &[Response(180), TimerC, Response(180)], &[Provisional]),
        (true, &[Cancelled], &[]),
        (true, &[Cancelled, Response(180)], &[Provisional, Cancel, StopTimerC]),
        (true, &[Response(180), Cancelled], &[Cancel, StopTimerC]),
        (false, &[Response(180), Cancelled], &[]),
        (true, &[Response(200)], &[StopTimerC, Success]),
        (true, &[Response(486)], &[StopTimerC, Failure(486)]),
    ];
    for (invite, events, expected) in cases {
        let mut branch = Branch::new(invite, false);
        let last = events.iter().map(|&event| branch.on(event)).last().expect("there is at least one event");
        assert_eq!(&last[..], expected, "{events:?}");
    }
    let mut context = Context::new(false);
    context.begin();
    assert_eq!(context.on(ContextEvent::Silence)[..], [ContextAction::GiveUp]);
}

/// RFC 3261 §16.7 step 5: one final response is forwarded, and further 2xx to an INVITE.
#[test]
fn a_finished_context_stays_finished_and_forwards_only_a_2xx() {
    for context in contexts().into_iter().filter(|context| context.is_finished()) {
        for event in CONTEXT_EVENTS {
            let Some((after, actions)) = step(context, event) else { continue };
            assert!(after.is_finished());
            let passes = context.is_invite() && event == ContextEvent::Success;
            assert_eq!(actions.is_empty(), !passes, "{context:?} {event:?}: {actions:?}");
        }
    }
}

/// The best of two responses, in either order.
fn best(one: u16, other: u16) -> Vec<ContextAction> {
    let mut context = Context::new(true);
    context.begin();
    context.begin();
    context.on(ContextEvent::Failure(one));
    context.on(ContextEvent::Failure(other)).into_iter().collect()
}

/// RFC 3261 §16.7 step 6 for each combination: a 6xx, else the lowest class. In 4xx, responses that say how to repeat
/// the request come first. A 503 becomes a 500, and only without any other response.
#[test]
fn the_best_response_of_each_combination() {
    const FROM_BEST: [&[u16]; 8] = [
        &[600, 603],
        &[301, 302],
        &[401, 407],
        &[415, 420, 484],
        &[404, 480, 486],
        &[408],
        &[487],
        &[500, 501],
    ];
    let all: Vec<(usize, u16)> = FROM_BEST
        .iter()
        .enumerate()
        .flat_map(|(rank, group)| group.iter().map(move |&s| (rank, s)))
        .collect();
    for &(rank, status) in &all {
        for &(other_rank, other) in &all {
            let expected = if other_rank < rank { other } else { status };
            let actions = best(status, other);
            assert_eq!(actions.last(), Some(&ContextAction::Answer(expected)), "{status} then {other}");
            let kept = actions.contains(&ContextAction::Keep);
            assert_eq!(kept, other_rank < rank, "{status} then {other}");
            let both_ask = [status, other].iter().all(|status| matches!(status, 401 | 407));
            assert_eq!(actions.contains(&ContextAction::AddChallenges), both_ask, "{status} then {other}");
        }
        assert_eq!(best(503, status).last(), Some(&ContextAction::Answer(status)));
        assert_eq!(best(status, 503).last(), Some(&ContextAction::Answer(status)));
    }
    assert_eq!(best(503, 503).last(), Some(&ContextAction::Answer(500)));
}

//! Eviction from a full session table.

use crate::common::*;
use balance::policy::Cjsq;
use balance::*;
use base::Instant;
use std::time::Duration;
use wire::Method;

const MOST: usize = 100;

fn full(settings: &SessionSettings) -> Balancer {
    let mut balancer =
        Balancer::new(SessionSettings { max_sessions: MOST, ..settings.clone() }, Box::new(Cjsq::new(0)));
    balancer.set_nodes(cluster(&[1.0; 2]).nodes());
    balancer
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Sends an INVITE, and responses to it.
fn call(balancer: &mut Balancer, now: Instant, call: u64, statuses: &[u16]) -> NodeDecision {
    let decision = balancer.request(now, &request(call, Method::Invite, 1));
    for &status in statuses {
        balancer.response(now, &response(call, Method::Invite, 1, status));
    }
    decision
}

fn has(balancer: &Balancer, call: u64) -> bool {
    balancer.session(key(call)).is_some()
}

#[test]
fn ended_sessions_are_evicted_first_then_unanswered_ones_oldest_first() {
    let mut balancer = full(&SessionSettings::default());
    for n in 0..MOST as u64 {
        let statuses: &[u16] = match n % 5 {
            0 => &[],
            1 => &[100],
            2 => &[486],
            3 => &[100, 180],
            _ => &[200],
        };
        call(&mut balancer, at(n * 50), n, statuses);
    }
    let gone = |balancer: &Balancer| (0..MOST as u64).filter(|&n| !has(balancer, n)).collect::<Vec<_>>();
    let all = |rest: u64| (0..MOST as u64).filter(move |n| n % 5 == rest);
    let mut expected = Vec::new();
    // A node sends 100 itself. These sessions have waited for less time, so they go after those without any response.
    for (step, next) in (all(2).chain(all(0)).chain(all(1))).enumerate() {
        let decision = call(&mut balancer, at(6_000 + step as u64 * 10), 1_000 + step as u64, &[200]);
        assert!(matches!(decision, NodeDecision::Forward { why: Why::Policy, .. }));
        expected.push(next);
        expected.sort_unstable();
        assert_eq!(gone(&balancer), expected);
        assert_eq!(balancer.audit(), Ok(()));
    }
    // Ringing and answered calls stay; a new call is refused.
    assert_eq!(call(&mut balancer, at(8_000), 2_000, &[]), NodeDecision::NoRoom);
    assert_eq!(balancer.counts(), TableCounts { active: MOST, expired: 0 });
    // A call that ends makes room.
    balancer.request(at(8_000), &in_dialog(1_000, Method::Bye, 2));
    balancer.response(at(8_000), &response(1_000, Method::Bye, 2, 200));
    assert!(matches!(call(&mut balancer, at(8_000), 2_000, &[]), NodeDecision::Forward { .. }));
    assert!(!has(&balancer, 1_000));
}

/// Calls that the full table does not hold: their requests must still be forwarded.
#[test]
fn requests_within_dialogs_are_forwarded_without_room() {
    let mut balancer = full(&SessionSettings::default());
    for n in 0..MOST as u64 {
        call(&mut balancer, at(0), n, &[200]);
    }
    let by_token =
        |method| RequestFacts { pinned: Some(Slot(1)), by_token: true, ..in_dialog(5_000, method, 2) };
    for method in [Method::Ack, Method::Bye, Method::Invite, Method::Info] {
        let decision = balancer.request(at(1), &by_token(method));
        assert_eq!(decision, NodeDecision::Forward { slot: Slot(1), why: Why::Token }, "{method:?}");
    }
    assert!(!has(&balancer, 5_000));
    // Within a known call nothing changes.
    balancer.request(at(1), &in_dialog(3, Method::Bye, 2));
    assert_eq!(balancer.session(key(3)).map(|session| session.state), Some(SessionState::Closing));
    run_out(&mut balancer);
    assert_eq!(loads(&balancer), [Load::default(); 2]);
}

/// The memory of a flood is bounded, and lawful calls continue.
#[test]
fn a_flood_does_not_disturb_calls() {
    let mut balancer = full(&SessionSettings::default());
    let mut answered = 0;
    for n in 0..20_000_u64 {
        let now = at(n);
        call(&mut balancer, now, 100_000 + n, &[]);
        if n % 400 == 0 {
            assert!(matches!(call(&mut balancer, now, n, &[100, 180]), NodeDecision::Forward { .. }));
        }
        // Answered after 2 s.
        if n >= 2_000 && n % 400 == 0 {
            let lawful = n - 2_000;
            balancer.response(now, &response(lawful, Method::Invite, 1, 200));
            assert_eq!(
                balancer.session(key(lawful)).map(|session| session.state),
                Some(SessionState::Answered)
            );
            answered += 1;
        }
        let counts = balancer.counts();
        assert!(counts.active + counts.expired <= MOST && balancer.open_transactions() <= MOST);
        while balancer.expire(now) > 0 {}
    }
    assert_eq!(answered, 45);
    let evicted: u64 =
        [Slot(0), Slot(1)].map(|slot| balancer.stats(slot).ended[EndReason::Evicted as usize]).iter().sum();
    assert!(evicted > 19_000);
    run_out(&mut balancer);
    assert_eq!(balancer.counts(), TableCounts::default());
}

/// One Call-ID may have many transactions: they are bounded as well.
#[test]
fn transactions_are_bounded_with_the_sessions() {
    let mut balancer =
        full(&SessionSettings { transaction_timeout: Duration::from_hours(1), ..SessionSettings::default() });
    for n in 0..20 {
        for cseq in 0..60 {
            balancer.request(at(n), &request(n, Method::Options, cseq));
            // Each session has at least one.
            assert!(balancer.open_transactions() <= MOST + 20);
            assert!(has(&balancer, n), "the session of the request is not evicted for it");
        }
    }
    assert_eq!(balancer.audit(), Ok(()));
}

/// A lower limit after a reload is soon reached.
#[test]
fn a_lowered_limit_is_reached_by_evicting_two_for_one() {
    let mut balancer = full(&SessionSettings::default());
    for n in 0..MOST as u64 {
        call(&mut balancer, at(n), n, &[]);
    }
    balancer.set_settings(SessionSettings { max_sessions: 10, ..SessionSettings::default() });
    for n in 0..90 {
        call(&mut balancer, at(200), 1_000 + n, &[]);
    }
    assert_eq!(balancer.counts(), TableCounts { active: 10, expired: 0 });
}

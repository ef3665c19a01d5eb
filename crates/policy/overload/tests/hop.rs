//! Rules of RFC 7339 and 7415 for both ends of hop-by-hop feedback.

use base::{Instant, Rng};
use core::time::Duration;
use overload::hop::{ClientLimit, Feedback, HopReceiver, HopSender, ReceiverLaw, RequestOutcome};
use overload::local::occupancy;
use overload::signal::HostLoad;
use overload::{MessageClass, Scope};
use rand::Rng as _;

const SECOND: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn feedback(limit: Option<ClientLimit>, sequence: u64) -> Feedback {
    Feedback { limit, validity: limit.map_or(Duration::ZERO, |_| SECOND), sequence }
}

/// Number of INVITEs sent among 1000 new ones at one moment; each is confirmed at once.
fn sent(sender: &mut HopSender, now: Instant, rng: &mut Rng) -> usize {
    (0..1_000)
        .filter(|_| {
            let sent = sender.judge(now, MessageClass::NewInvite, 1.0, rng).is_accept();
            if sent {
                sender.on_settled(now, RequestOutcome::Answered);
            }
            sent
        })
        .count()
}

#[test]
fn a_limit_holds_until_its_validity_ends_or_the_server_ends_it() {
    let mut rng = Rng::from_seed(1);
    let mut sender = HopSender::new(Scope::NewRequests);
    assert_eq!(sent(&mut sender, at(0), &mut rng), 1_000, "without feedback every request is sent");
    sender.on_feedback(at(0), &feedback(Some(ClientLimit::Loss(0.0)), 5), &mut rng);
    assert_eq!(sent(&mut sender, at(999), &mut rng), 0);
    assert_eq!(sent(&mut sender, at(1_000), &mut rng), 1_000, "RFC 7339 §5.7, event 1");
    sender.on_feedback(at(1_000), &feedback(Some(ClientLimit::Loss(0.0)), 6), &mut rng);
    sender.on_feedback(at(1_001), &feedback(None, 7), &mut rng);
    assert_eq!(sent(&mut sender, at(1_002), &mut rng), 1_000, "event 2");
}

#[test]
fn values_out_of_order_are_ignored_unless_the_numbers_restarted() {
    let mut rng = Rng::from_seed(1);
    let mut sender = HopSender::new(Scope::NewRequests);
    let number = 100_000_000;
    sender.on_feedback(at(0), &feedback(Some(ClientLimit::Loss(0.0)), number), &mut rng);
    for tardy in [number, number - 1, number - 3_000_000] {
        sender.on_feedback(at(500), &feedback(None, tardy), &mut rng);
        assert_eq!(sent(&mut sender, at(500), &mut rng), 0, "{tardy}");
    }
    // The same number does not renew the validity (RFC 7339 §5.4).
    sender.on_feedback(at(900), &feedback(Some(ClientLimit::Loss(0.0)), number), &mut rng);
    assert_eq!(sent(&mut sender, at(1_000), &mut rng), 1_000);
    sender.on_feedback(at(1_100), &feedback(Some(ClientLimit::Loss(0.0)), number + 1), &mut rng);
    sender.on_feedback(at(1_200), &feedback(None, 1), &mut rng);
    assert_eq!(sent(&mut sender, at(1_200), &mut rng), 1_000, "§4.4: an overflow");
    // The end of a control has a number too: feedback sent before it is late.
    sender.on_feedback(at(1_300), &feedback(None, number + 9), &mut rng);
    sender.on_feedback(at(1_400), &feedback(Some(ClientLimit::Loss(0.0)), number + 8), &mut rng);
    assert_eq!(sent(&mut sender, at(1_400), &mut rng), 1_000);
}

#[test]
fn at_the_edge_the_smaller_of_the_two_fractions_counts() {
    let mut rng = Rng::from_seed(1);
    let mut sender = HopSender::new(Scope::NewRequests);
    sender.on_feedback(at(0), &feedback(Some(ClientLimit::Loss(0.5)), 1), &mut rng);
    let mut taken = |own| {
        (0..10_000)
            .filter(|_| sender.judge(at(0), MessageClass::NewInvite, own, &mut rng).is_accept())
            .count()
    };
    assert!(taken(1.0).abs_diff(5_000) < 200 && taken(0.8).abs_diff(5_000) < 200);
    assert!(taken(0.2).abs_diff(2_000) < 200);
}

#[test]
fn the_scope_decides_which_requests_a_limit_counts() {
    let mut rng = Rng::from_seed(1);
    for (scope, expected) in [(Scope::NewRequests, 100), (Scope::AllRequests, 35)] {
        let mut sender = HopSender::new(scope);
        sender.on_feedback(at(0), &feedback(Some(ClientLimit::Rate(100.0)), 1), &mut rng);
        let mut invites = 0_usize;
        for millis in 0..900 {
            let now = at(millis);
            if sender.judge(now, MessageClass::NewInvite, 1.0, &mut rng).is_accept() {
                invites += 1;
                // Each INVITE is followed by its ACK and BYE, which pass any limit.
                for _ in 0..2 {
                    assert!(sender.judge(now, MessageClass::Closing, 1.0, &mut rng).is_accept());
                }
            }
        }
        assert!(invites.abs_diff(expected) <= 8, "{scope:?}: {invites}");
    }
}

#[test]
fn a_window_opens_only_as_fast_as_requests_are_confirmed() {
    let mut rng = Rng::from_seed(1);
    let mut sender = HopSender::new(Scope::NewRequests);
    let burst = |sender: &mut HopSender, rng: &mut Rng| {
        (0..1_000).filter(|_| sender.judge(at(1), MessageClass::NewInvite, 1.0, rng).is_accept()).count()
    };
    sender.on_feedback(at(0), &feedback(Some(ClientLimit::Window(2.0)), 1), &mut rng);
    assert_eq!(burst(&mut sender, &mut rng), 1, "without requests under way the window starts with one");
    sender.on_feedback(at(1), &feedback(Some(ClientLimit::Window(50.0)), 2), &mut rng);
    let mut under_way = 1;
    let mut bursts = Vec::new();
    for _ in 0..7 {
        (0..under_way).for_each(|_| sender.on_settled(at(1), RequestOutcome::Answered));
        under_way = burst(&mut sender, &mut rng);
        bursts.push(under_way);
    }
    assert_eq!(bursts, [2, 4, 8, 16, 32, 50, 50]);
    sender.on_feedback(at(2), &feedback(Some(ClientLimit::Window(3.0)), 3), &mut rng);
    (0..47).for_each(|_| sender.on_settled(at(2), RequestOutcome::Answered));
    assert_eq!((burst(&mut sender, &mut rng), sender.under_way()), (0, 3), "a smaller window counts at once");
}

#[test]
fn a_server_that_never_answers_gets_only_probes() {
    let mut rng = Rng::from_seed(1);
    let mut sender = HopSender::new(Scope::NewRequests);
    (0..3).for_each(|_| sender.on_settled(at(0), RequestOutcome::Silent));
    assert_eq!(sent(&mut sender, at(500), &mut rng), 0);
    assert_eq!(sent(&mut sender, at(1_000), &mut rng), 1, "one probe");
    assert!(sender.judge(at(1_000), MessageClass::Closing, 1.0, &mut rng).is_accept());
    sender.on_response();
    assert_eq!(sent(&mut sender, at(1_100), &mut rng), 1_000);
}

#[test]
fn the_numbers_of_a_receiver_grow_and_its_control_ends_with_validity_zero() {
    let mut receiver = HopReceiver::<u8>::new(
        ReceiverLaw::Loss(occupancy::OccupancySettings::default()),
        Scope::NewRequests,
    );
    let mut last = receiver.feedback();
    assert_eq!((last.limit, last.validity), (None, Duration::ZERO));
    for (second, utilisation) in (1..).zip([1.0, 1.0, 0.9, 0.0]) {
        receiver.on_period(at(second * 1_000), &HostLoad { utilisation, ..HostLoad::default() });
        let feedback = receiver.feedback();
        assert!(feedback.sequence > last.sequence);
        assert_eq!(feedback.limit.is_some(), second < 4);
        assert_eq!(feedback.validity.is_zero(), second == 4);
        last = feedback;
    }
}

#[test]
fn a_neighbour_that_goes_leaves_its_share_to_the_others() {
    let mut receiver = HopReceiver::new(ReceiverLaw::Rate, Scope::NewRequests);
    let busy = HostLoad {
        utilisation: 1.0,
        queue: 20,
        wait: Duration::from_millis(20),
        standing: Duration::from_millis(41),
    };
    let mut shares = Vec::new();
    for period in 1..=300_u64 {
        for _ in 0..8 {
            receiver.on_arrival(at(period * 100), 1, MessageClass::NewInvite);
            if period <= 100 {
                receiver.on_arrival(at(period * 100), 2, MessageClass::NewInvite);
            }
        }
        (0..16).for_each(|_| receiver.on_served(MessageClass::NewInvite));
        receiver.on_period(at(period * 100), &busy);
        assert_eq!(
            receiver.neighbours(),
            if period < 200 { 2 } else { 1 },
            "forgotten after 10 s of silence"
        );
        if let Some(ClientLimit::Rate(rate)) = receiver.feedback().limit {
            shares.push(rate);
        }
    }
    assert!((shares[98] - 80.0).abs() < 1.0, "half of 160 for each: {}", shares[98]);
    assert!((shares[299] - 160.0).abs() < 1.0, "all of 160: {}", shares[299]);
}

#[test]
fn a_fraction_follows_a_step_of_the_load_in_some_periods() {
    let mut receiver = HopReceiver::new(ReceiverLaw::Rate, Scope::NewRequests);
    let wait = Duration::from_millis(41);
    let busy = HostLoad { utilisation: 1.0, queue: 20, wait, standing: wait };
    let mut fraction = 1.0;
    for period in 1..=20_u64 {
        // Sixteen of 64 offered requests can be served in a period.
        for _ in 0..(64.0 * fraction) as u32 {
            receiver.on_arrival(at(period * 100), 1, MessageClass::NewInvite);
        }
        (0..16).for_each(|_| receiver.on_served(MessageClass::NewInvite));
        receiver.on_period(at(period * 100), &busy);
        let Some(ClientLimit::Loss(limit)) = receiver.loss_feedback(1).limit else { continue };
        fraction = limit;
    }
    assert!((0.2..0.27).contains(&fraction), "{fraction}");
}

/// A server refuses for ten seconds every request that its window lets in; returns the number.
fn refused(sender: &mut HopSender, rng: &mut Rng) -> usize {
    let mut asked = 0;
    for millis in 0..10_000_u64 {
        if millis % 100 == 0 {
            sender.on_feedback(at(millis), &feedback(Some(ClientLimit::Window(1.0)), millis + 1), rng);
        }
        // More calls wait than are ever admitted, and the 503 comes at once.
        for _ in 0..10 {
            if sender.judge(at(millis), MessageClass::NewInvite, 1.0, rng).is_accept() {
                asked += 1;
                sender.on_response();
                sender.on_settled(at(millis), RequestOutcome::Refused);
            }
        }
    }
    asked
}

#[test]
fn refusals_do_not_clock_a_window_and_a_closed_window_opens_again() {
    let mut rng = Rng::from_seed(1);
    let mut sender = HopSender::new(Scope::NewRequests);
    let asked = refused(&mut sender, &mut rng);
    assert!((10..=16).contains(&asked), "six at first, then one a second: {asked}");
    assert_eq!(sender.under_way(), 0);
    // After a second at most one request is admitted, and its answer opens the window for good.
    sender.on_feedback(at(10_000), &feedback(Some(ClientLimit::Window(8.0)), 10_001), &mut rng);
    let now =
        (10_000..11_001).find(|ms| sender.judge(at(*ms), MessageClass::NewInvite, 1.0, &mut rng).is_accept());
    let now = at(now.expect("a window opens again"));
    sender.on_settled(now, RequestOutcome::Answered);
    assert_eq!(sent(&mut sender, now, &mut rng), 1_000);
}

/// The three laws as a server runs them.
fn laws() -> [ReceiverLaw; 3] {
    [ReceiverLaw::Loss(occupancy::OccupancySettings::default()), ReceiverLaw::Rate, ReceiverLaw::Window]
}

/// Half a minute of any load and any outcomes between a server and four neighbours.
fn storm(receiver: &mut HopReceiver<u8>, senders: &mut [HopSender; 4], rng: &mut Rng) {
    for millis in (0..30_000).step_by(10) {
        let now = at(millis);
        for (sender, number) in senders.iter_mut().zip(0..) {
            if !sender.judge(now, MessageClass::NewInvite, 1.0, rng).is_accept() {
                continue;
            }
            let from = number;
            let outcome = match rng.random_range(0..4) {
                0 => RequestOutcome::Refused,
                1 => RequestOutcome::Silent,
                2 => RequestOutcome::NotSent,
                _ => RequestOutcome::Answered,
            };
            if outcome != RequestOutcome::Refused {
                receiver.on_arrival(now, from, MessageClass::NewInvite);
                receiver.on_confirmed(from);
            }
            if rng.random_bool(0.5) {
                receiver.on_served(MessageClass::NewInvite);
            }
            sender.on_feedback(now, &receiver.feedback(), rng);
            sender.on_settled(now, outcome);
        }
        if now.as_nanos().is_multiple_of(receiver.period().as_nanos() as u64) {
            let (utilisation, wait) = (rng.random_range(0.5..1.0), rng.random_range(0..1_000));
            receiver.on_period(
                now,
                &HostLoad {
                    utilisation,
                    queue: 0,
                    wait: Duration::from_millis(wait),
                    standing: Duration::from_millis(wait),
                },
            );
        }
    }
}

#[test]
fn every_law_recovers_from_any_history() {
    for (law, seed) in laws().into_iter().flat_map(|law| (0..20).map(move |seed| (law, seed))) {
        let mut rng = Rng::from_seed(seed);
        let mut receiver = HopReceiver::new(law, Scope::NewRequests);
        let mut senders = [0; 4].map(|_| HopSender::new(Scope::NewRequests));
        storm(&mut receiver, &mut senders, &mut rng);
        // The server is idle, and admitted requests are answered.
        let mut free = [None; 4];
        for millis in (30_000..75_000).step_by(10) {
            let now = at(millis);
            for (sender, free) in senders.iter_mut().zip(&mut free) {
                let sent = (0..10)
                    .filter(|_| sender.judge(now, MessageClass::NewInvite, 1.0, &mut rng).is_accept())
                    .count();
                for _ in 0..sent {
                    sender.on_feedback(now, &receiver.feedback(), &mut rng);
                    sender.on_response();
                    sender.on_settled(now, RequestOutcome::Answered);
                }
                *free = if sent == 10 { free.or(Some(millis)) } else { None };
            }
            if now.as_nanos().is_multiple_of(receiver.period().as_nanos() as u64) {
                receiver.on_period(now, &HostLoad::default());
            }
        }
        // A probe of a silent server waits for 32 s at most.
        assert!(free.iter().all(Option::is_some), "{law:?} {seed}: {free:?}");
        assert!(senders.iter().all(|sender| sender.under_way() == 0));
        assert_eq!(receiver.feedback().limit, None, "{law:?} {seed}");
    }
}

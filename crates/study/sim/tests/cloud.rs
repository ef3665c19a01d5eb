//! The model of a cluster in a cloud: checks of its own laws, so that figures made with it are meaningful.

use core::time::Duration;
use elastic::estimate::EstimatorSettings;
use elastic::queue::{LengthSettings, MemberChoice, QueueSettings};
use elastic::scale::{ScaleSettings, ScalingDecision};
use load::{ArrivalPlan, ArrivalProcess, RateStep};
use sim::cloud::{
    Announcing, CallTimes, CloudHost, CloudPlan, CloudServers, Database, Front, Neighbours, PROXY, Resource,
    Vantage, run,
};
use sim::engine::TimeSpread;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Two servers of 100 calls/s without neighbours.
fn plan(rate: f64) -> CloudPlan {
    let queue = QueueSettings {
        choice: MemberChoice::MostRoom,
        length: LengthSettings { delay: seconds(1), least: 8, most: 1_000 },
        bound: seconds(1),
        ..QueueSettings::default()
    };
    CloudPlan {
        arrivals: ArrivalPlan::steady(ArrivalProcess::Poisson, rate),
        calls: CallTimes { way: Duration::from_millis(20), ringing: seconds(1), talking: seconds(5) },
        from: seconds(30),
        to: seconds(150),
        host: CloudHost { rate: 100.0, work: PROXY, spread: TimeSpread::Fixed, pauses: None, card: None },
        neighbours: Vec::new(),
        database: None,
        servers: CloudServers::Fixed(2),
        front: Front::Queue(Box::new(queue)),
        announcing: Announcing::Fixed(1_000.0),
        measured: Vantage::Server,
    }
}

fn neighbours(resource: Resource, (from, to): (u64, u64), share: f64) -> Neighbours {
    Neighbours { resource, when: vec![(seconds(from), seconds(to))], share, steal: None }
}

/// Fixed service times at a processor that is half busy: the mean wait is that of M/D/1, and a call has six messages.
#[test]
fn latency_is_that_of_a_queue() {
    let mut plan = plan(50.0);
    plan.servers = CloudServers::Fixed(1);
    plan.to = seconds(1_000);
    let results = run(&plan, 1);
    let service = 1.0 / 600.0;
    // M/D/1 at half load: one and a half service times.
    let mean = results.latency.mean().as_secs_f64();
    assert!((mean / (1.5 * service) - 1.0).abs() < 0.05, "{mean}");
    assert_eq!((results.lost, results.seconds.len()), (0, 1_000));
    assert!((results.carried as f64 - 50.0 * 970.0).abs() < 1_000.0, "{}", results.carried);
}

/// Servers get the rate that they announce; further calls are refused.
#[test]
fn servers_get_the_announced_rate() {
    let mut plan = plan(150.0);
    plan.announcing = Announcing::Fixed(40.0);
    let results = run(&plan, 1);
    let rate = results.carried as f64 / 120.0;
    assert!((79.0..81.0).contains(&rate), "{rate}");
    assert!(results.set_up.percentile(100.0) < Duration::from_millis(1_100));
    assert!(results.latency.percentile(99.0) < Duration::from_millis(30));
}

/// A neighbour that takes most of the processor slows every message; the estimator sends calls to the other server.
#[test]
fn neighbours_slow_a_server_and_the_queue_avoids_it() {
    let mut plan = plan(80.0);
    plan.neighbours = vec![neighbours(Resource::Processor, (60, 120), 0.8)];
    let even = run(&plan, 1);
    let settings = EstimatorSettings {
        threshold: Duration::from_millis(25),
        maximum: 90.0,
        ..EstimatorSettings::default()
    };
    plan.announcing = Announcing::Estimated(Box::new(settings));
    let estimated = run(&plan, 1);
    assert!(even.seconds[90].p95 > Some(Duration::from_millis(100)), "{:?}", even.seconds[90]);
    let p95 = |results: &sim::cloud::CloudResults| results.latency.percentile(95.0);
    assert!(p95(&estimated) < p95(&even) / 5, "{:?} {:?}", p95(&estimated), p95(&even));
    assert!(even.seconds[10].p95 < Some(Duration::from_millis(20)));
}

/// A neighbour leaves one of two servers a twentieth of its processor for 12 s. With credit alone, the server still
/// gets half of the calls; a bound on unanswered calls gives it fewer. With least work and the bound, the queue
/// performs as well as TLWL, with and without the neighbour.
#[test]
fn a_queue_with_a_bound_on_unanswered_calls_is_as_good_as_tlwl() {
    let mut plan = plan(40.0);
    plan.to = seconds(90);
    // No BYE occurs: the model reports a BYE to the queue only at its end, but to TLWL at its arrival.
    plan.calls.talking = seconds(3_600);
    plan.announcing = Announcing::Fixed(100.0);
    let Front::Queue(usual) = plan.front.clone() else { panic!("it has a queue") };
    let queue = |choice, threshold| Front::Queue(Box::new(QueueSettings { choice, threshold, ..*usual }));
    let threshold = Some(Duration::from_millis(20));
    let fronts = [
        Front::Tlwl,
        queue(MemberChoice::MostRoom, None),
        queue(MemberChoice::MostRoom, threshold),
        queue(MemberChoice::Tlwl, threshold),
    ];
    // Several seeds together: the 99th percentile of one run depends on a few dozen calls.
    let p99 = |neighbours: Vec<Neighbours>| {
        fronts.clone().map(|front| {
            let plan = CloudPlan { front, neighbours: neighbours.clone(), ..plan.clone() };
            let runs = (1..6).map(|seed| run(&plan, seed));
            runs.inspect(|results| assert_eq!(results.lost, 0))
                .map(|results| results.set_up.percentile(99.0))
                .sum::<Duration>()
        })
    };
    let [tlwl, credit, bounded, both] = p99(vec![neighbours(Resource::Processor, (40, 52), 0.95)]);
    let all = format!("{tlwl:?} {credit:?} {bounded:?} {both:?}");
    assert!(bounded < credit.mul_f64(0.6) && both < credit / 10 && both <= tlwl.mul_f64(1.1), "{all}");
    let [tlwl, _, _, both] = p99(Vec::new());
    assert!(both <= tlwl.mul_f64(1.1), "{tlwl:?} {both:?}");
}

/// The scaler starts servers, which takes time, and stops them again; the same seed gives the same run.
#[test]
fn servers_are_started_and_stopped() {
    let mut plan = plan(0.0);
    let step = |at, rate| RateStep { at: seconds(at), rate, ramp: false };
    plan.arrivals.steps = vec![step(0, 30.0), step(300, 200.0), step(1_200, 30.0)];
    plan.to = seconds(3_600);
    plan.announcing = Announcing::Fixed(80.0);
    let settings = ScaleSettings { capacity: 80.0, spare: 0, trend_most: 1.0, ..ScaleSettings::default() };
    plan.servers =
        CloudServers::Scaled { settings: Box::new(settings), first: 1, step: seconds(5), start: seconds(90) };
    let results = run(&plan, 1);
    let ready = |second: usize| results.seconds[second].ready;
    assert_eq!((ready(299), ready(380), ready(3_590)), (1, 1, 1));
    assert!((3..=4).contains(&ready(800)), "{}", ready(800));
    let most = results.seconds.iter().map(|second| second.paid).max();
    assert_eq!(most, Some(ready(800)));
    assert_eq!(results.seconds[3_590].paid, 1);
    let stops =
        results.decisions.iter().filter(|(_, decision)| matches!(decision, ScalingDecision::Stop(_))).count();
    assert_eq!(stops, ready(800) - 1);
    // Calls are lost while servers start, and not afterwards.
    let lost =
        |from: usize, to: usize| results.seconds[from..to].iter().map(|second| second.lost).sum::<u64>();
    assert!(lost(300, 400) > 5_000 && lost(420, 3_600) == 0, "{} {}", lost(300, 400), lost(420, 3_600));
    let again = run(&plan, 1);
    assert_eq!(results.seconds, again.seconds);
    assert_ne!(results.seconds, run(&plan, 2).seconds);
}

/// A neighbour on the first server's network card: callers wait for the card in both directions. A monitor on the
/// server does not see the wait, and its processor is not affected.
#[test]
fn waits_at_a_shared_card_are_measured_in_front() {
    let mut plan = plan(40.0);
    plan.host.card = Some(10_000.0);
    plan.neighbours = vec![neighbours(Resource::Card, (60, 120), 0.98)];
    let server = run(&plan, 1);
    plan.measured = Vantage::Front;
    let front = run(&plan, 1);
    let mean = |results: &sim::cloud::CloudResults, from: usize, to: usize| {
        let p95 = results.seconds[from..to].iter().filter_map(|second| second.p95);
        p95.sum::<Duration>() / (to - from) as u32
    };
    // Six messages of 20 calls/s, 5 ms each on the rest of the card: 60 % of a card that each message passes twice.
    let inside = [mean(&server, 61, 119), mean(&front, 61, 119)];
    let outside = [mean(&server, 31, 59), mean(&front, 31, 59)];
    assert!(inside[1] > inside[0] + Duration::from_millis(10), "{inside:?}");
    assert!(inside[0] < outside[0] * 2 && outside[1] < outside[0] + Duration::from_millis(1), "{outside:?}");
    assert_eq!(
        (server.lost, server.set_up.mean()),
        (0, front.set_up.mean()),
        "the place of the measurement changes nothing"
    );
}

/// Messages dropped by a card are sent again, and calls that find a database full are lost. No call is lost twice or
/// never ends.
#[test]
fn dropped_messages_are_sent_again_and_each_call_is_lost_at_most_once() {
    let mut plan = plan(150.0);
    plan.front = Front::Tlwl;
    plan.host.rate = 400.0;
    plan.calls.talking = seconds(1);
    plan.host.card = Some(2_000.0);
    // The rest of the cards carries 400 messages a second in each direction of 450 offered, for half a minute.
    plan.neighbours = vec![neighbours(Resource::Card, (60, 90), 0.8); 2];
    let results = run(&plan, 1);
    assert_eq!(results.lost, 0);
    assert!(
        results.set_up.percentile(99.0) > Duration::from_millis(500),
        "{:?}",
        results.set_up.percentile(99.0)
    );
    let is_over =
        |results: &sim::cloud::CloudResults| results.offered.abs_diff(results.carried + results.lost);
    assert!(is_over(&results) < 100, "{}", is_over(&results));

    plan.host.card = None;
    plan.neighbours.clear();
    let busy = vec![neighbours(Resource::Processor, (60, 90), 0.5)];
    plan.database =
        Some(Database { is_shared: true, rate: 200.0, spread: TimeSpread::Fixed, neighbours: busy });
    let results = run(&plan, 1);
    // 50 calls/s too many for 30 s; a thousand of them may wait.
    assert!((300..700).contains(&results.lost), "{}", results.lost);
    assert!(is_over(&results) < 100, "{} {}", is_over(&results), results.lost);
}

/// A database shared by all servers is slow for all of them. If each server has its own and the first is slow, the
/// other servers are not affected. A server's latency includes the wait for its database, wherever it is measured.
#[test]
fn a_server_waits_for_its_database() {
    let mut plan = plan(80.0);
    let slow = vec![neighbours(Resource::Processor, (60, 120), 0.75)];
    plan.announcing = Announcing::Fixed(100.0);
    let with = |is_shared, measured| {
        let database =
            Database { is_shared, rate: 400.0, spread: TimeSpread::Exponential, neighbours: slow.clone() };
        let plan = CloudPlan { database: Some(database), measured, ..plan.clone() };
        let results = run(&plan, 1);
        let p95 = |at: usize| results.seconds[at..at + 20].iter().filter_map(|second| second.p95).max();
        (p95(35).expect("calls came"), p95(70).expect("calls came"), results.lost)
    };
    // 80 calls/s for 100 that the database still serves, or 40 with two databases.
    let [shared, own] = [true, false].map(|is_shared| with(is_shared, Vantage::Server));
    assert!(shared.0 < Duration::from_millis(40) && shared.1 > shared.0 * 3, "{shared:?}");
    assert!(own.1 > own.0 && own.1 < shared.1, "{own:?} {shared:?}");
    assert_eq!((shared, own), (with(true, Vantage::Front), with(false, Vantage::Front)));
}

//! A simulated pool: servers take time to start, calls take time to end, and the driver may fail. The fleet's requests
//! are carried out and checked here.

use super::advice::Advice;
use super::driver::{DriverServer, Listing, ServerSet};
use super::fleet::{Fleet, News, Order};
use super::server_list::{ListedServer, ServerList};
use super::view::{MemberLoad, PoolView};
use crate::membership::Drains;
use base::Instant;
use core::time::Duration;
use elastic::scale::{ScaleSettings, ScalingDecision, ServerId, ServerState, StartSettings};

/// Returns a member with this name at 127.0.0.`host`.
pub(super) fn member(name: &str, host: u8) -> MemberLoad {
    MemberLoad {
        name: name.to_owned(),
        address: ([127, 0, 0, host], 5060).into(),
        is_up: true,
        since: Instant::ZERO,
        has_answered: true,
        drains: Drains::default(),
        work: 0,
        weight: 1.0,
        capacity: None,
    }
}

const STEP: Duration = Duration::from_secs(2);
/// Time after which a silent member is known to be dead.
const DETECTION: Duration = Duration::from_secs(6);
/// Duration of a server's start, and of a call.
const START: Duration = Duration::from_secs(20);
const CALL: Duration = Duration::from_secs(30);

fn settings() -> ScaleSettings {
    ScaleSettings {
        least: 1,
        most: 4,
        choices: Some(4),
        spare: 0,
        capacity: 10.0,
        smoothing: Duration::from_secs(4),
        calm: Duration::from_mins(1),
        drain_gap: Duration::from_secs(10),
        idle: Duration::from_secs(20),
        start: StartSettings { time: START, time_max: Duration::from_mins(1), ..StartSettings::default() },
        ..ScaleSettings::default()
    }
}

fn names() -> Vec<String> {
    (0..4).map(|index| format!("server-{index}")).collect()
}

fn server_list() -> ServerList {
    let listed = |name: String| ListedServer { text: name.clone(), name };
    ServerList::Listed(names().into_iter().map(listed).collect())
}

/// True state of a server.
#[derive(Clone, Copy, Default)]
struct Machine {
    /// Start time of the server; `None` if it does not run.
    since: Option<Instant>,
    is_broken: bool,
    /// Last state that probes have shown, and when it changed.
    seen_up: bool,
    seen_at: Instant,
    /// Number of steps in a row in which it was down but shown as up.
    unseen: usize,
    drains: Drains,
    calls: f64,
}

struct World {
    now: Instant,
    fleet: Fleet,
    machines: [Machine; 4],
    arrivals: f64,
    /// Whether the driver answers, and whether it can list the running servers.
    is_driver_up: bool,
    lists: bool,
    /// Running servers that the list leaves out, and servers that the driver knows to be ending.
    gaps: Vec<u32>,
    ending: Vec<u32>,
    /// Whether no probe has been sent yet.
    is_unasked: bool,
    /// Server whose calls never end.
    stuck: Option<usize>,
    orders: Vec<String>,
    news: Vec<News>,
    /// Fixed list that the driver returns instead of the running servers.
    said: Option<Vec<u32>>,
    /// Servers whose drain was undone.
    undrained: Vec<usize>,
}

impl World {
    fn new(running: usize, lists: bool) -> Self {
        let mut machines = [Machine { seen_up: true, ..Machine::default() }; 4];
        for machine in &mut machines[..running] {
            machine.since = Some(Instant::ZERO);
        }
        let now = Instant::from_millis(100_000);
        let fleet = Fleet::new(now, settings(), server_list(), Some(DETECTION));
        let (arrivals, orders) = (0.0, Vec::new());
        Self {
            now,
            fleet,
            machines,
            arrivals,
            is_driver_up: true,
            lists,
            gaps: Vec::new(),
            ending: Vec::new(),
            news: Vec::new(),
            is_unasked: false,
            stuck: None,
            orders,
            said: None,
            undrained: Vec::new(),
        }
    }

    fn is_up(&self, index: usize) -> bool {
        let machine = &self.machines[index];
        !machine.is_broken && machine.since.is_some_and(|since| self.now - since >= START)
    }

    /// Replaces the scaler; servers and their known state stay.
    fn reload(&mut self) {
        self.fleet = Fleet::new(self.now, settings(), server_list(), Some(DETECTION));
    }

    /// Replaces the process by one that knows nothing of the servers.
    fn restart(&mut self) {
        self.reload();
        for machine in &mut self.machines {
            (machine.drains.scaler, machine.seen_up) = (false, true);
        }
    }

    /// Makes a step with this number of calls a second.
    fn step(&mut self, rate: f64) {
        self.now += STEP;
        self.calls(rate);
        for index in 0..4 {
            let is_up = self.is_up(index);
            let machine = &mut self.machines[index];
            // An answer is noticed at once, silence after a while.
            machine.unseen = if machine.seen_up && !is_up { machine.unseen + 1 } else { 0 };
            if machine.seen_up != is_up && (is_up || machine.unseen >= 2) {
                (machine.seen_up, machine.seen_at) = (is_up, self.now);
            }
        }
        let view = self.view();
        if self.is_driver_up {
            let runs = |index: &u32| self.machines[*index as usize].since.is_some();
            let running = (0..4).filter(runs).filter(|index| !self.gaps.contains(index)).collect();
            let running = self.said.clone().unwrap_or(running);
            let running = if self.lists { ServerSet::Numbered(running) } else { ServerSet::Unknown };
            let ending = ServerSet::Numbered(self.ending.clone());
            self.fleet.on_listed(self.now, Listing { running, ending });
        }
        let mut orders = Vec::new();
        self.fleet.step(&view, &mut orders);
        for order in orders {
            self.carry_out(&order);
        }
    }

    fn calls(&mut self, rate: f64) {
        self.arrivals += rate * STEP.as_secs_f64();
        let taking: Vec<_> = self.taking();
        let part = STEP.as_secs_f64() / CALL.as_secs_f64();
        for index in 0..4 {
            let is_stuck = self.stuck == Some(index);
            let machine = &mut self.machines[index];
            machine.calls -= if is_stuck { 0.0 } else { (machine.calls * part).max(1.0).min(machine.calls) };
            if taking.contains(&index) {
                machine.calls += rate * STEP.as_secs_f64() / taking.len() as f64;
            }
        }
    }

    fn view(&self) -> PoolView {
        let member = |(index, machine): (usize, &Machine)| MemberLoad {
            is_up: machine.seen_up,
            has_answered: !self.is_unasked && machine.seen_up && self.is_up(index),
            since: machine.seen_at,
            drains: machine.drains,
            work: machine.calls.round() as u64,
            ..member(&names()[index], index as u8 + 1)
        };
        let members = self.machines.iter().enumerate().map(member).collect();
        PoolView { now: self.now, arrivals: self.arrivals as u64, members }
    }

    fn carry_out(&mut self, order: &Order) {
        match *order {
            Order::Start(DriverServer { index, count, .. }) => {
                assert!((1..=4).contains(&count), "{count} servers");
                self.orders.push(format!("start {index}"));
                let machine = &mut self.machines[index as usize];
                // A pod that is being deleted is restarted by its controller.
                if self.is_driver_up && !self.ending.contains(&index) {
                    // A start of a server that runs but does not answer is no failure.
                    assert!(machine.since.is_none() || machine.is_broken, "{index} runs already");
                    machine.since = machine.since.or(Some(self.now));
                }
                self.fleet.on_started(self.now, ServerId(index), self.is_driver_up);
            }
            Order::Stop(DriverServer { index, .. }) => {
                self.orders.push(format!("stop {index}"));
                let machine = &mut self.machines[index as usize];
                assert!(machine.drains.scaler && machine.calls < 0.5, "{index} has {} calls", machine.calls);
                if self.is_driver_up {
                    machine.since = None;
                }
                self.fleet.on_stopped(self.now, ServerId(index), self.is_driver_up);
            }
            Order::Drain(address, is_drained) => {
                let std::net::IpAddr::V4(ip) = address.ip() else { panic!("{address}") };
                let index = usize::from(ip.octets()[3]) - 1;
                self.machines[index].drains.scaler = is_drained;
                self.undrained.extend((!is_drained).then_some(index));
            }
            Order::Doubt(_) | Order::List => {}
            Order::Tell(ref news) => self.news.push(news.clone()),
        }
    }

    fn run(&mut self, steps: usize, rate: f64) {
        (0..steps).for_each(|_| self.step(rate));
    }

    fn taking(&self) -> Vec<usize> {
        (0..4).filter(|index| self.is_up(*index) && !self.machines[*index].drains.is_any()).collect()
    }

    fn running(&self) -> usize {
        self.machines.iter().filter(|machine| machine.since.is_some()).count()
    }

    fn state(&self, id: u32) -> Option<ServerState> {
        self.fleet.outlook.scaler.rows().find(|row| row.id == ServerId(id)).map(|row| row.state)
    }
}

/// The checks of `carry_out` matter here: no server is stopped with calls.
#[test]
fn servers_follow_the_load_and_the_last_stops_first() {
    for lists in [true, false] {
        let mut world = World::new(1, lists);
        world.run(10, 5.0);
        assert_eq!((world.taking(), world.running()), (vec![0], 1), "{:?}", world.orders);
        world.run(60, 25.0);
        assert_eq!(world.taking(), [0, 1, 2, 3]);
        assert_eq!(world.orders, ["start 1", "start 2", "start 3"]);
        world.run(400, 2.0);
        assert_eq!((world.taking(), world.running()), (vec![0], 1));
        assert_eq!(world.orders[3..], ["stop 3", "stop 2", "stop 1"], "lists: {lists}");
    }
}

/// Servers that do not run are drained, so that no call goes there.
#[test]
fn running_servers_are_found_again_after_a_restart() {
    for lists in [true, false] {
        let mut world = World::new(1, lists);
        world.run(80, 17.0);
        let running = world.running();
        assert!(running >= 3, "{:?}", world.orders);
        world.orders.clear();
        world.restart();
        world.run(40, 17.0);
        assert_eq!(world.orders, [""; 0], "lists: {lists}");
        assert_eq!((world.taking().len(), world.running()), (running, running));
        assert!(world.machines.iter().all(|machine| machine.since.is_some() != machine.drains.scaler));
    }
}

#[test]
fn nothing_is_done_before_the_running_servers_are_known() {
    let mut world = World::new(2, true);
    world.is_driver_up = false;
    world.run(50, 30.0);
    assert_eq!(world.orders, [""; 0]);
    assert!(world.machines.iter().all(|machine| !machine.drains.scaler));
    world.is_driver_up = true;
    world.run(30, 30.0);
    assert_eq!(world.taking(), [0, 1, 2, 3]);
}

#[test]
fn a_failing_driver_is_asked_again_after_growing_waits() {
    let mut world = World::new(1, true);
    world.run(10, 5.0);
    world.is_driver_up = false;
    world.run(50, 30.0);
    let attempts = world.orders.len();
    // Waits of 10, 20 and 40 seconds, with three servers each.
    assert!((6..=12).contains(&attempts), "{:?}", world.orders);
    assert_eq!(world.taking(), [0], "calls continue at the running server");
    world.is_driver_up = true;
    world.run(60, 30.0);
    assert_eq!(world.taking(), [0, 1, 2, 3]);
}

#[test]
fn a_server_that_breaks_is_started_again_and_gets_no_calls_meanwhile() {
    let mut world = World::new(1, true);
    world.run(60, 25.0);
    world.orders.clear();
    // The process of the server ends.
    (world.machines[1].since, world.machines[1].calls) = (None, 0.0);
    world.run(3, 25.0);
    assert_eq!(
        (world.state(1), world.orders.clone()),
        (Some(ServerState::Starting), vec!["start 1".to_owned()])
    );
    assert!(world.machines[1].drains.scaler);
    world.run(30, 25.0);
    assert_eq!(world.taking(), [0, 1, 2, 3]);
}

/// The driver's list is from before the end. The start does not wait for a correct list.
#[test]
fn a_server_that_ends_is_restarted_even_if_it_is_listed() {
    let mut world = World::new(1, true);
    world.run(20, 5.0);
    assert_eq!((world.taking(), world.orders.len()), (vec![0], 0));
    (world.machines[0].since, world.machines[0].calls) = (None, 0.0);
    world.said = Some(vec![0]);
    world.run(3, 5.0);
    assert_eq!(world.orders, ["start 0"]);
    world.said = None;
    world.run(20, 5.0);
    assert_eq!((world.taking(), world.orders.len()), (vec![0], 1));
}

/// The driver lists machines, and no server comes up in the first one.
#[test]
fn after_a_failed_start_another_server_is_tried() {
    let mut world = World::new(1, true);
    world.machines[0].is_broken = true;
    world.run(60, 5.0);
    assert_eq!(world.orders[..3], ["start 0", "stop 0", "start 1"], "{:?}", world.orders);
    assert_eq!((world.taking(), world.orders.len()), (vec![1], 3));
}

#[test]
fn probes_replace_a_missing_driver_list() {
    let mut world = World::new(1, true);
    world.is_driver_up = false;
    world.fleet.on_list_failed(world.now);
    world.run(2, 5.0);
    assert!(!world.fleet.knows(world.now), "no member has been probed often enough");
    world.run(10, 5.0);
    assert_eq!((world.taking(), world.orders.len()), (vec![0], 0));
    world.run(2, 25.0);
    assert!(world.orders.contains(&"start 1".to_owned()), "{:?}", world.orders);
    // If members are not probed regularly, nothing is known.
    let mut fleet = Fleet::new(world.now, settings(), server_list(), None);
    fleet.on_list_failed(world.now);
    assert!(!fleet.knows(world.now + Duration::from_mins(5)));
}

/// For the driver, a hanging server runs. A start has no effect, the server is given up, stopped once it has no calls,
/// and started again.
#[test]
fn a_server_that_hangs_is_stopped_and_started() {
    let mut world = World::new(1, true);
    world.run(60, 25.0);
    world.orders.clear();
    world.machines[2].is_broken = true;
    world.machines[2].calls = 0.0;
    world.run(60, 25.0);
    assert_eq!(world.orders[..2], ["start 2", "stop 2"], "{:?}", world.orders);
    world.machines[2].is_broken = false;
    world.run(200, 25.0);
    assert_eq!(world.taking(), [0, 1, 2, 3], "{:?}", world.orders);
}

/// As far as is known, the calls of the server may continue.
#[test]
fn a_server_that_hangs_with_calls_is_not_stopped_before_they_are_over() {
    let mut world = World::new(1, true);
    world.run(60, 25.0);
    world.orders.clear();
    (world.machines[2].is_broken, world.stuck) = (true, Some(2));
    assert!(world.machines[2].calls > 1.0);
    world.run(200, 25.0);
    assert_eq!(
        (world.state(2), world.orders.clone()),
        (Some(ServerState::Stopping), vec!["start 2".to_owned()])
    );
    (world.stuck, world.machines[2].calls) = (None, 0.0);
    world.run(60, 25.0);
    assert_eq!(world.orders[1], "stop 2", "{:?}", world.orders);
}

#[test]
fn a_server_whose_calls_do_not_end_is_never_stopped() {
    let mut world = World::new(1, true);
    world.run(60, 25.0);
    world.stuck = Some(3);
    world.run(600, 2.0);
    assert_eq!(world.state(3), Some(ServerState::Draining));
    assert!(!world.orders.contains(&"stop 3".to_owned()), "{:?}", world.orders);
    world.stuck = None;
    world.run(100, 2.0);
    assert!(world.orders.contains(&"stop 3".to_owned()), "{:?}", world.orders);
}

/// A server that has just been stopped counts as up until its probes fail.
#[test]
fn a_just_stopped_server_does_not_count_as_running() {
    let mut world = World::new(2, false);
    world.run(10, 2.0);
    world.undrained.clear();
    world.run(190, 2.0);
    assert_eq!((world.running(), world.orders.clone()), (1, vec!["stop 1".to_owned()]));
    assert_eq!(world.state(1), None);
    world.run(20, 2.0);
    assert_eq!((world.orders.len(), world.undrained.clone()), (1, Vec::new()));
}

/// A server that an operator has started is taken over.
#[test]
fn an_operators_server_is_found_and_stopped_when_not_needed() {
    for lists in [true, false] {
        let mut world = World::new(1, lists);
        world.run(30, 5.0);
        world.machines[2].since = Some(world.now);
        world.run(220, 5.0);
        assert_eq!((world.taking(), world.orders.clone()), (vec![0], vec!["stop 2".to_owned()]));
    }
}

#[test]
fn an_operators_drain_stays_and_another_server_is_started() {
    let mut world = World::new(1, true);
    world.run(30, 12.0);
    assert_eq!(world.taking(), [0, 1]);
    world.machines[0].drains.operator = true;
    world.run(60, 12.0);
    assert_eq!(world.taking(), [1, 2]);
    // Neither another scaler after a reload nor a new process of the server ends the operator's drain.
    world.reload();
    world.run(60, 12.0);
    assert_eq!((world.taking(), world.state(0)), (vec![1, 2], Some(ServerState::Ready)));
    (world.machines[0].since, world.machines[0].calls) = (None, 0.0);
    world.run(60, 25.0);
    assert!(world.orders.contains(&"start 0".to_owned()), "{:?}", world.orders);
    assert_eq!((world.taking(), world.state(0)), (vec![1, 2, 3], Some(ServerState::Ready)));
    assert!(!world.machines[0].drains.scaler);
    world.machines[0].drains.operator = false;
    world.step(25.0);
    assert_eq!(world.taking(), [0, 1, 2, 3]);
}

/// The driver's list is completely wrong, and no server is lost because of it.
#[test]
fn servers_that_answer_stay_even_if_unlisted() {
    let mut world = World::new(1, true);
    world.run(60, 25.0);
    assert_eq!(world.taking(), [0, 1, 2, 3]);
    world.orders.clear();
    world.news.clear();
    world.gaps = vec![0, 1, 2, 3];
    world.run(100, 25.0);
    assert_eq!((world.taking(), world.orders.clone()), (vec![0, 1, 2, 3], Vec::new()));
    let news: Vec<_> = names().into_iter().map(News::Unlisted).collect();
    assert_eq!((&world.news, world.fleet.unlisted()), (&news, names()), "each is reported once");
    // A server that also does not answer is lost.
    (world.machines[1].since, world.machines[1].calls) = (None, 0.0);
    world.run(4, 25.0);
    assert_eq!(world.orders, ["start 1"]);
    world.gaps.clear();
    world.run(60, 25.0);
    assert_eq!((world.taking(), world.fleet.unlisted()), (vec![0, 1, 2, 3], Vec::new()));
}

#[test]
fn after_a_restart_unlisted_servers_that_answer_are_found() {
    let mut world = World::new(1, true);
    world.run(60, 25.0);
    world.orders.clear();
    world.gaps = vec![0, 1, 2, 3];
    world.restart();
    for _ in 0..60 {
        world.step(25.0);
        assert_eq!(world.taking(), [0, 1, 2, 3]);
    }
    assert_eq!(world.orders, [""; 0]);
    // No member has been probed yet.
    world.restart();
    world.is_unasked = true;
    world.run(2, 25.0);
    assert_eq!((world.taking(), world.orders.clone()), (vec![0, 1, 2, 3], Vec::new()));
    world.is_unasked = false;
    world.run(60, 25.0);
    assert_eq!((world.taking(), world.orders.clone()), (vec![0, 1, 2, 3], Vec::new()));
}

/// A pod that is being deleted answers until its end.
#[test]
fn a_server_that_is_ending_gets_no_more_calls() {
    let mut world = World::new(1, true);
    world.run(60, 25.0);
    (world.gaps, world.ending) = (vec![2], vec![2]);
    world.run(2, 25.0);
    assert_eq!((world.taking(), world.fleet.unlisted()), (vec![0, 1, 3], Vec::new()));
    world.run(20, 25.0);
    assert_eq!(world.taking(), [0, 1, 3], "a server that is ending gets no calls");
}

/// A list that is confirmed for some servers takes the others out of service at once.
#[test]
fn after_a_restart_unlisted_servers_get_no_calls() {
    let mut world = World::new(2, true);
    world.is_unasked = true;
    world.run(3, 5.0);
    assert_eq!(world.machines.map(|machine| machine.drains.scaler), [false, false, true, true]);
}

/// A driver may take its time. Until it answers, there is no further request about the same server.
#[test]
fn a_stop_in_progress_is_not_requested_again() {
    let mut fleet = Fleet::new(Instant::ZERO, settings(), server_list(), None);
    let mut view = PoolView::default();
    for (index, name) in names().iter().enumerate().take(2) {
        view.members.push(member(name, index as u8 + 1));
    }
    let mut stops = 0;
    fleet.on_listed(Instant::ZERO, ServerSet::Numbered(vec![0, 1]).into());
    for second in 1..600 {
        view.now = Instant::from_millis(1_000 * second);
        let mut orders = Vec::new();
        fleet.step(&view, &mut orders);
        for order in orders {
            match order {
                Order::Drain(address, is_drained) => {
                    let known = view.members.iter_mut().find(|member| member.address == address);
                    known.expect("a member").drains.scaler = is_drained;
                }
                Order::Stop(server) => {
                    assert_eq!(server.index, 1);
                    stops += 1;
                }
                Order::Start(_) | Order::Doubt(_) | Order::List | Order::Tell(_) => {}
            }
        }
    }
    assert_eq!(stops, 1, "the driver has not answered");
    fleet.on_stopped(view.now, ServerId(1), true);
    assert_eq!(fleet.outlook.wanted(), 1);
}

#[test]
fn decisions_are_reported_by_name() {
    let mut world = World::new(1, true);
    world.run(10, 5.0);
    world.now += STEP;
    world.arrivals += 400.0;
    let view = world.view();
    let mut orders = Vec::new();
    world.fleet.step(&view, &mut orders);
    let news = News::Decided(Some("server-1".to_owned()), ScalingDecision::Start(ServerId(1)));
    assert!(orders.contains(&Order::Tell(news)), "{orders:?}");
    assert!(world.fleet.outlook.short.is_some(), "200 calls/s are too many for four servers");
}

#[test]
fn advice_follows_the_rate_without_servers() {
    let mut advice = Advice::new(Instant::ZERO, ScaleSettings { most: 50, ..settings() });
    let mut view = PoolView { members: vec![member("a", 1), member("b", 2)], ..PoolView::default() };
    let mut wanted = |seconds: u64, rate: u64| {
        for _ in 0..seconds {
            view.now += Duration::from_secs(1);
            view.arrivals += rate;
            advice.step(&view, &mut Vec::new());
        }
        advice.outlook.wanted()
    };
    assert_eq!(wanted(2, 10), 2, "as many servers as there are");
    // 100 calls/s are 80 % of 13 servers with 10 each; the rise was anticipated.
    let risen = wanted(60, 100);
    assert!((13..=17).contains(&risen), "{risen}");
    // 100 calls/s are 70 % of 15 servers.
    let settled = wanted(600, 100);
    assert!((13..=15).contains(&settled), "{settled}");
    assert_eq!(wanted(1_800, 3), 1);
}

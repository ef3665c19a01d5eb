//! The driver that starts and stops the servers of a balancer, and its faults.

use super::host::Role;
use super::{Event, World, Wrapper};
use crate::RunRule;
use crate::plan::{DriverPlan, ScalePlan, answerer_address};
use crate::process::{DriverAnswer, Shown};
use base::{Instant, Rng};
use control::Drains;
use control::scale::{DriverServer, Listing, Order, ServerSet};
use core::time::Duration;
use rand::Rng as _;
use sim::engine::HostIndex;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Timeout of a driver's answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Time after the last call state of a balancer in which all drained servers must have been stopped.
const SETTLED: Duration = Duration::from_mins(1);
/// Time after `SETTLED` in which the scaler must order nothing.
const QUIET: Duration = Duration::from_mins(1);
/// Longest age of a list.
const KEPT: Duration = Duration::from_secs(30);

/// The driver of a site.
pub(super) struct Driver {
    plan: DriverPlan,
    rng: Rng,
    /// By answerer.
    machines: BTreeMap<u16, Machine>,
    /// Earlier states, and when each began.
    past: VecDeque<(Instant, BTreeMap<u16, Machine>)>,
}

/// State of a server at its driver.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Machine {
    /// Running or starting.
    is_on: bool,
    /// Ordered to stop, but still running.
    ends: bool,
    /// Number of the latest order. A start replaces a pending stop, and a stop a pending start.
    order_number: u64,
}

/// Recipient of a driver's answer: host, life of its process, and generation of its scaling.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct AnswerRecipient {
    pub(super) host: HostIndex,
    pub(super) life: u64,
    pub(super) number: u64,
}

/// A pending effect of an order.
#[derive(Clone, Debug)]
pub(super) enum PendingEffect {
    /// A server comes up.
    Up {
        answerer: u16,
        order_number: u64,
    },
    /// A server stops.
    Down {
        answerer: u16,
        order_number: u64,
        by: AnswerRecipient,
    },
    Answers(AnswerRecipient, DriverAnswer),
}

/// Outcome of an order.
enum OrderOutcome {
    Done,
    Fails,
    /// There is no answer. The flag says whether the order is carried out.
    Forgotten(bool),
}

impl Driver {
    pub(super) fn new(scale: &ScalePlan, members: impl Iterator<Item = u16>, rng: Rng) -> Self {
        let machine = |(place, answerer): (usize, u16)| {
            (answerer, Machine { is_on: place < scale.running, ..Machine::default() })
        };
        let machines: BTreeMap<_, _> = members.enumerate().map(machine).collect();
        let past = VecDeque::from([(Instant::ZERO, machines.clone())]);
        Self { plan: scale.driver.clone(), rng, machines, past }
    }

    /// Returns true if a server runs or starts.
    pub(super) fn is_on(&self, answerer: u16) -> bool {
        self.machines.get(&answerer).is_some_and(|machine| machine.is_on)
    }

    fn outcome(&mut self, now: Instant) -> OrderOutcome {
        let is_faulty = now < self.plan.until;
        let (forgets, is_done, fails) = (
            self.rng.random_bool(self.plan.forgets),
            self.rng.random_bool(0.5),
            self.rng.random_bool(self.plan.fails),
        );
        match (is_faulty && forgets, is_faulty && fails) {
            (true, _) => OrderOutcome::Forgotten(is_done),
            (false, true) => OrderOutcome::Fails,
            (false, false) => OrderOutcome::Done,
        }
    }

    /// Records an order for a server in place of an earlier one. Returns its number.
    fn ask(&mut self, now: Instant, answerer: u16, change: impl FnOnce(&mut Machine)) -> u64 {
        let machine = self.machines.entry(answerer).or_default();
        machine.order_number += 1;
        change(machine);
        let order_number = machine.order_number;
        self.note(now);
        order_number
    }

    fn note(&mut self, now: Instant) {
        self.past.push_back((now, self.machines.clone()));
        while self.past.get(1).is_some_and(|(from, _)| now - *from > KEPT) {
            self.past.pop_front();
        }
    }

    /// Returns the driver's list of running servers, which may be wrong.
    fn listing(&mut self, now: Instant) -> Listing {
        if !self.plan.lists {
            return ServerSet::Unknown.into();
        }
        let age = if now < self.plan.until { self.plan.list_age } else { Duration::ZERO };
        let then = self.past.iter().rev().find(|(from, _)| now - *from >= age).or(self.past.front());
        let then = then.map(|(_, machines)| machines.clone()).unwrap_or_default();
        let gaps = if now < self.plan.until { self.plan.gaps } else { 0.0 };
        let (mut running, mut ending) = (Vec::new(), Vec::new());
        for (answerer, machine) in then {
            let name = answerer_address(answerer).to_string();
            if machine.is_on && machine.ends && self.plan.lists_ending {
                ending.push(name);
            } else if machine.is_on && !self.rng.random_bool(gaps) {
                running.push(name);
            }
        }
        let ending = if self.plan.lists_ending { ServerSet::Named(ending) } else { ServerSet::Unknown };
        Listing { running: ServerSet::Named(running), ending }
    }
}

/// Returns the answerer of a server.
fn answerer_of(server: &DriverServer) -> u16 {
    let address: SocketAddr = server.name.parse().expect("members are named by address");
    address.port() - answerer_address(0).port()
}

fn driver_result(is_done: bool) -> Result<(), String> {
    if is_done { Ok(()) } else { Err("simulated failure".to_owned()) }
}

impl<W: Wrapper> World<W> {
    /// Runs the scalers of all sites.
    pub(super) fn scale(&mut self, now: Instant) -> Result<(), String> {
        for site in 0..self.sites.len() as u16 {
            if !self.drivers.contains_key(&site) {
                continue;
            }
            let host = self.plan.process_host(self.plan.first_process(site));
            let it = &mut self.hosts[host as usize];
            let (life, is_stalled) = (it.lives, now < it.stalled_until);
            let Role::Process(Some(process)) = &mut it.role else { continue };
            if is_stalled {
                continue;
            }
            let drainer = self.wrapper.drains_as();
            let (number, orders) = process.scale(now, |orders| self.wrapper.orders(orders), drainer);
            let ready = process.ready_servers();
            self.arm(host);
            if let Some(Shown::Balancer(state)) = self.shown(self.plan.first_process(site)) {
                self.checkers.looked(site, &ready, &state)?;
            }
            for order in orders {
                self.ordered(now, site, AnswerRecipient { host, life, number }, order)?;
            }
        }
        Ok(())
    }

    fn ordered(&mut self, now: Instant, site: u16, by: AnswerRecipient, order: Order) -> Result<(), String> {
        if let Order::Start(_) | Order::Stop(_) = order {
            self.note(|plan| format!("{}: {order:?}", plan.host_name(by.host)));
        }
        self.checkers.ordered((now, by.number), site, &order)?;
        let driver = self.drivers.get_mut(&site).expect("the site has a driver");
        let outcome = driver.outcome(now);
        let answer = driver.plan.answer.sample(&mut driver.rng).min(LIMIT);
        let answer_at = now + if matches!(outcome, OrderOutcome::Forgotten(_)) { LIMIT } else { answer };
        let is_done = !matches!(outcome, OrderOutcome::Fails | OrderOutcome::Forgotten(false));
        let result = driver_result(matches!(outcome, OrderOutcome::Done));
        match order {
            Order::Start(server) => {
                let answerer = answerer_of(&server);
                if is_done {
                    let order_number = driver.ask(now, answerer, |machine| {
                        (machine.is_on, machine.ends) = (true, false);
                    });
                    let in_vain = driver.rng.random_bool(driver.plan.in_vain) && now < driver.plan.until;
                    let up_at = now + driver.plan.start.sample(&mut driver.rng);
                    if !in_vain {
                        self.begin(up_at, PendingEffect::Up { answerer, order_number });
                    }
                }
                self.begin(answer_at, PendingEffect::Answers(by, DriverAnswer::Started(server, result)));
            }
            Order::Stop(server) => {
                let answerer = answerer_of(&server);
                let mut down_at = now;
                if is_done {
                    let order_number = driver.ask(now, answerer, |machine| machine.ends = true);
                    down_at = now + driver.plan.stop.sample(&mut driver.rng);
                    self.begin(down_at, PendingEffect::Down { answerer, order_number, by });
                }
                let answer_at = answer_at.max(down_at);
                self.begin(answer_at, PendingEffect::Answers(by, DriverAnswer::Stopped(server, result)));
            }
            Order::List => {
                let listing = driver.listing(now);
                let listing = result.map(|()| listing);
                self.begin(answer_at, PendingEffect::Answers(by, DriverAnswer::Listed(now, listing)));
            }
            Order::Drain(..) | Order::Doubt(_) | Order::Tell(_) => {}
        }
        Ok(())
    }

    fn begin(&mut self, at: Instant, pending: PendingEffect) {
        let key = self.pending.insert(pending);
        self.queue.at(at, Event::Driver(key));
    }

    /// Completes an order.
    pub(super) fn driver(&mut self, now: Instant, key: u32) -> Result<(), String> {
        self.trace.event(now, 5, key);
        match self.pending.remove(key).expect("each event has a pending effect") {
            PendingEffect::Up { answerer, order_number } => {
                if self.is_current(answerer, order_number) {
                    self.note(|plan| format!("{} is up", plan.answerers[usize::from(answerer)].name));
                    self.counts.servers_started += 1;
                    self.start_answerer(answerer);
                }
            }
            PendingEffect::Down { answerer, order_number, by } => {
                if self.is_current(answerer, order_number) {
                    self.stop_answerer(now, answerer, by)?;
                }
            }
            PendingEffect::Answers(AnswerRecipient { host, life, number }, answer) => {
                let it = &mut self.hosts[host as usize];
                if it.lives == life
                    && let Role::Process(Some(process)) = &mut it.role
                {
                    process.driver_answered(now, number, answer);
                }
            }
        }
        Ok(())
    }

    /// After the traffic, checks that every scaler has the number of servers it needs then and orders nothing more.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        if self.drivers.is_empty() {
            return Ok(());
        }
        self.run_until(self.queue.now() + SETTLED)?;
        self.checkers.rest();
        self.run_until(self.queue.now() + QUIET)?;
        for site in 0..self.sites.len() as u16 {
            self.rest_of(site)?;
        }
        Ok(())
    }

    fn rest_of(&mut self, site: u16) -> Result<(), String> {
        let shown = self.shown(self.plan.first_process(site));
        let scale = self.plan.sites[usize::from(site)].role.scale();
        let Some((Shown::Balancer(state), scale)) = shown.zip(scale) else { return Ok(()) };
        let takes = |(server, drains): &&(SocketAddr, Drains)| !drains.is_any() && self.answers(*server);
        let (taking, running) = (state.drains.iter().filter(takes).count(), self.running(site));
        let wanted = scale.settings.spare.clamp(scale.settings.least, scale.settings.most);
        if (taking, running) == (wanted, wanted) {
            return Ok(());
        }
        Err(RunRule::ServersAfterEnd
            .broken(format_args!("{taking} take calls, {running} run, {wanted} expected")))
    }

    /// Returns the number of running servers of a site.
    fn running(&self, site: u16) -> usize {
        let targets = self.plan.sites[usize::from(site)].role.targets();
        targets.into_iter().filter(|target| self.answers(target.address())).count()
    }

    fn answers(&self, server: SocketAddr) -> bool {
        let host = self.addresses.get(&server).map(|host| &self.hosts[*host as usize].role);
        matches!(host, Some(Role::Answerer { agent: Some(_), .. }))
    }

    fn is_current(&self, answerer: u16, order_number: u64) -> bool {
        let site = self.plan.scaled_by(answerer).map(|(site, _)| site);
        let driver = site.and_then(|site| self.drivers.get(&site));
        driver.is_some_and(|driver| {
            driver.machines.get(&answerer).is_some_and(|it| it.order_number == order_number)
        })
    }

    fn stop_answerer(&mut self, now: Instant, answerer: u16, by: AnswerRecipient) -> Result<(), String> {
        let Some((site, scale)) = self.plan.scaled_by(answerer) else { return Ok(()) };
        let is_refusing = scale.driver.refuses;
        self.counts.servers_stopped += 1;
        if let Some(driver) = self.drivers.get_mut(&site) {
            driver.ask(now, answerer, |machine| (machine.is_on, machine.ends) = (false, false));
        }
        self.note(|plan| format!("{} is stopped", plan.answerers[usize::from(answerer)].name));
        let host = self.plan.answerer_host(answerer);
        if let Role::Answerer { agent, refuses, .. } = &mut self.hosts[host as usize].role {
            (*agent, *refuses) = (None, is_refusing);
        }
        let asker = &self.hosts[by.host as usize];
        let goes_on = asker.lives == by.life && matches!(asker.role, Role::Process(Some(_)));
        self.checkers.stopped(now, site, answerer_address(answerer), goes_on)
    }
}

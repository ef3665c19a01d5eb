//! A host: a processor with its queue, and the role that runs on it.

use super::agents::{Agents, Alarm, Out};
use super::balancer::Balancer;
use super::measure::HostResults;
use super::medium::Router;
use super::message::{HostId, Message, Sent, Start};
use crate::engine::{Admission, Cpu, CpuConfig, Due, Finish, Mark, Priority, Spread, Ticket};
use base::{Instant, Slab};
use config::scenario::{Costs, Group};
use core::time::Duration;
use proxy::{Arrived, Fire, Proxy, Sink};
use transaction::Sending;
use wire::Method;

/// What waits for the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    what: What,
    /// The buffer of what it sends when it is done.
    out: u32,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A message, by its place.
    Message(u32),
    /// A timer, by its place.
    Timer(u32),
}

/// What runs on a host.
pub(crate) enum Role {
    Proxy(Box<Proxy<Router>>, Router),
    Balancer(Box<Balancer>),
    /// The agents answer here.
    Server,
}

/// A host.
pub(crate) struct Host {
    pub(crate) id: HostId,
    pub(crate) role: Role,
    cpu: Cpu<Job>,
    costs: Costs,
    /// Whether its work takes no time.
    free: bool,
    messages: Slab<Message>,
    fires: Slab<Fire>,
    outs: Vec<Vec<Sent>>,
    idle_outs: Vec<u32>,
    /// When the world will look at its timers.
    pub(crate) timers_at: Instant,
    pub(crate) results: HostResults,
    mark: Mark,
}

/// Collects what is sent.
struct Outgoing<'a>(&'a mut Vec<Sent>);

impl Sink<Sent> for Outgoing<'_> {
    fn send(&mut self, message: &Sent, _: Sending) {
        self.0.push(message.clone());
    }
}

/// The far future, where no timer is.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Host {
    pub(crate) fn new(
        id: HostId,
        name: String,
        group: &Group,
        capacity: Option<f64>,
        costs: &Costs,
        role: Role,
        bin: Duration,
        rng: &base::Rng,
    ) -> Self {
        let spread = match &costs.service {
            config::scenario::Service::Deterministic => Spread::Fixed,
            config::scenario::Service::Exponential => Spread::Exponential,
            config::scenario::Service::Table(quantiles) => Spread::Measured(
                crate::engine::QuantileTable::new(quantiles).expect("checked by the scenario"),
            ),
        };
        let workers = usize::from(group.workers);
        let free = capacity.is_none();
        let capacity = capacity.unwrap_or(costs.base_capacity) / costs.base_capacity;
        let config = CpuConfig {
            workers,
            capacity: capacity / workers as f64,
            buffer: group.buffer as usize,
            bounded: [false, false, true, true],
            spread,
            background: group.background,
        };
        let cpu = Cpu::new(config, rng.fork("cpu"));
        let mark = cpu.mark(Instant::ZERO);
        Self {
            id,
            role,
            cpu,
            costs: costs.clone(),
            free,
            messages: Slab::default(),
            fires: Slab::default(),
            outs: Vec::new(),
            idle_outs: Vec::new(),
            timers_at: NEVER,
            results: HostResults::new(name, bin),
            mark,
        }
    }

    fn buffer(&mut self) -> u32 {
        self.idle_outs.pop().unwrap_or_else(|| {
            self.outs.push(Vec::new());
            self.outs.len() as u32 - 1
        })
    }

    /// A message arrives: it waits for the processor, or is lost on a full buffer.
    pub(crate) fn arrive(&mut self, now: Instant, mut message: Message) {
        if let Role::Proxy(_, router) = &mut self.role
            && message.is_request()
        {
            // RFC 3261 §16.4: our own Route value goes.
            if message.is_in_dialog() && message.route.last() == Some(&self.id) {
                message.route.pop();
            }
            router.choose(&mut message, |_| true);
        }
        let what = What::Message(self.messages.insert(message));
        self.enqueue(now, Priority::P3, what);
    }

    fn enqueue(&mut self, now: Instant, class: Priority, what: What) {
        let out = self.buffer();
        match self.cpu.enqueue(now, class, Job { what, out }) {
            Admission::Queued => return,
            Admission::Dropped => self.results.dropped.add(now, 1.0),
            Admission::Coalesced | Admission::Lost => {}
        }
        self.idle_outs.push(out);
        self.forget(what);
    }

    fn forget(&mut self, what: What) {
        match what {
            What::Message(at) => drop(self.messages.remove(at)),
            What::Timer(at) => drop(self.fires.remove(at)),
        }
    }

    /// Begins the next service, if it can.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        agents: &mut Agents,
        alarms: &mut Vec<Alarm>,
    ) -> Option<Due> {
        let Self { cpu, role, messages, fires, outs, costs, free, id, .. } = self;
        cpu.start(now, |job| {
            let out = &mut outs[job.out as usize];
            let cost = match job.what {
                What::Timer(at) => {
                    let fire = fires.remove(at).expect("it was put there to wait");
                    if let Role::Proxy(proxy, router) = role {
                        proxy.fire(now, fire, router, &mut Outgoing(out));
                    }
                    if fire.is_cleanup() { costs.cleanup } else { costs.timer }
                }
                What::Message(at) => {
                    let message = messages.remove(at).expect("it was put there to wait");
                    let work = Work { now, id: *id, role, costs, agents, alarms, out };
                    work.serve(message)
                }
            };
            if *free { Duration::ZERO } else { cost }
        })
    }

    /// A service ends: what it sent leaves.
    pub(crate) fn finish(&mut self, now: Instant, ticket: Ticket, sent: &mut Vec<Sent>) -> Option<Instant> {
        match self.cpu.finish(now, ticket) {
            Finish::Done(served) => {
                sent.append(&mut self.outs[served.job.out as usize]);
                self.idle_outs.push(served.job.out);
                None
            }
            Finish::Later(at) => Some(at),
            Finish::Void => None,
        }
    }

    /// Timers that are due wait for the processor, but for those whose work costs nothing.
    pub(crate) fn timers(&mut self, now: Instant, sent: &mut Vec<Sent>) {
        let Role::Proxy(..) = self.role else {
            if let Role::Balancer(balancer) = &mut self.role {
                balancer.expire(now);
            }
            return;
        };
        while let Role::Proxy(proxy, router) = &mut self.role
            && let Some(fire) = proxy.due(now)
        {
            if self.free || (fire.is_cleanup() && self.costs.cleanup.is_zero()) {
                proxy.fire(now, fire, router, &mut Outgoing(sent));
                continue;
            }
            if fire.is_resend() {
                self.results.resends.add(now, 1.0);
            } else if !fire.is_cleanup() {
                self.results.give_ups.add(now, 1.0);
            }
            let at = self.fires.insert(fire);
            self.enqueue(now, Priority::P1, What::Timer(at));
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Proxy(proxy, _) => proxy.deadline(),
            Role::Balancer(balancer) => balancer.deadline(),
            Role::Server => None,
        }
    }

    pub(crate) fn transactions(&self) -> usize {
        match &self.role {
            Role::Proxy(proxy, _) => proxy.transactions(),
            Role::Balancer(balancer) => balancer.transactions(),
            Role::Server => 0,
        }
    }

    /// Notes how busy it was since the last time, and how much waits.
    pub(crate) fn sample(&mut self, now: Instant) {
        self.results.utilisation.push((now, self.cpu.utilisation(self.mark, now)));
        self.results.queue.push((now, self.cpu.occupied() as f64));
        self.mark = self.cpu.mark(now);
    }

    /// It dies: what waits and what it knows is gone.
    pub(crate) fn fail(&mut self, now: Instant) {
        let mut lost = Vec::new();
        self.cpu.fail(now, |job| lost.push(job));
        for job in lost {
            self.outs[job.out as usize].clear();
            self.idle_outs.push(job.out);
            self.forget(job.what);
        }
    }

    /// It is back, with nothing but its role.
    pub(crate) fn restart(&mut self, role: Role) {
        self.role = role;
        self.cpu.restart();
    }

    /// Something else takes this share of its processor from now on.
    pub(crate) fn slow_down(&mut self, background: f64) {
        self.cpu.set_background(background);
    }

    /// All of it stops until the returned instant.
    pub(crate) fn stall(&mut self, now: Instant, length: Duration) -> Instant {
        self.cpu.stall(now, length)
    }
}

/// The work of a message, done at the start of its service.
struct Work<'a> {
    now: Instant,
    id: HostId,
    role: &'a mut Role,
    costs: &'a Costs,
    agents: &'a mut Agents,
    alarms: &'a mut Vec<Alarm>,
    out: &'a mut Vec<Sent>,
}

impl Work<'_> {
    /// Does it, and says what it costs on the base server.
    fn serve(self, message: Message) -> Duration {
        let Self { now, id, role, costs, agents, alarms, out } = self;
        match role {
            Role::Proxy(proxy, router) => {
                proxied(now, proxy, router, message, &mut Outgoing(out));
                costs.message
            }
            Role::Balancer(balancer) => {
                balancer.handle(now, id, message, out);
                costs.message
            }
            Role::Server => {
                let work = match (message.start, message.method) {
                    (Start::Request, Method::Invite) => costs.invite_work,
                    // TLWL paper, section IV: it creates the session, which the INVITE's work has in it.
                    (Start::Request, Method::Ack) => 0.0,
                    _ => 1.0,
                };
                let mut answers = Out { sent: core::mem::take(out), alarms: core::mem::take(alarms) };
                agents.handle(now, &message, &mut answers);
                (*out, *alarms) = (answers.sent, answers.alarms);
                costs.message.mul_f64(work)
            }
        }
    }
}

fn proxied(
    now: Instant,
    proxy: &mut Proxy<Router>,
    router: &mut Router,
    message: Message,
    sink: &mut Outgoing<'_>,
) {
    let Start::Request = message.start else {
        let Start::Response(status) = message.start else { return };
        return proxy.response(now, message.client_key(), status, &message, router, sink);
    };
    let arrived = Arrived {
        method: message.method,
        key: message.server_key(),
        cancels: (message.method == Method::Cancel).then(|| message.cancelled_key()),
        transport: router.transport_of(&message),
    };
    // An ACK to a failure finds its transaction, or it is for an answer that left none, and ends here.
    if message.method == Method::Ack && message.to_tag != Some(HostId::AGENTS) {
        proxy.absorb(now, &arrived.key, sink);
    } else {
        proxy.request(now, &arrived, message, router, sink);
    }
}

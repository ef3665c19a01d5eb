//! A server and those who send to it, small enough to reason about: one worker, 1 ms a message, six messages a call
//! (INVITE, 180, 200, ACK; after the holding time BYE, 200), a hop of 1 ms each way, a buffer of 1000 messages.
//!
//! Nothing is retransmitted here: the tests ask for waits below T1/2, where nothing would be.
use base::{Instant, Rng};
use core::time::Duration;
use overload::hop::{Law, Neighbour, Outcome, Receiver, Sender, rate, window};
use overload::local::{Controller, bang_bang, delay, occupancy};
use overload::signal::{Backlog, Load, Utilisation};
use overload::{Class, Feedback, Local, Settings, Verdict};
use rand::Rng as _;
use rand_distr::{Distribution, Exp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(crate) const SERVICE: Duration = Duration::from_millis(1);
/// Of an early, stateless rejection (Overload paper, VI-C).
pub(crate) const REJECT: Duration = Duration::from_nanos(166_660);
pub(crate) const HOP: Duration = Duration::from_millis(1);
/// Calls a second: six messages of 1 ms.
pub(crate) const CAPACITY: f64 = 1_000.0 / 6.0;
const BUFFER: usize = 1_000;
const HOLD_MEAN: f64 = 10.0;
/// Seconds after which a sender without calls looks at its schedule again.
const LOOK: f64 = 0.1;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Invite,
    Ringing,
    Answer,
    Ack,
    /// To a rejection.
    RejectAck,
    Bye,
    ByeAnswer,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Message {
    step: Step,
    from: usize,
    sent: Instant,
}

impl Message {
    fn class(self) -> Class {
        match self.step {
            Step::Invite => Class::NewInvite,
            Step::Ack | Step::RejectAck | Step::Bye => Class::Closing,
            Step::Ringing | Step::Answer | Step::ByeAnswer => Class::Response,
        }
    }
}

/// The outcomes of an INVITE here: links lose nothing, and nobody times out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Settles {
    Answered,
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A caller behind this sender makes a call.
    Call(usize),
    /// None did for a while: the sender looks whether its schedule has changed.
    Look(usize),
    /// A message reaches the server.
    Arrive(Message),
    /// The server is done with what it was doing: serving a message, or refusing an INVITE of this sender.
    Done(Result<Message, usize>),
    /// A response reaches a sender, with the feedback of the server of that moment, and settles an INVITE so.
    Back(usize, Option<Settles>, Option<usize>),
    LocalPeriod,
    HopPeriod,
}

/// Offered calls a second of each sender from a time (s) on.
pub(crate) type Schedule = Vec<(f64, Vec<f64>)>;

/// What is asked of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) schedule: Schedule,
    pub(crate) seconds: f64,
    /// The price of absorbing the ACK to a rejection; zero is free.
    pub(crate) ack: Duration,
    /// Senders from this one on do not support feedback.
    pub(crate) supporting: usize,
}

/// One second of a run.
#[derive(Clone, Default, Debug)]
pub(crate) struct Second {
    pub(crate) ended: Vec<u32>,
    pub(crate) accepted: u32,
    pub(crate) rejected: u32,
    pub(crate) dropped: u32,
    /// The longest wait of a message that left the queue in this second.
    pub(crate) wait_max: Duration,
    pub(crate) queue_max: usize,
    /// Of the local controller's meter, at the end of the second.
    pub(crate) utilisation: f64,
    /// Its f.
    pub(crate) acceptance: f64,
}

struct World {
    plan: Plan,
    now: Instant,
    order: u64,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    queue: VecDeque<(Instant, Message)>,
    /// Senders whose INVITEs are to be refused.
    rejections: VecDeque<usize>,
    busy: bool,
    local: Box<dyn Controller>,
    meter: Utilisation,
    receiver: Option<Receiver>,
    hop_meter: Utilisation,
    backlog: Backlog,
    feedback: Vec<overload::hop::Feedback>,
    senders: Vec<Option<Sender>>,
    arrivals: Rng,
    draws: Rng,
    seconds: Vec<Second>,
}

/// Runs a plan; the same seed gives the same run.
pub(crate) fn run(plan: Plan, seed: u64) -> Vec<Second> {
    let mut world = World::new(plan, seed);
    let end = Instant::ZERO + Duration::from_secs_f64(world.plan.seconds);
    while let Some(Reverse((at, _, event))) = world.events.pop() {
        // The period that ends at the end is still of the run.
        if at > end {
            break;
        }
        world.now = at;
        world.step(event);
    }
    world.seconds
}

impl World {
    fn new(plan: Plan, seed: u64) -> Self {
        let senders = plan.schedule[0].1.len();
        let rng = Rng::from_seed(seed);
        let local = plan.settings.controller();
        let receiver = plan.settings.receiver();
        let period = local.period().unwrap_or(Duration::from_secs(1));
        let hop_period = receiver.as_ref().map_or(Duration::from_secs(1), Receiver::period);
        let second = Second { ended: vec![0; senders], acceptance: 1.0, ..Second::default() };
        let mut world = Self {
            now: Instant::ZERO,
            order: 0,
            events: BinaryHeap::new(),
            queue: VecDeque::new(),
            rejections: VecDeque::new(),
            busy: false,
            local,
            meter: Utilisation::new(Instant::ZERO, period, 1),
            receiver,
            hop_meter: Utilisation::new(Instant::ZERO, hop_period, 1),
            backlog: Backlog::new(1, SERVICE),
            feedback: Vec::new(),
            senders: (0..senders).map(|n| plan.settings.sender().filter(|_| n < plan.supporting)).collect(),
            arrivals: rng.fork("arrivals"),
            draws: rng.fork("draws"),
            seconds: vec![second; plan.seconds as usize],
            plan,
        };
        for sender in 0..senders {
            world.next_call(sender);
        }
        world.after(period, Event::LocalPeriod);
        world.after(hop_period, Event::HopPeriod);
        world
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.order += 1;
        self.events.push(Reverse((self.now + wait, self.order, event)));
    }

    fn offered(&self, sender: usize) -> f64 {
        let at = self.now.as_secs_f64();
        self.plan.schedule.iter().rev().find(|(from, _)| *from <= at).map_or(0.0, |(_, rates)| rates[sender])
    }

    fn next_call(&mut self, sender: usize) {
        let rate = self.offered(sender).max(1e-9);
        let wait = Exp::new(rate).expect("above zero").sample(&mut self.arrivals);
        // An exponential wait that is broken off and drawn anew is still exponential.
        let event = if wait > LOOK { Event::Look(sender) } else { Event::Call(sender) };
        self.after(Duration::from_secs_f64(wait.min(LOOK)), event);
    }

    fn second(&mut self) -> &mut Second {
        let last = self.seconds.len() - 1;
        &mut self.seconds[(self.now.as_secs_f64() as usize).min(last)]
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Look(sender) => self.next_call(sender),
            Event::Call(sender) => {
                self.next_call(sender);
                let now = self.now;
                let sent = self.senders[sender].as_mut().is_none_or(|throttle| {
                    throttle.judge(now, Class::NewInvite, 1.0, &mut self.draws).is_accept()
                });
                if sent {
                    self.after(HOP, Event::Arrive(Message { step: Step::Invite, from: sender, sent: now }));
                }
            }
            Event::Arrive(message) => self.arrive(message),
            Event::Done(message) => {
                self.busy = false;
                match message {
                    Ok(message) => self.served(message),
                    Err(sender) => {
                        self.back(sender, Some(Settles::Refused));
                        if !self.plan.ack.is_zero() {
                            let ack = Message { step: Step::RejectAck, from: sender, sent: self.now };
                            self.after(HOP * 2, Event::Arrive(ack));
                        }
                    }
                }
                self.serve();
            }
            Event::Back(sender, settles, feedback) => {
                if let Some(throttle) = &mut self.senders[sender] {
                    if let Some(feedback) = feedback {
                        throttle.on_feedback(self.now, &self.feedback[feedback], &mut self.draws);
                    }
                    throttle.on_response();
                    match settles {
                        Some(Settles::Answered) => throttle.on_settled(self.now, Outcome::Answered),
                        Some(Settles::Refused) => throttle.on_settled(self.now, Outcome::Refused),
                        None => {}
                    }
                }
            }
            Event::LocalPeriod => self.local_period(),
            Event::HopPeriod => self.hop_period(),
        }
    }

    fn local_period(&mut self) {
        let utilisation = self.meter.poll(self.now).expect("asked at its deadline");
        let load = self.load(utilisation);
        self.local.on_period(&load);
        // The period that is over belongs to the second before.
        let acceptance = self.local.acceptance();
        let last = (self.now.as_secs_f64() as usize).saturating_sub(1);
        self.seconds[last].utilisation = utilisation;
        self.seconds[last].acceptance = acceptance;
        self.after(self.local.period().unwrap_or(Duration::from_secs(1)), Event::LocalPeriod);
    }

    fn hop_period(&mut self) {
        let utilisation = self.hop_meter.poll(self.now).expect("asked at its deadline");
        let load = self.load(utilisation);
        if let Some(receiver) = &mut self.receiver {
            receiver.on_period(self.now, &load);
            self.feedback.push(receiver.feedback());
            let period = receiver.period();
            self.after(period, Event::HopPeriod);
        }
    }

    fn load(&self, utilisation: f64) -> Load {
        Load { utilisation, queue: self.queue.len(), wait: self.backlog.wait() }
    }

    fn arrive(&mut self, message: Message) {
        let class = message.class();
        let load = self.load(self.meter.value());
        let verdict = self.local.judge(self.now, class, &load, &mut self.draws);
        if verdict != Verdict::Accept {
            self.second().rejected += 1;
            self.rejections.push_back(message.from);
            self.serve();
            return;
        }
        if let Some(receiver) = &mut self.receiver
            && !matches!(class, Class::Response)
        {
            receiver.on_arrival(self.now, Neighbour(message.from as u32), class);
        }
        if self.queue.len() >= BUFFER {
            self.second().dropped += 1;
            return;
        }
        if message.step == Step::Invite {
            self.second().accepted += 1;
        }
        self.queue.push_back((self.now, message));
        self.backlog.on_enqueue(self.now, class);
        self.queue_changed();
        self.serve();
    }

    fn queue_changed(&mut self) {
        let queue = self.queue.len();
        self.local.on_queue(queue);
        let second = self.second();
        second.queue_max = second.queue_max.max(queue);
    }

    /// Rejections first, then the queue in order (Overload paper, VI-A).
    fn serve(&mut self) {
        if self.busy {
            return;
        }
        let (message, cost) = if let Some(sender) = self.rejections.pop_front() {
            (Err(sender), REJECT)
        } else if let Some((since, message)) = self.queue.pop_front() {
            self.backlog.on_dequeue(self.now, message.class());
            self.queue_changed();
            let wait = self.now - since;
            let second = self.second();
            second.wait_max = second.wait_max.max(wait);
            let cost = if message.step == Step::RejectAck { self.plan.ack } else { SERVICE };
            (Ok(message), cost)
        } else {
            return;
        };
        self.busy = true;
        self.meter.busy(self.now, cost);
        self.hop_meter.busy(self.now, cost);
        self.after(cost, Event::Done(message));
    }

    fn back(&mut self, to: usize, settles: Option<Settles>) {
        // Before the first period is over there is no value yet.
        let last = self.feedback.len().checked_sub(1);
        self.after(HOP, Event::Back(to, settles, last));
    }

    fn served(&mut self, message: Message) {
        let cost = if message.step == Step::RejectAck { self.plan.ack } else { SERVICE };
        self.backlog.on_served(message.class(), cost);
        if let Some(receiver) = &mut self.receiver {
            receiver.on_served(message.class());
            if message.step == Step::Ringing {
                receiver.on_confirmed(Neighbour(message.from as u32));
            }
        }
        let next =
            |world: &mut Self, step, wait| world.after(wait, Event::Arrive(Message { step, ..message }));
        match message.step {
            Step::Invite => {
                next(self, Step::Ringing, HOP * 2);
                next(self, Step::Answer, HOP * 2);
            }
            Step::Ringing => self.back(message.from, Some(Settles::Answered)),
            Step::RejectAck => {}
            Step::Answer => {
                self.back(message.from, None);
                next(self, Step::Ack, HOP * 2);
            }
            Step::Ack => {
                let hold = -self.draws.random::<f64>().max(1e-12).ln() * HOLD_MEAN;
                next(self, Step::Bye, Duration::from_secs_f64(hold));
            }
            Step::Bye => next(self, Step::ByeAnswer, HOP * 2),
            Step::ByeAnswer => {
                self.back(message.from, None);
                self.second().ended[message.from] += 1;
            }
        }
    }
}

/// Calls ended a second, on average from one second to another.
pub(crate) fn goodput(seconds: &[Second]) -> f64 {
    seconds.iter().map(|second| f64::from(second.ended.iter().sum::<u32>())).sum::<f64>()
        / seconds.len() as f64
}

pub(crate) fn wait_max(seconds: &[Second]) -> Duration {
    seconds.iter().map(|second| second.wait_max).max().expect("some seconds")
}

pub(crate) fn dropped(seconds: &[Second]) -> u32 {
    seconds.iter().map(|second| second.dropped).sum()
}

fn local_of(name: &str) -> Local {
    match name {
        "none" => Local::None,
        "bang-bang" => Local::BangBang(bang_bang::Settings::default()),
        "occupancy" => Local::Occupancy(occupancy::Settings::default()),
        "delay" => Local::Delay(delay::Settings::default()),
        _ => panic!("no law of the name {name}"),
    }
}

fn feedback_of(name: &str) -> Feedback {
    match name {
        "none" => Feedback::None,
        "loss" => Feedback::Hop(Law::Loss(occupancy::Settings::default())),
        "rate" => Feedback::Hop(Law::Rate(rate::Settings::default())),
        "window" => Feedback::Hop(Law::Window(window::Settings::default())),
        _ => panic!("no feedback of the name {name}"),
    }
}

/// Four senders with the same offered load in all, which changes at the given seconds.
pub(crate) fn plan(local: &str, feedback: &str, steps: &[(f64, f64)], seconds: f64) -> Plan {
    Plan {
        settings: Settings { local: local_of(local), feedback: feedback_of(feedback), ..Settings::default() },
        schedule: steps.iter().map(|&(from, rate)| (from, vec![rate / 4.0; 4])).collect(),
        seconds,
        ack: Duration::ZERO,
        supporting: 4,
    }
}

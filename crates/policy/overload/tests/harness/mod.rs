//! A small model of a server and its senders: one worker, 1 ms a message, six messages a call (INVITE, 180, 200, ACK;
//! after the holding time BYE, 200), 1 ms per hop, and a buffer of 1000 messages.
//!
//! There are no retransmissions: the tests require waits below T1/2, at which none would occur.
use base::{Instant, Rng};
use core::time::Duration;
use overload::hop::{ReceiverLaw, RequestOutcome};
use overload::local::{bang_bang, delay, occupancy};
use overload::{
    FeedbackLaw, Guard, LocalLaw, MessageClass, OverloadSettings, RequestPath, Settled, UpstreamFeedback,
};
use rand::Rng as _;
use rand_distr::{Distribution, Exp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(crate) const SERVICE: Duration = Duration::from_millis(1);
/// Cost of an early, stateless rejection (Overload paper, VI-C).
pub(crate) const REJECT: Duration = Duration::from_nanos(166_660);
pub(crate) const HOP: Duration = Duration::from_millis(1);
/// Capacity in calls a second: six messages of 1 ms.
pub(crate) const CAPACITY: f64 = 1_000.0 / 6.0;
const BUFFER: usize = 1_000;
const HOLD_MEAN: f64 = 10.0;
/// Seconds after which a sender without calls checks its schedule again.
const LOOK: f64 = 0.1;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Invite,
    Ringing,
    Answer,
    Ack,
    /// ACK to a rejection.
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
    fn class(self) -> MessageClass {
        match self.step {
            Step::Invite => MessageClass::NewInvite,
            Step::Ack | Step::RejectAck | Step::Bye => MessageClass::Closing,
            Step::Ringing | Step::Answer | Step::ByeAnswer => MessageClass::Response,
        }
    }
}

/// Outcomes of an INVITE in this model: no loss, and no time-outs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Settles {
    Answered,
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A caller behind this sender makes a call.
    Call(usize),
    /// No call for a while: the sender checks its schedule.
    Look(usize),
    /// A message reaches the server.
    Arrive(Message),
    /// The server finishes serving a message, or refusing an INVITE of this sender.
    Done(Result<Message, usize>),
    /// A response reaches a sender, with a notice of the server, and settles an INVITE.
    Back(usize, Option<Settles>, Option<usize>),
    /// A period of the server's guard is over.
    Tick,
    /// A second is over.
    Second,
}

/// Offered calls a second of each sender, from a time (s) on.
pub(crate) type Schedule = Vec<(f64, Vec<f64>)>;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) settings: OverloadSettings,
    pub(crate) schedule: Schedule,
    pub(crate) seconds: f64,
    /// Cost of absorbing the ACK to a rejection; zero for none.
    pub(crate) ack: Duration,
    /// First sender without support for feedback.
    pub(crate) supporting: usize,
}

/// One second of a run.
#[derive(Clone, Default, Debug)]
pub(crate) struct Second {
    pub(crate) ended: Vec<u32>,
    pub(crate) accepted: u32,
    pub(crate) rejected: u32,
    pub(crate) dropped: u32,
    /// Longest wait of a message that left the queue in this second.
    pub(crate) wait_max: Duration,
    pub(crate) queue_max: usize,
    /// Busy time over this second.
    pub(crate) utilisation: f64,
    /// The f of the local law at the end of the second.
    pub(crate) acceptance: f64,
}

struct World {
    plan: Plan,
    now: Instant,
    order: u64,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    queue: VecDeque<(Instant, Message)>,
    /// Senders of INVITEs to be refused.
    rejections: VecDeque<usize>,
    busy: bool,
    /// Total time of all started services, and the end of the last one.
    busy_time: Duration,
    busy_until: Instant,
    /// The server's guard; its neighbours are the senders.
    server: Guard<usize>,
    /// Notices sent, each different from the previous one.
    notices: Vec<UpstreamFeedback>,
    /// Guards of senders with feedback; their only neighbour is the server.
    senders: Vec<Option<Guard<()>>>,
    arrivals: Rng,
    draws: Rng,
    seconds: Vec<Second>,
}

/// Runs a plan; the same seed gives the same run.
pub(crate) fn run(plan: Plan, seed: u64) -> Vec<Second> {
    let mut world = World::new(plan, seed);
    let end = Instant::ZERO + Duration::from_secs_f64(world.plan.seconds);
    while let Some(Reverse((at, _, event))) = world.events.pop() {
        // A period that ends exactly at the end belongs to the run.
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
        // Senders have no queue and no local law.
        let of_sender = OverloadSettings { local: LocalLaw::None, ..plan.settings };
        let guard = |sender: usize| {
            let rng = rng.fork(&format!("sender {sender}"));
            (sender < plan.supporting).then(|| Guard::new(Instant::ZERO, of_sender, 1, SERVICE, rng))
        };
        let second = Second { ended: vec![0; senders], acceptance: 1.0, ..Second::default() };
        let mut world = Self {
            now: Instant::ZERO,
            order: 0,
            events: BinaryHeap::new(),
            queue: VecDeque::new(),
            rejections: VecDeque::new(),
            busy: false,
            busy_time: Duration::ZERO,
            busy_until: Instant::ZERO,
            server: Guard::new(Instant::ZERO, plan.settings, 1, SERVICE, rng.fork("server")),
            notices: Vec::new(),
            senders: (0..senders).map(guard).collect(),
            arrivals: rng.fork("arrivals"),
            draws: rng.fork("draws"),
            seconds: vec![second; plan.seconds as usize],
            plan,
        };
        for sender in 0..senders {
            world.next_call(sender);
        }
        world.next_tick();
        world.after(Duration::from_secs(1), Event::Second);
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
        // An exponential wait that is cut off and drawn again is still exponential.
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
                let way = RequestPath {
                    from: None,
                    takes_feedback: false,
                    to: Some(()),
                    path: None,
                    is_onward: false,
                };
                let sent = self.senders[sender]
                    .as_mut()
                    .is_none_or(|guard| guard.on_request(now, MessageClass::NewInvite, &way).is_ok());
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
            Event::Back(sender, settles, notice) => {
                let Some(guard) = &mut self.senders[sender] else { return };
                let notice = notice.map(|notice| &self.notices[notice]);
                let (status, outcome) = match settles {
                    Some(Settles::Answered) => (180, Some(RequestOutcome::Answered)),
                    Some(Settles::Refused) => (503, Some(RequestOutcome::Refused)),
                    None => (200, None),
                };
                guard.on_response(self.now, (), status, None, notice);
                if let Some(outcome) = outcome {
                    let settled = Settled { from: None, to: Some(()), outcome, is_last: true };
                    guard.on_settled(self.now, &settled);
                }
            }
            Event::Tick => {
                self.server.tick(self.now, self.busy_so_far());
                self.next_tick();
            }
            Event::Second => {
                let busy = self.busy_so_far().as_secs_f64();
                // The second that has ended.
                let over = (self.now.as_secs_f64() as usize).saturating_sub(1);
                let before: f64 = self.seconds[..over].iter().map(|second| second.utilisation).sum();
                self.seconds[over].utilisation = busy - before;
                self.seconds[over].acceptance = self.server.acceptance(self.now);
                self.after(Duration::from_secs(1), Event::Second);
            }
        }
    }

    /// Part of the started services that lies before now.
    fn busy_so_far(&self) -> Duration {
        self.busy_time.saturating_sub(self.busy_until.saturating_since(self.now))
    }

    fn next_tick(&mut self) {
        if let Some(deadline) = self.server.deadline() {
            self.after(deadline - self.now, Event::Tick);
        }
    }

    fn arrive(&mut self, message: Message) {
        let class = message.class();
        let from = Some(message.from);
        if class != MessageClass::Response {
            let takes_feedback = message.from < self.plan.supporting;
            let way = RequestPath { from, takes_feedback, to: None, path: None, is_onward: false };
            if self.server.on_request(self.now, class, &way).is_err() {
                self.second().rejected += 1;
                self.rejections.push_back(message.from);
                self.serve();
                return;
            }
        }
        if self.queue.len() >= BUFFER {
            self.second().dropped += 1;
            if class.is_new() {
                self.server.on_lost(self.now, from, None);
            }
            return;
        }
        if message.step == Step::Invite {
            self.second().accepted += 1;
        }
        self.queue.push_back((self.now, message));
        let queue = self.queue.len();
        self.server.on_enqueue(self.now, class, queue);
        let second = self.second();
        second.queue_max = second.queue_max.max(queue);
        self.serve();
    }

    /// Rejections first, then the queue in order (Overload paper, VI-A).
    fn serve(&mut self) {
        if self.busy {
            return;
        }
        let (message, cost) = if let Some(sender) = self.rejections.pop_front() {
            (Err(sender), REJECT)
        } else if let Some((since, message)) = self.queue.pop_front() {
            self.server.on_dequeue(self.now, message.class(), self.queue.len());
            let wait = self.now - since;
            let second = self.second();
            second.wait_max = second.wait_max.max(wait);
            let cost = if message.step == Step::RejectAck { self.plan.ack } else { SERVICE };
            (Ok(message), cost)
        } else {
            return;
        };
        self.busy = true;
        self.busy_time += cost;
        self.busy_until = self.now + cost;
        self.after(cost, Event::Done(message));
    }

    fn back(&mut self, to: usize, settles: Option<Settles>) {
        let notice = self.server.notice(self.now, None);
        if let Some(notice) = notice
            && self.notices.last() != Some(&notice)
        {
            self.notices.push(notice);
        }
        let last = notice.map(|_| self.notices.len() - 1);
        self.after(HOP, Event::Back(to, settles, last));
    }

    fn served(&mut self, message: Message) {
        let cost = if message.step == Step::RejectAck { self.plan.ack } else { SERVICE };
        self.server.on_served(message.class(), cost);
        if message.step == Step::Ringing {
            let from = Some(message.from);
            let settled = Settled { from, to: None, outcome: RequestOutcome::Answered, is_last: true };
            self.server.on_settled(self.now, &settled);
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

/// Mean number of calls ended per second.
pub(crate) fn goodput(seconds: &[Second]) -> f64 {
    seconds.iter().map(|second| f64::from(second.ended.iter().sum::<u32>())).sum::<f64>()
        / seconds.len() as f64
}

pub(crate) fn wait_max(seconds: &[Second]) -> Duration {
    seconds.iter().map(|second| second.wait_max).max().expect("a run has at least one second")
}

pub(crate) fn dropped(seconds: &[Second]) -> u32 {
    seconds.iter().map(|second| second.dropped).sum()
}

fn local_of(name: &str) -> LocalLaw {
    match name {
        "none" => LocalLaw::None,
        "bang-bang" => LocalLaw::BangBang(bang_bang::BangBangSettings::default()),
        "occupancy" => LocalLaw::Occupancy(occupancy::OccupancySettings::default()),
        "delay" => LocalLaw::Delay(delay::DelaySettings::default()),
        _ => panic!("no law of the name {name}"),
    }
}

fn feedback_of(name: &str) -> FeedbackLaw {
    match name {
        "none" => FeedbackLaw::None,
        "loss" => FeedbackLaw::Hop(ReceiverLaw::Loss(occupancy::OccupancySettings::default())),
        "rate" => FeedbackLaw::Hop(ReceiverLaw::Rate),
        "window" => FeedbackLaw::Hop(ReceiverLaw::Window),
        _ => panic!("no feedback of the name {name}"),
    }
}

/// Four senders with equal shares of the offered load, which changes at the given seconds.
pub(crate) fn plan(local: &str, feedback: &str, steps: &[(f64, f64)], seconds: f64) -> Plan {
    Plan {
        settings: OverloadSettings {
            local: local_of(local),
            feedback: feedback_of(feedback),
            ..OverloadSettings::default()
        },
        schedule: steps.iter().map(|&(from, rate)| (from, vec![rate / 4.0; 4])).collect(),
        seconds,
        ack: Duration::ZERO,
        supporting: 4,
    }
}

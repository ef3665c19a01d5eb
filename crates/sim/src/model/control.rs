//! Overload control of a host: the controllers of the `overload` crate between typed messages.

use super::medium::Settled;
use super::message::{HostId, Message, Notice, Start};
use base::{Instant, Rng};
use config::scenario::{self, Group};
use core::time::Duration;
use overload::end_to_end::{self, Path, Targets};
use overload::hop::{Law, Neighbour, Outcome, Receiver, Sender, rate, window};
use overload::local::{Controller, bang_bang, delay, occupancy};
use overload::retry_after::{self, Backoff, During};
use overload::signal::{Backlog, Load};
use overload::{Class, Facts, Feedback, Local, RejectAt, RejectState, Settings, Triage, Verdict};
use std::collections::BTreeMap;

/// A refusal of a new call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    /// Seconds; 0 = none.
    pub(crate) retry_after: u16,
}

/// The controllers of one host.
pub(crate) struct Control {
    settings: Settings,
    local: Box<dyn Controller>,
    receiver: Option<Receiver>,
    targets: Option<Targets>,
    senders: BTreeMap<HostId, Sender>,
    backoffs: BTreeMap<HostId, Backoff>,
    backlog: Backlog,
    /// As it was at first, when nothing was known.
    unlearned: Backlog,
    load: Load,
    rng: Rng,
    /// Whether there is nothing that could ever refuse.
    is_off: bool,
    /// Whether moreover no neighbour has asked for a pause.
    is_idle: bool,
}

/// Which of a host's controllers has come to the end of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Period {
    Local,
    Receiver,
}

/// A scenario's words for it in the terms of the controllers.
fn settings(group: &Group) -> Settings {
    let buffer = f64::from(group.buffer);
    let group = &group.overload;
    let [high, low] = [group.watermarks.0, group.watermarks.1].map(|share| (share * buffer).round() as usize);
    // A full buffer is above the one, an empty one below the other.
    let watermarks = bang_bang::Settings { high: high.min(buffer as usize - 1), low: low.max(1) };
    let scenario::Occupancy { target, acceptance_min, increase_max, period, smoothing } = group.occupancy;
    let occupancy = occupancy::Settings { acceptance_min, increase_max, target, period, weight: smoothing };
    let local = match (group.local, group.retry_after) {
        (scenario::Local::None, _) => Local::None,
        (scenario::Local::BangBang, Some(pause)) => {
            Local::RetryAfter(retry_after::Settings { pause, watermarks })
        }
        (scenario::Local::BangBang, None) => Local::BangBang(watermarks),
        (scenario::Local::Occupancy, _) => Local::Occupancy(occupancy),
        (scenario::Local::Delay, _) => {
            Local::Delay(delay::Settings { onset: group.wait / 2, bound: group.wait })
        }
    };
    let feedback = match group.feedback {
        scenario::Feedback::None => Feedback::None,
        scenario::Feedback::HopByHop => Feedback::Hop(Law::Loss(occupancy)),
        scenario::Feedback::EndToEnd => Feedback::EndToEnd(end_to_end::Settings::default()),
        scenario::Feedback::Rate => Feedback::Hop(Law::Rate(rate::Settings::default())),
        scenario::Feedback::Window => Feedback::Hop(Law::Window(window::Settings::default())),
    };
    Settings {
        local,
        feedback,
        reject_at: match group.reject {
            scenario::RejectAt::Arrival => RejectAt::Arrival,
            scenario::RejectAt::Service => RejectAt::Service,
        },
        reject_state: if group.stateful { RejectState::Stateful } else { RejectState::Stateless },
        alternate: group.retry,
        during: match group.during_pause {
            scenario::DuringPause::Prolong => During::Prolong,
            scenario::DuringPause::Ignore => During::Ignore,
        },
        triage: group.triage.then(Triage::default),
        ..Settings::default()
    }
}

impl Control {
    pub(crate) fn new(group: &Group, mean: Duration, rng: Rng) -> Self {
        let settings = settings(group);
        let is_off = settings == Settings { alternate: settings.alternate, ..Settings::default() };
        let backlog = Backlog::new(group.workers.into(), mean);
        Self {
            settings,
            local: settings.controller(),
            receiver: settings.receiver(),
            targets: settings.targets(),
            senders: BTreeMap::new(),
            backoffs: BTreeMap::new(),
            unlearned: backlog.clone(),
            backlog,
            load: Load::default(),
            rng,
            is_off,
            is_idle: is_off,
        }
    }

    /// Its host has died: what it counted and learned is gone with the queue and the transactions.
    pub(crate) fn forget(&mut self) {
        self.local = self.settings.controller();
        self.receiver = self.settings.receiver();
        self.targets = self.settings.targets();
        self.senders.clear();
        self.backoffs.clear();
        self.backlog = self.unlearned.clone();
        self.load = Load::default();
        self.is_idle = self.is_off;
    }

    /// Whether there is anything that could ever refuse.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off
    }

    /// Whether nothing would be refused now.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How often each controller wants to know the utilisation.
    pub(crate) fn periods(&self) -> impl Iterator<Item = (Period, Duration)> + use<> {
        let local = self.local.period().map(|period| (Period::Local, period));
        let receiver = self.receiver.as_ref().map(|receiver| (Period::Receiver, receiver.period()));
        local.into_iter().chain(receiver)
    }

    pub(crate) fn on_period(&mut self, now: Instant, which: Period, utilisation: f64) {
        self.load = Load { utilisation, wait: self.backlog.wait(), ..self.load };
        match which {
            Period::Local => self.local.on_period(&self.load),
            Period::Receiver => {
                if let Some(receiver) = &mut self.receiver {
                    receiver.on_period(now, &self.load);
                }
            }
        }
    }

    /// A message joined the queue, in which now so many wait.
    pub(crate) fn on_enqueue(&mut self, now: Instant, class: Class, queue: usize) {
        if self.is_off {
            return;
        }
        self.backlog.on_enqueue(now, class);
        self.on_queue(queue);
    }

    /// A message left the queue, to be served or because it was stale.
    pub(crate) fn on_dequeue(&mut self, now: Instant, class: Class, queue: usize) {
        self.backlog.on_dequeue(now, class);
        self.on_queue(queue);
    }

    fn on_queue(&mut self, queue: usize) {
        self.load.queue = queue;
        self.local.on_queue(queue);
    }

    pub(crate) fn on_served(&mut self, class: Class, service: Duration) {
        self.backlog.on_served(class, service);
        if let Some(receiver) = &mut self.receiver {
            receiver.on_served(class);
        }
    }

    /// A request was taken.
    pub(crate) fn on_request(&mut self, now: Instant, from: HostId, class: Class) {
        if let Some(receiver) = &mut self.receiver
            && from != HostId::AGENTS
        {
            receiver.on_arrival(now, Neighbour(from.0.into()), class);
        }
    }

    /// A response came from a downstream neighbour.
    pub(crate) fn on_response(
        &mut self,
        now: Instant,
        message: &Message,
        from: HostId,
        notice: Option<&Notice>,
    ) {
        if from == HostId::AGENTS {
            return;
        }
        let unavailable = message.start == Start::Response(503);
        if self.is_off && !unavailable {
            return;
        }
        if unavailable {
            let asked = (message.retry_after > 0).then(|| Duration::from_secs(message.retry_after.into()));
            self.is_idle = false;
            self.backoffs.entry(from).or_default().on_503(now, asked, self.settings.during);
        }
        if let Some(sender) = self.senders.get_mut(&from) {
            sender.on_response();
        }
        match notice {
            Some(Notice::Hop(feedback)) => {
                if self.sender(from).is_some()
                    && let Some(sender) = self.senders.get_mut(&from)
                {
                    sender.on_feedback(now, feedback, &mut self.rng);
                }
            }
            Some(Notice::Target(report)) => {
                if let Some(targets) = &mut self.targets {
                    targets.on_report(now, Neighbour(from.0.into()), report);
                }
            }
            None => {}
        }
    }

    /// Makes sure that there is a sender for this neighbour, if feedback is in use.
    fn sender(&mut self, to: HostId) -> Option<HostId> {
        if !self.senders.contains_key(&to) {
            self.senders.insert(to, self.settings.sender()?);
        }
        Some(to)
    }

    /// Whether a neighbour may be sent to.
    pub(crate) fn is_open(&self, now: Instant, to: HostId) -> bool {
        self.backoffs.get(&to).is_none_or(|backoff| backoff.is_open(now))
    }

    /// A new request that is to go on to `message.hop`, and by this path: whether it is refused. `is_ingress`: whoever
    /// sent it takes none of this host's feedback, so that nobody before has asked what this host can take.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        is_ingress: bool,
        class: Class,
        message: &Message,
        path: Path,
    ) -> Option<Refused> {
        if !self.is_open(now, message.hop) {
            // Section V-C: no downstream server is left.
            return Some(Refused { status: 500, retry_after: 0 });
        }
        if self.is_off {
            return None;
        }
        self.load.wait = match self.settings.triage {
            Some(_) => self.backlog.wait_in_lane(class),
            None => self.backlog.wait(),
        };
        let local = match self.settings.feedback {
            // Section VII-A: who is told upstream what to send rejects nothing but at the edge, where it counts
            // together with what it has been told.
            Feedback::Hop(Law::Loss(_)) | Feedback::EndToEnd(_) if !is_ingress => Verdict::Accept,
            Feedback::EndToEnd(_) => {
                let own = self.local.acceptance();
                match &mut self.targets {
                    Some(targets) => targets.judge(now, path, class, own, &mut self.rng),
                    None => Verdict::Accept,
                }
            }
            Feedback::Hop(Law::Loss(_)) if message.hop != HostId::AGENTS => Verdict::Accept,
            _ => self.local.judge(now, class, &self.load, &mut self.rng),
        };
        let own = if is_ingress { self.local.acceptance() } else { 1.0 };
        let verdict = match (local, self.sender(message.hop)) {
            (Verdict::Accept, Some(hop)) if hop != HostId::AGENTS => {
                let own = match self.settings.feedback {
                    Feedback::Hop(Law::Loss(_)) => own,
                    _ => 1.0,
                };
                let sender = self.senders.get_mut(&hop).expect("it has just been made");
                sender.judge(now, class, own, &mut self.rng)
            }
            (verdict, _) => verdict,
        };
        match verdict {
            Verdict::Accept => None,
            Verdict::Reject { retry_after } => {
                let retry_after = retry_after.map_or(0, |pause| pause.as_secs() as u16);
                Some(Refused { status: 503, retry_after })
            }
        }
    }

    /// Next hops have answered, or never will.
    pub(crate) fn on_settled(&mut self, now: Instant, settled: impl Iterator<Item = Settled>) {
        for Settled { hop, from, outcome, last } in settled {
            if let Some(sender) = self.senders.get_mut(&hop) {
                sender.on_settled(now, outcome);
            }
            if last {
                self.on_left(from);
            }
        }
    }

    /// A new request that was judged and counted on arrival does not go on after all.
    pub(crate) fn on_lost(&mut self, now: Instant, message: &Message) {
        if self.settings.reject_at == RejectAt::Arrival
            && let Some(sender) = self.senders.get_mut(&message.hop)
        {
            sender.on_settled(now, Outcome::NotSent);
        }
        self.on_left(message.top().host);
    }

    /// A new request that was taken is no longer under way here.
    pub(crate) fn on_left(&mut self, from: HostId) {
        if let Some(receiver) = &mut self.receiver
            && from != HostId::AGENTS
        {
            receiver.on_confirmed(Neighbour(from.0.into()));
        }
    }

    /// Whether responses to upstream neighbours tell anything.
    pub(crate) fn gives_notice(&self) -> bool {
        !self.is_off && (self.receiver.is_some() || self.targets.is_some())
    }

    /// What a response to an upstream neighbour is to tell. `path` is that of the request that it answers, if calls go
    /// that way.
    pub(crate) fn notice(&mut self, now: Instant, path: Option<Path>) -> Option<Box<Notice>> {
        if let Some(receiver) = &self.receiver {
            return Some(Box::new(Notice::Hop(receiver.feedback())));
        }
        let (targets, path) = self.targets.as_mut().zip(path)?;
        let own = self.local.acceptance();
        Some(Box::new(Notice::Target(targets.report(now, path, own))))
    }
}

/// The class of a message. `known`: a transaction here knows it already.
pub(crate) fn class_of(message: &Message, known: bool) -> Class {
    if !message.is_request() {
        return Class::Response;
    }
    Class::of(Facts {
        method: message.method,
        in_dialog: message.is_in_dialog(),
        repeat: known,
        priority: false,
    })
}

//! Overload control of a host, combined from its parts.

mod downstream;
mod request;

pub use request::{Rejection, RequestPath, Settled, UpstreamFeedback};

use crate::end_to_end::{DownstreamPath, Targets};
use crate::hop::{ClientLimit, Feedback, HopReceiver, HopSender, ReceiverLaw, RequestOutcome};
use crate::local::Controller;
use crate::signal::{Backlog, HostLoad, Utilisation};
use crate::{AdmissionVerdict, FeedbackLaw, MessageClass, OverloadSettings, RejectAt, Tier};
use base::{Instant, Rng};
use core::time::Duration;
use downstream::Downstream;

/// Decides which requests a host accepts, and what it reports to its neighbours. Combines the local law, both sides of
/// feedback, and the pauses that neighbours ask for, as set in [`OverloadSettings`]. `N` identifies a neighbour.
///
/// The host owns the queue, if it has one, and writes and reads SIP. It reports to the guard, in the order of a
/// request's path:
/// - received messages: [`on_request`](Self::on_request), or [`on_response`](Self::on_response) with its [`UpstreamFeedback`];
/// - waiting messages: [`on_enqueue`](Self::on_enqueue) and [`on_dequeue`](Self::on_dequeue), or
///   [`on_waited`](Self::on_waited) if messages wait in the buffer of a socket;
/// - work: [`on_turn`](Self::on_turn), [`on_served`](Self::on_served);
/// - the end of a new request: [`on_lost`](Self::on_lost) before it was forwarded, otherwise
///   [`on_settled`](Self::on_settled) once for each next hop;
/// - the time: [`tick`](Self::tick) at [`deadline`](Self::deadline).
///
/// A host that serves each message as it comes uses [`on_handled`](Self::on_handled), [`on_answer`](Self::on_answer)
/// and [`may_pass`](Self::may_pass) instead.
///
/// The host calls [`is_open`](Self::is_open) when it chooses a next hop, and [`notice`](Self::notice) for the feedback
/// in a response.
///
/// Each accepted new request counts as under way, from its neighbour and to its next hop, until it is reported as lost
/// or settled. A request that is never reported takes a place in a window for ever.
#[derive(Debug)]
pub struct Guard<N> {
    settings: OverloadSettings,
    local: Box<dyn Controller>,
    receiver: Option<HopReceiver<N>>,
    targets: Option<Targets<N>>,
    downstream: Downstream<N>,
    backlog: Backlog,
    /// Initial state of `backlog`.
    unlearned: Backlog,
    /// Expected time at which the messages waiting in the buffer of a socket have been read.
    read_by: Instant,
    /// Waits of new requests in this period.
    waits: Waits,
    load: HostLoad,
    /// Meter for the periods of the local law.
    local_meter: Option<Utilisation>,
    /// Meter for the periods of the receiver.
    receiver_meter: Option<Utilisation>,
    rng: Rng,
    is_off: bool,
    is_idle: bool,
}

/// Number of waits in a period, and the shortest one.
#[derive(Clone, Copy, Debug)]
struct Waits {
    count: u32,
    shortest: Duration,
}

impl Waits {
    const NONE: Self = Self { count: 0, shortest: Duration::MAX };
    /// Least number from which a conclusion is drawn. A few messages may have waited while the process started.
    const LEAST: u32 = 8;

    /// Shortest wait of the period that ends. If there are too few, the period is prolonged, and the result is zero.
    fn end(&mut self) -> Duration {
        if self.count < Self::LEAST {
            return Duration::ZERO;
        }
        core::mem::replace(self, Self::NONE).shortest
    }
}

impl<N: Ord + Copy> Guard<N> {
    /// Creates a guard for a host with `workers` workers (threads, processors). Until it is measured, a message counts
    /// as taking `mean`.
    pub fn new(now: Instant, settings: OverloadSettings, workers: u32, mean: Duration, rng: Rng) -> Self {
        let (local, receiver) = (settings.controller(), settings.receiver());
        let meter = |period: Option<Duration>| Some(Utilisation::new(now, period?, workers));
        let is_off = settings.is_off();
        let backlog = Backlog::new(workers, mean);
        Self {
            local_meter: meter(local.period()),
            receiver_meter: meter(receiver.as_ref().map(HopReceiver::period)),
            local,
            receiver,
            targets: settings.targets(),
            downstream: Downstream::default(),
            unlearned: backlog.clone(),
            backlog,
            read_by: Instant::ZERO,
            waits: Waits::NONE,
            load: HostLoad::default(),
            rng,
            is_off,
            is_idle: is_off,
            settings,
        }
    }

    /// Resets all counts and learned values after the host has died and lost its queue and transactions.
    pub fn forget(&mut self) {
        self.local = self.settings.controller();
        self.receiver = self.settings.receiver();
        self.targets = self.settings.targets();
        self.downstream = Downstream::default();
        self.backlog = self.unlearned.clone();
        self.read_by = Instant::ZERO;
        self.waits = Waits::NONE;
        self.load = HostLoad::default();
        self.is_idle = self.is_off;
    }

    /// Settings.
    pub fn settings(&self) -> &OverloadSettings {
        &self.settings
    }

    /// Whether no law and no feedback is in use. Then only the pause of a neighbour can cause a refusal.
    pub fn is_off(&self) -> bool {
        self.is_off
    }

    /// Whether no law and no feedback is in use, and no neighbour has ever answered 503. Then no request can be refused
    /// now.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Decides on a request that arrives. An error is the response to send; otherwise the request is accepted, or waits
    /// for [`on_turn`](Self::on_turn).
    pub fn on_request(
        &mut self,
        now: Instant,
        class: MessageClass,
        way: &RequestPath<N>,
    ) -> Result<(), Rejection> {
        if self.settings.reject_at == RejectAt::Arrival {
            self.judge(now, class, way)?;
        }
        if let Some((receiver, from)) = self.receiver.as_mut().zip(way.from) {
            receiver.on_arrival(now, from, class);
        }
        Ok(())
    }

    /// Decides on a request whose turn in the host's queue has come. An error is the response to send.
    pub fn on_turn(
        &mut self,
        now: Instant,
        class: MessageClass,
        way: &RequestPath<N>,
    ) -> Result<(), Rejection> {
        if self.settings.reject_at == RejectAt::Service {
            let judged = self.judge(now, class, way);
            if judged.is_err() && class.is_new() {
                self.on_left(way.from);
            }
            return judged;
        }
        Ok(())
    }

    /// Whether a neighbour takes requests now: it has not asked for a pause (RFC 3261 §21.5.4).
    pub fn is_open(&self, now: Instant, to: N) -> bool {
        self.downstream.get(to).is_none_or(|known| known.backoff.is_open(now))
    }

    fn judge(&mut self, now: Instant, class: MessageClass, way: &RequestPath<N>) -> Result<(), Rejection> {
        if class.is_new() && way.to.is_some_and(|to| !self.is_open(now, to)) {
            return Err(Rejection::NO_NEXT_HOP);
        }
        if self.is_off || !self.settings.scope.counts(class) {
            return Ok(());
        }
        if class.is_new() {
            Rejection::of(self.judge_here(now, class, way))?;
        }
        let Some(to) = way.to else { return Ok(()) };
        // Section VII-A: at the edge, the own f is combined with the f of the next hop.
        let own = match self.settings.feedback {
            FeedbackLaw::Hop(ReceiverLaw::Loss(_)) if class.is_new() && !way.takes_feedback => {
                self.local.acceptance(&self.load)
            }
            _ => 1.0,
        };
        Rejection::of(self.send(now, class, to, own))
    }

    /// Decides by the load of this host.
    fn judge_here(&mut self, now: Instant, class: MessageClass, way: &RequestPath<N>) -> AdmissionVerdict {
        self.load = self.load_at(now, class);
        if way.is_onward && class.tier() == Tier::First {
            self.load.wait = self.load.wait * 2 / 3;
        }
        match (self.settings.feedback, &mut self.targets, way) {
            // Section VII-A: a host whose upstream neighbours follow its feedback rejects only at the edge.
            (
                FeedbackLaw::Hop(ReceiverLaw::Loss(_)) | FeedbackLaw::EndToEnd,
                _,
                RequestPath { takes_feedback: true, .. },
            )
            | (FeedbackLaw::Hop(ReceiverLaw::Loss(_)), _, RequestPath { to: Some(_), .. }) => {
                AdmissionVerdict::Accept
            }
            (FeedbackLaw::EndToEnd, Some(targets), RequestPath { path: Some(path), .. }) => {
                let own = self.local.acceptance(&self.load);
                targets.judge(now, *path, class, own, &mut self.rng)
            }
            _ => self.local.judge(now, class, &self.load, &mut self.rng),
        }
    }

    /// Decides by the feedback of the next hop. `own`: the f of this host.
    fn send(&mut self, now: Instant, class: MessageClass, to: N, own: f64) -> AdmissionVerdict {
        match self.downstream.sender(now, to, &self.settings) {
            Some(sender) => sender.judge(now, class, own, &mut self.rng),
            None => AdmissionVerdict::Accept,
        }
    }

    /// Handles a response from a downstream neighbour. `retry_after`: of a 503.
    pub fn on_response(
        &mut self,
        now: Instant,
        from: N,
        status: u16,
        retry_after: Option<Duration>,
        notice: Option<&UpstreamFeedback>,
    ) {
        let is_unavailable = status == 503;
        if self.is_off && !is_unavailable {
            return;
        }
        if is_unavailable {
            self.is_idle = false;
            if let Some(known) = self.downstream.enter(now, from) {
                known.backoff.on_503(now, retry_after, self.settings.during);
            }
        }
        self.on_answer(now, from, notice);
    }

    /// Like [`on_response`](Self::on_response), for a host that handles pauses itself.
    pub fn on_answer(&mut self, now: Instant, from: N, notice: Option<&UpstreamFeedback>) {
        if let Some(sender) = self.downstream.get_mut(from).and_then(|known| known.sender.as_mut()) {
            sender.on_response();
        }
        match notice {
            Some(UpstreamFeedback::Hop(feedback)) => {
                if let Some(sender) = self.downstream.sender(now, from, &self.settings) {
                    sender.on_feedback(now, feedback, &mut self.rng);
                }
            }
            Some(UpstreamFeedback::Target(report)) => {
                if let Some(targets) = &mut self.targets {
                    targets.on_report(now, from, report);
                }
            }
            None => {}
        }
    }

    /// Counts a message that joined the host's queue, which now holds `queue` messages.
    pub fn on_enqueue(&mut self, now: Instant, class: MessageClass, queue: usize) {
        if !self.is_off {
            self.backlog.on_enqueue(now, class);
            self.on_queue(queue);
        }
    }

    /// Counts a message that left the host's queue, because it is served now or was too old.
    pub fn on_dequeue(&mut self, now: Instant, class: MessageClass, queue: usize) {
        if !self.is_off {
            self.backlog.on_dequeue(now, class);
            self.on_queue(queue);
            if self.receiver.is_some() {
                self.note_wait(self.wait(now));
            }
        }
    }

    /// Sets the length of a queue whose messages are not reported one by one.
    pub fn on_queue(&mut self, queue: usize) {
        self.load.queue = queue;
        self.local.on_queue(queue);
    }

    /// Reports the time that the present message waited in the buffer of a socket, where the host cannot count
    /// messages. The same amount of work is assumed to wait in the buffer now, besides the host's own queue. It is
    /// assumed to be done in the same time unless other messages show more.
    pub fn on_waited(&mut self, now: Instant, waited: Duration) {
        self.read_by = now + waited;
    }

    /// Counts the wait of a new request for the shortest wait of a period.
    pub fn note_wait(&mut self, wait: Duration) {
        self.waits.count += 1;
        self.waits.shortest = self.waits.shortest.min(wait);
    }

    /// Counts a message that took `service` of a worker's time.
    pub fn on_served(&mut self, class: MessageClass, service: Duration) {
        if self.is_off {
            return;
        }
        self.backlog.on_served(class, service);
        if let Some(receiver) = &mut self.receiver {
            receiver.on_served(class);
        }
    }

    /// Counts a served request, for a host that serves each request as it comes and uses no windows. `from`: the
    /// neighbour, if it follows feedback.
    pub fn on_handled(&mut self, now: Instant, from: Option<N>, class: MessageClass) {
        let Some(receiver) = &mut self.receiver else { return };
        receiver.on_served(class);
        if let Some(from) = from {
            receiver.on_arrival(now, from, class);
            if class.is_new() {
                receiver.on_confirmed(from);
            }
        }
    }

    /// Whether a request may go to a neighbour, for a host that uses no windows and handles pauses itself. A silent
    /// neighbour gets a request from time to time (RFC 7339 §5.9).
    pub fn may_pass(&mut self, now: Instant, class: MessageClass, to: N) -> bool {
        let Some(sender) = self.downstream.sender(now, to, &self.settings) else { return true };
        let passes = sender.judge(now, class, 1.0, &mut self.rng).is_accept();
        if passes && class.is_new() {
            sender.on_settled(now, RequestOutcome::NotSent);
        }
        passes
    }

    /// Counts a request to which a neighbour has sent no response.
    pub fn on_silence(&mut self, now: Instant, to: N) {
        self.on_sent(now, Some(to), RequestOutcome::Silent);
    }

    /// Limit that a neighbour has set, if it is in force, and whether the neighbour counts as silent.
    pub fn limit_of(&self, now: Instant, to: N) -> (Option<ClientLimit>, bool) {
        let sender = self.downstream.get(to).and_then(|known| known.sender.as_ref());
        sender.map_or((None, false), |sender| (sender.limit(now), sender.is_silent()))
    }

    /// Counts an accepted new request that is not forwarded: it was lost on the way to the processor, or was a copy.
    pub fn on_lost(&mut self, now: Instant, from: Option<N>, to: Option<N>) {
        // If requests are decided at their turn, this one was not yet counted as sent.
        if self.settings.reject_at == RejectAt::Arrival {
            self.on_sent(now, to, RequestOutcome::NotSent);
        }
        self.on_left(from);
    }

    /// Handles the first final result of a new request at a next hop: a response, or none. Call it once for each
    /// request sent.
    pub fn on_settled(&mut self, now: Instant, settled: &Settled<N>) {
        self.on_sent(now, settled.to, settled.outcome);
        if settled.is_last {
            self.on_left(settled.from);
        }
    }

    fn on_sent(&mut self, now: Instant, to: Option<N>, outcome: RequestOutcome) {
        let known = to.and_then(|to| self.downstream.get_mut(to));
        if let Some(sender) = known.and_then(|known| known.sender.as_mut()) {
            sender.on_settled(now, outcome);
        }
    }

    /// Records that an accepted new request is no longer under way here.
    fn on_left(&mut self, from: Option<N>) {
        if let Some((receiver, from)) = self.receiver.as_mut().zip(from) {
            receiver.on_confirmed(from);
        }
    }

    /// Time of the next [`tick`](Self::tick); `None` if none is needed.
    pub fn deadline(&self) -> Option<Instant> {
        let meters = [&self.local_meter, &self.receiver_meter];
        meters.into_iter().flatten().map(Utilisation::deadline).min()
    }

    /// Updates the laws whose period is over. `busy`: total busy time of the workers since the guard was created.
    pub fn tick(&mut self, now: Instant, busy: Duration) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        self.load = self.load_at(now, MessageClass::NewInvite);
        let poll = |meter: &mut Option<Utilisation>| meter.as_mut()?.poll(now, busy);
        if let Some(utilisation) = poll(&mut self.local_meter) {
            self.load.utilisation = utilisation;
            self.local.on_period(&self.load);
        }
        if let Some((receiver, utilisation)) = self.receiver.as_mut().zip(poll(&mut self.receiver_meter)) {
            self.load.utilisation = utilisation;
            self.load.standing = self.waits.end();
            receiver.on_period(now, &self.load);
        }
    }

    /// Whether responses to upstream neighbours carry feedback.
    pub fn gives_notice(&self) -> bool {
        self.receiver.is_some() || self.targets.is_some()
    }

    /// Hop-by-hop feedback of this host; `None` if it gives none.
    pub fn feedback(&self) -> Option<Feedback> {
        self.receiver.as_ref().map(HopReceiver::feedback)
    }

    /// Hop-by-hop feedback for a neighbour that follows only fractions; `None` if this host gives none.
    pub fn loss_feedback(&self, to: N) -> Option<Feedback> {
        self.receiver.as_ref().map(|receiver| receiver.loss_feedback(to))
    }

    /// Feedback for a response to an upstream neighbour. `path`: path of the request, if it is part of end-to-end
    /// feedback.
    pub fn notice(&mut self, now: Instant, path: Option<DownstreamPath>) -> Option<UpstreamFeedback> {
        if let Some(receiver) = &self.receiver {
            return Some(UpstreamFeedback::Hop(receiver.feedback()));
        }
        let own = self.acceptance(now);
        let (targets, path) = self.targets.as_mut().zip(path)?;
        Some(UpstreamFeedback::Target(targets.report(now, path, own)))
    }

    /// Share of new requests that the local law accepts now, 0 to 1.
    pub fn acceptance(&self, now: Instant) -> f64 {
        self.local.acceptance(&self.load_at(now, MessageClass::NewInvite))
    }

    /// Expected wait of a new request that arrives now.
    pub fn wait(&self, now: Instant) -> Duration {
        self.load_at(now, MessageClass::NewInvite).wait
    }

    /// Name of the local law.
    pub fn law(&self) -> &'static str {
        self.local.name()
    }

    /// Load as it applies to a message of this class.
    fn load_at(&self, now: Instant, class: MessageClass) -> HostLoad {
        let ahead = match self.settings.triage {
            Some(_) => self.backlog.wait_in_lane(class),
            None => self.backlog.wait(),
        };
        HostLoad { wait: ahead + self.read_by.saturating_since(now), ..self.load }
    }

    /// Number of messages in the host's queue.
    pub fn waiting(&self) -> usize {
        self.backlog.length()
    }

    /// Accepted new requests of an upstream neighbour that are neither lost nor settled.
    pub fn under_way_from(&self, from: N) -> u32 {
        self.receiver.as_ref().map_or(0, |receiver| receiver.under_way(from))
    }

    /// Accepted new requests for a downstream neighbour that are neither lost nor settled.
    pub fn under_way_to(&self, to: N) -> u32 {
        let sender = self.downstream.get(to).and_then(|known| known.sender.as_ref());
        sender.map_or(0, HopSender::under_way)
    }
}

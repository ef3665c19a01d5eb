//! Any inputs in any order: requests under way add up, and no input causes refusals for ever.

use base::{Instant, Rng};
use core::time::Duration;
use overload::end_to_end::{DownstreamPath, TargetReport, TargetServer};
use overload::hop::{self, ClientLimit, ReceiverLaw, RequestOutcome};
use overload::local::{bang_bang, delay, occupancy};
use overload::retry_after;
use overload::{
    FeedbackLaw, Guard, LocalLaw, MessageClass, OverloadSettings, RejectAt, RequestPath, Scope, Settled,
    Triage, UpstreamFeedback,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Upstream and downstream neighbours share numbers: one host may be both.
const NEIGHBOURS: u8 = 4;
const QUEUE_MAX: usize = 8;
const WORKERS: u32 = 2;

/// One input.
#[derive(Clone, Debug)]
enum Input {
    /// A request arrives.
    Request(MessageClass, RequestPath<u8>),
    /// The first message in the queue gets its turn, or is stale.
    Turn { stale: bool },
    /// A sent request is answered; if it was refused, it may continue to a user agent.
    Settle { which: usize, outcome: RequestOutcome, goes_on: bool },
    /// A response with a Retry-After in seconds, or a notice.
    Response { from: u8, status: u16, retry_after: Option<u64>, notice: Option<UpstreamFeedback> },
    /// A message waited for this many milliseconds in the buffer of a socket.
    Waited(u64),
    /// This many milliseconds pass, with this share of them busy.
    Pass { millis: u64, busy: f64 },
    /// The host dies and restarts at once.
    Die,
}

fn settings() -> impl Strategy<Value = OverloadSettings> {
    let watermarks = bang_bang::BangBangSettings { high: 5, low: 2 };
    let pause = Duration::from_secs(10);
    let law = occupancy::OccupancySettings::default();
    let local = select(vec![
        LocalLaw::None,
        LocalLaw::BangBang(watermarks),
        LocalLaw::RetryAfter(retry_after::RetryAfterSettings { watermarks, pause }),
        LocalLaw::Occupancy(law),
        LocalLaw::Delay(delay::DelaySettings::default()),
    ]);
    let feedback = select(vec![
        FeedbackLaw::None,
        FeedbackLaw::Hop(ReceiverLaw::Loss(law)),
        FeedbackLaw::Hop(ReceiverLaw::Rate),
        FeedbackLaw::Hop(ReceiverLaw::Window),
        FeedbackLaw::EndToEnd,
    ]);
    let scope = select(vec![Scope::NewRequests, Scope::AllRequests]);
    let reject_at = select(vec![RejectAt::Arrival, RejectAt::Service]);
    (local, feedback, scope, reject_at, any::<bool>()).prop_map(
        |(local, feedback, scope, reject_at, triage)| OverloadSettings {
            local,
            feedback,
            scope,
            reject_at,
            triage: triage.then(Triage::default),
            ..OverloadSettings::default()
        },
    )
}

fn path() -> impl Strategy<Value = DownstreamPath> {
    (0..2_u32, 0..3_u8).prop_map(|(target, hops)| DownstreamPath { target: TargetServer(target), hops })
}

fn way() -> impl Strategy<Value = RequestPath<u8>> {
    let neighbour = || proptest::option::weighted(0.8, 0..NEIGHBOURS);
    (neighbour(), any::<bool>(), neighbour(), proptest::option::of(path())).prop_map(
        |(from, takes_feedback, to, path)| RequestPath {
            from,
            takes_feedback: takes_feedback && from.is_some(),
            to,
            path,
            is_onward: false,
        },
    )
}

fn notice() -> impl Strategy<Value = UpstreamFeedback> {
    let limit = prop_oneof![
        Just(None),
        (0.0..1.0).prop_map(|fraction| Some(ClientLimit::Loss(fraction))),
        (0.0..50.0).prop_map(|rate| Some(ClientLimit::Rate(rate))),
        (0.0..5.0).prop_map(|window| Some(ClientLimit::Window(window))),
    ];
    let feedback = (limit, 0..30_000_u64, any::<u64>()).prop_map(|(limit, validity, sequence)| {
        UpstreamFeedback::Hop(hop::Feedback { limit, validity: Duration::from_millis(validity), sequence })
    });
    let report = (path(), 0.0..1.0, any::<u64>()).prop_map(|(path, acceptance, sequence)| {
        UpstreamFeedback::Target(TargetReport { path, acceptance, sequence })
    });
    prop_oneof![3 => feedback, 1 => report]
}

fn input() -> impl Strategy<Value = Input> {
    let outcome = select(vec![
        RequestOutcome::Answered,
        RequestOutcome::Refused,
        RequestOutcome::Silent,
        RequestOutcome::NotSent,
    ]);
    let settle = (any::<usize>(), outcome, proptest::bool::weighted(0.3))
        .prop_map(|(which, outcome, goes_on)| Input::Settle { which, outcome, goes_on });
    let response = (
        0..NEIGHBOURS,
        select(vec![100, 180, 200, 486, 503]),
        proptest::option::weighted(0.2, 0..60_u64),
        proptest::option::of(notice()),
    )
        .prop_map(|(from, status, retry_after, notice)| Input::Response {
            from,
            status,
            retry_after,
            notice,
        });
    let class = select(MessageClass::ALL[2..].to_vec());
    let invite = select(vec![MessageClass::NewInvite]);
    prop_oneof![
        8 => (invite, way()).prop_map(|(class, way)| Input::Request(class, way)),
        2 => (class, way()).prop_map(|(class, way)| Input::Request(class, way)),
        8 => proptest::bool::weighted(0.1).prop_map(|stale| Input::Turn { stale }),
        6 => settle,
        4 => response,
        2 => (0..500_u64).prop_map(Input::Waited),
        6 => (1..40_u64, 0.0..1.0).prop_map(|(millis, busy)| Input::Pass { millis, busy }),
    ]
}

/// A host with a queue that follows its guard's decisions.
struct Host {
    now: Instant,
    busy: Duration,
    guard: Guard<u8>,
    queue: Vec<(MessageClass, RequestPath<u8>)>,
    /// New requests that were sent and not answered.
    sent: Vec<RequestPath<u8>>,
}

impl Host {
    fn new(settings: OverloadSettings) -> Self {
        let guard = Guard::new(Instant::ZERO, settings, WORKERS, Duration::from_millis(1), Rng::from_seed(1));
        Self { now: Instant::ZERO, busy: Duration::ZERO, guard, queue: Vec::new(), sent: Vec::new() }
    }

    /// Whether the request is accepted on arrival.
    fn request(&mut self, class: MessageClass, way: RequestPath<u8>) -> bool {
        if self.guard.on_request(self.now, class, &way).is_err() {
            return false;
        }
        if self.queue.len() < QUEUE_MAX {
            self.queue.push((class, way));
            self.guard.on_enqueue(self.now, class, self.queue.len());
        } else if class.is_new() {
            self.guard.on_lost(self.now, way.from, way.to);
        }
        true
    }

    /// Whether the request is forwarded.
    fn turn(&mut self, stale: bool) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        let (class, way) = self.queue.remove(0);
        self.guard.on_dequeue(self.now, class, self.queue.len());
        if stale {
            if class.is_new() {
                self.guard.on_lost(self.now, way.from, way.to);
            }
            return false;
        }
        let sent = self.guard.on_turn(self.now, class, &way).is_ok();
        self.guard.on_served(class, Duration::from_millis(2));
        if sent && class.is_new() {
            self.sent.push(way);
        }
        sent
    }

    fn settle(&mut self, which: usize, outcome: RequestOutcome, goes_on: bool) {
        if self.sent.is_empty() {
            return;
        }
        let mut way = self.sent.swap_remove(which % self.sent.len());
        let is_last = !goes_on || way.to.is_none() || outcome == RequestOutcome::Answered;
        self.guard.on_settled(self.now, &Settled { from: way.from, to: way.to, outcome, is_last });
        if !is_last {
            way.to = None;
            self.sent.push(way);
        }
    }

    fn pass(&mut self, length: Duration, busy: f64) {
        let end = self.now + length;
        while let Some(deadline) = self.guard.deadline().filter(|deadline| *deadline <= end) {
            self.busy += ((deadline - self.now) * WORKERS).mul_f64(busy);
            self.now = deadline;
            self.guard.tick(self.now, self.busy);
            assert!(self.guard.deadline() > Some(self.now), "the next deadline is later");
        }
        self.busy += ((end - self.now) * WORKERS).mul_f64(busy);
        self.now = end;
    }

    fn input(&mut self, input: &Input) {
        match input {
            Input::Request(class, way) => drop(self.request(*class, *way)),
            Input::Turn { stale } => drop(self.turn(*stale)),
            Input::Settle { which, outcome, goes_on } => self.settle(*which, *outcome, *goes_on),
            Input::Response { from, status, retry_after, notice } => {
                let retry_after = retry_after.map(Duration::from_secs);
                self.guard.on_response(self.now, *from, *status, retry_after, notice.as_ref());
            }
            Input::Waited(millis) => self.guard.on_waited(self.now, Duration::from_millis(*millis)),
            Input::Pass { millis, busy } => self.pass(Duration::from_millis(*millis), *busy),
            Input::Die => {
                self.guard.forget();
                self.queue.clear();
                self.sent.clear();
            }
        }
    }

    /// The guard's counts equal the actual numbers.
    fn audit(&self) {
        let OverloadSettings { reject_at, feedback, .. } = *self.guard.settings();
        let is_hop = matches!(feedback, FeedbackLaw::Hop(_));
        let waiting = || self.queue.iter().filter(|(class, _)| class.is_new()).map(|(_, way)| way);
        let sent_early = waiting().filter(|_| reject_at == RejectAt::Arrival);
        let sent: Vec<_> = self.sent.iter().chain(sent_early).collect();
        let taken: Vec<_> = self.sent.iter().chain(waiting()).collect();
        for neighbour in (0..NEIGHBOURS).map(Some) {
            let count = |ways: &[&RequestPath<u8>], of: fn(&RequestPath<u8>) -> Option<u8>| {
                ways.iter().filter(|way| is_hop && of(way) == neighbour).count() as u32
            };
            let neighbour = neighbour.expect("one of the neighbours");
            assert_eq!(
                self.guard.under_way_from(neighbour),
                count(&taken, |way| way.from),
                "from {neighbour}"
            );
            assert_eq!(self.guard.under_way_to(neighbour), count(&sent, |way| way.to), "to {neighbour}");
        }
        assert_eq!(self.guard.waiting(), if self.guard.is_off() { 0 } else { self.queue.len() });
    }

    /// Ends everything that is under way.
    fn drain(&mut self) {
        while !self.queue.is_empty() {
            self.turn(false);
        }
        while !self.sent.is_empty() {
            self.settle(0, RequestOutcome::Answered, false);
        }
        self.audit();
    }

    /// Whether a request is accepted and sent; it is answered at once, without feedback.
    fn completes(&mut self, class: MessageClass, way: RequestPath<u8>) -> bool {
        let is_sent = self.request(class, way) && self.turn(false);
        if let Some(to) = way.to.filter(|_| is_sent) {
            self.guard.on_response(self.now, to, 200, None, None);
        }
        if is_sent && class.is_new() {
            self.settle(0, RequestOutcome::Answered, false);
        }
        is_sent
    }
}

/// Longer than any pause, validity, period or probe in these tests.
const QUIET: Duration = Duration::from_mins(2);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 512 } else { 4096 }))]

    /// The inputs take less than the ten seconds after which a silent neighbour is forgotten.
    #[test]
    fn accepted_requests_are_under_way_until_lost_or_settled(
        settings in settings(),
        inputs in prop::collection::vec(prop_oneof![60 => input(), 1 => Just(Input::Die)], 1..240),
    ) {
        let mut host = Host::new(settings);
        for input in &inputs {
            host.input(input);
            host.audit();
        }
    }

    #[test]
    fn after_a_quiet_time_every_request_is_accepted_again(
        settings in settings(),
        inputs in prop::collection::vec(input(), 1..240),
        ways in prop::collection::vec(way(), 1..20),
    ) {
        let mut host = Host::new(settings);
        for input in &inputs {
            host.input(input);
        }
        host.drain();
        host.pass(QUIET, 0.0);
        for way in ways {
            for class in &MessageClass::ALL[2..] {
                prop_assert!(host.completes(*class, way), "{class:?} {way:?}");
            }
            host.pass(Duration::from_millis(50), 0.05);
        }
        if let Some(UpstreamFeedback::Hop(feedback)) = host.guard.notice(host.now, None) {
            prop_assert_eq!(feedback.limit, None);
        }
        host.audit();
    }
}

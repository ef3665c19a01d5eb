//! The queue of a thread that has more messages than time. Messages that finish work are served before messages that
//! start it.
//!
//! No message waits here as long as a thread keeps up, since it handles what it reads at once. A full batch shows that
//! more messages wait in the socket. Then the socket is read dry in bounded steps, and messages wait here by class.

use base::{Flow, Instant, Recent};
use core::hash::BuildHasher;
use overload::{
    MessageClass, ReadShares, Refusing, RequestInfo, Triage, TriageDecision, is_above_routine, is_emergency,
};
use std::collections::{HashSet, VecDeque};
use std::hash::RandomState;
use std::time::Duration;
use wire::Peek;

/// Most bytes in a lane: room for some thousand usual messages.
const LANE: usize = 1 << 20;
/// The same for new requests other than INVITE. After an outage, telephones retransmit all at the same time every 4 s, so
/// requests for 4 s have to wait here.
const LANE_OF_OTHERS: usize = 4 << 20;

/// Smallest size of a message. Besides its bytes it takes some 90 bytes in the lane's list and in the hashes.
const LEAST: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    flow: Flow,
    class: MessageClass,
    /// When the message arrived at the socket.
    arrived: Instant,
    /// Hash of sender and bytes.
    hash: u64,
    start: usize,
    length: usize,
}

/// Messages of equal rank, first come first served, in a circular buffer.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Waiting>,
    bytes: Vec<u8>,
    /// Most bytes.
    most: usize,
}

impl Lane {
    fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Returns where a message of this length fits in one piece.
    fn room(&self, length: usize) -> Option<usize> {
        let length = length.max(LEAST);
        let (Some(first), Some(last)) = (self.waiting.front(), self.waiting.back()) else {
            return (length <= self.most).then_some(0);
        };
        let (head, tail) = (first.start, last.start + last.length.max(LEAST));
        if tail > head {
            if self.most - tail >= length { Some(tail) } else { (head >= length).then_some(0) }
        } else {
            (head - tail >= length).then_some(tail)
        }
    }

    fn push(&mut self, message: Waiting, bytes: &[u8]) -> bool {
        let Some(start) = self.room(bytes.len()) else { return false };
        let end = start + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(bytes);
        self.waiting.push_back(Waiting { start, ..message });
        true
    }
}

/// Counts of messages in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct TriageCounts {
    /// Messages that waited.
    pub queued: u64,
    /// Copies of waiting messages.
    pub copies: u64,
    /// Messages without room.
    pub full: u64,
    /// New requests whose senders have given up, or that could not even be refused in time.
    pub dropped: u64,
}

/// The queue of a thread.
#[derive(Debug)]
pub(crate) struct TriageQueue {
    lanes: [Lane; MessageClass::LANES],
    hashes: HashSet<u64>,
    hasher: RandomState,
    turns: usize,
    /// Recently dropped INVITE requests, whose retransmissions are refused. A call accepted only then would be set up
    /// late, at the expense of a call that is in time.
    dropped: Recent<u64, ()>,
    /// Time spent on refusals.
    refusing: Refusing,
    pub counts: TriageCounts,
}

/// A message whose turn has come.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub flow: Flow,
    pub bytes: &'a [u8],
    pub class: MessageClass,
    /// Wait of the message. For a retransmission of a dropped message it is long enough that the message is refused.
    pub waited: Duration,
}

/// Every `FAIR`th turn goes to the lanes in rotation, so that no lane waits forever behind a flood of messages of a
/// higher rank.
const FAIR: usize = 8;

/// Limit of remembered dropped requests in each of two generations: as many as are dropped in T1 at a rate of 100,000 a
/// second. Each takes 16 bytes.
const DROPPED: usize = 50_000;

/// Every `SHARE`th turn goes to usual new calls while priority requests wait, since strangers may claim an emergency,
/// and to other new requests while calls wait, so that telephones stay registered during an overload of calls.
const SHARE: usize = 4;

impl TriageQueue {
    pub(crate) fn new() -> Self {
        Self {
            lanes: std::array::from_fn(|lane| {
                Lane::new(if lane == MessageClass::NewOther.lane() { LANE_OF_OTHERS } else { LANE })
            }),
            hashes: HashSet::new(),
            hasher: RandomState::new(),
            turns: 0,
            dropped: Recent::new(DROPPED),
            refusing: Refusing::default(),
            counts: TriageCounts::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Adds a message of this flow that has already `waited`, unless a copy of it waits or there is no room.
    /// `is_trusted`: the sender's Resource-Priority counts.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        waited: Duration,
        flow: Flow,
        bytes: &[u8],
        is_trusted: bool,
    ) {
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        let arrived = Instant::from_nanos(now.as_nanos().saturating_sub(waited));
        let class = class_of(bytes, is_trusted);
        let hash = self.hasher.hash_one((flow.peer, bytes));
        if class.is_new() {
            self.refusing.on_read(class);
        }
        if !self.hashes.insert(hash) {
            self.counts.copies += 1;
            return;
        }
        let message = Waiting { flow, class, arrived, hash, start: 0, length: bytes.len() };
        if self.lanes[class.lane()].push(message, bytes) {
            self.counts.queued += 1;
        } else {
            self.hashes.remove(&hash);
            self.counts.full += 1;
            self.note_dropped(&message);
        }
    }

    fn note_dropped(&mut self, message: &Waiting) {
        if matches!(message.class, MessageClass::NewInvite | MessageClass::Priority) {
            self.dropped.insert(message.hash, ());
        }
    }

    /// Returns the next message by the `rules`. A new request that has waited longer than `late` may be dropped if
    /// there is no time to refuse it.
    pub(crate) fn pop(&mut self, now: Instant, rules: &Triage, late: Duration) -> Option<Turn<'_>> {
        let (lane, message) = loop {
            let lane = self.next_lane()?;
            let message = self.lanes[lane].waiting.pop_front()?;
            self.hashes.remove(&message.hash);
            if !self.is_dropped(now, &message, rules, late) {
                break (lane, message);
            }
            self.counts.dropped += 1;
            self.note_dropped(&message);
        };
        self.turns = self.turns.wrapping_add(1);
        if message.class.is_new() {
            self.refusing.on_taken(message.class);
        }
        let bytes = &self.lanes[lane].bytes[message.start..message.start + message.length];
        let mut waited = now.saturating_since(message.arrived);
        if self.dropped.get(&message.hash).is_some() {
            waited = waited.max(rules.reject_after);
        }
        Some(Turn { flow: message.flow, bytes, class: message.class, waited })
    }

    fn next_lane(&self) -> Option<usize> {
        let has_any = |lane: &usize| !self.lanes[*lane].waiting.is_empty();
        let fair = self.turns / FAIR % self.lanes.len();
        let first = Some(fair).filter(|lane| self.turns.is_multiple_of(FAIR) && has_any(lane));
        let next = first.or_else(|| (0..self.lanes.len()).find(has_any))?;
        let [priority, calls, others] =
            [MessageClass::Priority, MessageClass::NewInvite, MessageClass::NewOther].map(MessageClass::lane);
        let behind = if next == priority { [calls, others].into_iter().find(has_any) } else { Some(others) };
        let yields = (next == priority || next == calls) && self.turns.is_multiple_of(SHARE);
        Some(behind.filter(|lane| yields && has_any(lane)).unwrap_or(next))
    }

    /// Returns whether the sender has given up, or there is no time to refuse a late request.
    fn is_dropped(&mut self, now: Instant, message: &Waiting, rules: &Triage, late: Duration) -> bool {
        let waited = now.saturating_since(message.arrived);
        let is_late = message.class.is_new() && waited > late * message.class.patience();
        rules.decision(message.class, waited) == TriageDecision::Drop
            || (is_late && !self.refusing.may_refuse(message.class.tier()))
    }

    /// Adds the time of deciding about refused requests and of writing the responses. Reading the requests and their
    /// ACKs takes about as long again.
    pub(crate) fn on_refused(&mut self, spent: Duration) {
        self.refusing.on_refused(spent * 2);
    }

    /// Adds the time of handling requests other than INVITE.
    pub(crate) fn on_others(&mut self, spent: Duration) {
        self.refusing.on_others(spent);
    }

    /// Counts a message that is handled without waiting here.
    pub(crate) fn on_direct(&mut self, bytes: &[u8]) {
        if self.refusing.deadline().is_none() {
            return;
        }
        let class = class_of(bytes, false);
        if class.is_new() {
            self.refusing.on_read(class);
            self.refusing.on_taken(class);
        }
    }

    /// Whether to ask for [`pass`](Self::pass).
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.refusing.is_due(now)
    }

    /// Shares of new requests that the thread should read. Since the last time, the kernel has passed the shares
    /// `passed` and dropped `unread` datagrams. `busy` is the thread's busy time.
    pub(crate) fn pass(
        &mut self,
        now: Instant,
        passed: ReadShares,
        unread: u64,
        busy: Duration,
    ) -> ReadShares {
        let waiting = self.lanes[MessageClass::NewOther.lane()].waiting.len();
        self.refusing.roll(now, passed, unread, busy, waiting);
        self.refusing.pass()
    }

    /// Time at which to ask for [`pass`](Self::pass) again; `None` while all requests are read.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.refusing.deadline()
    }
}

/// Returns the class of a message from a quick look. It decides only about the order of the queue.
fn class_of(bytes: &[u8], is_trusted: bool) -> MessageClass {
    let has_resource_priority = || is_trusted && Peek::resource_priority(bytes).is_some_and(is_above_routine);
    match Peek::at(bytes) {
        Peek::Response => MessageClass::Response,
        // Garbage and keep-alive messages.
        Peek::Other => MessageClass::Probe,
        Peek::Request { method, uri, has_to_tag: in_dialog } => {
            let priority = is_emergency(method, uri) || has_resource_priority();
            MessageClass::of(RequestInfo { method, in_dialog, repeat: false, priority })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_millis(31);

    fn flow() -> Flow {
        Flow::udp(0, "192.0.2.1:5060".parse().expect("an address"))
    }

    fn message(start: &str, to: &str, number: usize) -> Vec<u8> {
        format!("{start}\r\nTo: <sip:a@example.com>{to}\r\nCall-ID: {number}\r\n\r\n").into_bytes()
    }

    fn starts(queue: &mut TriageQueue, now: u64) -> Vec<String> {
        let mut starts = Vec::new();
        while let Some(turn) = queue.pop(Instant::from_millis(now), &Triage::default(), LATE) {
            let text = String::from_utf8_lossy(turn.bytes);
            starts.push(text.split(' ').next().unwrap_or_default().to_owned());
        }
        starts
    }

    #[test]
    fn messages_that_finish_calls_come_before_new_calls() {
        let mut queue = TriageQueue::new();
        // The first turn goes to the lanes in rotation: to the lane of timers, which is empty.
        for (start, to) in [
            ("OPTIONS sip:a SIP/2.0", ""),
            ("INVITE sip:a SIP/2.0", ""),
            ("INVITE urn:service:sos SIP/2.0", ""),
            ("INVITE sip:b SIP/2.0", ";tag=1"),
            ("BYE sip:b SIP/2.0", ";tag=1"),
            ("SIP/2.0 200 OK", ";tag=1"),
        ] {
            queue.push(Instant::ZERO, Duration::ZERO, flow(), &message(start, to, 1), false);
        }
        assert_eq!(queue.len(), 6);
        let order = starts(&mut queue, 1);
        assert_eq!(order, ["INVITE", "BYE", "SIP/2.0", "INVITE", "INVITE", "OPTIONS"]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_copy_of_a_waiting_message_is_dropped() {
        let mut queue = TriageQueue::new();
        let invite = message("INVITE sip:a SIP/2.0", "", 1);
        (0..7).for_each(|_| queue.push(Instant::ZERO, Duration::ZERO, flow(), &invite, false));
        assert_eq!((queue.len(), queue.counts.copies), (1, 6));
        assert_eq!(starts(&mut queue, 1).len(), 1);
        queue.push(Instant::ZERO, Duration::ZERO, flow(), &invite, false);
        assert_eq!(starts(&mut queue, 1).len(), 1, "after it was served, the shard handles the next copy");
    }

    #[test]
    fn a_flood_of_high_rank_does_not_starve_other_lanes() {
        let mut queue = TriageQueue::new();
        (0..2_000).for_each(|at| {
            queue.push(Instant::ZERO, Duration::ZERO, flow(), &message("SIP/2.0 200 OK", "", at), false);
        });
        queue.push(Instant::ZERO, Duration::ZERO, flow(), &message("INVITE sip:a SIP/2.0", "", 1), false);
        let order = starts(&mut queue, 1);
        let at = order.iter().position(|start| start == "INVITE").expect("the INVITE is served");
        assert!(at <= FAIR * MessageClass::LANES, "{at}");
    }

    #[test]
    fn registrations_wait_longer_than_calls_and_keep_a_share() {
        let mut queue = TriageQueue::new();
        let push = |queue: &mut TriageQueue, start, at| {
            queue.push(Instant::ZERO, Duration::ZERO, flow(), &message(start, "", at), false);
        };
        (0..300).for_each(|at| push(&mut queue, "REGISTER sip:a SIP/2.0", at));
        (0..300).for_each(|at| push(&mut queue, "INVITE sip:a SIP/2.0", at));
        let order = starts(&mut queue, 1);
        let early = order[..300].iter().filter(|start| *start == "REGISTER").count();
        assert!((75..100).contains(&early), "{early} before the last call");
        // There is no time to refuse late requests.
        for at in 30_000..32_000 {
            queue.on_refused(Duration::from_micros(200));
            queue.pass(Instant::from_millis(at), ReadShares::ALL, 0, Duration::ZERO);
        }
        for start in ["INVITE sip:a SIP/2.0", "REGISTER sip:a SIP/2.0"] {
            queue.push(Instant::from_millis(32_000), Duration::ZERO, flow(), &message(start, "", 1), false);
        }
        assert_eq!(starts(&mut queue, 33_500), ["REGISTER"]);
    }

    #[test]
    fn a_flood_of_emergency_calls_leaves_others_a_share() {
        let mut queue = TriageQueue::new();
        for at in 0..2_000 {
            queue.push(
                Instant::ZERO,
                Duration::ZERO,
                flow(),
                &message("INVITE urn:service:sos SIP/2.0", "", at),
                false,
            );
            queue.push(
                Instant::ZERO,
                Duration::ZERO,
                flow(),
                &message("REGISTER sip:a SIP/2.0", "", at),
                false,
            );
        }
        let order = starts(&mut queue, 1);
        let others = order[..1_000].iter().filter(|start| *start == "REGISTER").count();
        assert!((200..400).contains(&others), "{others}");
    }

    #[test]
    fn trusted_senders_have_priority_in_the_queue() {
        let priority = "INVITE sip:a SIP/2.0\r\nResource-Priority: ets.0";
        let class = |is_trusted| class_of(&message(priority, "", 1), is_trusted);
        assert_eq!([true, false].map(class), [MessageClass::Priority, MessageClass::NewInvite]);
    }

    #[test]
    fn small_datagrams_take_no_more_memory_than_large_ones() {
        let mut queue = TriageQueue::new();
        for at in 0..100_000_u32 {
            queue.push(Instant::ZERO, Duration::ZERO, flow(), &at.to_ne_bytes(), false);
        }
        assert_eq!(queue.len(), LANE / LEAST);
    }

    #[test]
    fn memory_is_bounded_and_used_again() {
        let mut queue = TriageQueue::new();
        let push = |queue: &mut TriageQueue, at| {
            let mut bytes = message("INVITE sip:a SIP/2.0", "", at);
            bytes.resize(500 + at * 7919 % 3_000, b' ');
            queue.push(Instant::from_millis(at as u64), Duration::ZERO, flow(), &bytes, false);
            bytes
        };
        let mut kept = VecDeque::new();
        for at in 0..20_000 {
            let before = queue.counts.full;
            let bytes = push(&mut queue, at);
            if queue.counts.full == before {
                kept.push_back(bytes);
            }
            if at % 3 == 0 || at > 10_000 {
                let turn = queue.pop(
                    Instant::from_millis(at as u64),
                    &Triage { drop_after: Duration::MAX, ..Triage::default() },
                    LATE,
                );
                assert_eq!(turn.map(|turn| turn.bytes.to_vec()), kept.pop_front(), "at {at}");
            }
        }
        assert!(queue.counts.full > 0 && queue.lanes.iter().all(|lane| lane.bytes.len() <= lane.most));
    }

    #[test]
    fn an_empty_datagram_takes_no_room() {
        let mut queue = TriageQueue::new();
        for bytes in [&b""[..], b"x", b"y"] {
            queue.push(Instant::ZERO, Duration::ZERO, flow(), bytes, false);
        }
        assert_eq!((queue.len(), queue.counts.full), (3, 0));
        assert_eq!(starts(&mut queue, 1), ["", "x", "y"]);
    }

    #[test]
    fn a_stale_request_is_dropped_and_so_is_a_late_one_without_time_for_refusals() {
        let mut queue = TriageQueue::new();
        let push = |queue: &mut TriageQueue, start| {
            queue.push(Instant::ZERO, Duration::ZERO, flow(), &message(start, "", 1), false);
        };
        push(&mut queue, "INVITE sip:a SIP/2.0");
        push(&mut queue, "SIP/2.0 200 OK");
        assert_eq!(starts(&mut queue, 32_000), ["SIP/2.0"]);
        assert_eq!(queue.counts.dropped, 1);
        // Four tenths of the time.
        for at in 30_000..32_100 {
            queue.on_refused(Duration::from_micros(200));
            queue.pass(Instant::from_millis(at), ReadShares::ALL, 0, Duration::ZERO);
        }
        for start in ["INVITE sip:a SIP/2.0", "INVITE urn:service:sos SIP/2.0"] {
            queue.push(Instant::from_millis(32_000), Duration::ZERO, flow(), &message(start, "", 1), false);
        }
        assert_eq!(starts(&mut queue, 32_110).len(), 1, "the emergency call");
        for (start, waited) in [("INVITE sip:a SIP/2.0", 500), ("INVITE sip:b SIP/2.0", 0)] {
            let now = Instant::from_millis(40_000);
            queue.pass(now, ReadShares::ALL, 0, Duration::ZERO);
            queue.push(now, Duration::ZERO, flow(), &message(start, "", 1), false);
            let turn = queue.pop(now, &Triage::default(), LATE).expect("the copy is served");
            assert_eq!(
                turn.waited,
                Duration::from_millis(waited),
                "{start}: a copy of a dropped request is refused"
            );
        }
    }
}

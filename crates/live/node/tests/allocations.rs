//! Without a transaction, a message of an established call allocates nothing once the buffers have grown. With a
//! transaction, it allocates only what is kept for retransmissions.
//!
//! The counting crate replaces the allocator of this whole test program, and counts for each thread.

use crate::common::*;
use allocation_counter::measure;
use base::Outbox;

/// Allocations of the messages of an established call.
#[derive(Clone, Copy)]
struct Allowed {
    /// A request with a transaction.
    request: u64,
    /// The 100 to an INVITE, additional to `request`.
    trying: u64,
    /// A request that refreshes or ends a call, additional to `request`.
    tracked: u64,
    /// A response above 100.
    response: u64,
    /// The ACK to a failure, additional to `response`.
    ack: u64,
    /// The 2xx to a BYE, additional to `response`.
    end: u64,
    /// The 2xx to a request that refreshes a call, additional to `response`. Only some of them allocate.
    target: u64,
}

/// For messages without a transaction. Tables of fixed size do not allocate.
const NOTHING: Allowed =
    Allowed { request: 0, trying: 0, tracked: 0, response: 0, ack: 0, end: 0, target: 0 };

/// With transactions, messages are kept until they can no longer be retransmitted.
const TRANSACTIONS: Allowed = Allowed {
    // Three allocations: a copy of the request, the positions of the edits, and the text of the edits.
    request: 3,
    // The client may retransmit its request, and gets the last response again.
    trying: 1,
    response: 1,
    // Three allocations: the forwarded INVITE as one buffer, the buffer in which the ACK is written, and the ACK in its
    // exact length, which answers retransmissions of the failure.
    ack: 3,
    // A node of the tree of new targets. A node holds several targets, so only some responses allocate.
    target: 1,
    ..NOTHING
};

/// With dialogs, and next hops whose calls are counted, the state of a request is kept until its response as well.
const DIALOGS: Allowed = Allowed {
    // The balancer's record of the request.
    request: TRANSACTIONS.request + 1,
    // The record of the request for its call.
    tracked: 1,
    // The record of the call, which is an event, with the texts that identify the call and the tag of the callee.
    end: 3,
    ..TRANSACTIONS
};

/// Most allocations for the record of a failed request: its texts, its targets and its entry. A repeated failure has
/// none.
const FAILURE: u64 = 12;

impl Allowed {
    /// Allocations of a request of this method.
    fn by_request(&self, method: &str) -> u64 {
        match method {
            // It has no transaction.
            "ACK" => 0,
            "INVITE" => self.request + self.trying + self.tracked,
            "UPDATE" | "BYE" => self.request + self.tracked,
            _ => self.request,
        }
    }

    /// Fewest and most allocations of a response with this status to a request of this method.
    fn by_response(&self, method: &str, status: u16) -> [u64; 2] {
        match (status, method) {
            // A transaction does not forward it.
            (100, _) => [0; 2],
            (200, "INVITE" | "UPDATE") => [self.response, self.response + self.target],
            (300.., "INVITE") => [self.response + self.ack, self.response + self.ack + FAILURE],
            (_, "BYE") => [self.response + self.end; 2],
            _ => [self.response; 2],
        }
    }
}

/// A bed whose messages are measured.
struct Scale {
    bed: Bed,
    out: Outbox<ShardEvent>,
    allowed: Allowed,
    /// Whether the allocations of a message must be the allowed number. If not, buffers may grow.
    is_exact: bool,
    /// Allocations so far.
    count: u64,
}

impl Scale {
    fn new(site: Site, mode: Service, allowed: Allowed) -> Self {
        let mut bed = Bed::new(site).with_mode(mode);
        bed.set(|setup| setup.settings.limits.transactions = usize::MAX);
        if mode.forward() == Forward::Dialog {
            keep_dialogs(&mut bed, DialogSettings::default());
        }
        Self { bed, out: Outbox::default(), allowed, is_exact: false, count: 0 }
    }

    fn has_transactions(&self) -> bool {
        self.allowed.request > 0
    }

    /// Passes a datagram in, which may allocate from `least` to `most` times. Returns the datagram that comes out. With
    /// transactions, it is the last one besides a 100.
    fn pass(
        &mut self,
        listener: u16,
        from: SocketAddr,
        bytes: &[u8],
        [least, most]: [u64; 2],
    ) -> Option<Sent> {
        self.out.clear();
        let now = self.bed.now;
        let (shard, out) = (&mut self.bed.shard, &mut self.out);
        let info = measure(|| {
            shard.handle(now, ShardInput::Message { flow: Flow::udp(listener, from), bytes }, out);
        });
        self.count += info.count_total;
        if self.is_exact {
            let count = info.count_total;
            assert!((least..=most).contains(&count), "{count}: {}", bytes.escape_ascii());
        }
        let mut sent = Sent::all(&self.out);
        if self.has_transactions() {
            sent.retain(|sent| sent.message().status() != Some(100));
        } else {
            assert_eq!(sent.len(), 1, "expected one message out for one in");
        }
        sent.pop()
    }

    /// A request of `from` and its responses.
    fn exchange(&mut self, from: &End, to: &End, request: &Req, statuses: &[u16]) {
        let (method, allowed) = (&*request.method, self.allowed);
        let arrived = self.pass(from.listener, from.at, &request.bytes(), [allowed.by_request(method); 2]);
        let arrived = arrived.unwrap_or_else(|| panic!("{method} was not forwarded"));
        assert_eq!(arrived.to, to.at);
        let source = addr(self.bed.site.listeners[to.listener as usize]);
        for &status in statuses {
            let response = answer(&arrived.bytes, source, status, to.at);
            let back = self.pass(to.listener, to.at, &response, allowed.by_response(method, status));
            let expected = (status > 100 || !self.has_transactions()).then_some((from.at, status));
            assert_eq!(back.map(|back| (back.to, back.status())), expected);
        }
    }

    /// Messages that either side may send during a call, and its end.
    fn live(&mut self, call: &Dialog) {
        let (caller, callee) = (&call.caller, &call.callee);
        self.exchange(caller, callee, &call.by_caller("ACK", 1), &[]);
        for method in ["INFO", "UPDATE", "PRACK", "MESSAGE", "OPTIONS", "REFER", "NOTIFY", "STRANGE"] {
            self.exchange(caller, callee, &call.by_caller(method, 2), &[200]);
            self.exchange(callee, caller, &call.by_callee(method, 2), &[200]);
        }
        self.exchange(caller, callee, &call.by_caller("INVITE", 3), &[100, 180, 200]);
        self.exchange(caller, callee, &call.by_caller("ACK", 3), &[]);
        self.exchange(callee, caller, &call.by_callee("INVITE", 3), &[100, 488]);
        // With the branch of its INVITE (§17.1.1.3).
        let ack = Req { method: "ACK".into(), ..call.by_callee("INVITE", 3) };
        if self.has_transactions() {
            // A transaction absorbs the ACK to a failure.
            let allowed = self.allowed.by_request("ACK");
            assert!(self.pass(callee.listener, callee.at, &ack.bytes(), [allowed; 2]).is_none());
        } else {
            self.exchange(callee, caller, &ack, &[]);
        }
        self.exchange(caller, callee, &call.by_caller("BYE", 4), &[200]);
    }

    /// The messages of a new call.
    fn call(&mut self, number: usize) {
        let call_id = format!("call-{number}");
        let call = Dialog::inbound(&mut self.bed, &call_id, addr("127.0.9.1:6000"), 0);
        self.live(&call);
    }
}

#[test]
fn a_message_in_a_call_allocates_only_what_is_kept() {
    const COUNTED: Service = Service::Calls(Spread::Counted);
    // `before`: calls that grow the tables, all within the time that transactions are kept.
    for (site, mode, allowed, before, calls) in [
        (Site::plain(), Service::Balance, NOTHING, 1, 20),
        (Site::two_sided(), Service::Balance, NOTHING, 1, 20),
        (Site::mixed(), Service::Balance, NOTHING, 1, 20),
        // Only the INVITE of the call has a transaction.
        (Site::plain(), Service::BalanceTransactions, NOTHING, 1, 20),
        // More calls would grow the bounded table of copies.
        (Site::plain(), STATELESS, NOTHING, 1, 9),
        (Site::plain(), Service::HOPS, TRANSACTIONS, 60, 9),
        // The queue of ended calls grows after 64 calls.
        (Site::plain(), COUNTED, DIALOGS, 66, 9),
    ] {
        let mut scale = Scale::new(site, mode, allowed);
        for number in 0..before {
            scale.call(number);
        }
        assert!(scale.count > 0, "the growth of empty buffers is counted");
        scale.is_exact = true;
        for number in before..before + calls {
            // All transactions end.
            scale.bed.wait(Duration::from_secs(33));
            scale.call(number);
        }
    }
}

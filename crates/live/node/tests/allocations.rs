//! A message of an established call allocates nothing, once the buffers have grown to their size.
//!
//! The counting crate replaces the allocator of this whole test program, and counts for each thread.

use crate::common::*;
use allocation_counter::measure;
use base::Outbox;

/// A bed whose messages are measured.
struct Scale {
    bed: Bed,
    out: Outbox<ShardEvent>,
    /// Allocations so far.
    count: u64,
}

impl Scale {
    fn new(site: Site, mode: Service) -> Self {
        Self { bed: Bed::new(site).with_mode(mode), out: Outbox::default(), count: 0 }
    }

    /// Passes a datagram in, and returns the datagram that comes out.
    fn pass(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Sent {
        self.out.clear();
        let now = self.bed.now;
        let (shard, out) = (&mut self.bed.shard, &mut self.out);
        let info = measure(|| {
            shard.handle(now, ShardInput::Message { flow: Flow::udp(listener, from), bytes }, out);
        });
        self.count += info.count_total;
        let [transmit] = self.out.transmits() else { panic!("expected one message out for one in") };
        let bytes = self.out.message(transmit).to_vec();
        Sent::by(transmit.flow, bytes)
    }

    /// A request of `from` and its responses.
    fn exchange(&mut self, from: &End, to: &End, request: &Req, statuses: &[u16]) {
        let arrived = self.pass(from.listener, from.at, &request.bytes());
        assert_eq!(arrived.to, to.at);
        let source = addr(self.bed.site.listeners[to.listener as usize]);
        for &status in statuses {
            let back = self.pass(to.listener, to.at, &answer(&arrived.bytes, source, status, to.at));
            assert_eq!((back.to, back.status()), (from.at, status));
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
        self.exchange(callee, caller, &call.by_callee("ACK", 3), &[]);
        self.exchange(caller, callee, &call.by_caller("BYE", 4), &[200]);
    }
}

#[test]
fn a_message_in_a_call_allocates_nothing() {
    for (site, mode, rounds) in [
        (Site::plain(), Service::Balance, 20),
        (Site::two_sided(), Service::Balance, 20),
        (Site::mixed(), Service::Balance, 20),
        // More rounds would grow the table of copies.
        (Site::plain(), STATELESS, 10),
    ] {
        let mut scale = Scale::new(site, mode);
        for round in 0..rounds {
            let call = Dialog::inbound(&mut scale.bed, &format!("call-{round}"), addr("127.0.9.1:6000"), 0);
            scale.count = 0;
            scale.live(&call);
            if round == 0 {
                assert!(scale.count > 0, "the growth of empty buffers is counted");
            } else {
                assert_eq!(scale.count, 0, "in call {round}");
            }
            scale.bed.wait(Duration::from_secs(7));
        }
    }
}

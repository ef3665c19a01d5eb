//! Calls with a common Call-ID from initiators with different tags: each is a call of its own.

use crate::common::*;
use balance::policy::Cjsq;
use balance::*;
use base::Instant;
use proptest::prelude::*;
use std::time::Duration;
use wire::Method;

const PARTIES: u64 = 5;

/// A message in the call of one initiator.
#[derive(Debug, Clone, Copy)]
enum Step {
    Request { party: u64, method: Method, cseq: u32, branch: u32, in_dialog: bool, by_callee: bool },
    Response { party: u64, method: Method, cseq: u32, branch: u32, status: u16, by_callee: bool },
    Advance { millis: u64 },
}

/// Tags of a message in this party's call. The callee has a tag of its own.
fn tags_of(party: u64, by_callee: bool, has_to_tag: bool) -> Tags {
    let [caller, callee] = [tag(party), tag(100 + party)];
    let (from, to) = if by_callee { (callee, caller) } else { (caller, callee) };
    Tags { from, to: if has_to_tag { to } else { 0 } }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Method::{Ack, Bye, Cancel, Info, Invite, Options};
    let method = || prop::sample::select(vec![Invite, Invite, Invite, Ack, Bye, Cancel, Info, Options]);
    let status = prop::sample::select(vec![100, 180, 200, 200, 401, 481, 486, 487, 503]);
    let transaction = || (0..PARTIES, method(), 1..4_u32, 0..2_u32, prop::bool::weighted(0.3));
    let request =
        (transaction(), any::<bool>()).prop_map(|((party, method, cseq, branch, by_callee), in_dialog)| {
            // A request without a To tag starts a call. From the callee it would be another call, and other methods
            // share a session.
            let in_dialog = in_dialog || !matches!(method, Invite | Ack | Cancel);
            Step::Request { party, method, cseq, branch, in_dialog, by_callee: by_callee && in_dialog }
        });
    let response = (transaction(), status).prop_map(|((party, method, cseq, branch, by_callee), status)| {
        Step::Response { party, method, cseq, branch, status, by_callee }
    });
    let millis = prop_oneof![0..100_u64, 0..40_000_u64, 0..20_000_000_u64];
    let step =
        prop_oneof![10 => request, 10 => response, 2 => millis.prop_map(|millis| Step::Advance { millis })];
    prop::collection::vec(step, 1..200)
}

/// One balancer. `call_of` gives the Call-ID of a party's call.
struct Bed {
    balancer: Balancer,
    now: Instant,
    call_of: fn(u64) -> u64,
}

impl Bed {
    fn new(call_of: fn(u64) -> u64) -> Self {
        let mut cluster = cluster(&[1.0; 3]);
        cluster.set_members(Instant::ZERO, &limited_members(&[1.0; 3], 1));
        let mut balancer = balancer(Box::new(Cjsq::new(0)), &[1.0; 3]);
        balancer.set_nodes(cluster.nodes());
        Self { balancer, now: Instant::ZERO, call_of }
    }

    fn apply(&mut self, step: Step) -> Option<NodeDecision> {
        match step {
            Step::Request { party, method, cseq, branch, in_dialog, by_callee } => {
                let tags = tags_of(party, by_callee, in_dialog);
                let facts =
                    RequestFacts { in_dialog, branch, tags, ..request((self.call_of)(party), method, cseq) };
                return Some(self.balancer.request(self.now, &facts));
            }
            Step::Response { party, method, cseq, branch, status, by_callee } => {
                let tags = tags_of(party, by_callee, true);
                let facts =
                    Response { branch, tags, ..response((self.call_of)(party), method, cseq, status) };
                self.balancer.response(self.now, &facts);
            }
            Step::Advance { millis } => {
                self.now += Duration::from_millis(millis);
                while self.balancer.expire(self.now) > 0 {}
            }
        }
        None
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Results are the same whether parties share a Call-ID or each has its own.
    #[test]
    fn a_call_id_in_common_makes_no_difference(steps in steps()) {
        let [mut one, mut each] = [Bed::new(|_| 0), Bed::new(|party| party)];
        for &step in &steps {
            prop_assert_eq!(one.apply(step), each.apply(step), "{:?}", step);
            let [(a, b), (c, d)] = [&one, &each].map(|bed| (loads(&bed.balancer), bed.balancer.counts()));
            prop_assert_eq!((a, b), (c, d));
            prop_assert_eq!(one.balancer.audit(), Ok(()));
        }
    }
}

fn invite(from: u64) -> RequestFacts<'static> {
    RequestFacts { tags: Tags { from: tag(from), to: 0 }, ..request(1, Method::Invite, 1) }
}

/// Some clients change their tag for a REGISTER with credentials. It must go to the node that sent the challenge.
#[test]
fn a_register_with_another_tag_finds_its_node() {
    let mut bed = Bed::new(|_| 0);
    let register = |from, cseq| RequestFacts {
        tags: Tags { from: tag(from), to: 0 },
        ..request(1, Method::Register, cseq)
    };
    let slot = slot_of(bed.balancer.request(Instant::ZERO, &register(0, 1)));
    let tags = tags_of(0, false, true);
    bed.balancer.response(Instant::ZERO, &Response { tags, ..response(1, Method::Register, 1, 401) });
    assert_eq!(bed.balancer.open_transactions(), 0);
    // Another call with this Call-ID changes nothing.
    bed.balancer.request(Instant::ZERO, &invite(0));
    bed.balancer.request(Instant::ZERO, &invite(1));
    assert_eq!(slot_of(bed.balancer.request(Instant::ZERO, &register(1, 2))), slot);
    assert_eq!(bed.balancer.open_transactions(), 3);
    let tags = tags_of(1, false, true);
    bed.balancer.response(Instant::ZERO, &Response { tags, ..response(1, Method::Register, 2, 200) });
    assert_eq!((bed.balancer.open_transactions(), bed.balancer.counts().expired), (2, 1));
    assert_eq!(bed.balancer.audit(), Ok(()));
}

/// A stranger who has seen the tags of a call starts one with the callee's tag. Requests of the callee still belong to
/// the first call.
#[test]
fn a_call_started_with_the_tag_of_a_callee_is_another_call() {
    let mut bed = Bed::new(|_| 0);
    let balancer = &mut bed.balancer;
    balancer.request(Instant::ZERO, &invite(0));
    let answer = Response { tags: tags_of(0, false, true), ..response(1, Method::Invite, 1, 200) };
    balancer.response(Instant::ZERO, &answer);
    balancer.request(Instant::ZERO, &invite(100));
    assert_eq!(loads(balancer).iter().map(|load| load.calls).sum::<u32>(), 2);
    let bye = RequestFacts { in_dialog: true, tags: tags_of(0, true, true), ..request(1, Method::Bye, 9) };
    let by_callee = RequestFacts { direction: Direction::FromPool, ..bye };
    balancer.request(Instant::ZERO, &by_callee);
    let answer =
        Response { direction: Direction::FromPool, tags: bye.tags, ..response(1, Method::Bye, 9, 200) };
    balancer.response(Instant::ZERO, &answer);
    let session =
        balancer.session(key(1).with_initiator(tag(0))).expect("the ended session is kept for a while");
    assert_eq!((session.state, session.is_call), (SessionState::Expired, false));
    assert_eq!(loads(balancer).iter().map(|load| load.calls).sum::<u32>(), 1);
    assert_eq!(balancer.audit(), Ok(()));
}

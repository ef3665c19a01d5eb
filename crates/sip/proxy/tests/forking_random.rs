//! Random events for requests, forking or not: the rules of RFC 3261 §16.7 and RFC 5393 §5.3.3, checked from outside.

use crate::common::{Bed, Msg, Reply, STATELESS};
use core::time::Duration;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::Method::{self, Ack, Cancel, Invite, Message};

/// Lowest number in responses to CANCELs; callers have lower numbers.
const CANCELS: u64 = 1_000;

/// One event; numbers choose the caller, the branch, the status.
#[derive(Clone, Copy, Debug)]
enum Step {
    Request(bool),
    Repeat(usize),
    Ack(usize),
    Cancel(usize),
    Answer(usize, usize),
    AnswerCancel(usize),
    Unreachable(usize),
    /// From 1 ms to 9 minutes.
    Wait(u32),
}

const STATUSES: [u16; 12] = [100, 180, 180, 183, 200, 302, 401, 407, 486, 487, 503, 603];

fn step() -> impl Strategy<Value = Step> {
    let (number, status) = (0..64_usize, 0..STATUSES.len());
    prop_oneof![
        2 => any::<bool>().prop_map(Step::Request),
        1 => number.clone().prop_map(Step::Repeat),
        1 => number.clone().prop_map(Step::Ack),
        1 => number.clone().prop_map(Step::Cancel),
        1 => number.clone().prop_map(Step::AnswerCancel),
        12 => (number.clone(), status).prop_map(|(branch, status)| Step::Answer(branch, status)),
        1 => number.prop_map(Step::Unreachable),
        3 => (0..20_u32).prop_map(Step::Wait),
    ]
}

/// Forking of requests in a run.
#[derive(Clone, Debug)]
struct Plan {
    groups: Vec<u8>,
    hops: u8,
    ring_time: Option<u64>,
    breadth: u8,
    most: u8,
    /// Patience in milliseconds, for a request with one target.
    patience: Option<u64>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let groups = proptest::collection::vec(1..5_u8, 1..5);
    let ring_time = proptest::option::of(1..40_u64);
    let forks = (groups, 0..3_u8, ring_time, 1..70_u8, 1..16_u8).prop_map(
        |(groups, hops, ring_time, breadth, most)| Plan {
            groups,
            hops,
            ring_time,
            breadth,
            most,
            patience: None,
        },
    );
    let races = (1..4_u8, 1..70_u8, 1..5_u8, 1..400_u64).prop_map(|(hops, breadth, most, patience)| Plan {
        groups: vec![1],
        hops,
        ring_time: None,
        breadth,
        most,
        patience: Some(patience),
    });
    prop_oneof![2 => forks, 1 => races]
}

/// State of a branch, as seen from outside.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    caller: u64,
    breadth: u8,
    rings: bool,
    /// Whether it had a final response, or was unreachable.
    ended: bool,
    cancels: u8,
}

/// State of a caller's request, as seen from outside.
#[derive(Clone, Default, Debug)]
struct Caller {
    /// Final responses in order.
    finals: Vec<u16>,
    /// Whether an active branch has answered 6xx.
    declined: bool,
}

struct World {
    bed: Bed,
    plan: Plan,
    methods: BTreeMap<u64, Method>,
    callers: BTreeMap<u64, Caller>,
    branches: BTreeMap<u64, Seen>,
    read: usize,
}

impl World {
    fn new(plan: &Plan) -> Self {
        let mut bed = Bed::forking(plan.hops, &plan.groups, plan.ring_time.map(Duration::from_secs));
        bed.breadth = plan.breadth;
        bed.script.patience = plan.patience.map(Duration::from_millis);
        bed.script.others = 3;
        bed.proxy.limit_branches(plan.most);
        Self {
            bed,
            plan: plan.clone(),
            methods: BTreeMap::new(),
            callers: BTreeMap::new(),
            branches: BTreeMap::new(),
            read: 0,
        }
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::Request(is_invite) => {
                let (caller, method) =
                    (1 + self.methods.len() as u64, if is_invite { Invite } else { Message });
                self.methods.insert(caller, method);
                self.callers.insert(caller, Caller::default());
                self.bed.request(method, caller);
            }
            Step::Repeat(number) => {
                // After the end of its transaction a retransmission would count as new.
                let known = pick(&self.methods, number)
                    .filter(|caller| self.bed.has_transaction(self.methods[caller], *caller));
                if let Some(caller) = known {
                    self.bed.request(self.methods[&caller], caller);
                }
            }
            Step::Ack(number) => {
                if let Some(caller) = pick(&self.methods, number) {
                    self.bed.request(Ack, caller);
                }
            }
            Step::AnswerCancel(number) => {
                if let Some(branch) = pick(&self.branches, number) {
                    self.bed.answer(Cancel, branch, 200);
                }
            }
            Step::Cancel(number) => {
                if let Some(caller) =
                    pick(&self.methods, number).filter(|caller| self.methods[caller] == Invite)
                {
                    self.bed.request_as(Cancel, caller, CANCELS + caller);
                }
            }
            Step::Answer(number, status) => self.answer(number, STATUSES[status]),
            Step::Unreachable(number) => {
                let Some(branch) = pick(&self.branches, number) else { return };
                let seen =
                    self.branches.get_mut(&branch).expect("the branch was picked among the known ones");
                seen.ended = true;
                self.bed.unreachable(self.methods[&seen.caller], branch);
            }
            Step::Wait(exponent) => {
                self.bed.wait(Duration::from_millis(1 << exponent));
            }
        }
    }

    fn answer(&mut self, number: usize, status: u16) {
        let Some(branch) = pick(&self.branches, number) else { return };
        let seen = self.branches.get_mut(&branch).expect("the branch was picked among the known ones");
        let method = self.methods[&seen.caller];
        let is_alive = !seen.ended && self.bed.expects(method, branch);
        seen.rings |= is_alive && status < 200;
        seen.ended |= status >= 200;
        if is_alive && status >= 600 {
            self.callers.get_mut(&seen.caller).expect("the caller of a branch is known").declined = true;
        }
        let reply = Reply { status, below: Some(seen.caller) };
        self.bed.answer_below(method, branch, reply);
    }

    /// Reads the sent messages.
    fn read(&mut self) {
        for message in &self.bed.log[self.read..] {
            match *message {
                // The response to a CANCEL, or a CANCEL forwarded because its INVITE has ended.
                Msg::Request { branch: STATELESS.., .. } | Msg::Response { branch: CANCELS.., .. } => {}
                Msg::Request { method: Cancel, branch, .. } => {
                    let seen =
                        self.branches.get_mut(&branch).expect("only branches that were sent are cancelled");
                    assert!(self.methods[&seen.caller] == Invite, "§9.1: only an INVITE is cancelled");
                    assert!(seen.rings, "§9.1: no CANCEL before a provisional response");
                    seen.cancels += 1;
                    assert_eq!(seen.cancels, 1, "once");
                }
                Msg::Request { method: Invite | Message, branch, breadth, below, .. } => {
                    let caller = &self.callers[&below];
                    assert!(
                        caller.finals.is_empty() && !caller.declined,
                        "§16.7 step 5: branch {branch} is new: {caller:?}"
                    );
                    let seen = Seen { caller: below, breadth, ..Seen::default() };
                    assert!(
                        self.branches.insert(branch, seen).is_none(),
                        "§16.6 step 8: branches are unique"
                    );
                }
                Msg::Request { .. } => {}
                Msg::Response { status, branch, .. } if status >= 200 => {
                    self.callers.get_mut(&branch).expect("only requests are answered").finals.push(status);
                }
                Msg::Response { status, branch, .. } => {
                    let finals = self.callers.get(&branch).map(|caller| &caller.finals);
                    assert!(finals.is_none_or(Vec::is_empty), "a {status} after the final response");
                }
            }
        }
        self.read = self.bed.log.len();
    }

    fn check(&self) {
        for (id, caller) in &self.callers {
            let failures = caller.finals.iter().filter(|&&status| status >= 300).count();
            assert!(failures <= 1, "{id}: one failure at most: {caller:?}");
            let first_ok = caller.finals.iter().position(|&status| status < 300);
            let first_failure = caller.finals.iter().position(|&status| status >= 300);
            if let (Some(ok), Some(failure)) = (first_ok, first_failure) {
                assert!(failure < ok, "{id}: a failure after a 2xx: {caller:?}");
                assert!(self.methods[id] == Invite, "{id}: two final responses: {caller:?}");
            }
            let of_caller = || self.branches.iter().filter(|(_, seen)| seen.caller == *id);
            if caller.declined || !caller.finals.is_empty() {
                for (branch, seen) in of_caller() {
                    let is_pending = self.methods[id] == Invite && seen.rings && !seen.ended;
                    assert!(!is_pending || seen.cancels == 1, "{id}: branch {branch} rings on: {seen:?}");
                }
            }
            let under_way = of_caller()
                .filter(|(branch, seen)| !seen.ended && self.bed.expects(self.methods[id], **branch));
            let breadth: u32 = under_way.map(|(_, seen)| u32::from(seen.breadth)).sum();
            assert!(
                breadth <= self.plan.breadth.into(),
                "{id}: Max-Breadth is {}, {breadth} used",
                self.plan.breadth
            );
            assert!(
                of_caller().all(|(_, seen)| seen.breadth > 0),
                "RFC 5393 §5.3.1: Max-Breadth is positive"
            );
            let most = usize::from(self.plan.most) * usize::from(self.plan.hops);
            assert!(of_caller().count() <= most, "{id}: more branches than the limit");
        }
    }

    fn end(mut self) {
        self.bed.wait(Duration::from_hours(2));
        self.read();
        self.check();
        self.bed.assert_empty();
        assert_eq!(self.bed.proxy.memory(), 0);
        let unanswered: BTreeSet<_> =
            self.callers.iter().filter(|(_, caller)| caller.finals.is_empty()).map(|(id, _)| *id).collect();
        for id in unanswered {
            assert!(self.methods[&id] != Invite, "{id} was left without an answer");
        }
    }
}

/// Picks one of the entries.
fn pick<V>(of: &BTreeMap<u64, V>, number: usize) -> Option<u64> {
    (!of.is_empty())
        .then(|| *of.keys().nth(number % of.len()).expect("the index is less than the number of entries"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]
    #[test]
    fn one_final_response_is_forwarded_and_other_branches_are_cancelled_once(
        plan in plan(),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut world = World::new(&plan);
        for step in steps {
            world.act(step);
            world.read();
            world.check();
        }
        world.end();
    }
}

//! For any messages, order, loss and repetition, and any deaths, drains and reloads: every load equals the sum of its
//! live leases, and all loads return to zero when traffic ends.

use crate::common::*;
use balance::*;
use base::Instant;
use overload::member::MemberLaw;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use wire::Method;

#[derive(Debug, Clone)]
enum Step {
    Request {
        call: u64,
        method: Method,
        cseq: u32,
        in_dialog: bool,
        from_pool: bool,
        pinned: Option<u16>,
        by_token: bool,
        branch: u32,
        tags: Tags,
    },
    Response {
        call: u64,
        method: Method,
        cseq: u32,
        status: u16,
        from_pool: bool,
        branch: u32,
        tags: Tags,
    },
    /// This process ends a dialog.
    End {
        call: u64,
        tags: Tags,
    },
    /// The dialog continues after all.
    Resume {
        call: u64,
        tags: Tags,
    },
    Restart,
    Advance {
        millis: u64,
    },
    Probe {
        slot: u16,
        outcome: Outcome,
    },
    /// A node answers a request that is no longer in the session store.
    Answered {
        slot: u16,
    },
    Raise {
        slot: u16,
    },
    Forget,
    Pause {
        slot: u16,
        millis: u64,
        asked: bool,
    },
    Drain {
        slot: u16,
        draining: bool,
    },
    Members {
        mask: u8,
        capacity: f64,
        max_calls: u32,
    },
    Settings {
        invite: f64,
        millis: [u64; 4],
        max_sessions: usize,
    },
    Policy {
        pool: u16,
        policy: usize,
    },
    /// For each pool, the slots of its nodes, and its policy.
    Pools {
        pools: [(u8, usize); POOLS],
    },
    Others {
        slot: u16,
        calls: u32,
    },
}

/// Outcome of a probe.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Answered,
    Unanswered,
    Refused,
    Closed,
}

impl Outcome {
    fn apply(self, now: Instant, cluster: &mut Cluster, slot: Slot) {
        match self {
            Self::Answered => cluster.probed(now, slot, true),
            Self::Unanswered => cluster.probed(now, slot, false),
            Self::Refused => cluster.refused(now, slot, now + Duration::from_secs(9), true),
            Self::Closed => cluster.unreachable(now, slot),
        }
    }
}

const NODES: u16 = 4;
const CALLS: u64 = 6;
const POLICIES: usize = 7;
const POOLS: usize = 3;

fn method() -> impl Strategy<Value = Method> {
    prop_oneof![
        4 => Just(Method::Invite),
        2 => Just(Method::Ack),
        3 => Just(Method::Bye),
        2 => Just(Method::Cancel),
        2 => prop::sample::select(&Method::ALL[..]),
    ]
}

fn from_pool() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let status =
        prop::sample::select(vec![100, 180, 183, 200, 202, 302, 401, 407, 481, 486, 487, 500, 503, 504, 603]);
    let (call, cseq, slot) = (0..CALLS, 0..4_u32, 0..NODES);
    let pinned = prop::option::weighted(0.2, 0..NODES);
    // Of a branch and of a dialog; there is one more dialog than a session distinguishes. Two parties start calls with
    // each Call-ID, and requests within dialogs come from either side.
    let tags = (0..2_u64, 1..10_u64, any::<bool>()).prop_map(|(initiator, callee, swapped)| {
        let (from, to) = if swapped { (callee, initiator) } else { (initiator, callee) };
        Tags { from: tag(from), to: tag(to) }
    });
    let tags = (0..3_u32, tags);
    let request =
        (call.clone(), method(), cseq.clone(), any::<(bool, bool)>(), from_pool(), pinned, tags.clone())
            .prop_map(|(call, method, cseq, (in_dialog, token), from_pool, pinned, tags)| Step::Request {
                call,
                method,
                cseq,
                in_dialog,
                from_pool,
                pinned,
                by_token: token && pinned.is_some(),
                branch: tags.0,
                tags: tags.1,
            });
    let end = (call.clone(), tags.clone(), any::<bool>()).prop_map(|(call, (_, tags), resumes)| {
        if resumes { Step::Resume { call, tags } } else { Step::End { call, tags } }
    });
    let response = (call, method(), cseq, status, from_pool(), tags).prop_map(
        |(call, method, cseq, status, from_pool, (branch, tags))| Step::Response {
            call,
            method,
            cseq,
            status,
            from_pool,
            branch,
            tags,
        },
    );
    let outcomes = [Outcome::Answered, Outcome::Unanswered, Outcome::Refused, Outcome::Closed];
    let outcome = prop::sample::select(outcomes.to_vec());
    let millis = prop_oneof![0..100_u64, 0..40_000_u64, 0..20_000_000_u64];
    let step = prop_oneof![
        40 => request,
        40 => response,
        6 => end,
        10 => millis.prop_map(|millis| Step::Advance { millis }),
        3 => (slot.clone(), outcome).prop_map(|(slot, outcome)| Step::Probe { slot, outcome }),
        3 => slot.clone().prop_map(|slot| Step::Answered { slot }),
        1 => slot.clone().prop_map(|slot| Step::Raise { slot }),
        2 => (slot.clone(), 0..60_000_u64, any::<bool>())
            .prop_map(|(slot, millis, asked)| Step::Pause { slot, millis, asked }),
        1 => Just(Step::Restart),
        1 => Just(Step::Forget),
        1 => (slot.clone(), any::<bool>()).prop_map(|(slot, draining)| Step::Drain { slot, draining }),
        1 => (any::<u8>(), 0.5..4.0, 0..4_u32)
            .prop_map(|(mask, capacity, max_calls)| Step::Members { mask, capacity, max_calls }),
        2 => (0.001..4.0, [1..60_000_u64, 1..300_000, 1..20_000_000, 1..60_000], 1..7_usize)
            .prop_map(|(invite, millis, max_sessions)| Step::Settings { invite, millis, max_sessions }),
        1 => (0..POOLS as u16, 0..POLICIES).prop_map(|(pool, policy)| Step::Policy { pool, policy }),
        1 => pools().prop_map(|pools| Step::Pools { pools }),
        1 => (slot, 0..50_u32).prop_map(|(slot, calls)| Step::Others { slot, calls }),
    ];
    prop::collection::vec(step, 1..400)
}

fn pools() -> impl Strategy<Value = [(u8, usize); POOLS]> {
    prop::array::uniform3((0..1_u8 << NODES, 0..POLICIES))
}

/// Each call belongs to one of the pools.
fn pool_of(call: u64) -> PoolId {
    PoolId((call % POOLS as u64) as u16)
}

fn is_in((mask, _): (u8, usize), slot: Slot) -> bool {
    mask >> slot.0 & 1 == 1
}

/// Pools of some policies have limits.
fn law((_, policy): (u8, usize)) -> Option<MemberLaw> {
    [None, Some(MemberLaw::Gradient), Some(MemberLaw::Aimd)][policy % 3]
}

fn direction(from_pool: bool) -> Direction {
    if from_pool { Direction::FromPool } else { Direction::ToPool }
}

fn policy(index: usize) -> Box<dyn Policy> {
    policies().swap_remove(index)
}

/// One shard of several, which share the places.
struct Bed {
    pools: [(u8, usize); POOLS],
    balancer: Balancer,
    call_limits: Arc<CallLimits>,
    cluster: Cluster,
    now: Instant,
}

impl Bed {
    fn new(pools: [(u8, usize); POOLS]) -> Self {
        let mut bed = Self {
            pools,
            balancer: Balancer::new(SessionSettings::default(), policy(0)),
            call_limits: Arc::new(CallLimits::default()),
            cluster: cluster(&[1.0; NODES as usize]),
            now: Instant::ZERO,
        };
        bed.balancer.set_call_limits(Arc::clone(&bed.call_limits));
        bed.balancer.set_nodes(bed.cluster.nodes());
        bed.set_pools(pools);
        bed
    }

    fn set_pools(&mut self, pools: [(u8, usize); POOLS]) {
        self.pools = pools;
        let members = |pool| Members::of((0..NODES).map(Slot).filter(|slot| is_in(pool, *slot)));
        let make = |pool: (u8, usize)| Pool::new(policy(pool.1), members(pool), law(pool));
        self.balancer.set_pools(pools.map(make).into());
    }

    /// The process dies and comes back: only tokens remain.
    fn restart(&mut self) {
        let fresh = Self::new(self.pools);
        (self.balancer, self.call_limits) = (fresh.balancer, fresh.call_limits);
    }

    /// Does the work of the control task between two steps.
    fn heed(&mut self) {
        let ejected = |cluster: &Cluster, now| {
            cluster.nodes().iter().filter(|node| node.member && node.is_ejected(now)).count()
        };
        for sign in self.balancer.drain_signs() {
            let before = ejected(&self.cluster, self.now);
            self.cluster.sign(self.now, sign);
            let (after, members) =
                (ejected(&self.cluster, self.now), self.cluster.nodes().iter().filter(|node| node.member));
            assert!(
                after <= before || 2 * after <= members.count(),
                "at most half of the members are ejected"
            );
        }
        self.cluster.drain_effects().for_each(drop);
        self.balancer.set_nodes(self.cluster.nodes());
    }

    fn check(&self) {
        assert_eq!(self.balancer.audit(), Ok(()));
        self.balancer.sessions(0, usize::MAX, |session| {
            assert!(
                !session.is_call || !matches!(session.state, SessionState::Plain | SessionState::Expired),
                "{session:?}"
            );
        });
        for (slot, node) in (0..).map(Slot).zip(self.balancer.nodes()) {
            let calls = if node.max_calls == 0 { 0 } else { self.balancer.load(slot).own.calls };
            assert_eq!(self.call_limits.calls(slot), calls, "places of {slot:?}");
            if let Some(MemberRoom { open, limit, .. }) = self.balancer.room(self.now, slot) {
                assert!(open <= self.balancer.load(slot).own.transactions, "{open} unanswered on {slot:?}");
                assert!(limit.is_none_or(|limit| limit >= 1), "limit of {slot:?}");
            }
        }
    }
}

/// Sends a request. The result of `explain` must be right, and a new request must go to an allowed node.
fn ask(bed: &mut Bed, call: u64, facts: &RequestFacts<'_>) {
    let Bed { balancer, now, pools, .. } = bed;
    let (now, pool) = (*now, pools[facts.pool.index()]);
    let others = sessions(balancer, call);
    let count = balancer.counts();
    let (foretold, verdicts) = balancer.explain(now, facts);
    let loads: Vec<_> = (0..NODES).map(|slot| balancer.load(Slot(slot)).own).collect();
    let decision = balancer.request(now, facts);
    assert_eq!(foretold, decision, "`explain` predicts the decision of `request`");
    assert_room(balancer, count, &others, decision);
    if let NodeDecision::AtLimit(by) = decision {
        let has_limit = |verdict: &CandidateVerdict| verdict.refusal.is_some_and(NodeRefusal::is_of_load);
        assert!(by.is_of_load() && verdicts.iter().any(has_limit), "{by:?}");
    }
    let NodeDecision::Forward { slot, why: why @ (Why::Policy | Why::Moved) } = decision else { return };
    assert!(is_in(pool, slot), "a new call goes to a node of its pool");
    let all_in = verdicts.iter().map(|verdict| verdict.candidate.slot);
    assert!(all_in.eq((0..NODES).map(Slot).filter(|slot| is_in(pool, *slot))), "explain shows the pool");
    let node = &balancer.nodes()[slot.index()];
    // Limits apply to calls.
    let calls = if facts.method == Method::Invite { loads[slot.index()].calls } else { 0 };
    // A request that leaves a failed node passes limits of the next one up to twofold.
    let refuses = |verdict: &CandidateVerdict| {
        verdict.refusal.is_some_and(|refusal| why == Why::Policy || !refusal.is_of_load())
    };
    assert!(
        !verdicts.iter().any(|verdict| verdict.candidate.slot == slot && refuses(verdict))
            || node.is_on_trial()
            || node.is_expected(now)
            || verdicts.iter().all(refuses) && node.is_half_open(now)
            || verdicts.iter().all(refuses) && node.last_resort_refusal(now, calls).is_none(),
        "a new call goes to a node that takes calls"
    );
    assert!(node.member && !node.draining && node.health != Health::Closed);
}

/// Sessions of all Call-IDs but one.
fn sessions(balancer: &Balancer, but: u64) -> Vec<SessionView> {
    let mut others = Vec::new();
    balancer.sessions(0, usize::MAX, |session| {
        if session.key.call_id() != key(but).call_id() {
            others.push(session);
        }
    });
    others
}

/// After a request: no more sessions than allowed, and no answered call was evicted.
fn assert_room(balancer: &Balancer, before: TableCounts, others: &[SessionView], decision: NodeDecision) {
    let all = |counts: TableCounts| counts.active + counts.expired;
    let most = balancer.settings().max_sessions;
    assert!(all(balancer.counts()) <= most.max(all(before)));
    for session in others {
        let may_go =
            matches!(session.state, SessionState::Plain | SessionState::Invited | SessionState::Expired);
        assert!(may_go || balancer.session(session.key) == Some(*session), "{session:?}");
    }
    if decision == NodeDecision::NoRoom {
        assert!(all(before) >= most && before.expired == 0, "{before:?}");
    }
}

fn session_settings(invite: f64, millis: [u64; 4], max_sessions: usize) -> SessionSettings {
    let [transaction_timeout, invite_timeout, call_lifetime, linger] = millis.map(Duration::from_millis);
    let weights = Weights::invite(invite);
    SessionSettings {
        weights,
        transaction_timeout,
        invite_timeout,
        call_lifetime,
        linger,
        max_sessions,
        ..SessionSettings::default()
    }
}

fn apply(bed: &mut Bed, step: &Step) {
    if let Step::Request { call, method, cseq, in_dialog, from_pool, pinned, by_token, branch, tags } = *step
    {
        let facts = RequestFacts {
            pool: pool_of(call),
            in_dialog,
            direction: direction(from_pool),
            pinned: pinned.map(Slot),
            by_token,
            started_by_peer: by_token && from_pool,
            branch,
            tags,
            has_priority: call % 4 == 3,
            ..request(call, method, cseq)
        };
        ask(bed, call, &facts);
        return bed.heed();
    }
    let Bed { balancer, cluster, now, .. } = bed;
    match *step {
        Step::Request { .. } => {}
        Step::Response { call, method, cseq, status, from_pool, branch, tags } => {
            let direction = direction(from_pool);
            let facts = Response { direction, branch, tags, ..response(call, method, cseq, status) };
            balancer.response(*now, &facts);
        }
        Step::End { call, tags } => balancer.end_dialog(*now, key(call), tags),
        Step::Resume { call, tags } => balancer.resume_dialog(*now, key(call), tags),
        Step::Advance { millis } => {
            *now += Duration::from_millis(millis);
            while balancer.expire(*now) > 0 {}
        }
        Step::Probe { slot, outcome } => outcome.apply(*now, cluster, Slot(slot)),
        Step::Answered { slot } => balancer.answered(*now, Slot(slot)),
        Step::Raise { slot } => cluster.raise(*now, Slot(slot)),
        Step::Pause { slot, millis, asked } => {
            balancer.pause(*now, Slot(slot), *now + Duration::from_millis(millis), asked);
        }
        Step::Forget => cluster.forget_silent(*now),
        Step::Restart => bed.restart(),
        Step::Drain { slot, draining } => cluster.drain(Slot(slot), draining),
        Step::Members { mask, capacity, max_calls } => {
            let all = members(&[capacity; NODES as usize]);
            let some = all.into_iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, m)| m);
            let some: Vec<_> =
                some.map(|member| ClusterMember { max_calls, max_rate: max_calls, ..member }).collect();
            cluster.set_members(*now, &some);
        }
        Step::Settings { invite, millis, max_sessions } => {
            balancer.set_settings(session_settings(invite, millis, max_sessions));
        }
        Step::Policy { pool, policy: index } => {
            let mut pools = balancer.take_pools();
            let pool = usize::from(pool) % pools.len();
            pools[pool].policy = policy(index);
            balancer.set_pools(pools);
        }
        Step::Pools { pools } => bed.set_pools(pools),
        Step::Others { slot, calls } => {
            let load = Load { calls, transactions: calls, work: u64::from(calls) * 1_750 };
            balancer.set_others(Slot(slot), load);
        }
    }
    bed.heed();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn loads_equal_live_leases_and_return_to_zero(steps in steps(), pools in pools()) {
        let mut bed = Bed::new(pools);
        for step in &steps {
            apply(&mut bed, step);
            bed.check();
        }
        let balancer = &mut bed.balancer;
        run_out(balancer);
        prop_assert_eq!(balancer.audit(), Ok(()));
        prop_assert_eq!(loads(balancer), vec![Load::default(); NODES as usize]);
        prop_assert_eq!(balancer.counts(), TableCounts::default());
        prop_assert_eq!(balancer.open_transactions(), 0);
        for slot in (0..NODES).map(Slot) {
            let stats = balancer.stats(slot);
            prop_assert_eq!(stats.transactions, stats.ended.iter().sum::<u64>(), "each lease ended exactly once");
        }
        bed.check();
    }
}

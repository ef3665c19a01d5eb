//! Calls of a member that falls silent: they count as long as it may come back with them.

use crate::common::*;
use balance::policy::Cjsq;
use balance::*;
use base::Instant;
use wire::Method;

const SLOT: Slot = Slot(0);

struct Bed {
    cluster: Cluster,
    balancer: Balancer,
}

impl Bed {
    /// A member at its limit of five calls, with an INVITE within a dialog in progress.
    fn full() -> Self {
        let mut cluster = Cluster::new(HealthSettings { fall: 1, ..HealthSettings::default() });
        cluster.set_members(Instant::ZERO, &limited_members(&[1.0], 5));
        let mut balancer = Balancer::new(SessionSettings::default(), Box::new(Cjsq::new(0)));
        balancer.set_nodes(cluster.nodes());
        let mut bed = Self { cluster, balancer };
        for call in 0..5 {
            bed.call(seconds(1), call);
        }
        bed.balancer.request(seconds(2), &in_dialog(0, Method::Invite, 2));
        assert_eq!(bed.load(), (5, 1));
        bed
    }

    fn call(&mut self, now: Instant, call: u64) -> NodeDecision {
        let decision = self.balancer.request(now, &request(call, Method::Invite, 1));
        self.balancer.response(now, &response(call, Method::Invite, 1, 200));
        decision
    }

    /// The node answers a request within a dialog.
    fn ask(&mut self, now: Instant, call: u64, method: Method, status: u16) {
        self.balancer.request(now, &in_dialog(call, method, 7));
        self.balancer.response(now, &response(call, method, 7, status));
        self.heed(now);
    }

    fn heed(&mut self, now: Instant) {
        heed(now, &mut self.balancer, &mut self.cluster);
    }

    fn probed(&mut self, at: u64, alive: bool) {
        self.cluster.probed(seconds(at), SLOT, alive);
        self.heed(seconds(at));
    }

    /// Calls and transactions in progress.
    fn load(&self) -> (u32, u32) {
        assert_eq!(self.balancer.audit(), Ok(()));
        let load = self.balancer.load(SLOT).own;
        (load.calls, load.transactions)
    }
}

#[test]
fn calls_outlast_a_silence_and_count_when_the_member_is_back() {
    let mut bed = Bed::full();
    bed.probed(3, false);
    assert_eq!(bed.load(), (5, 0), "only unanswered transactions are lost");
    bed.probed(9, true);
    assert_eq!(bed.load(), (5, 0));
    assert_eq!(bed.call(seconds(9), 100), NodeDecision::NoServer, "the member has its most calls");
    bed.ask(seconds(10), 0, Method::Info, 200);
    bed.ask(seconds(10), 1, Method::Bye, 200);
    assert_eq!(bed.load(), (4, 0));
    assert_eq!(slot_of(bed.call(seconds(11), 100)), SLOT);
    run_out(&mut bed.balancer);
    assert_eq!(bed.load(), (0, 0));
}

#[test]
fn calls_are_lost_with_the_process() {
    let mut bed = Bed::full();
    bed.cluster.unreachable(seconds(3), SLOT);
    bed.heed(seconds(3));
    assert_eq!(bed.load(), (0, 0));
    // Also if it was silent first.
    let mut bed = Bed::full();
    bed.probed(3, false);
    bed.cluster.unreachable(seconds(4), SLOT);
    bed.heed(seconds(4));
    assert_eq!(bed.load(), (0, 0));
    bed.ask(seconds(5), 1, Method::Bye, 200);
    assert_eq!(bed.load(), (0, 0), "a lease ends once");
}

/// The caller is gone as well, and sends no BYE.
#[test]
fn sessions_end_with_calls_that_are_lost() {
    let mut bed = Bed::full();
    bed.cluster = Cluster::new(HealthSettings::default());
    bed.cluster.set_members(Instant::ZERO, &members(&[1.0]));
    bed.heed(seconds(2));
    for call in 0..3_000 {
        bed.call(seconds(2), call);
    }
    assert_eq!(bed.balancer.counts().active, 3_000);
    bed.cluster.unreachable(seconds(3), SLOT);
    bed.heed(seconds(3));
    assert!(bed.balancer.deadline().is_some_and(|deadline| deadline <= seconds(3)));
    assert!((1..3_000).contains(&bed.balancer.expire(seconds(3))), "the work of one call is bounded");
    while bed.balancer.deadline().is_some_and(|deadline| deadline <= seconds(3)) {
        bed.balancer.expire(seconds(3));
    }
    assert_eq!(bed.balancer.counts(), TableCounts { active: 0, expired: 3_000 });
    // A party that still takes part continues the call, and the call counts again after a confirming message.
    bed.ask(seconds(4), 7, Method::Invite, 200);
    bed.balancer.request(
        seconds(4),
        &RequestFacts { by_token: true, pinned: Some(SLOT), ..in_dialog(7, Method::Ack, 7) },
    );
    assert_eq!((bed.load(), bed.balancer.counts().active), ((1, 0), 1));
    bed.ask(seconds(5), 7, Method::Bye, 200);
    while bed.balancer.expire(seconds(60)) > 0 {}
    assert_eq!((bed.load(), bed.balancer.counts()), ((0, 0), TableCounts::default()));
}

#[test]
fn calls_are_lost_after_a_long_silence() {
    for regular in [true, false] {
        let mut bed = Bed::full();
        bed.probed(3, false);
        let silent_on = |bed: &mut Bed, at| {
            if regular {
                bed.probed(at, false);
            } else {
                bed.cluster.forget_silent(seconds(at));
                bed.heed(seconds(at));
            }
        };
        silent_on(&mut bed, 302);
        assert_eq!(bed.load().0, 5);
        // The only member gets all calls, dead or not.
        bed.ask(seconds(302), 0, Method::Bye, 200);
        assert_eq!(slot_of(bed.call(seconds(302), 100)), SLOT);
        silent_on(&mut bed, 303);
        assert_eq!(bed.load().0, 1, "the call that the member got since then stays");
        silent_on(&mut bed, 700);
        assert_eq!(bed.load().0, 1);
    }
}

#[test]
fn calls_are_lost_when_the_member_is_back_and_does_not_know_them() {
    let mut bed = Bed::full();
    bed.probed(3, false);
    bed.probed(9, true);
    bed.ask(seconds(10), 0, Method::Bye, 481);
    assert_eq!(slot_of(bed.call(seconds(10), 100)), SLOT);
    bed.ask(seconds(10), 1, Method::Info, 481);
    bed.ask(seconds(10), 2, Method::Update, 481);
    assert_eq!(bed.load(), (3, 0));
    bed.ask(seconds(10), 3, Method::Info, 481);
    assert_eq!(bed.load(), (1, 0), "after four 481 in a row only the new call counts");
    bed.ask(seconds(11), 4, Method::Bye, 481);
    bed.ask(seconds(11), 100, Method::Bye, 200);
    assert_eq!(bed.load(), (0, 0));
}

#[test]
fn one_answer_shows_that_a_member_kept_its_calls() {
    let mut bed = Bed::full();
    bed.probed(3, false);
    bed.probed(9, true);
    for (call, status) in [(0, 200), (1, 481), (2, 481), (3, 481), (4, 481)] {
        // Requests of a stranger say nothing.
        let invented = RequestFacts { tags: tags(77), ..in_dialog(4, Method::Info, 2 + call as u32) };
        bed.balancer.request(seconds(10), &invented);
        bed.balancer.response(seconds(10), &response(4, Method::Info, invented.cseq, 481));
        bed.ask(seconds(10), call, Method::Info, status);
    }
    assert_eq!(bed.load(), (1, 0));
}

/// One shard of several may have only calls that ended meanwhile.
#[test]
fn an_answer_on_another_shard_shows_that_calls_were_kept() {
    for knows in [true, false] {
        let mut bed = Bed::full();
        bed.probed(3, false);
        bed.probed(9, true);
        bed.cluster.sign(seconds(10), Sign::Memory { slot: SLOT, knows });
        for call in 0..4 {
            bed.ask(seconds(10), call, Method::Info, 481);
        }
        assert_eq!(bed.load().0, u32::from(knows));
    }
}

/// The count of deaths wraps.
#[test]
fn calls_count_after_any_number_of_silences() {
    let mut bed = Bed::full();
    for _ in 0..40_000 {
        bed.probed(3, false);
        bed.probed(3, true);
    }
    assert_eq!(bed.load().0, 0, "no call survives this number of deaths");
    bed.call(seconds(4), 100);
    assert_eq!(bed.load().0, 1);
    bed.probed(5, false);
    bed.probed(5, true);
    assert_eq!(bed.load().0, 1);
    bed.ask(seconds(6), 100, Method::Bye, 200);
    assert_eq!(bed.load(), (0, 0));
}

#[test]
fn without_a_death_a_481_ends_only_its_call() {
    let mut bed = Bed::full();
    for call in 0..4 {
        bed.ask(seconds(3), call, Method::Info, 481);
    }
    assert_eq!(bed.load().0, 1);
}

#[test]
fn a_node_that_was_dead_in_the_previous_process_is_dead_until_it_answers() {
    let mut bed = Bed::full();
    bed.cluster.was_dead(seconds(3), SLOT);
    let asked = HealthEffect::Probe { slot: SLOT, at: seconds(3) };
    assert!(bed.cluster.drain_effects().any(|effect| effect == asked), "a probe is sent at once");
    assert!(!bed.cluster.nodes()[0].is_up());
    bed.cluster.was_dead(seconds(3), SLOT);
    assert_eq!(bed.cluster.nodes()[0].deaths, 1, "the node has died once");
    bed.probed(4, true);
    bed.probed(5, true);
    assert!(bed.cluster.nodes()[0].is_up());
}

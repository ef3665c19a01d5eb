//! A pool with transactions: sessions and policies as without, and another member after a failure.

use crate::common::*;
use balance::Sign;
use proptest::prelude::*;
use route::{Access, BudgetSettings, FailoverCause};

const MODE: Service = Service::BalanceTransactions;
const RETRIES: BudgetSettings = BudgetSettings { ratio: 0.0, least: 100, window: Duration::from_secs(10) };

/// Two pools of two members.
fn bed(failover: Failover) -> Bed {
    let nodes =
        vec![("127.0.1.1:5060", 0), ("127.0.1.2:5060", 0), ("127.0.1.3:5060", 0), ("127.0.1.4:5060", 0)];
    let mut bed = Bed::new(Site { nodes, ..Site::plain() });
    bed.set_pools([[0, 1], [2, 3]].map(|slots| pool_of(MODE, slots)));
    set_rules(&mut bed, [both(failover)]);
    bed
}

fn failover(budget: BudgetSettings) -> Failover {
    let mut failover = Failover::default();
    failover.budget = budget;
    failover
}

/// Returns the only INVITE among the sent messages.
fn next(sent: &[Sent]) -> Sent {
    let mut requests = requests(sent, Method::Invite);
    assert_eq!(requests.len(), 1, "{sent:#?}");
    requests.remove(0)
}

#[test]
fn a_call_has_a_transaction_and_a_session_and_its_dialog_is_the_members() {
    let mut bed = bed(Failover::default());
    let request = Req::new("INVITE", "call", client());
    let at_member = invited(&mut bed, "call");
    assert_eq!(bed.load().transactions, 1);
    let repeated = bed.receive(0, client(), &request.bytes());
    assert_eq!((repeated.len(), repeated[0].status()), (1, 100), "absorbed");
    let ringing = respond(&mut bed, &at_member, 180);
    assert_eq!((ringing.len(), ringing[0].to, ringing[0].status()), (1, client(), 180));
    let call = Dialog::answered(&mut bed, &at_member);
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 0));
    let kept = transactions(&bed);
    call.caller_asks(&mut bed, "ACK", 1);
    call.callee_asks(&mut bed, "INFO", 1);
    call.caller_asks(&mut bed, "BYE", 2);
    assert_eq!(transactions(&bed), kept, "requests of the dialog have no transaction");
    let other = invited(&mut bed, "other");
    respond(&mut bed, &other, 486);
    assert_eq!(bed.load(), Load::default(), "a 486 is an answer");
    bed.wait(Duration::from_secs(64));
    assert_eq!(transactions(&bed), 0);
    bed.assert_idle();
}

/// RFC 3261 §16.7 step 5, §18.2.2: a member changes the Via of a 2xx after the final response. The 2xx still goes to
/// the caller, and not to a third party.
#[test]
fn a_late_2xx_goes_only_to_the_caller() {
    for first in [200, 486] {
        let mut bed = bed(Failover::default());
        let at_member = invited(&mut bed, "call");
        let back = respond(&mut bed, &at_member, first);
        assert!(back.iter().any(|sent| sent.to == client() && sent.status() == first), "{back:#?}");
        let forged = string(&at_member.bytes).replace(&client().to_string(), "192.0.2.66:5060");
        let forged =
            forged.replace("received=127.0.9.1", "received=192.0.2.66").replace("rport=6000", "rport=5060");
        let forged = Sent::by(at_member.flow, forged.into_bytes());
        let late = respond(&mut bed, &forged, 200);
        assert_eq!(late.iter().map(|sent| sent.to).collect::<Vec<_>>(), [client()], "after {first}");
    }
}

#[test]
fn a_refusing_member_is_skipped_in_its_pool_and_then_the_pool() {
    let mut bed = bed(failover(RETRIES));
    let mut at = invited(&mut bed, "call");
    let mut asked = vec![at.to];
    for rings in [false, true, true] {
        // RFC 3263 §4.3: a 503 is a failure of its sender, whether the call rings there or not.
        if rings {
            respond(&mut bed, &at, 180);
        }
        let sent = respond(&mut bed, &at, 503);
        at = next(&sent);
        asked.push(at.to);
        assert_eq!(
            (bed.load().transactions, bed.load().calls),
            (1, 1),
            "the call counts at its present member"
        );
    }
    asked.sort();
    let all: Vec<_> = bed.site.nodes.iter().map(|node| addr(node.0)).collect();
    assert_eq!(asked, all, "each member is tried once");
    let last = respond(&mut bed, &at, 503);
    assert_eq!(statuses(&last), [500], "RFC 3261 §16.7 step 6");
    assert_eq!(bed.load(), Load::default());
    let rests = |node: &&balance::Node| node.paused_until > bed.now;
    assert_eq!(bed.shard.balancer().nodes().iter().filter(rests).count(), 4);
}

#[test]
fn silence_is_reported_and_the_next_member_is_tried() {
    let mut bed = bed(failover(RETRIES));
    let first = invited(&mut bed, "call");
    let sent = bed.wait(Duration::from_secs(32));
    let other = sent.iter().find(|sent| sent.to != first.to);
    assert!(other.is_some(), "{sent:?}");
    let unanswered =
        |event: &&ShardEvent| matches!(event, ShardEvent::Sign(Sign::NoAnswer { silent: true, .. }));
    assert_eq!(bed.events.iter().filter(unanswered).count(), 1, "once");
    assert_eq!((bed.load().transactions, bed.load().calls), (1, 1));
}

#[test]
fn an_icmp_error_leads_to_another_member_at_once() {
    let mut bed = bed(failover(RETRIES));
    let first = invited(&mut bed, "call");
    let second = bed.unreachable(first.to, &first.bytes[..200]);
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].to, first.to);
    assert_eq!((bed.load().transactions, bed.load().calls), (1, 1));
    let calls: Vec<_> = (0..6).map(|n| invited(&mut bed, &format!("late{n}")).to).collect();
    assert!(!calls.contains(&first.to), "the failed member is paused");
}

/// A dead pool must not double the traffic.
#[test]
fn retries_keep_to_their_budget() {
    let budget = BudgetSettings { ratio: 0.1, least: 5, window: Duration::from_secs(10) };
    let mut one_pool = failover(budget);
    one_pool.attempts = 1;
    let mut bed = bed(one_pool);
    let mut retried = 0;
    for n in 0..200 {
        let at = invited(&mut bed, &format!("call{n}"));
        let sent = respond(&mut bed, &at, 503);
        // The pauses end, so the next call goes there again.
        bed.now += Duration::from_millis(1);
        for again in requests(&sent, Method::Invite) {
            retried += 1;
            respond(&mut bed, &again, 200);
        }
    }
    assert_eq!(retried, 25, "5, and a tenth of 200");
}

/// A reload inserts a rule before another one, with names and without: each keeps the counts of its budget.
#[test]
fn a_rule_keeps_its_budget_when_its_place_changes() {
    for names in [["one", "other"], ["route-1", "route-2"]] {
        let budget = BudgetSettings { ratio: 0.0, least: 1, window: Duration::from_secs(10) };
        let mut bed = bed(failover(budget));
        let rule = |name: &str, conditions| {
            let target = Target::Pools(Pools { failover: failover(budget), ..Pools::one(0) });
            Rule { name: name.to_owned(), target, ..to_pool(0, conditions) }
        };
        let retries = |bed: &mut Bed, call: &str, user: &str| {
            let uri = format!("sip:{user}@pool.example");
            let invite = Req { uri, ..Req::new("INVITE", call, client()) };
            let at_member = bed.receive(0, client(), &invite.bytes()).remove(1);
            let sent = respond(bed, &at_member, 503);
            bed.now += Duration::from_millis(1);
            requests(&sent, Method::Invite).len()
        };
        set_rules(&mut bed, vec![rule(names[0], users("a")), rule(names[1], users("b"))]);
        assert_eq!((retries(&mut bed, "1", "a"), retries(&mut bed, "2", "a")), (1, 0));
        let moved = if names[0] == "one" { ["other", "one"] } else { names };
        set_rules(&mut bed, vec![rule(moved[0], users("b")), rule(moved[1], users("a"))]);
        assert_eq!((retries(&mut bed, "3", "a"), retries(&mut bed, "4", "b")), (0, 1), "{names:?}");
        set_rules(&mut bed, vec![rule("new", users("a"))]);
        assert_eq!(retries(&mut bed, "5", "a"), 1, "another rule has another budget");
    }
}

#[test]
fn a_call_that_moved_stays_where_it_is_answered() {
    let mut bed = bed(failover(RETRIES));
    let first = invited(&mut bed, "call");
    let sent = respond(&mut bed, &first, 503);
    let second = next(&sent);
    assert_ne!(first.branch(), second.branch(), "another client transaction");
    let call = Dialog::answered(&mut bed, &second);
    call.caller_asks(&mut bed, "ACK", 1);
    call.caller_asks(&mut bed, "BYE", 2);
    bed.assert_idle();
}

#[test]
fn only_outcomes_that_the_rule_names_lead_to_the_next_pool() {
    let mut on = Failover::on(&[FailoverCause::NoneAlive]);
    on.budget = RETRIES;
    let mut bed = bed(on);
    let at = invited(&mut bed, "call");
    let sent = respond(&mut bed, &at, 503);
    let at = next(&sent);
    let sent = respond(&mut bed, &at, 503);
    assert_eq!(statuses(&sent), [500]);
}

/// Next hops are handled like any caller, so the rules determine the targets of their requests.
#[test]
fn a_next_hop_does_not_call_out() {
    let mut bed = bed(Failover::default());
    let hops = Service::Proxy { spread: Spread::Counted, record_route: true };
    bed.set_services([MODE, hops]);
    let outside = "127.0.8.8:5060";
    let from = |bed: &mut Bed, node: usize| {
        let at = addr(bed.site.nodes[node].0);
        let request =
            Req { uri: format!("sip:carol@{outside}"), ..Req::new("INVITE", &format!("by{node}"), at) };
        bed.receive(0, at, &request.bytes()).last().expect("something").to
    };
    assert_eq!(from(&mut bed, 0), addr(outside), "a member does");
    let to = from(&mut bed, 2);
    assert!(bed.site.nodes[..2].iter().any(|node| addr(node.0) == to), "{to}");
}

/// Calls are counted even if requests within dialogs go by their Route, if the policy needs the counts.
#[test]
fn calls_of_next_hops_are_counted() {
    let mut bed = bed(Failover::default());
    let hops = Service::Proxy { spread: Spread::Counted, record_route: true };
    bed.set_services([hops, hops]);
    let at_hop = invited(&mut bed, "call");
    let call = Dialog::answered(&mut bed, &at_hop);
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 0));
    call.caller_asks(&mut bed, "ACK", 1);
    let info = bed.one(0, at_hop.to, &call.by_callee("INFO", 1).bytes());
    assert_eq!((info.to, bed.load().transactions), (client(), 1));
    answered(&mut bed, &info, 200);
    let bye = bed.one(0, client(), &call.by_caller("BYE", 2).bytes());
    assert_eq!((bye.to, bed.load().transactions, bed.load().calls), (at_hop.to, 1, 1));
    answered(&mut bed, &bye, 200);
    bed.assert_idle();
}

/// A Route to a next hop outside the request's rule, with or without an invalid token, would bypass the rule and the
/// access lists of that hop.
#[test]
fn a_route_reaches_no_hop_of_another_rule() {
    let mut bed = bed(Failover::default());
    let hops = Service::Proxy { spread: Spread::Counted, record_route: true };
    set_rules(&mut bed, [to_pool(0, Conditions::default())]);
    bed.set_services([hops, hops]);
    let asked = |bed: &mut Bed, call: &str, own: &str, hop: usize| {
        let mut invite = Req::new("INVITE", call, client());
        invite.routes = vec![own.to_owned(), format!("<sip:{};lr>", bed.site.nodes[hop].0)];
        bed.receive(0, client(), &invite.bytes())
    };
    for (call, own) in [("plain", "<sip:127.0.0.1;lr>"), ("forged", "<sip:127.0.0.1;lr;sbp=x>")] {
        let refused = asked(&mut bed, call, own, 3);
        assert_eq!((refused.len(), refused[0].status()), (1, 403), "{call}");
        let sent = asked(&mut bed, &format!("{call}-here"), own, 1);
        assert_eq!(
            sent.last().expect("the INVITE is forwarded").to,
            addr(bed.site.nodes[1].0),
            "a hop of its own rule"
        );
    }
    assert_eq!((bed.load().calls, bed.load().transactions), (2, 2), "both calls count");
    let deny = Access::new(&[], &["127.0.9.0/24".parse().unwrap()], AccessRefusal::Forbidden).unwrap();
    bed.set(|setup| setup.settings.routes = Arc::new(Routes { table: Table::default(), access: vec![deny] }));
    let refused = asked(&mut bed, "denied", "<sip:127.0.0.1;lr;sbp=x>", 1);
    assert_eq!((refused.len(), refused[0].status()), (1, 403));
}

/// A former member is trusted no more than a stranger.
#[test]
fn a_former_member_cannot_use_the_rules_of_members() {
    let mut bed = bed(Failover::default());
    set_rules(&mut bed, [to_pool(1, Conditions { origin: Origin::Members, ..Conditions::default() })]);
    let call = |bed: &mut Bed, call_id: &str| {
        let member = addr(bed.site.nodes[0].0);
        bed.receive(0, member, &Req::new("INVITE", call_id, member).bytes()).remove(0).status()
    };
    assert_eq!(call(&mut bed, "present"), 100);
    bed.set_members(&[1, 2, 3]);
    assert_eq!(call(&mut bed, "gone"), 403);
}

/// A request of a dialog goes to no other member, even without its token.
#[test]
fn within_a_dialog_no_other_member_is_tried() {
    let mut bed = bed(failover(RETRIES));
    let at_member = invited(&mut bed, "call");
    let call = Dialog::answered(&mut bed, &at_member);
    let mut again = call.by_caller("INVITE", 2);
    again.routes.clear();
    let sent = bed.receive(0, client(), &again.bytes());
    let at_member = sent.last().expect("the INVITE is forwarded").clone();
    let failed = respond(&mut bed, &at_member, 503);
    assert_eq!(requests(&failed, Method::Invite), []);
    assert_eq!(bed.load().calls, 1, "the call stays at its member");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any responses of the members, no state is left after a call.
    #[test]
    fn nothing_is_left(operations in prop::collection::vec((0_u8..8, 0_u8..8, any::<u8>()), 1..60)) {
        let mut bed = bed(failover(RETRIES));
        let mut under_way: Vec<Sent> = Vec::new();
        for (operation, call, which) in operations {
            let call_id = format!("call{call}");
            let sent = match operation {
                0 | 1 => bed.receive(0, client(), &Req::new("INVITE", &call_id, client()).bytes()),
                2 => bed.receive(0, client(), &Req::new("INVITE", &call_id, client()).same_branch("CANCEL", None).bytes()),
                3 => {
                    bed.wait(Duration::from_millis(u64::from(which) * 40));
                    Vec::new()
                }
                4 => bed.receive(0, client(), &Req::new("OPTIONS", &call_id, client()).bytes()),
                _ if under_way.is_empty() => Vec::new(),
                _ => {
                    let at = under_way[usize::from(which) % under_way.len()].clone();
                    let statuses = [100, 180, 486, 503, 500, 404];
                    respond(&mut bed, &at, statuses[usize::from(which) % statuses.len()])
                }
            };
            let is_request = |sent: &Sent| sent.message().method().is_some_and(|method| method != Method::Ack);
            under_way.extend(sent.into_iter().filter(is_request));
            prop_assert_eq!(bed.shard.audit(), Ok(()));
        }
        bed.wait(Duration::from_hours(1));
        prop_assert_eq!(transactions(&bed), 0);
        prop_assert_eq!(bed.load(), Load::default());
        prop_assert_eq!(bed.shard.balancer().members(PoolId(0)).count(), 2);
    }
}

const TIMEOUT: Duration = Duration::from_secs(4);

/// Pools with this limit for a member's first response to an INVITE; a route may override it.
fn timed(of_route: Option<Duration>) -> Bed {
    let mut failover = failover(RETRIES);
    failover.invite_timeout = of_route;
    let mut bed = bed(failover);
    bed.set(|setup| {
        let timed = |pool: &PoolSetup| PoolSetup { invite_timeout: TIMEOUT, ..pool.clone() };
        setup.pools = setup.pools.iter().map(timed).collect();
    });
    bed
}

/// Returns the INVITEs to members that had none before.
fn moved(bed: &mut Bed, time: Duration, before: &[Sent]) -> Vec<Sent> {
    let mut sent = requests(&bed.wait(time + Duration::from_millis(20)), Method::Invite);
    sent.retain(|sent| before.iter().all(|before| before.to != sent.to));
    sent
}

/// RFC 3261 §9.1: a CANCEL waits for a provisional response. §16.7 step 5: a 2xx that crosses it still goes back.
#[test]
fn a_silent_member_is_followed_by_the_next_member_and_pool() {
    let mut bed = timed(None);
    let mut asked = vec![invited(&mut bed, "call")];
    while asked.len() < 4 {
        let next = moved(&mut bed, TIMEOUT, &asked);
        assert_eq!((next.len(), bed.load().calls), (1, 1), "{next:#?}");
        asked.extend(next);
    }
    let first_pool: Vec<_> = asked[..2].iter().map(|sent| bed.slot(sent.to)).collect();
    assert!(first_pool.iter().all(|slot| *slot < 2), "{first_pool:?}");
    let ok = respond(&mut bed, &asked[3], 200);
    assert_eq!((ok.len(), ok[0].to, ok[0].status()), (1, client(), 200));
    let cancelled = respond(&mut bed, &asked[0], 100);
    assert!(matches!(&cancelled[..], [cancel] if cancel.message().method() == Some(Method::Cancel)));
    let late = respond(&mut bed, &asked[0], 200).remove(0);
    assert_eq!((late.to, late.status(), bed.load().calls), (client(), 200, 1));
    for (at_member, ok) in [(&asked[0], &late), (&asked[3], &ok[0])] {
        let call = Dialog::of(at_member, ok);
        call.caller_asks(&mut bed, "ACK", 1);
        call.caller_asks(&mut bed, "BYE", 2);
    }
    bed.wait(Duration::from_secs(100));
    assert_eq!(transactions(&bed), 0);
    bed.assert_idle();
}

#[test]
fn a_route_has_its_own_time_to_the_first_answer() {
    let mut bed = timed(Some(Duration::from_secs(1)));
    let first = invited(&mut bed, "call");
    assert_eq!(moved(&mut bed, Duration::from_secs(1), &[first]).len(), 1);
    let mut bed = timed(Some(Duration::ZERO));
    let first = invited(&mut bed, "call");
    assert_eq!(moved(&mut bed, 2 * TIMEOUT, &[first]).len(), 0);
}

/// Silence counts as a failure, like a 5xx. A member that answers another INVITE meanwhile works, so the silence may be
/// the caller's fault. The same holds if all members are silent.
#[test]
fn silence_counts_as_a_failure_of_the_member_unless_it_answers_others_or_all_are_silent() {
    for (answers_another, is_answered) in [(false, true), (true, true), (false, false)] {
        let mut bed = timed(None);
        let silent = invited(&mut bed, "silent");
        let others = [invited(&mut bed, "one"), invited(&mut bed, "other")];
        let same = others.iter().find(|other| other.to == silent.to).expect("members take turns");
        bed.wait(Duration::from_millis(100));
        if answers_another {
            respond(&mut bed, same, 100);
        }
        let sent = bed.wait(TIMEOUT);
        if is_answered {
            let is_it = |sent: &&Sent| sent.to != silent.to && sent.message().call_id() == b"silent";
            respond(&mut bed, sent.iter().rfind(is_it).expect("the next member has the call"), 100);
        }
        bed.wait(Duration::from_secs(100));
        let slot = Slot(bed.slot(silent.to));
        let in_a_row = bed.events.iter().filter_map(|event| match event {
            ShardEvent::Sign(Sign::Tally { slot: of, tally }) if *of == slot => Some(tally.row),
            _ => None,
        });
        assert_eq!(in_a_row.sum::<u32>() > 0, is_answered && !answers_another, "{:?}", bed.events);
    }
}

//! Failed requests are kept with their cause.

use crate::common::*;
use crate::domain::{self, register};
use node::{Drop, FailedRequest, FailureCause, TriedResult};

const MODE: Service = Service::BalanceTransactions;

/// Two members with transactions, reached by users that begin with 1; users that begin with 2 get no answer.
fn bed() -> Bed {
    let nodes = vec![("127.0.1.1:5060", 0), ("127.0.1.2:5060", 0)];
    let mut bed = Bed::new(Site { nodes, ..Site::plain() });
    bed.set_pools([pool_of(MODE, [0, 1])]);
    let silent = Rule { name: "silent".to_owned(), target: Target::Silence, ..to_pool(0, users("2")) };
    set_rules(&mut bed, [to_pool(0, users("1")), silent]);
    bed
}

fn to(user: &str) -> Req {
    Req { uri: format!("sip:{user}@{PROXY}"), ..Req::new("INVITE", user, client()) }
}

fn kept(bed: &Bed) -> Vec<FailedRequest> {
    bed.shard.failures().map(|kept| (*kept.request).clone()).collect()
}

/// Returns the only failed request.
fn only(bed: &Bed) -> FailedRequest {
    let mut all = kept(bed);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

/// Returns the results at the targets.
fn results(failed: &FailedRequest) -> Vec<TriedResult> {
    failed.tried.iter().map(|tried| tried.result).collect()
}

fn refused(status: u16, reason: &'static str) -> FailureCause {
    FailureCause::Refused { status, reason }
}

#[test]
fn a_refusal_is_kept_with_its_reason_and_route() {
    let mut bed = bed();
    assert_eq!(bed.one(0, client(), &to("3").bytes()).status(), 404);
    let failed = only(&bed);
    assert_eq!((failed.cause, results(&failed)), (refused(404, "No Route"), vec![]));
    assert_eq!((&*failed.method, &*failed.call_id, failed.source.address), ("INVITE", "3", client()));
    assert_eq!((&*failed.uri, &*failed.route), (&*format!("3@{PROXY}"), ""));
    bed.dropped(0, client(), &to("2").bytes(), "silenced");
    let silenced = kept(&bed).remove(1);
    assert_eq!((silenced.cause, &*silenced.route), (FailureCause::Dropped(Drop::Silenced), "silent"));
}

#[test]
fn each_target_is_kept_with_its_result() {
    let mut bed = bed();
    let first = bed.receive(0, client(), &to("1").bytes());
    let first = requests(&first, Method::Invite).remove(0);
    bed.now += Duration::from_secs(1);
    let second = bed.unreachable(first.to, &first.bytes[..200]);
    let second = requests(&second, Method::Invite).remove(0);
    bed.now += Duration::from_secs(1);
    respond(&mut bed, &second, 180);
    respond(&mut bed, &second, 486);
    let failed = only(&bed);
    assert_eq!(failed.cause, FailureCause::Answered { status: 486 });
    assert_eq!(results(&failed), [TriedResult::Unreachable, TriedResult::Answered(486)]);
    let at =
        |tried: &node::Tried| (tried.target.address, tried.at.saturating_since(failed.arrived).as_secs());
    assert_eq!(failed.tried.iter().map(at).collect::<Vec<_>>(), [(first.to, 0), (second.to, 1)]);
    assert_eq!((failed.failed.saturating_since(failed.arrived).as_secs(), &*failed.route), (2, "to-0"));
}

#[test]
fn silent_members_are_named() {
    let mut bed = bed();
    bed.receive(0, client(), &to("1").bytes());
    bed.wait(Duration::from_secs(64));
    let failed = only(&bed);
    assert_eq!(failed.cause, refused(408, "Request Timeout"));
    assert_eq!(results(&failed), [TriedResult::Silent; 2]);
}

#[test]
fn a_refused_bye_says_why_its_dialog_is_not_known() {
    let mut bed = bed();
    let bye = Req { to_tag: Some("callee".to_owned()), ..Req::new("BYE", "unknown", client()) };
    assert_eq!(bed.one(0, client(), &bye.bytes()).status(), 481);
    let failed = only(&bed);
    assert_eq!((&*failed.method, &*failed.detail), ("BYE", "the request has no Route"));
    assert_eq!(failed.cause, refused(481, "Call/Transaction Does Not Exist"));
}

#[test]
fn answers_without_a_transaction_are_kept() {
    let mut bed = Bed::new(Site::plain());
    for (call, status) in [("a", 200), ("b", 401), ("c", 487), ("d", 486)] {
        let sent = bed.one(0, client(), &Req::new("INVITE", call, client()).bytes());
        respond(&mut bed, &sent, status);
    }
    let failed = only(&bed);
    assert_eq!((&*failed.call_id, failed.source.address), ("d", client()));
    assert_eq!(results(&failed), [TriedResult::Answered(486)]);
}

/// A wrong password is a failure, a challenge is not.
#[test]
fn a_refused_registration_is_kept_without_credentials() {
    let mut bed = domain::Bed::new(true, Reach::Contact);
    let request = register("alice", client(), "sip:alice:hidden@192.0.2.9");
    let challenged = bed.one(client(), &request.bytes());
    assert_eq!((challenged.status(), bed.shard.failures().count()), (401, 0));
    let wrong = domain::authorized(&challenged, ("alice", "wrong"), &request);
    bed.receive(client(), &wrong.bytes());
    let kept: Vec<_> = bed.shard.failures().collect();
    assert_eq!(kept.len(), 1, "{kept:#?}");
    assert_eq!(&*kept[0].request.method, "REGISTER");
    assert_eq!(kept[0].request.cause, refused(401, "Wrong Password Or Unknown User"));
    let text = format!("{kept:?}");
    assert!(!text.contains("hidden") && !text.contains("response="), "{text}");
}

#[test]
fn passwords_in_uris_are_not_kept() {
    let mut bed = bed();
    let uri = "sip:3:hidden@example.com:5070;transport=udp;x=hidden".to_owned();
    let request = Req { uri, ..Req::new("INVITE", "call", client()) };
    bed.receive(0, client(), &request.with("Authorization", "Digest username=\"hidden\"").bytes());
    let failed = only(&bed);
    assert_eq!(&*failed.uri, "3@example.com:5070");
    assert!(!format!("{failed:?}").contains("hidden"), "{failed:?}");
}

/// The name of a route is taken from the present routes: an OPTIONS that is answered here fails by no route.
#[test]
fn a_reload_with_fewer_routes_leaves_no_wrong_name() {
    let mut bed = bed();
    let silent = Rule { name: "other".to_owned(), ..to_pool(0, users("9")) };
    bed.dropped(0, client(), &to("2").bytes(), "silenced");
    set_rules(&mut bed, [silent]);
    assert_eq!(bed.one(0, client(), &to("3").bytes()).status(), 404);
    let routes: Vec<_> = kept(&bed).iter().map(|failed| failed.route.to_string()).collect();
    assert_eq!(routes, ["silent", ""]);
}

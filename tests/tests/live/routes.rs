//! Routes: the pool of a call, failover between pools, and the senders that may start calls.

use std::net::SocketAddr;

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, CallLoad, RunningBalancer, SippCaller, SippServer, TestSettings,
    TestSite, quoted, status, until,
};

use super::change::{after_more, assigned};
use super::{finish_clean, servers};

const QUICK: CallLoad = CallLoad { calls: 40, rate: 80, hold_ms: 200 };

/// Returns the table of a pool with these members and lines.
fn pool(name: &str, members: &[SocketAddr], lines: &str) -> String {
    let members: Vec<_> = members.iter().map(quoted).collect();
    let members = members.join(", ");
    format!(
        "[pool.{name}]\nmembers = [{members}]\nslow_start = \"0s\"\n\
         probe = {{ interval = \"500ms\", timeout = \"400ms\" }}\n{lines}\n"
    )
}

/// Identity and target of a caller's calls.
struct Words<'w> {
    user: &'w str,
    account: &'w str,
    /// Host of the Request-URI.
    target: SocketAddr,
}

/// Starts a caller at `from` whose calls are to be routed.
fn caller(
    field: &TestSite,
    from: SocketAddr,
    to: SocketAddr,
    words: &Words<'_>,
    load: CallLoad,
) -> SippCaller {
    let target = words.target.to_string();
    let keys = ["-s", words.user, "-key", "account", words.account, "-key", "target", &target];
    SippCaller::start(field, "uac_routed", (from, to), load, &keys)
}

/// Calls go to one pool by the prefix of a number, by their sender or by a header field, all others to the other pool.
/// Each pool has its own policy: round robin, and live calls with one member three times as strong.
#[test]
fn routes_lead_to_pools_with_policies_of_their_own() {
    let field = TestSite::new("routes");
    let turns = servers(&field, "uas_call", &[11, 12]);
    let loads = servers(&field, "uas_call", &[21, 22]);
    let mut settings = TestSettings::new(&field, &[11, 12]);
    settings.threads = 1;
    settings.pool.push("policy = \"round-robin\"".to_owned());
    let strong = format!("{{ address = {}, capacity = 3.0 }}", quoted(&field.sip(21)));
    settings.tables = format!(
        "{}\n[[route]]\nname = \"number\"\nuser = {{ prefix = [\"+44\", \"0044\"] }}\npool = \"loads\"\n\
         [[route]]\nname = \"sender\"\nsource = \"{}/32\"\npool = \"loads\"\n\
         [[route]]\nname = \"account\"\nheader = {{ X-Account = \"gold\" }}\npool = \"loads\"\n\
         [[route]]\npool = \"servers\"\n",
        pool("loads", &[field.sip(22)], "policy = \"cjsq\"").replacen(
            "members = [",
            &format!("members = [{strong}, "),
            1
        ),
        field.ip(3)
    );
    let balancer = RunningBalancer::start(&field, settings);
    let to = balancer.address();
    let callers = [(2, "+441", "none"), (3, "1", "none"), (4, "1", "GOLD"), (5, "1", "silver")];
    let callers = callers.map(|(host, user, account)| {
        caller(&field, field.sip(host), to, &Words { user, account, target: to }, QUICK)
    });
    for caller in callers {
        caller.finish_clean();
    }
    balancer.wait_until_idle();
    let members = balancer.members();
    let given = |host| assigned(&members, field.sip(host));
    assert_eq!((given(11), given(12)), (QUICK.calls / 2, QUICK.calls / 2), "by turns: {members:?}");
    assert_eq!(given(21) + given(22), 3 * QUICK.calls, "{members:?}");
    assert!(given(21) > 2 * given(22), "three times the capacity: {members:?}");
    finish_clean(turns, QUICK.calls);
    finish_clean(loads, 3 * QUICK.calls);
}

/// Calls for which the first pool has no room go to the second; when the first is dead, all do.
#[test]
fn another_pool_takes_the_calls_of_one_that_is_full_or_dead() {
    const MOST: u64 = 5;
    let field = TestSite::new("failover");
    let (mut first, spare) = (SippServer::plain(&field, 11), SippServer::plain(&field, 21));
    let mut settings = TestSettings::new(&field, &[11]);
    settings.pool.push(format!("max_calls = {MOST}"));
    settings.tables = format!(
        "{}[[route]]\npool = [\"servers\", \"spare\"]\n",
        pool("spare", &[spare.address()], "policy = \"hash\"")
    );
    let balancer = RunningBalancer::start(&field, settings);
    let long = CallLoad { calls: 40, rate: 40, hold_ms: 1500 };
    let full = SippCaller::plain(&field, (field.sip(2), balancer.address()), long);
    until("the first pool is full", || {
        balancer.member(first.address()).filter(|member| member.calls == MOST)
    });
    full.finish_clean();
    balancer.wait_until_idle();
    let members = balancer.members();
    let taken = assigned(&members, first.address());
    assert!((MOST..long.calls).contains(&taken), "{members:?}");
    assert_eq!(taken + assigned(&members, spare.address()), long.calls, "{members:?}");

    first.kill();
    until("it is dead", || balancer.member(first.address()).filter(|member| member.state == "down"));
    SippCaller::plain(&field, (field.sip(3), balancer.address()), QUICK).finish_clean();
    balancer.wait_until_idle();
    assert_eq!(assigned(&balancer.members(), first.address()), taken, "a dead member gets no calls");
    assert_eq!(spare.finish_clean().calls(), long.calls - taken + QUICK.calls);
}

/// A media server calls numbers through a carrier, and other callees at their Request-URI. Only members may have calls
/// sent to arbitrary addresses.
#[test]
fn members_call_out_by_a_route_and_by_request_uri() {
    let field = TestSite::new("calling_out");
    let (carrier, friend) = (SippServer::plain(&field, 21), SippServer::plain(&field, 31));
    let mut settings = TestSettings::new(&field, &[11]);
    // The member calls; it answers nothing here.
    settings.probe = vec!["enabled = false"];
    settings.tables = format!(
        "{}[[route]]\nfrom = \"members\"\nuser = {{ prefix = \"+\" }}\nstrip_prefix = \"+\"\npool = \"carrier\"\n\
         [[route]]\nuser = \"nobody\"\npool = \"servers\"\n",
        pool("carrier", &[carrier.address()], "")
    );
    let balancer = RunningBalancer::start(&field, settings);
    let (member, to) = (field.sip(11), balancer.address());
    let number = Words { user: "+442079460000", account: "none", target: to };
    caller(&field, member, to, &number, QUICK).finish_clean();
    let direct = Words { user: "friend", account: "none", target: friend.address() };
    caller(&field, member, to, &direct, QUICK).finish_clean();
    balancer.wait_until_idle();
    let stranger = Agent::bind(field.sip(9));
    let mut invite = AgentRequest::new("INVITE", "to-a-friend");
    invite.uri = format!("sip:friend@{}", friend.address());
    stranger.send(to, &invite.bytes(stranger.address()));
    assert_eq!(status(&stranger.final_response("to-a-friend")), Some(404), "no route matches it");
    finish_clean(vec![carrier], QUICK.calls);
    finish_clean(vec![friend], QUICK.calls);
}

/// Returns the status of a new call of this agent.
fn outcome(agent: &Agent, to: SocketAddr, call_id: &str) -> Option<u16> {
    agent.send(to, &AgentRequest::new("INVITE", call_id).bytes(agent.address()));
    status(&agent.final_response(call_id))
}

/// Pools and routes are added, changed and removed while calls run. None is lost, and those in progress stay where they
/// are.
#[test]
fn reload_of_routes_under_load_loses_no_call() {
    // More than needed; they are stopped when the test has seen enough.
    const STEADY: CallLoad = CallLoad { calls: 5000, rate: 60, hold_ms: 1000 };
    let field = TestSite::new("reload_routes");
    let first = servers(&field, "uas_call", &[11]);
    let second = servers(&field, "uas_call", &[21]);
    let third = servers(&field, "uas_call", &[31]);
    let [one, two, three] = [11, 21, 31].map(|host| field.sip(host));
    let mut balancer = RunningBalancer::start(&field, TestSettings::new(&field, &[11]));
    let words = Words { user: "+441", account: "none", target: balancer.address() };
    let mut caller = caller(&field, field.sip(2), balancer.address(), &words, STEADY);
    after_more(&balancer, one, 20);

    // Routes and a pool are added, before the existing one.
    let route = |pool: &str| format!("[[route]]\nuser = {{ prefix = \"+44\" }}\npool = \"{pool}\"\n");
    let rest = "[[route]]\npool = \"servers\"\n";
    balancer.reload(|settings| {
        settings.tables = pool("two", &[two], "") + &route("two") + rest;
    });
    after_more(&balancer, two, 20);
    assert!(balancer.member(one).is_some_and(|member| member.state == "up"));

    // Another pool replaces that one, and takes its number.
    balancer.reload_by_request(|settings| {
        settings.tables = pool("three", &[three], "policy = \"cjsq\"") + &route("three") + rest;
    });
    after_more(&balancer, three, 20);
    until("the second has left", || balancer.member(two).filter(|member| !member.accepting));
    let given = assigned(&balancer.members(), two);

    let error = balancer.refuse_reload(|settings| settings.tables.push_str(&route("four")));
    assert!(error.contains("four") && error.contains("three"), "the error names the existing pools: {error}");

    // A change after which no route is left.
    balancer.reload_by_request(|settings| settings.tables = String::new());
    after_more(&balancer, one, 20);
    assert!(!caller.ended(), "the load ended too early to show anything");
    let calls = caller.end_clean();
    balancer.wait_until_idle();
    assert_eq!(assigned(&balancer.members(), two), given, "a removed member gets no calls");
    let all = first.into_iter().chain(second).chain(third).collect();
    finish_clean(all, calls);
}

/// In a pool with transactions, members that refuse or hang are skipped, then the next pool is tried. Callers do not
/// notice. Requests within dialogs go to the member or, in the other pool, by their Route.
#[test]
fn a_call_that_a_member_fails_is_tried_elsewhere() {
    let field = TestSite::new("tried_elsewhere");
    let busy = AnsweringAgent::saying(field.sip(11), |message| {
        Some(if message.starts_with(b"OPTIONS ") { "200 OK" } else { "503 Service Unavailable" })
    });
    let (usual, carrier) = (SippServer::plain(&field, 12), SippServer::plain(&field, 21));
    let mut settings = TestSettings::new(&field, &[11, 12]);
    settings.pool.push("policy = \"round-robin\"\noutlier = false".to_owned());
    settings.tables = format!(
        "{}[[route]]\nuser = {{ prefix = \"+\" }}\npool = [\"refusing\", \"servers\"]\n\
         [[route]]\nuser = \"carrier\"\nnext = {}\n[[route]]\npool = \"servers\"\n",
        pool("refusing", &[field.sip(11)], ""),
        quoted(&carrier.address())
    );
    let balancer = RunningBalancer::start(&field, settings);
    let to = balancer.address();
    let words = |user| Words { user, account: "none", target: to };
    caller(&field, field.sip(2), to, &words("1"), QUICK).finish_clean();
    caller(&field, field.sip(3), to, &words("+441"), QUICK).finish_clean();
    caller(&field, field.sip(4), to, &words("carrier"), QUICK).finish_clean();
    balancer.wait_until_idle();
    let retried = balancer.metric("sarabande_proxy_retried_total");
    assert!(retried >= 1.0, "calls are retried until the refusing member is known: {retried}");
    finish_clean(vec![usual], 2 * QUICK.calls);
    finish_clean(vec![carrier], QUICK.calls);
    drop(busy);
}

/// All members of a pool refuse, and only that leads to the next pool. It gets as many calls as the retry budget
/// allows: retries do not spread an overload.
#[test]
fn retries_of_a_refusing_pool_keep_to_their_budget() {
    // Retries allowed in 10 s, however few calls there are.
    const LEAST: u64 = 100;
    const CALLS: u64 = 200;
    let field = TestSite::new("retry_budget");
    let _busy = AnsweringAgent::saying(field.sip(11), |message| {
        Some(if message.starts_with(b"OPTIONS ") { "200 OK" } else { "503 Service Unavailable" })
    });
    let _spare = AnsweringAgent::start(field.sip(21), |_| true);
    let mut settings = TestSettings::new(&field, &[11]);
    settings.threads = 1;
    settings.pool.push("outlier = false".to_owned());
    settings.tables = format!(
        "{}[[route]]\npool = [\"servers\", \"spare\"]\n\
         failover = {{ on = [\"503\"], budget = \"10%\" }}\n",
        pool("spare", &[field.sip(21)], "")
    );
    let balancer = RunningBalancer::start(&field, settings);
    let agent = Agent::bind(field.sip(2));
    let statuses: Vec<_> = (0..CALLS)
        .map(|n| outcome(&agent, balancer.address(), &format!("call-{n}")).expect("an answer"))
        .collect();
    let taken = statuses.iter().filter(|status| **status == 200).count() as u64;
    assert_eq!(taken, LEAST + CALLS / 10, "{statuses:?}");
    assert_eq!(assigned(&balancer.members(), field.sip(21)), taken);
}

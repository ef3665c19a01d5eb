//! The swarm finds nothing in the node as it is, and finds what is broken on purpose.

use node::fuzz::Sent;
use sim::stats::sweep::{all_cores, sweep};
use sim::wire::swarm::{draw, replay, run, run_with};
use sim::wire::{Care, Honest, Plan, Role, SitePlan, World, Wrapper, answerer_address, site_address};
use std::collections::BTreeSet;

/// A few in every test run; `sarabande sim swarm` takes hundreds.
const SEEDS: usize = 12;

#[test]
fn no_seed_fails() {
    let verdicts = sweep(SEEDS, all_cores(), |seed| run(seed as u64), |_| {});
    let failed: Vec<_> = verdicts
        .iter()
        .filter_map(|verdict| Some(format!("seed {}: {}", verdict.seed, verdict.outcome.as_ref().err()?)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_seed_goes_the_same_way_twice_and_another_one_another_way() {
    let trace = |seed| run(seed).outcome.map(|summary| summary.trace.digest());
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
    let (first, second) = (replay(3), replay(3));
    assert_eq!((first.plan.to_string(), &first.log), (second.plan.to_string(), &second.log));
    assert!(first.log.len() > 10, "a replay shows the last messages");
}

#[test]
fn seeds_draw_both_kinds_of_plans_and_every_kind_of_action() {
    let plans: Vec<_> = (0..1_000).map(draw).collect();
    for care in [Care::Gentle, Care::Harsh] {
        assert!(plans.iter().any(|plan| plan.care == care), "{care:?}");
    }
    for (balancers, proxies) in [(true, false), (false, true), (true, true)] {
        let has = |plan: &Plan, role: fn(&Role) -> bool| plan.sites.iter().any(|site| role(&site.role));
        assert!(plans.iter().any(|plan| (has(plan, balancer), has(plan, proxy)) == (balancers, proxies)));
    }
    // Its only member drained or dead, a balancer could but refuse: no gentle plan may have that.
    let lone = |site: &&SitePlan| balancer(&site.role) && site.role.targets().len() < 2;
    let gentle = plans.iter().filter(|plan| plan.care == Care::Gentle);
    assert_eq!(gentle.flat_map(|plan| &plan.sites).filter(lone).count(), 0);
    let shown = plans.iter().map(ToString::to_string).collect::<String>();
    let actions = [
        "Fail",
        "Start",
        "TakeOver",
        "Die",
        "Return",
        "Drain",
        "stalls",
        "SetMembers",
        "SetPolicy",
        "SetHops",
        "Rekey",
    ];
    for what in actions.iter().chain(&["Loss", "Duplicate", "Reorder", "Jitter", "Partition"]) {
        assert!(shown.contains(what), "{what} is never drawn");
    }
}

/// What the swarm says of the first seeds whose sites have this role alone, when this stands between processes and the
/// network.
fn findings(role: fn(&Role) -> bool, canary: impl Fn() -> Box<dyn Wrapper> + Sync) -> Vec<String> {
    struct Caged(Box<dyn Wrapper>);
    impl Wrapper for Caged {
        fn hears(&mut self, bytes: &[u8]) -> bool {
            self.0.hears(bytes)
        }
        fn says(&mut self, sent: &mut Vec<Sent>) {
            self.0.says(sent);
        }
    }
    let fits = |plan: &Plan| plan.sites.iter().all(|site| role(&site.role));
    let plans: Vec<_> = (0..).map(draw).filter(fits).take(CAGED).collect();
    let verdicts = sweep(CAGED, all_cores(), |at| run_with(plans[at].clone(), Caged(canary())), |_| {});
    verdicts.into_iter().filter_map(|verdict| verdict.outcome.err()).collect()
}

/// Plans that a canary stands in.
const CAGED: usize = 4;

fn balancer(role: &Role) -> bool {
    matches!(role, Role::Balancer(_))
}

fn proxy(role: &Role) -> bool {
    matches!(role, Role::Proxy(_))
}

fn says(findings: &[String], words: &str) {
    assert!(findings.iter().any(|finding| finding.contains(words)), "not noticed: {findings:?}");
}

fn is(sent: &Sent, method: &[u8]) -> bool {
    sent.bytes.starts_with(method)
}

/// Sends one BYE of fifty to the answerer after the one that has the call.
#[derive(Default)]
struct Misroutes(u32);

impl Wrapper for Misroutes {
    fn says(&mut self, sent: &mut Vec<Sent>) {
        for bye in sent.iter_mut().filter(|one| is(one, b"BYE ")) {
            self.0 += 1;
            if self.0.is_multiple_of(50) {
                let first = answerer_address(0);
                bye.to = if bye.to == first { answerer_address(1) } else { first };
            }
        }
    }
}

#[test]
fn a_bye_at_the_wrong_server_is_noticed() {
    says(&findings(balancer, || Box::new(Misroutes::default())), "has the call");
}

/// Never lets the balancer hear the answer to a BYE of one call of eight.
struct Swallows;

impl Wrapper for Swallows {
    fn hears(&mut self, bytes: &[u8]) -> bool {
        let Ok(message) = wire::scan(bytes) else { return true };
        let is_answer = message.status().is_some() && message.cseq().method == wire::Method::Bye;
        let sum: u32 = message.call_id().iter().map(|&byte| u32::from(byte)).sum();
        !(is_answer && sum.is_multiple_of(8))
    }
}

#[test]
fn a_call_that_cannot_end_is_noticed() {
    says(&findings(balancer, || Box::new(Swallows)), "not all calls succeeded");
}

/// Gives the branch of every tenth INVITE another last character.
#[derive(Default)]
struct Forgets(u32);

impl Wrapper for Forgets {
    fn says(&mut self, sent: &mut Vec<Sent>) {
        for invite in sent.iter_mut().filter(|one| is(one, b"INVITE ")) {
            self.0 += 1;
            if self.0.is_multiple_of(10) {
                let message = wire::scan(&invite.bytes).expect("the balancer sends SIP");
                let branch = message.top_via().branch.expect("the balancer writes branches");
                let end = branch.as_ptr() as usize + branch.len() - invite.bytes.as_ptr() as usize;
                invite.bytes[end - 1] = if invite.bytes[end - 1] == b'a' { b'b' } else { b'a' };
            }
        }
    }
}

#[test]
fn a_retransmission_under_another_branch_is_noticed() {
    says(&findings(balancer, || Box::new(Forgets::default())), "under another branch than the first");
}

/// Answers an ACK.
struct Answers;

impl Wrapper for Answers {
    fn says(&mut self, sent: &mut Vec<Sent>) {
        let Some(ack) = sent.iter().find(|one| is(one, b"ACK ")) else { return };
        let message = wire::scan(&ack.bytes).expect("the balancer sends SIP");
        let (to, mut bytes) = (ack.to, Vec::new());
        wire::write_response(&message, to, 200, "OK", "tag", &[], &mut bytes);
        sent.push(Sent { listener: 0, to, bytes });
    }
}

#[test]
fn an_answer_to_an_ack_is_noticed() {
    says(&findings(balancer, || Box::new(Answers)), "an answer to another than who asked");
}

/// Changes what a proxy sends in this way, one of so many times that it could.
struct Tampers {
    every: u32,
    seen: u32,
    how: fn(&mut Sent) -> bool,
}

impl Tampers {
    fn caged(every: u32, how: fn(&mut Sent) -> bool) -> Box<dyn Wrapper> {
        Box::new(Self { every, seen: 0, how })
    }
}

impl Wrapper for Tampers {
    fn says(&mut self, sent: &mut Vec<Sent>) {
        for one in sent {
            let mut changed = one.clone();
            if (self.how)(&mut changed) {
                self.seen += 1;
                if self.seen.is_multiple_of(self.every) {
                    *one = changed;
                }
            }
        }
    }
}

/// Of the proxy's own: no Via below.
fn is_own(sent: &Sent, method: &[u8]) -> bool {
    is(sent, method) && wire::scan(&sent.bytes).is_ok_and(|message| !message.has_lower_vias())
}

fn rebranch(sent: &mut Sent) {
    let message = wire::scan(&sent.bytes).expect("a proxy sends SIP");
    let branch = message.top_via().branch.expect("a proxy writes branches");
    let end = branch.as_ptr() as usize + branch.len() - sent.bytes.as_ptr() as usize;
    sent.bytes[end - 1] = if sent.bytes[end - 1] == b'a' { b'b' } else { b'a' };
}

fn restatus(sent: &mut Sent, from: &[u8], to: &[u8]) -> bool {
    let has = sent.bytes.get(8..11) == Some(from) && is(sent, b"SIP/2.0 ");
    if has {
        sent.bytes[8..11].copy_from_slice(to);
    }
    has
}

#[test]
fn what_a_proxy_does_wrong_is_noticed() {
    type Canary = (&'static str, fn() -> Box<dyn Wrapper>);
    let canaries: [Canary; 8] = [
        ("CANCEL under a branch that no INVITE had", || {
            Tampers::caged(3, |sent| {
                let own = is_own(sent, b"CANCEL ");
                if own {
                    rebranch(sent);
                }
                own
            })
        }),
        ("ACK to another next hop than its INVITE", || {
            Tampers::caged(3, |sent| {
                let port = sent.to.port() ^ 1;
                sent.to.set_port(port);
                is_own(sent, b"ACK ")
            })
        }),
        ("a 100 was passed on", || Tampers::caged(20, |sent| restatus(sent, b"180", b"100"))),
        ("a 503 for a request that was sent on", || Tampers::caged(1, |sent| restatus(sent, b"487", b"503"))),
        ("after the final", || Box::new(AnswersTwice)),
        ("which is no next hop", || {
            Tampers::caged(50, |sent| {
                sent.to = "192.0.2.1:5060".parse().expect("a caller's address");
                is(sent, b"INVITE ")
            })
        }),
        ("its route set leads elsewhere", || {
            Tampers::caged(20, |sent| {
                let port = sent.to.port() ^ 1;
                sent.to.set_port(port);
                is(sent, b"BYE ") && sent.to.ip() == site_address(0).ip()
            })
        }),
        ("another next hop", || Box::new(Wanders::default())),
    ];
    for (words, canary) in canaries {
        says(&findings(proxy, canary), words);
    }
}

/// Follows up a 200 to an INVITE with a refusal.
struct AnswersTwice;

impl Wrapper for AnswersTwice {
    fn says(&mut self, sent: &mut Vec<Sent>) {
        let answered = |one: &&Sent| {
            let message = wire::scan(&one.bytes).expect("a proxy sends SIP");
            message.status() == Some(200) && message.cseq().method == wire::Method::Invite
        };
        let second = sent.iter().find(answered).cloned();
        sent.extend(second.map(|mut second| {
            restatus(&mut second, b"200", b"486");
            second
        }));
    }
}

/// Sends what it repeats to the next port.
#[derive(Default)]
struct Wanders(BTreeSet<Vec<u8>>);

impl Wrapper for Wanders {
    fn says(&mut self, sent: &mut Vec<Sent>) {
        for one in sent.iter_mut().filter(|one| is(one, b"INVITE ")) {
            if !self.0.insert(one.bytes.clone()) {
                let port = one.to.port() ^ 1;
                one.to.set_port(port);
            }
        }
    }
}

/// What a scenario of one balancer and three servers comes to, with these lines added.
fn scenario(lines: &str) -> Result<Plan, String> {
    let text = format!(
        "[run]\nduration = \"60s\"\nwarm_up = \"10s\"\n\
         [host.site]\nrole = \"balancer\"\npolicy = \"tlwl\"\ncapacity = \"unlimited\"\n\
         [host.pool]\nrole = \"server\"\ncount = 3\ncapacity = 160\n\
         [calls.main]\npath = [\"site\", \"pool\"]\nload = [{{ at = \"0s\", rate = 10, ramp = true }}, \
         {{ at = \"20s\", rate = 30 }}]\nholding = \"exp:5s\"\n{lines}"
    );
    let scenario = config::scenario::parse(&text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"));
    sim::wire::scenario::plan(&scenario)
}

#[test]
fn a_scenario_runs_on_bytes() {
    let plan = scenario("").expect("there is nothing that bytes cannot have");
    let summary = World::new(plan, Honest).run().expect("nothing is broken");
    // 20 s at 20 calls/s on average, 40 s at 30; a deviation is 40.
    assert!(summary.counts.calls.abs_diff(1_600) < 160, "{}", summary.counts.calls);
    assert_eq!(summary.callers.calls_completed, summary.counts.calls);
    let names: Vec<_> = summary.callers.calls_by_server.keys().map(String::as_str).collect();
    assert_eq!(names, ["pool.1", "pool.2", "pool.3"], "as the scenario names them");
}

#[test]
fn links_and_faults_of_a_scenario_happen_on_bytes() {
    let broken = "[[link]]\nbetween = [\"agents\", \"site\"]\nloss = \"5%\"\n\
                  [[fault]]\nhost = \"pool.2\"\nat = \"30s\"\nrestart = \"20s\"\n";
    let summary =
        World::new(scenario(broken).expect("bytes can have it"), Honest).run().expect("no rule is broken");
    assert!(summary.callers.retransmissions_sent > 100 && summary.callers.calls_failed() > 10);
    assert!(
        summary.callers.calls_completed * 10 > summary.counts.calls * 8,
        "most calls are none of the dead server's"
    );
}

#[test]
fn the_papers_topologies_have_their_hosts_on_bytes() {
    // Sites, answerers and callers: a group that calls take several ways on from is there once for each, a stream of calls
    // has a caller at each host that they enter by.
    let expected = [
        ("overload-7", 1, 1, 1),
        ("overload-8", 20, 6, 10),
        ("overload-9", 10, 4, 4),
        ("overload-11", 10, 4, 4),
        ("overload-14", 12, 4, 4),
        ("survive", 10, 4, 4),
        ("tlwl", 1, 8, 1),
    ];
    for (name, sites, answerers, callers) in expected {
        let path = format!("{}/../../examples/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("the example is there");
        let scenario = config::scenario::parse(&text, name).unwrap_or_else(|errors| panic!("{errors}"));
        let plan = sim::wire::scenario::plan(&scenario).unwrap_or_else(|refused| panic!("{name}: {refused}"));
        let has = (plan.sites.len(), plan.answerers.len(), plan.callers.len());
        assert_eq!(has, (sites, answerers, callers), "{name}");
        let left_out = sim::wire::scenario::left_out(&scenario);
        // Of "tlwl" what its balancer could carry, of the others what their proxies could.
        assert!(left_out[0].starts_with("the capacity of "), "{name}: {left_out:?}");
    }
}

/// Topology 3 on bytes with proxies and a balancer: what a dead core held may be lost, all else goes on.
#[test]
fn a_chain_of_proxies_survives_the_restart_of_one() {
    let text = "[run]\nduration = \"60s\"\nwarm_up = \"0s\"\n\
        [host.edge]\ncount = 3\ncapacity = 160\n[host.core]\ncount = 2\ncapacity = 160\n\
        [host.site]\nrole = \"balancer\"\npolicy = \"tlwl\"\ncapacity = \"unlimited\"\n\
        [host.pool]\nrole = \"server\"\ncount = 3\ncapacity = 160\n\
        [calls.main]\npath = [\"edge\", \"core\", \"edge\"]\nrate = 10\nholding = \"exp:5s\"\n\
        [calls.other]\npath = [\"edge\", \"core\", \"site\", \"pool\"]\nrate = 10\nholding = \"exp:5s\"\n\
        [[fault]]\nhost = \"core.2\"\nat = \"30s\"\nrestart = \"5s\"\n";
    let scenario = config::scenario::parse(text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let plan = sim::wire::scenario::plan(&scenario).unwrap_or_else(|refused| panic!("{refused}"));
    let summary = World::new(plan, Honest).run().expect("no rule is broken");
    let (all, completed) = (summary.counts.calls, summary.callers.calls_completed);
    assert!(all.abs_diff(1_200) < 140, "{all}");
    assert!(summary.callers.retransmissions_sent > 0 && all - completed <= 20, "{completed} of {all}");
    // An answerer behind each last edge, and the servers.
    let names: Vec<_> = summary.callers.calls_by_server.keys().map(String::as_str).collect();
    let edges = ["edge.1-callees", "edge.2-callees", "edge.3-callees"];
    assert_eq!(names, [&edges[..], &["pool.1", "pool.2", "pool.3"]].concat());
}

#[test]
fn what_bytes_cannot_have_is_refused() {
    let slow = "[[fault]]\nhost = \"pool.2\"\nat = \"30s\"\nslowdown = 0.5\n";
    assert!(scenario(slow).unwrap_err().contains("slowdown"));
    let text =
        "[host.server]\nrole = \"server\"\ncapacity = 160\n[calls.main]\npath = [\"server\"]\nrate = 80\n";
    let direct = config::scenario::parse(text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"));
    assert!(sim::wire::scenario::plan(&direct).unwrap_err().contains("begin at a server"));
}

//! The swarm finds no fault in the node. `canaries` shows that it would.

use route::Forward;
use sim::stats::sweep::{all_cores, sweep};
use swarm::{Counts, FilePlan, Honest, Plan, Severity, SitePlan, SiteRole, World};
use swarm::{draw, replay, run, total};

/// Few enough for every test run. `cargo run --release -p swarm` takes hundreds.
const SEEDS: usize = 12;

#[test]
fn no_seed_fails() {
    none_fails(&(0..SEEDS as u64).collect::<Vec<_>>());
}

fn none_fails(seeds: &[u64]) -> Counts {
    let verdicts = sweep(seeds.len(), all_cores(), |at| run(seeds[at]), |_| {});
    let failed: Vec<_> = verdicts
        .iter()
        .filter_map(|verdict| Some(format!("seed {}: {}", verdict.seed, verdict.outcome.as_ref().err()?)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    total(&verdicts)
}

/// One plan of ten has scaling, so these are chosen: enough for each fault of a driver.
#[test]
fn no_plan_with_servers_that_are_started_and_stopped_fails() {
    let is_scaled = |seed: &u64| draw(*seed).sites.iter().any(|site| site.role.scale().is_some());
    let seeds: Vec<_> = (0..).filter(is_scaled).take(SEEDS).collect();
    let counts = none_fails(&seeds);
    assert!(counts.servers_started >= 5 && counts.servers_stopped >= 10, "{counts:?}");
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
    for severity in [Severity::Gentle, Severity::Harsh] {
        assert!(plans.iter().any(|plan| plan.severity == severity), "{severity:?}");
    }
    for kind in [
        "shares out state",
        "shares out dialogs",
        "shares out authentication",
        "FromSite",
        "HomePlan",
        "RemoveAll",
        "knows_password: false, must_succeed",
        "Parallel",
        "Sequential",
        "refuses: Some",
        "keeps calls",
        "scaled by",
        "no Record-Route",
        "calls each",
        "not probed",
        ", then pool-",
        "calls a second each",
        "limits by",
        "feedback: Rate",
        "feedback: Loss",
    ] {
        assert!(plans.iter().any(|plan| plan.to_string().contains(kind)), "{kind}");
    }
    for (dialogs, users) in [(false, false), (true, false), (false, true), (true, true)] {
        let shares = |file: &FilePlan| {
            file.forwards(Forward::Distributed)
                && (file.shares_dialogs, file.users.is_some()) == (dialogs, users)
        };
        let all = |plan: &Plan| plan.sites.iter().all(|site| site.role.file().is_some_and(shares));
        assert!(plans.iter().any(all), "dialogs {dialogs}, users {users}");
    }
    for (balancers, proxies) in [(true, false), (false, true), (true, true)] {
        let has = |plan: &Plan, role: fn(&SiteRole) -> bool| plan.sites.iter().any(|site| role(&site.role));
        assert!(plans.iter().any(|plan| (has(plan, balancer), has(plan, proxy)) == (balancers, proxies)));
    }
    // A balancer with one member could only refuse while the member is drained or dead, so no gentle plan has one.
    let lone = |site: &&SitePlan| balancer(&site.role) && site.role.targets().len() < 2;
    let gentle = plans.iter().filter(|plan| plan.severity == Severity::Gentle);
    assert_eq!(gentle.flat_map(|plan| &plan.sites).filter(lone).count(), 0);
    let shown = plans.iter().map(ToString::to_string).collect::<String>();
    let actions =
        ["Fail", "Start", "TakeOver", "Die", "Return", "Drain", "stalls", "Configure", "Rekey", "SetStore"];
    let shards = [1, 2, 3].map(|shards| format!("{shards} shards"));
    let faults = ["options: false", "Loss", "Duplicate", "Reorder", "Jitter", "Partition"];
    for text in actions.iter().chain(&faults).copied().chain(shards.iter().map(String::as_str)) {
        assert!(shown.contains(text), "{text} is never drawn");
    }
}

fn balancer(role: &SiteRole) -> bool {
    matches!(role, SiteRole::Balancer(_))
}

fn proxy(role: &SiteRole) -> bool {
    matches!(role, SiteRole::Proxy(_))
}

/// Returns the plan of a scenario with one balancer, three servers and these lines.
fn scenario(lines: &str) -> Result<Plan, String> {
    let text = format!(
        "[run]\nduration = \"60s\"\nwarm_up = \"10s\"\n\
         [host.site]\nrole = \"balancer\"\npolicy = \"tlwl\"\ncapacity = \"unlimited\"\n\
         [host.pool]\nrole = \"server\"\ncount = 3\ncapacity = 160\n\
         [calls.main]\npath = [\"site\", \"pool\"]\nload = [{{ at = \"0s\", rate = 10, ramp = true }}, \
         {{ at = \"20s\", rate = 30 }}]\nholding = \"exp:5s\"\n{lines}"
    );
    let scenario = config::scenario::parse(&text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"));
    swarm::scenario::plan(&scenario)
}

#[test]
fn a_scenario_runs_on_bytes() {
    let plan = scenario("").expect("there is nothing that bytes cannot have");
    let summary = World::new(plan, Honest).run().expect("nothing is broken");
    // 20 s at 20 calls/s on average, 40 s at 30; a standard deviation is 40.
    assert!(summary.counts.calls.abs_diff(1_600) < 160, "{}", summary.counts.calls);
    let callers = &summary.callers;
    assert_eq!(callers.calls_completed + callers.calls_answered_late, summary.counts.calls);
    assert!(callers.calls_answered_late <= 1, "given up as the run ended: {}", callers.calls_answered_late);
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
    // Numbers of sites, answerers and callers. A group with several continuations is there once for each, and a stream
    // has a caller for each of its entry hosts.
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
        let path = format!("{}/../../../examples/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("the example is there");
        let scenario = config::scenario::parse(&text, name).unwrap_or_else(|errors| panic!("{errors}"));
        let plan = swarm::scenario::plan(&scenario).unwrap_or_else(|refused| panic!("{name}: {refused}"));
        let has = (plan.sites.len(), plan.answerers.len(), plan.callers.len());
        assert_eq!(has, (sites, answerers, callers), "{name}");
        let left_out = swarm::scenario::left_out(&scenario);
        // The capacity of the balancer in "tlwl", and of the proxies in the others.
        assert!(left_out[0].starts_with("the capacity of "), "{name}: {left_out:?}");
    }
}

/// Topology 3 on bytes with proxies and a balancer: only calls of the dead core may be lost.
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
    let plan = swarm::scenario::plan(&scenario).unwrap_or_else(|refused| panic!("{refused}"));
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
fn scenarios_that_cannot_run_on_bytes_are_refused() {
    let slow = "[[fault]]\nhost = \"pool.2\"\nat = \"30s\"\nslowdown = 0.5\n";
    assert!(scenario(slow).unwrap_err().contains("slowdown"));
    let text =
        "[host.server]\nrole = \"server\"\ncapacity = 160\n[calls.main]\npath = [\"server\"]\nrate = 80\n";
    let direct = config::scenario::parse(text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"));
    assert!(swarm::scenario::plan(&direct).unwrap_err().contains("start at a server"));
    let quota = "quota = { period = \"10ms\", processor = 2000 }";
    for (setting, text) in [(quota, "quotas"), ("card = 2000", "network cards")] {
        let proxy =
            format!("[host.other]\ncapacity = 160\n{setting}\n[calls.other]\npath = [\"other\"]\nrate = 1\n");
        assert!(scenario(&proxy).unwrap_err().contains(text));
    }
}

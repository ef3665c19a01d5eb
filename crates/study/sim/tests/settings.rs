//! Settings of a scenario file, and their effects in the model.

use base::Instant;
use sim::model::RunResults;
use std::time::Duration;

/// Runs a scenario with an edge and a core server: 20 calls a second of 2 s for 200 s. `host` has further keys of the
/// core, `more` further tables.
fn run(host: &str, more: &str) -> RunResults {
    run_at(20.0, "udp", host, more)
}

fn run_at(rate: f64, transport: &str, host: &str, more: &str) -> RunResults {
    run_for(200, rate, transport, host, more)
}

/// The same for this number of seconds.
fn run_for(seconds: u32, rate: f64, transport: &str, host: &str, more: &str) -> RunResults {
    let text = format!(
        r#"
        run = {{ duration = "{seconds}s", warm_up = "20s" }}
        host.edge = {{ capacity = 1000, transport = "{transport}" }}
        [host.core]
        capacity = 200
        transport = "{transport}"
        {host}
        [calls.main]
        path = ["edge", "core"]
        rate = {rate}
        holding = "2s"
        transport = "{transport}"
        {more}
        "#
    );
    let scenario = config::scenario::parse(&text, "settings.toml").expect("a right scenario");
    sim::model::run(&scenario, 1)
}

/// Returns the table of a link between two places, with these further keys.
fn link(between: &str, rest: &str) -> String {
    format!("[[link]]\nbetween = {between}\n{rest}")
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn setup(results: &RunResults) -> f64 {
    results.streams[0].setup_delay.mean().as_secs_f64()
}

fn completed_all(results: &RunResults) -> bool {
    let outcomes = results.streams[0].outcomes;
    outcomes.completed == outcomes.ended() && outcomes.completed > 3_000
}

/// Mean utilisation of the core after the warm-up.
fn busy(results: &RunResults) -> f64 {
    let bins: Vec<f64> = results.hosts[1].utilisation.iter().skip(2).map(|bin| bin.1).collect();
    bins.iter().sum::<f64>() / bins.len() as f64
}

fn resends(results: &RunResults) -> f64 {
    results.hosts.iter().map(|host| host.resends.rate(at(20), at(200))).sum()
}

#[test]
fn a_delay_counts_once_a_message() {
    let plain = setup(&run("", ""));
    // INVITE, 200 and ACK each cross the link once.
    for between in [r#"["edge", "core"]"#, r#"["core", "edge"]"#, r#"["agents", "edge"]"#] {
        let added = setup(&run("", &link(between, r#"delay = "30ms""#))) - plain;
        assert!((added - 0.090).abs() < 0.002, "{between}: {added}");
    }
}

#[test]
fn a_link_of_a_group_with_itself_is_there_once() {
    let text = |link: &str| {
        format!(
            r#"
            run = {{ duration = "100s", warm_up = "0s" }}
            host.edge = {{ capacity = 1000, count = 2 }}
            calls.main = {{ path = ["edge", "edge"], rate = 5, holding = "2s" }}
            {link}
            "#
        )
    };
    let delay = |link: &str| {
        setup(&sim::model::run(&config::scenario::parse(&text(link), "self.toml").expect("right"), 1))
    };
    // An edge server that is the first and last host of the path also sends to itself over the link.
    let added = delay(&link(r#"["edge", "edge"]"#, r#"delay = "30ms""#)) - delay("");
    assert!((added - 0.090).abs() < 0.002, "{added}");
}

#[test]
fn lost_messages_are_sent_again() {
    let lossy = link(r#"["edge", "core"]"#, r#"loss = "5%""#);
    let results = run("", &lossy);
    assert!(completed_all(&results) && resends(&results) > 1.0, "{}", resends(&results));
    assert!(setup(&results) > setup(&run("", "")) + 0.020);
}

#[test]
fn over_tcp_nothing_is_lost_and_nothing_sent_again() {
    for between in [r#"["agents", "edge"]"#, r#"["agents", "core"]"#] {
        for fault in
            [r#"loss = "5%""#, r#"duplication = "20%""#, r#"partition = true, since = "60s", until = "62s""#]
        {
            let results = run_at(20.0, "tcp", "", &link(between, &fault.replace(", ", "\n        ")));
            assert!(completed_all(&results), "{between} {fault}: {:?}", results.streams[0].outcomes);
            assert!(resends(&results) < 1e-9, "{between} {fault}");
        }
    }
    // A lost segment arrives 200 ms later.
    let lossy = run_at(20.0, "tcp", "", &link(r#"["agents", "edge"]"#, r#"loss = "10%""#));
    let added = setup(&lossy) - setup(&run_at(20.0, "tcp", "", ""));
    // INVITE, 200 and ACK, each with 1/9 losses in the mean; the second loss of a segment counts double.
    assert!((0.060..0.100).contains(&added), "{added}");
}

#[test]
fn a_partition_lets_nothing_through_while_it_lasts() {
    let results =
        run("", &link(r#"["agents", "edge"]"#, "partition = true\nsince = \"60s\"\nuntil = \"70s\""));
    let completed = |from, to| results.streams[0].completed.rate(at(from), at(to));
    assert!(completed(60, 70) < 1e-9);
    assert!(completed(30, 60) > 18.0 && completed(120, 190) > 18.0);
}

#[test]
fn jitter_adds_half_of_itself_and_reordering_holds_back_its_share() {
    let delay = |rest| setup(&run("", &link(r#"["edge", "core"]"#, rest)));
    let plain = delay(r#"delay = "10ms""#);
    let jitter = delay("delay = \"10ms\"\njitter = \"20ms\"") - plain;
    assert!((jitter - 0.030).abs() < 0.003, "{jitter}");
    // Half of the three messages wait for another 10 ms.
    let reordering = delay("delay = \"10ms\"\nreordering = \"50%\"") - plain;
    assert!((reordering - 0.015).abs() < 0.003, "{reordering}");
}

#[test]
fn a_duplicated_message_arrives_twice() {
    let doubled = run("", &link(r#"["edge", "core"]"#, "duplication = 1"));
    let plain = run("", "");
    // Each of the 7 messages that cross the link has a copy, which the transactions absorb.
    assert!(doubled.messages as f64 > 1.4 * plain.messages as f64, "{} {}", doubled.messages, plain.messages);
    assert!(completed_all(&doubled));
}

#[test]
fn a_background_job_takes_its_share() {
    let (plain, shared) = (busy(&run("", "")), busy(&run("background = 0.5", "")));
    assert!((shared / plain - 2.0).abs() < 0.05, "{plain} {shared}");
}

#[test]
fn workers_share_the_capacity() {
    let (one, four) = (run("", ""), run("workers = 4", ""));
    assert!((busy(&one) - busy(&four)).abs() < 0.005);
    // Each worker takes four times as long for a message.
    assert!(setup(&four) > setup(&one) + 0.005, "{} {}", setup(&one), setup(&four));
}

#[test]
fn a_host_that_stalls_keeps_calls_waiting() {
    let stalling = run("stalls = { every = \"10s\", length = \"400ms\" }", "");
    let p99 = |results: &RunResults| results.streams[0].setup_delay.percentile(99.0);
    assert!(p99(&stalling) > Duration::from_millis(200), "{:?}", p99(&stalling));
    assert!(p99(&run("", "")) < Duration::from_millis(50));
    assert!(completed_all(&stalling));
}

#[test]
fn service_times_follow_their_table_around_the_same_mean() {
    let plain = run("", "");
    // Nine of ten messages take hardly any time, and the rest takes longer.
    let table = run("", "[costs]\nservice = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 20]");
    assert!((busy(&plain) - busy(&table)).abs() < 0.02, "{} {}", busy(&plain), busy(&table));
    let p99 = |results: &RunResults| results.streams[0].setup_delay.percentile(99.0);
    assert!(p99(&table) > p99(&plain) * 2, "{:?} {:?}", p99(&plain), p99(&table));
}

#[test]
fn hosts_are_chosen_in_turn_or_at_random() {
    let spread = |select: &str| {
        let text = format!(
            r#"
            run = {{ duration = "100s", warm_up = "0s" }}
            host.edge = {{ capacity = 1000, select = "{select}" }}
            host.core = {{ capacity = 1000, count = 2 }}
            host.far = {{ capacity = 1000 }}
            calls.main = {{ path = ["edge", "core", "far"], rate = 20, holding = "2s" }}
            "#
        );
        let results = sim::model::run(&config::scenario::parse(&text, "select.toml").expect("right"), 1);
        let busy = |host: usize| results.hosts[host].utilisation.iter().map(|bin| bin.1).sum::<f64>();
        (busy(1) / busy(2) - 1.0).abs()
    };
    assert!(spread("round-robin") < 0.003, "{}", spread("round-robin"));
    assert!(spread("random") > 0.003, "{}", spread("random"));
}

/// Seconds of a run in overload: 400 calls a second need fewer seconds for the same accuracy.
const OVERLOADED: u32 = 100;

/// Runs the core at twice its capacity.
fn overload(host: &str) -> RunResults {
    run_for(OVERLOADED, 400.0, "udp", host, "")
}

/// Runs the core in overload with this control law.
fn overloaded(law: &str) -> RunResults {
    overload(&format!("buffer = 400\n overload = {{ {law} }}"))
}

fn rejected(results: &RunResults) -> f64 {
    results.hosts[1].rejected.rate(at(50), at(OVERLOADED.into()))
}

#[test]
fn occupancy_holds_its_target() {
    for target in [0.6, 0.9] {
        let busy = busy(&overloaded(&format!("local = \"occupancy\", target = {target}")));
        assert!((busy - target).abs() < 0.05, "{target} {busy}");
    }
}

#[test]
fn a_smoothed_utilisation_changes_the_occupancy_law() {
    // A short run is enough to tell whether two runs differ.
    let trace =
        |law: &str| run_for(40, 400.0, "udp", &format!("buffer = 400\n overload = {{ {law} }}"), "").trace;
    let plain = trace("local = \"occupancy\"");
    assert_eq!(plain, trace("local = \"occupancy\", smoothing = 1, period = \"1s\""));
    for other in ["smoothing = 0.3", "period = \"500ms\"", "increase_max = 1.1", "acceptance_min = \"30%\""] {
        assert_ne!(plain, trace(&format!("local = \"occupancy\", {other}")), "{other}");
    }
}

#[test]
fn watermarks_are_shares_of_the_buffer() {
    let results = overloaded("local = \"bang-bang\"");
    assert!(rejected(&results) > 50.0, "{}", rejected(&results));
    let longest = |law: &str| {
        let queue = overloaded(law).hosts[1].queue.clone();
        queue.iter().skip(2).map(|bin| bin.1).fold(0.0, f64::max)
    };
    let low = longest("local = \"bang-bang\", high = \"20%\", low = \"10%\"");
    assert!(low < 200.0 && longest("local = \"bang-bang\"") > 200.0, "{low}");
}

#[test]
fn the_delay_law_bounds_the_wait() {
    let setup = |wait| setup(&overloaded(&format!("local = \"delay\", wait = \"{wait}ms\"")));
    let (short, long) = (setup(20), setup(200));
    assert!(short < long, "{short} {long}");
}

/// Runs calls that a server answers at the end of this path.
fn served(path: &str) -> RunResults {
    let edge = if path.contains("edge") { "host.edge.capacity = 1000" } else { "" };
    let text = format!(
        r#"
        run = {{ duration = "100s", warm_up = "0s" }}
        {edge}
        [host.app]
        role = "server"
        count = 2
        capacity = 200
        [calls.main]
        path = {path}
        rate = 20
        holding = "2s"
        "#
    );
    sim::model::run(&config::scenario::parse(&text, "served.toml").expect("right"), 1)
}

#[test]
fn servers_answer_behind_proxies_and_alone() {
    for path in [r#"["edge", "app"]"#, r#"["app"]"#] {
        let results = served(path);
        let outcomes = results.streams[0].outcomes;
        assert!(outcomes.completed == outcomes.ended() && outcomes.completed > 1_500, "{path}: {outcomes:?}");
        assert!(results.calls_left < 100, "{path}: {} calls left", results.calls_left);
        assert!(results.streams[0].setup_delay.count() > 1_500, "{path}");
    }
}

#[test]
fn a_server_carries_the_calls_of_its_capacity() {
    // 10 calls/s at each server, which can serve 200.
    for path in [r#"["edge", "app"]"#, r#"["app"]"#] {
        let results = served(path);
        for server in results.hosts.iter().filter(|host| host.name.starts_with("app")) {
            let busy = server.utilisation.iter().map(|bin| bin.1).sum::<f64>();
            let busy = busy / server.utilisation.len() as f64;
            assert!((busy - 0.05).abs() < 0.005, "{path}: {busy}");
        }
    }
}

#[test]
fn watermarks_at_their_ends_still_work() {
    let text = "buffer = 40\n overload = { local = \"bang-bang\", high = 1, low = 0.01 }";
    let results = overload(text);
    assert!(rejected(&results) > 50.0, "{}", rejected(&results));
    assert!(results.streams[0].completed.rate(at(50), at(OVERLOADED.into())) > 10.0);
}

/// At a tenth of its capacity, a host with a quota serves almost all jobs at the speed of the whole processor. Its
/// utilisation and its long-run capacity are unchanged.
#[test]
fn a_quota_lets_a_host_run_fast_for_a_part_of_each_period() {
    let quota = "quota = { period = \"10ms\", processor = 2000 }";
    let [plain, parts] = ["", quota].map(|host| run(host, ""));
    assert!(setup(&parts) < 0.7 * setup(&plain), "{} {}", setup(&parts), setup(&plain));
    assert!((busy(&parts) - busy(&plain)).abs() < 0.005, "{} {}", busy(&parts), busy(&plain));
    let past = run_at(260.0, "udp", quota, "");
    assert!(busy(&past) > 0.99 && !completed_all(&past), "{}", busy(&past));
}

/// A card of 500 messages a second takes 2 ms for each message in each direction: INVITE, 200 and ACK pass it twice,
/// and wait for other outgoing messages. A shared card behaves like a card of the remaining rate.
#[test]
fn a_network_card_takes_its_time_for_each_message() {
    let plain = setup(&run("", ""));
    let carded = run("card = 500", "");
    let added = setup(&carded) - plain;
    assert!((0.012..0.020).contains(&added) && completed_all(&carded), "{added}");
    let fault = "[[fault]]\nhost = \"core\"\nat = \"0s\"\ncard = 0.5\n";
    let [shared, half] = [run("card = 500", fault), run("card = 250", "")].map(|results| setup(&results));
    assert!((shared - half).abs() < 1e-9 && shared > plain + 1.9 * added, "{shared} {half} {added}");
}

/// A card drops messages beyond a thousand; over TCP they are sent again by the connection, over UDP by the caller.
#[test]
fn messages_dropped_by_a_card_are_sent_again() {
    let fault = "[[fault]]\nhost = \"core\"\nat = \"60s\"\ncard = 0.01\n\
                 [[fault]]\nhost = \"core\"\nat = \"75s\"\ncard = 1\n";
    let stuck = run("card = 2000", fault);
    assert!(resends(&stuck) > resends(&run("card = 2000", "")) + 1.0, "{}", resends(&stuck));
    // Messages that wait when the whole card is available again pass within half a second, and no more are dropped.
    let [during, after] =
        [(60, 80), (80, 200)].map(|(from, to)| stuck.hosts[1].dropped.rate(at(from), at(to)));
    assert!(during > 10.0 && after < 1e-9, "{during} {after}");
    let tcp = run_at(20.0, "tcp", "card = 2000", fault);
    assert!(
        resends(&tcp) < 1e-9 && tcp.streams[0].outcomes.invite_timeouts == 0,
        "{:?}",
        tcp.streams[0].outcomes
    );
}

/// Several databases are asked in turn: their numbers of look-ups differ by at most one.
#[test]
fn databases_are_asked_in_turn() {
    let results =
        run("database = \"users\"", "[host.users]\nrole = \"database\"\ncount = 3\ncapacity = 100\n");
    let databases = results.hosts.iter().filter(|host| host.name.starts_with("users"));
    // 10 ms each, in bins of 10 s.
    let looked_up: Vec<f64> =
        databases.map(|host| host.utilisation.iter().map(|bin| bin.1 * 1e3).sum()).collect();
    let (least, most) =
        looked_up.iter().fold((f64::MAX, 0.0_f64), |(least, most), of| (least.min(*of), most.max(*of)));
    assert!(looked_up.len() == 3 && least > 1_000.0 && most < least + 2.0, "{looked_up:?}");
}

/// A call is looked up once, before its server handles it: 10 ms, and the wait of an M/D/1 queue.
#[test]
fn a_call_waits_for_the_database() {
    let plain = setup(&run("", ""));
    let with = |fault: &str| {
        run("database = \"users\"", &format!("{fault}\n[host.users]\nrole = \"database\"\ncapacity = 100\n"))
    };
    let slow = "[[fault]]\nhost = \"users\"\nat = \"0s\"\nslowdown = 0.5\n";
    for (fault, time) in [("", 0.010), (slow, 0.020)] {
        let results = with(fault);
        let load = 20.0 * time;
        let expected = time + time * load / (2.0 * (1.0 - load));
        let added = setup(&results) - plain;
        assert!((added / expected - 1.0).abs() < 0.1 && completed_all(&results), "{added} {expected}");
        let users = results.hosts.iter().find(|host| host.name == "users").expect("it is a host");
        let busy = users.utilisation.iter().skip(2).map(|bin| bin.1).sum::<f64>() / 18.0;
        assert!((busy - load).abs() < 0.03, "{busy}");
    }
    // Look-ups in progress when the database fails are lost, and retransmitted.
    let results = with("[[fault]]\nhost = \"users\"\nat = \"60s\"\nrestart = \"2s\"\n");
    assert!(
        completed_all(&results) && resends(&results) > resends(&with("")),
        "{:?}",
        results.streams[0].outcomes
    );
}

//! Real server processes that are started and stopped under load.

use std::net::UdpSocket;
use std::path::PathBuf;

use sarabande_tests::{
    CallLoad, RunningBalancer, SippCaller, TestSettings, TestSite, program, quoted, until,
};
use serde_json::Value;

const HOSTS: [u8; 3] = [11, 12, 13];

/// A server carries 10 calls/s, so that 20 need three at 80 %.
const SCALE: &str = "least = 1\nspare = 0\ncapacity = 10\ncalm = \"2s\"\nidle = \"1s\"\n\
                     start_time = \"1s\"";

/// More than one server carries, for longer than servers need to start. A call lasts a second.
const RAMP: CallLoad = CallLoad { calls: 240, rate: 20, hold_ms: 1_000 };

fn states(balancer: &RunningBalancer) -> Vec<String> {
    let shown: Value = serde_json::from_str(&balancer.get("/api/scale/servers")).expect("JSON");
    let servers = shown["servers"].as_array().expect("a list of servers");
    servers.iter().map(|server| server["state"].as_str().expect("a state").to_owned()).collect()
}

fn count(balancer: &RunningBalancer, wanted: &str) -> usize {
    states(balancer).iter().filter(|state| *state == wanted).count()
}

/// Returns true if the address of a server is free.
fn is_free(field: &TestSite, host: u8) -> bool {
    UdpSocket::bind(field.sip(host)).is_ok()
}

/// Commands that start and stop servers. Their process IDs are files in a folder, and each start is a line of a file
/// there.
struct Programs {
    folder: PathBuf,
}

impl Programs {
    fn new(field: &TestSite) -> Self {
        Self { folder: field.folder().to_owned() }
    }

    /// Returns the command that stops the server of this host.
    fn stop(&self, host: &str) -> String {
        let folder = self.folder.display();
        format!("kill $(cat {folder}/{host}.pid) && rm {folder}/{host}.pid")
    }

    /// Returns the table of the configuration, with these further keys.
    fn table(&self, keys: &str) -> String {
        let (folder, program) = (self.folder.display(), program());
        let start = format!(
            "echo {{name}} >> {folder}/starts; {} load answer --listen {{server}} --duration 2m >/dev/null 2>&1 & echo $! > {folder}/{{host}}.pid",
            program.display()
        );
        let shell = |text: &str| format!("[\"sh\", \"-c\", {}]", quoted(&text));
        let (start, stop) = (shell(&start), shell(&self.stop("{host}")));
        format!("[pool.servers.scale]\ndriver = \"command\"\nstart = {start}\nstop = {stop}\n{keys}\n")
    }

    fn starts(&self) -> String {
        std::fs::read_to_string(self.folder.join("starts")).expect("some were started")
    }

    /// Ends the balancer, and then these servers, which outlive it.
    fn end(&self, field: &TestSite, mut balancer: RunningBalancer, hosts: &[u8]) {
        balancer.terminate();
        assert!(balancer.wait().success());
        for host in hosts {
            let stop = self.stop(&field.ip(*host).to_string());
            let status = std::process::Command::new("sh").args(["-c", &stop]).status().expect("a shell");
            assert!(status.success(), "{host}");
        }
    }
}

/// One server runs, more are started for the calls, and stopped after them. No call is lost, even at a server that
/// starts, drains or stops.
#[test]
fn servers_are_started_and_stopped_with_the_load() {
    let field = TestSite::new("scale");
    let mut settings = TestSettings::new(&field, &HOSTS);
    let programs = Programs::new(&field);
    settings.tables = programs.table(SCALE);
    let balancer = RunningBalancer::launch(&field, settings);
    until("a first server", || (count(&balancer, "ready") == 1).then_some(()));
    assert!(is_free(&field, HOSTS[2]), "one server is enough without calls");

    let mut caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), RAMP);
    until("all servers", || (count(&balancer, "ready") == HOSTS.len()).then_some(()));
    until("calls at the last one", || {
        balancer.member(field.sip(HOSTS[2])).filter(|member| member.assigned > 5)
    });
    assert!(!caller.ended(), "the load ended too early to show anything");
    caller.finish_clean();

    until("one server is left", || {
        let states = states(&balancer);
        let is_over = |state: &String| ["off", "gone"].contains(&state.as_str());
        (states[0] == "ready" && states[1..].iter().all(is_over)).then_some(())
    });
    balancer.wait_until_idle();
    assert!(is_free(&field, HOSTS[1]) && is_free(&field, HOSTS[2]), "their processes have ended");
    let assigned: u64 = balancer.members().iter().map(|member| member.assigned).sum();
    assert_eq!(assigned, RAMP.calls, "each call went to one server");
    let stops = balancer.get("/metrics");
    assert!(stops.contains("sarabande_scale_decisions_total{pool=\"servers\",kind=\"stop\"} 2"), "{stops}");

    programs.end(&field, balancer, &HOSTS[..1]);
}

/// Commands start and stop servers that outlive the balancer. After `kill -9` it finds them again, and starts none
/// twice.
#[test]
fn after_a_crash_servers_are_found_again() {
    let field = TestSite::new("scale-crash");
    let programs = Programs::new(&field);
    let mut settings = TestSettings::new(&field, &HOSTS);
    settings.tables = programs.table(&SCALE.replace("least = 1", "least = 2"));
    let mut balancer = RunningBalancer::launch(&field, settings);
    until("two servers", || (count(&balancer, "ready") == 2).then_some(()));
    let starts = || programs.starts();
    assert_eq!(starts().lines().count(), 2, "{}", starts());

    balancer.kill_and_restart();
    until("the two servers again", || (count(&balancer, "ready") == 2).then_some(()));
    let load = CallLoad { calls: 20, rate: 10, hold_ms: 200 };
    SippCaller::plain(&field, (field.sip(2), balancer.address()), load).finish_clean();
    assert_eq!(starts().lines().count(), 2, "no server is started twice: {}", starts());

    programs.end(&field, balancer, &HOSTS[..2]);
}

/// Only an operator ends an operator's drain. Drains of the scaler end with the scaler.
#[test]
fn drains_outlive_a_reload_and_drains_of_the_scaler_end_with_the_scaler() {
    let field = TestSite::new("scale-drain");
    let mut settings = TestSettings::new(&field, &HOSTS);
    let programs = Programs::new(&field);
    let table = |keys: &str| programs.table(keys);
    // With `most = 1`. The scaler would otherwise replace a server drained by an operator.
    settings.tables = table(&format!("{SCALE}\nmost = 1"));
    let mut balancer = RunningBalancer::launch(&field, settings);
    let drained = |balancer: &RunningBalancer| -> Vec<bool> {
        let shown: Value = serde_json::from_str(&balancer.get("/api/members")).expect("JSON");
        let members = shown["members"].as_array().expect("a list of members");
        members.iter().map(|member| member["draining"].as_bool().expect("a flag")).collect()
    };
    until("one server", || (count(&balancer, "ready") == 1).then_some(()));
    until("the others are drained", || (drained(&balancer) == [false, true, true]).then_some(()));
    balancer.set_draining(field.sip(HOSTS[0]), true);
    // A new scaler, which finds it.
    balancer.reload_by_request(|settings| settings.tables = table(&format!("{SCALE}\nmost = 1\nhigh = 0.9")));
    until("the new scaler has found it", || {
        (balancer.get("/api/scale/servers").contains("\"ready\":true") && count(&balancer, "ready") == 1)
            .then_some(())
    });
    let looked = balancer.get("/api/scale/servers");
    until("the scaler has run again", || (balancer.get("/api/scale/servers") != looked).then_some(()));
    assert_eq!(drained(&balancer), [true; 3]);
    balancer.reload_by_request(|settings| settings.tables.clear());
    until("scaling has ended", || balancer.get("/api/scale").contains("\"pools\":[]").then_some(()));
    assert_eq!(drained(&balancer), [true, false, false]);
    balancer.set_draining(field.sip(HOSTS[0]), false);
    assert_eq!(drained(&balancer), [false; 3]);
    programs.end(&field, balancer, &HOSTS[..1]);
}

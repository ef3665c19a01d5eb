//! Three servers, each in its control group with its neighbours, and the balancer and monitors.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::card::Card;
use super::cells::{COUNT, Conditions, ServerFigures, ServerKind, Way};
use super::{ElasticBench, LISTEN, QUOTA, kamailio};
use crate::generator::LoadGenerator;
use crate::kamailio::dispatch;
use crate::rig::{BALANCER, Rig, address, at_port, pool, server};
use crate::scratch::Scratch;

/// Kamailio's dispatcher, by calls in progress.
const DISPATCHER: &str = include_str!("../../kamailio/kamailio.cfg");
/// A server that answers calls by itself.
const ANSWERER: &str = include_str!("../../answerer.py");
/// Database in which a server looks calls up.
const DATABASE: &str = include_str!("../../database.py");
/// A neighbour on a network card.
const NEIGHBOUR: &str = include_str!("../../neighbour.py");
/// Processor time of a look-up in microseconds. With its other work, a database on an equal fraction of a processor
/// then carries twice as many calls as its server.
const LOOK_UP_US: u32 = 100;
/// Processor time of a new call there in microseconds. It then carries a little less than Kamailio, so that the
/// balancer of no way is busier than the servers.
const WORK_US: u32 = 250;
/// Port where the balancer receives capacity updates of the monitors.
const REPORTS: u16 = 8061;

/// All programs of a run.
pub(super) struct Cluster {
    rig: Rig,
    /// Busy loops or senders, stopped until they are to disturb.
    neighbours: Vec<usize>,
    // Dropped last, after the programs on them have ended.
    cards: Vec<Card>,
}

/// Returns the pool keys of a way apart from the members. Probes are off, so that ways differ by their distribution of
/// calls and not by when a probe finds a server dead.
fn lines(way: Way, figures: &ServerFigures) -> String {
    let capacity = (figures.capacity / COUNT as f64).round();
    let threshold = figures.threshold_ms;
    let queue = format!("capacity = {capacity}, threshold = \"{threshold}ms\"");
    let line = match way {
        Way::RoundRobin | Way::Kamailio => "policy = \"round-robin\"".to_owned(),
        Way::Tlwl | Way::TlwlOutlier => "policy = \"tlwl\"".to_owned(),
        Way::Queue => format!("queue = {{ {queue} }}"),
        Way::QueueResponses => format!("queue = {{ {queue}, source = \"responses\" }}"),
        Way::QueueMonitors => format!("queue = {{ {queue}, source = \"monitor\" }}"),
    };
    let ejects = way == Way::TlwlOutlier;
    format!("{line}\nforward = \"stateless\"\nprobe = {{ enabled = false }}\noutlier = {ejects}\n")
}

impl Cluster {
    /// Starts all programs, and waits until calls get through.
    pub(super) fn start(
        bench: &ElasticBench,
        cell: &Conditions,
        way: Way,
        figures: &ServerFigures,
        generator: &mut LoadGenerator,
    ) -> Result<Self> {
        let rig = Rig::new(&bench.paths)?;
        let mut cluster = Self { rig, neighbours: Vec::new(), cards: Vec::new() };
        // The groups of the servers have their numbers.
        for _ in 0..COUNT {
            cluster.rig.group(QUOTA)?;
        }
        for (index, hop) in generator.answerers().into_iter().enumerate() {
            cluster.start_server(cell, index, hop)?;
        }
        let Self { rig, cards, .. } = &mut cluster;
        // Directly, not through the balancer: an unanswered call would count as load of the server for 32 s.
        rig.await_calls(generator, &[0, 1, 2].map(server))?;
        let (balancer, key) =
            (address(BALANCER), rig.scratch.write("capacity.key", "000102030405060708090a0b0c0d0e0f")?);
        let mut command = if way == Way::Kamailio {
            let mut kamailio = rig.kamailio(balancer, DISPATCHER, 512)?;
            dispatch(&mut kamailio, &rig.scratch, (0..COUNT).map(server))?;
            kamailio
        } else {
            let mut tables = pool(&[0, 1, 2].map(server), &lines(way, figures));
            if way == Way::QueueMonitors {
                let reports = at_port(balancer, REPORTS);
                let key = key.display();
                write!(
                    tables,
                    "\n[capacity]\nlisten = \"{reports}\"\nkeys = {{ \"*\" = {{ file = \"{key}\" }} }}\n"
                )?;
            }
            rig.sarabande(balancer, LISTEN, &tables)?
        };
        rig.start_beside("balancer", &mut command)?;
        for index in (0..COUNT).filter(|_| way == Way::QueueMonitors) {
            // On the server's machine and in its group, at its cost.
            let monitor = monitor(&rig.paths.sarabande()?, cell.server, index, figures, &key);
            let its_own = cards.get(index).map(|card| card.on_machine(&monitor));
            rig.start_in(index, &format!("monitor-{index}"), its_own.as_ref().unwrap_or(&monitor))?;
        }
        rig.await_calls(generator, &[balancer])?;
        Ok(cluster)
    }

    /// Starts a server and its neighbours, if it has any.
    fn start_server(&mut self, cell: &Conditions, index: usize, hop: SocketAddr) -> Result<()> {
        let count = if index < cell.disturbed { cell.neighbours } else { 0 };
        let rig = &mut self.rig;
        // The group of its neighbours; `None`: they use its network card.
        let (program, place) = match cell.server {
            ServerKind::Kamailio => (kamailio(rig, index, hop)?, Some(index)),
            ServerKind::Python => (answerer(&rig.scratch, index, server(index), None)?, Some(index)),
            ServerKind::PythonDatabase => {
                let (place, at) = (rig.group(QUOTA)?, server(COUNT + index));
                let database = database(&rig.scratch, at)?;
                rig.start_in(place, &format!("database-{index}"), &database)?;
                (answerer(&rig.scratch, index, server(index), Some(at))?, Some(place))
            }
            ServerKind::PythonCard => {
                let card = Card::new(index)?;
                let program = card.on_machine(&answerer(&rig.scratch, index, server(index), None)?);
                self.cards.push(card);
                (program, None)
            }
        };
        rig.start_in(index, &format!("server-{index}"), &program)?;
        for _ in 0..count {
            if let Some(place) = place {
                let mut busy = Command::new("sh");
                busy.args(["-c", "while :; do :; done"]);
                self.neighbours.push(rig.start_in(place, "neighbour", &busy)?);
            } else {
                let script = rig.scratch.write("neighbour.py", NEIGHBOUR)?;
                for mut sender in self.cards[index].neighbour(&script) {
                    self.neighbours.push(rig.start_free("neighbour", &mut sender)?);
                }
            }
        }
        self.disturb(false)
    }

    /// Continues or stops the neighbours.
    pub(super) fn disturb(&self, are_busy: bool) -> Result<()> {
        self.neighbours.iter().try_for_each(|number| Ok(self.rig.program(*number)?.pause(!are_busy)?))
    }
}

/// Returns the command of the monitor beside this server.
fn monitor(sarabande: &Path, kind: ServerKind, index: usize, figures: &ServerFigures, key: &Path) -> Command {
    // A server that answers calls by itself forwards no INVITE.
    let pair = if kind == ServerKind::Kamailio { "invite" } else { "provisional" };
    let interface = if kind == ServerKind::PythonCard { "eth0" } else { "lo" };
    let mut monitor = Command::new(sarabande);
    monitor.args(["monitor", "--interface", interface, "--json", "--server", &server(index).to_string()]);
    monitor.args(["--pair", pair, "--threshold", &format!("{}ms", figures.threshold_ms)]);
    monitor.args(["--maximum", &(figures.capacity / COUNT as f64).round().to_string()]);
    monitor.args(["--report", &at_port(address(BALANCER), REPORTS).to_string()]).arg("--key-file").arg(key);
    monitor
}

/// Returns the command of an answerer at this address, with its database.
fn answerer(
    scratch: &Scratch,
    index: usize,
    at: SocketAddr,
    database: Option<SocketAddr>,
) -> Result<Command> {
    let script = scratch.write("answerer.py", ANSWERER)?;
    let mut python = Command::new("python3");
    python.arg(script).args([at.to_string(), index.to_string(), WORK_US.to_string()]);
    python.args(database.map(|address| address.to_string()));
    Ok(python)
}

/// Returns the command of a database at this address.
fn database(scratch: &Scratch, address: SocketAddr) -> Result<Command> {
    let script = scratch.write("database.py", DATABASE)?;
    let mut python = Command::new("python3");
    python.arg(script).args([address.to_string(), LOOK_UP_US.to_string()]);
    Ok(python)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn the_answerer_in_python_rings_answers_and_ends_calls() {
        let scratch = Scratch::new("answerer").expect("a folder");
        let server = crate::targets::free_port().expect("loopback");
        let mut python = answerer(&scratch, 2, server, None).expect("written");
        let _server = scratch.start("log", &mut python).expect("python3 starts");
        let caller = UdpSocket::bind("127.0.0.1:0").expect("bind");
        caller.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
        let mut bytes = [0; 4_096];
        let mut receive = || {
            let length = caller.recv(&mut bytes).ok()?;
            Some(String::from_utf8(bytes[..length].to_vec()).expect("text"))
        };
        let send = |method: &str, tag: &str| {
            let request = format!(
                "{method} sip:a SIP/2.0\r\nVia: one\r\nRecord-Route: <sip:p;lr>\r\nv: two\r\nMax-Forwards: 9\r\n\
                 From: <sip:f>;tag=c\r\nTo: <sip:t>{tag}\r\nCall-ID: i\r\nCSeq: 1 {method}\r\n\r\n"
            );
            // A port that is not open yet causes an error at the next system call.
            let _ = caller.send_to(request.as_bytes(), server);
        };
        // Wait until it listens. Late responses to OPTIONS are read before the call.
        let is_up = (0..50).any(|_| {
            send("OPTIONS", "");
            receive().is_some()
        });
        assert!(is_up);
        while receive().is_some() {}

        send("INVITE", "");
        let copied = "Via: one\r\nRecord-Route: <sip:p;lr>\r\nv: two\r\nFrom: <sip:f>;tag=c\r\nTo: <sip:t>;tag=s2\r\n\
                      Call-ID: i\r\nCSeq: 1 INVITE\r\n";
        let contact = format!("Contact: <sip:s2@{server}>\r\n");
        let ringing = receive().expect("180");
        assert_eq!(ringing, format!("SIP/2.0 180 Ringing\r\n{copied}{contact}Content-Length: 0\r\n\r\n"));
        let answer = receive().expect("200");
        assert!(
            answer.starts_with(&format!("SIP/2.0 200 OK\r\n{copied}{contact}Content-Type: ")),
            "{answer}"
        );
        // Its 200 is retransmitted until the ACK.
        let again = (0..20).find_map(|_| receive()).expect("200 again");
        assert_eq!(again, answer);
        send("ACK", ";tag=s2");
        send("BYE", ";tag=s2");
        let end = receive().expect("200");
        assert!(end.contains("CSeq: 1 BYE\r\n") && !end.contains("Record-Route"), "{end}");
        // Without the ACK it would come a second after that.
        assert!((0..8).all(|_| receive().is_none()));
    }

    #[test]
    fn a_new_call_waits_until_the_database_has_answered() {
        let scratch = Scratch::new("database").expect("a folder");
        let [server, database] = [(); 2].map(|()| crate::targets::free_port().expect("loopback"));
        let mut python = answerer(&scratch, 0, server, Some(database)).expect("written");
        let _server = scratch.start("log", &mut python).expect("python3 starts");
        let caller = UdpSocket::bind("127.0.0.1:0").expect("bind");
        caller.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
        let ask = |method: &str| {
            let request = format!("{method} sip:a SIP/2.0\r\nCall-ID: i\r\nCSeq: 1 {method}\r\n\r\n");
            // A port that is not open yet causes an error at the next system call.
            let _ = caller.send_to(request.as_bytes(), server);
            caller.recv(&mut [0; 4_096]).is_ok()
        };
        assert!((0..50).any(|_| ask("OPTIONS")), "it listens");
        while caller.recv(&mut [0; 4_096]).is_ok() {}
        assert!(!ask("INVITE"), "the call was not looked up yet");
        let mut python = super::database(&scratch, database).expect("written");
        let _database = scratch.start("log", &mut python).expect("python3 starts");
        assert!((0..50).any(|_| caller.recv(&mut [0; 4_096]).is_ok()), "the call was looked up");
    }

    #[test]
    fn only_queues_queue_and_only_one_way_ejects() {
        let figures = ServerFigures { capacity: 1_000.0, threshold_ms: 12.0 };
        let of = |part: &str| {
            let has = |way: &&Way| lines(**way, &figures).contains(part);
            Way::value_variants().iter().filter(has).copied().collect::<Vec<_>>()
        };
        assert_eq!(
            of("capacity = 333, threshold = \"12ms\""),
            [Way::Queue, Way::QueueResponses, Way::QueueMonitors]
        );
        assert_eq!(of("outlier = true"), [Way::TlwlOutlier]);
        assert_eq!(of("source = \"monitor\""), [Way::QueueMonitors]);
        assert_eq!(of("policy = \"tlwl\""), [Way::Tlwl, Way::TlwlOutlier]);
        for way in Way::value_variants() {
            let tables = pool(&[0, 1, 2].map(server), &lines(*way, &figures));
            let text = crate::rig::configuration(address(BALANCER), LISTEN, &tables);
            // The queue by monitors also needs the table that says where updates arrive.
            let parsed = config::parse(&text, "sarabande.toml");
            assert!(parsed.is_ok() || *way == Way::QueueMonitors, "{text}\n{parsed:?}");
        }
    }
}

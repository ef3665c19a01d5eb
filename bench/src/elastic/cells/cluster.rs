//! Three servers, each in its control group with its neighbours, and what stands before and beside them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::card::Card;
use super::plan::{Cell, ServerKind, Way};
use super::{COUNT, ServerFigures};
use crate::elastic::{Bench, SERVERS, balancer, server, start};
use crate::kamailio::dispatch;
use crate::overload::load::LoadGenerator;
use crate::process::{Program, Usage, processors};
use crate::quota::Quota;
use crate::scratch::Scratch;

/// Kamailio's dispatcher, by calls in progress.
const DISPATCHER: &str = include_str!("../../../kamailio/kamailio.cfg");
/// A server that answers calls by itself.
const ANSWERER: &str = include_str!("../../../answerer.py");
/// What a server looks calls up in.
const DATABASE: &str = include_str!("../../../database.py");
/// A neighbour on a network card.
const NEIGHBOUR: &str = include_str!("../../../neighbour.py");
/// Processor time of a look-up, in microseconds: with the rest of its work a database takes twice the calls that its server
/// does, on a part of a processor of the same size.
const LOOK_UP_US: u32 = 100;
/// Processor time of a new call there, in microseconds: so that it carries a little less than Kamailio, and no way is
/// busier with the calls than the servers are.
const WORK_US: u32 = 250;

/// Busy loops or senders, which stand still until they are to disturb.
struct Neighbours(Vec<Program>);

impl Neighbours {
    /// Busy loops in a control group.
    fn busy(count: u32, scratch: &Scratch, quota: &Quota) -> Result<Self> {
        let mut busy = Command::new("sh");
        busy.args(["-c", "while :; do :; done"]);
        Self::start(scratch, (0..count).map(|_| quota.command(&busy)))
    }

    /// Senders on a card.
    fn sending(count: u32, scratch: &Scratch, card: &Card) -> Result<Self> {
        let script = scratch.write("neighbour.py", NEIGHBOUR)?;
        Self::start(scratch, (0..count).flat_map(|_| card.neighbour(&script)))
    }

    fn start(scratch: &Scratch, commands: impl Iterator<Item = Command>) -> Result<Self> {
        let mut neighbours = Self(Vec::new());
        for mut command in commands {
            neighbours.0.push(start(scratch, "neighbour", SERVERS, &mut command)?);
        }
        neighbours.disturb(false)?;
        Ok(neighbours)
    }

    fn disturb(&self, are_busy: bool) -> Result<()> {
        self.0.iter().try_for_each(|neighbour| Ok(neighbour.pause(!are_busy)?))
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        // One that stands still does not hear that it is to end. One that has ended is as good.
        self.0.drain(..).for_each(|neighbour| drop(neighbour.kill()));
    }
}

/// All programs of a run.
pub(super) struct Cluster {
    // Groups and cards go last: their processes have to have ended.
    monitors: Vec<Program>,
    balancer: Program,
    neighbours: Vec<Neighbours>,
    servers: Vec<Program>,
    _quotas: Vec<Quota>,
    _cards: Vec<Card>,
    _scratch: Scratch,
}

/// What the pool of a way has besides its members. Probes are off, so that ways differ by how they share calls out,
/// and not by when a probe found a server dead.
fn pool(way: Way, figures: &ServerFigures) -> String {
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
    format!(
        "{line}\nforward = \"stateless\"\nprobe = {{ enabled = false }}\noutlier = {{ enabled = {ejects} }}"
    )
}

impl Cluster {
    /// Starts all, and waits until calls get through.
    pub(super) fn start(
        bench: &Bench,
        cell: &Cell,
        way: Way,
        figures: &ServerFigures,
        generator: &mut LoadGenerator,
    ) -> Result<Self> {
        let scratch = Scratch::new("cells")?;
        let (mut servers, mut neighbours, mut cards) = (Vec::new(), Vec::new(), Vec::new());
        // Of the servers, and of what they ask.
        let (mut groups, mut quotas) = (Vec::new(), Vec::new());
        for (index, hop) in generator.answerers().into_iter().enumerate() {
            let quota = bench.group(index)?;
            let count = if index < cell.disturbed { cell.neighbours } else { 0 };
            let (program, its) = match cell.server {
                ServerKind::Kamailio => {
                    (bench.kamailio(&scratch, index, hop)?, Neighbours::busy(count, &scratch, &quota)?)
                }
                ServerKind::Python => {
                    (answerer(&scratch, index, None)?, Neighbours::busy(count, &scratch, &quota)?)
                }
                ServerKind::PythonDatabase => {
                    let (place, address) = (bench.group(COUNT + index)?, server(COUNT + index));
                    let mut database = place.command(&database(&scratch, address)?);
                    servers.push(start(&scratch, &format!("database-{index}"), SERVERS, &mut database)?);
                    let its = Neighbours::busy(count, &scratch, &place)?;
                    quotas.push(place);
                    (answerer(&scratch, index, Some(address))?, its)
                }
                ServerKind::PythonCard => {
                    let card = Card::new(index)?;
                    let program = card.on_machine(&answerer(&scratch, index, None)?);
                    let its = Neighbours::sending(count, &scratch, &card)?;
                    cards.push(card);
                    (program, its)
                }
            };
            servers.push(start(&scratch, &format!("server-{index}"), SERVERS, &mut quota.command(&program))?);
            neighbours.push(its);
            groups.push(quota);
        }
        // Not by way of the balancer: a call that a server did not answer yet would be load of it for 32 s.
        generator.await_calls(&[0, 1, 2].map(server))?;
        let key = scratch.write("capacity.key", "000102030405060708090a0b0c0d0e0f")?;
        let tables = format!("[capacity]\nlisten = \"{}\"\nkey_file = \"{}\"", balancer(8061), key.display());
        let tables = if way == Way::QueueMonitors { &tables } else { "" };
        let balance = if way == Way::Kamailio {
            dispatcher(bench, &scratch)?
        } else {
            bench.balance(&scratch, COUNT, &pool(way, figures), tables)?
        };
        let mut monitors = Vec::new();
        for (index, quota) in groups.iter().enumerate().filter(|_| way == Way::QueueMonitors) {
            // Where the server is, at its cost.
            let monitor = monitor(bench, cell.server, index, figures, &key);
            let its_own = cards.get(index).map(|card| card.on_machine(&monitor));
            let mut monitor = quota.command(its_own.as_ref().unwrap_or(&monitor));
            monitors.push(start(&scratch, &format!("monitor-{index}"), SERVERS, &mut monitor)?);
        }
        generator.await_calls(&[balancer(5060)])?;
        groups.append(&mut quotas);
        Ok(Self {
            monitors,
            balancer: balance,
            neighbours,
            servers,
            _quotas: groups,
            _cards: cards,
            _scratch: scratch,
        })
    }

    /// Lets the neighbours go on, or stand still.
    pub(super) fn disturb(&self, are_busy: bool) -> Result<()> {
        self.neighbours.iter().try_for_each(|neighbours| neighbours.disturb(are_busy))
    }

    /// Processor time that all programs have used.
    pub(super) fn usage(&self) -> Result<Usage> {
        let neighbours = self.neighbours.iter().flat_map(|neighbours| &neighbours.0);
        let programs = self.servers.iter().chain(&self.monitors).chain([&self.balancer]).chain(neighbours);
        let mut sum = Usage::default();
        for program in programs {
            let Usage { total_ns, user_ticks, system_ticks } = program.usage()?;
            sum.total_ns += total_ns;
            sum.user_ticks += user_ticks;
            sum.system_ticks += system_ticks;
        }
        Ok(sum)
    }
}

/// The command of the monitor beside the server of this number.
fn monitor(bench: &Bench, kind: ServerKind, index: usize, figures: &ServerFigures, key: &Path) -> Command {
    // One that answers calls by itself passes no INVITE on.
    let pair = match kind {
        ServerKind::Kamailio => "invite",
        ServerKind::Python | ServerKind::PythonDatabase | ServerKind::PythonCard => "provisional",
    };
    let interface = if kind == ServerKind::PythonCard { "eth0" } else { "lo" };
    let mut monitor = Command::new(&bench.sarabande);
    monitor.args(["monitor", "--interface", interface, "--json", "--server", &server(index).to_string()]);
    monitor.args(["--pair", pair, "--threshold", &format!("{}ms", figures.threshold_ms)]);
    monitor.args(["--maximum", &(figures.capacity / COUNT as f64).round().to_string()]);
    monitor.args(["--report", &balancer(8061).to_string()]).arg("--key-file").arg(key);
    monitor
}

/// The command of the answerer of this number, and the database that it asks.
fn answerer(scratch: &Scratch, index: usize, database: Option<SocketAddr>) -> Result<Command> {
    let script = scratch.write("answerer.py", ANSWERER)?;
    let mut python = Command::new("python3");
    python.arg(script).args([server(index).to_string(), index.to_string(), WORK_US.to_string()]);
    python.args(database.map(|address| address.to_string()));
    Ok(python)
}

/// The command of a database at this address.
fn database(scratch: &Scratch, address: SocketAddr) -> Result<Command> {
    let script = scratch.write("database.py", DATABASE)?;
    let mut python = Command::new("python3");
    python.arg(script).args([address.to_string(), LOOK_UP_US.to_string()]);
    Ok(python)
}

/// Kamailio in place of the balancer.
fn dispatcher(bench: &Bench, scratch: &Scratch) -> Result<Program> {
    let mut kamailio = bench.kamailio_at(scratch, "dispatcher", DISPATCHER, balancer(5060))?;
    dispatch(&mut kamailio, scratch, (0..COUNT).map(server))?;
    start(scratch, "balancer", processors() - 1, &mut kamailio)
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
        let server = crate::target::free_port().expect("loopback");
        let script = scratch.write("answerer.py", ANSWERER).expect("written");
        let mut python = Command::new("python3");
        python.arg(script).args([server.to_string(), "2".to_owned(), WORK_US.to_string()]);
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
            // A port that nobody has opened yet is an error of the next call.
            let _ = caller.send_to(request.as_bytes(), server);
        };
        // Until it listens. The OPTIONS that it answers late are read before the call.
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
        // Its 200 comes again, until the ACK.
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
        let [server, database] = [(); 2].map(|()| crate::target::free_port().expect("loopback"));
        let script = scratch.write("answerer.py", ANSWERER).expect("written");
        let mut python = Command::new("python3");
        python.arg(script).args([
            server.to_string(),
            "0".to_owned(),
            WORK_US.to_string(),
            database.to_string(),
        ]);
        let _server = scratch.start("log", &mut python).expect("python3 starts");
        let caller = UdpSocket::bind("127.0.0.1:0").expect("bind");
        caller.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
        let ask = |method: &str| {
            let request = format!("{method} sip:a SIP/2.0\r\nCall-ID: i\r\nCSeq: 1 {method}\r\n\r\n");
            // A port that nobody has opened yet is an error of the next call.
            let _ = caller.send_to(request.as_bytes(), server);
            caller.recv(&mut [0; 4_096]).is_ok()
        };
        assert!((0..50).any(|_| ask("OPTIONS")), "it listens");
        while caller.recv(&mut [0; 4_096]).is_ok() {}
        assert!(!ask("INVITE"), "nobody has looked it up");
        let mut python = super::database(&scratch, database).expect("written");
        let _database = scratch.start("log", &mut python).expect("python3 starts");
        assert!((0..50).any(|_| caller.recv(&mut [0; 4_096]).is_ok()), "it has been looked up");
    }

    #[test]
    fn only_queues_queue_and_only_one_way_ejects() {
        let figures = ServerFigures { capacity: 1_000.0, threshold_ms: 12.0 };
        let of = |part: &str| {
            let has = |way: &&Way| pool(**way, &figures).contains(part);
            Way::value_variants().iter().filter(has).copied().collect::<Vec<_>>()
        };
        assert_eq!(
            of("capacity = 333, threshold = \"12ms\""),
            [Way::Queue, Way::QueueResponses, Way::QueueMonitors]
        );
        assert_eq!(of("outlier = { enabled = true }"), [Way::TlwlOutlier]);
        assert_eq!(of("source = \"monitor\""), [Way::QueueMonitors]);
        assert_eq!(of("policy = \"tlwl\""), [Way::Tlwl, Way::TlwlOutlier]);
    }
}

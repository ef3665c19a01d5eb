//! Tests of the keys of monitors. Members are addresses, and names that resolve to addresses of other members. An
//! attacker has all keys except the key of the server.

use crate::running::{Server, folder, free, until};
use elastic::update::{Key, UpdateSender};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;

/// Returns the text of the key that begins with this digit.
fn text(first: u8) -> String {
    format!("{first}{}", "0".repeat(31))
}

fn key(first: u8) -> Key {
    let mut bytes = [0; 16];
    bytes[0] = first << 4;
    Key::new(&bytes)
}

/// Starts a DNS server that answers 127.0.0.1 for all names.
fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback exists");
    let address = socket.local_addr().expect("the socket is bound");
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            // RFC 1035 section 4.1: a header of 12 bytes, the name up to its empty label, type and class.
            let question = &buffer[12..length];
            let name = question.iter().position(|byte| *byte == 0).expect("a name ends");
            let is_address = question[name + 1..=name + 2] == [0, 1];
            let answers = u8::from(is_address);
            let header = [buffer[0], buffer[1], 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0];
            let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1];
            let record = if is_address { &record[..] } else { &[] };
            let answer = [&header[..], &question[..name + 5], record].concat();
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

/// A connection of a monitor that can send any update.
struct Connection {
    reader: BufReader<TcpStream>,
    greeting: String,
    sender: UpdateSender,
}

impl Connection {
    fn new(listen: SocketAddr, with: u8) -> Self {
        let stream = until("the balancer listens", || TcpStream::connect(listen).ok());
        let mut reader = BufReader::new(stream);
        let mut greeting = String::new();
        reader.read_line(&mut greeting).expect("the balancer sends a greeting");
        let sender = UpdateSender::greeted(key(with), greeting.trim_end().as_bytes()).expect("a greeting");
        Self { reader, greeting, sender }
    }

    /// Returns the answer to an update. The name is sent as it is.
    fn tell(&mut self, server: &str, capacity: f64) -> String {
        let update = self.sender.update(&elastic::update::ServerName::Name(server.to_owned()), capacity);
        self.reader.get_mut().write_all(update.as_bytes()).expect("the connection is open");
        let mut answer = String::new();
        self.reader.read_line(&mut answer).expect("the balancer answers");
        answer.trim_end().to_owned()
    }
}

/// Returns the capacities of the members that the balancer knows, by port.
fn known(server: &Server) -> Vec<(u16, f64)> {
    let (_, out, _) = server.ask(&["status", "--json"]);
    let status: Value = serde_json::from_str(&out).expect("JSON");
    let all = status["capacity"]["members"].as_array().expect("a list");
    let member = |each: &Value| {
        let address: SocketAddr = each["member"].as_str().expect("text").parse().expect("an address");
        (address.port(), each["capacity"].as_f64().expect("a number"))
    };
    let mut known: Vec<_> = all.iter().map(member).collect();
    known.sort_by_key(|(port, _)| *port);
    known
}

/// Members 5071 to 5074: a name with a key; an address with a key, to which a name with another key resolves; an
/// address without a key, to which a name with a key resolves; an address without a key.
#[test]
fn a_key_cannot_announce_the_capacity_of_another_server() {
    let (listen, dns) = (free(), name_server());
    let role = format!(
        "[pool.servers]\nmembers = [\"a.test:5071\", \"127.0.0.1:5072\", \"b.test:5072\", \"127.0.0.1:5073\", \
         \"c.test:5073\", \"127.0.0.1:5074\"]\n[dns]\nservers = [\"{dns}\"]\n[capacity]\nlisten = \"{listen}\"\n\
         [capacity.keys]\n\"*\" = \"{}\"\n\"a.test:5071\" = \"{}\"\n\"127.0.0.1:5072\" = \"{}\"\n\
         \"b.test:5072\" = \"{}\"\n\"c.test:5073\" = \"{}\"\n",
        text(9),
        text(1),
        text(2),
        text(3),
        text(4)
    );
    let server = Server::start("monitor-keys", &role);
    until("the names are resolved", || {
        (server.ask(&["status"]).1.matches("127.0.0.1:507").count() >= 4).then_some(())
    });
    let mut victims: Vec<_> = [(1, "a.test:5071"), (2, "127.0.0.1:5072"), (9, "127.0.0.1:5074")]
        .map(|(with, server)| (server, Connection::new(listen, with)))
        .into();
    let before = vec![(5071, 100.0), (5072, 100.0), (5074, 100.0)];
    for (name, victim) in &mut victims {
        assert_eq!(victim.tell(name, 100.0), "OK 1 0", "{name}");
    }
    assert_eq!(known(&server), before);
    for (with, claimed, refused) in [
        // The name of another server, and the key of the servers without one.
        (2, "a.test:5071", "wrong_code"),
        (9, "a.test:5071", "wrong_code"),
        (1, "127.0.0.1:5072", "wrong_code"),
        (9, "127.0.0.1:5072", "wrong_code"),
        (1, "127.0.0.1:5074", "wrong_code"),
        // Other names of the same member, and other spellings of its name.
        (9, "127.0.0.1:5071", "not_its_key"),
        (9, "a.test.:5071", "wrong_code"),
        (9, "A.Test:5071", "wrong_code"),
        (9, "127.0.0.1:05072", "wrong_code"),
        // A name that resolves to the address of another server.
        (3, "b.test:5072", "not_its_key"),
        (4, "c.test:5073", "not_its_key"),
        (9, "127.0.0.1:5073", "not_its_key"),
    ] {
        let mut attacker = Connection::new(listen, with);
        let answer = attacker.tell(claimed, 1.0);
        assert_eq!(answer, format!("ERROR {refused}"), "{claimed} with key {with}: {}", attacker.greeting);
        assert_eq!(known(&server), before, "{claimed} with key {with}");
    }
    for (name, victim) in &mut victims {
        assert_eq!(victim.tell(name, 200.0), "OK 2 0", "{name}: neither closed nor superseded");
    }
    assert_eq!(known(&server), [(5071, 200.0), (5072, 200.0), (5074, 200.0)]);
    let (_, health, _) = server.ask(&["status", "--json"]);
    let status: Value = serde_json::from_str(&health).expect("JSON");
    assert_eq!(status["capacity"]["closed_total"]["not_its_key"], 4);
}

/// A server gets a key, another one, and none again, while the process runs.
#[test]
fn a_reload_changes_the_key_of_one_server() {
    let listen = free();
    let role = |keys: &str| {
        format!(
            "[pool.servers]\nmembers = [\"127.0.0.1:5071\", \"127.0.0.1:5072\"]\n[capacity]\nlisten = \"{listen}\"\n\
             [capacity.keys]\n\"*\" = \"{}\"\n{keys}",
            text(9)
        )
    };
    let server = Server::start("monitor-keys-reload", &role(""));
    let file = folder("monitor-keys-reload").join("sarabande.toml");
    let before = fs::read_to_string(&file).expect("the configuration was written");
    let accepted = |server: &str| {
        [9, 1, 2].map(|with| Connection::new(listen, with).tell(server, 100.0).starts_with("OK 1"))
    };
    assert_eq!(accepted("127.0.0.1:5071"), [true, false, false]);
    for (keys, expected) in [
        (format!("\"127.0.0.1:5071\" = \"{}\"\n", text(1)), [false, true, false]),
        (format!("\"127.0.0.1:5071\" = \"{}\"\n", text(2)), [false, false, true]),
        (String::new(), [true, false, false]),
    ] {
        let mut open = Connection::new(listen, 9);
        assert_eq!(open.tell("127.0.0.1:5072", 50.0), "OK 1 0");
        fs::write(&file, before.replace(&role(""), &role(&keys))).expect("the scratch folder can be written");
        let (code, out, errors) = server.ask(&["reload"]);
        assert_eq!(code, Some(0), "{out} {errors}");
        let mut end = String::new();
        assert_eq!(
            (open.reader.read_line(&mut end).ok(), end.as_str()),
            (Some(0), ""),
            "the update came under other keys"
        );
        assert_eq!(accepted("127.0.0.1:5071"), expected, "{keys}");
        assert_eq!(accepted("127.0.0.1:5072"), [true, false, false], "the other server uses the shared key");
    }
}

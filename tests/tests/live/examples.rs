//! Runs every file of `examples/`: its calls get through, and calls of strangers do not. The site of these tests also
//! runs the blocks of the guide.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, Authority, CallLoad, Data, NameServer, RunningProxy, SippCaller,
    StreamClient, TestSite, TlsExchange, path_text, quoted, show, status, value,
};

/// A number that routes of the examples send to a pool.
const NUMBER: &str = "sip:4989123@example.com";

/// A host outside all networks of the examples.
pub(super) const STRANGER: u8 = 200;

/// The host of a registered user.
const BOB: u8 = 201;

/// Networks in the examples and the guide, and those of the site that replace them: first host and prefix length.
const NETWORKS: [(&str, u8, u8); 5] = [
    ("10.0.0.0/8", 0, 25),
    ("10.0.0.0/24", 0, 25),
    ("10.0.0.0/28", 0, 28),
    ("192.0.2.0/28", 0, 28),
    ("198.51.100.0/24", 96, 27),
];

/// Addresses in the examples and the guide, and the hosts of the site that replace them, longer ones first.
const HOSTS: [(&str, u8); 28] = [
    ("198.51.100.20", 53),
    ("10.0.0.100:", 1),
    ("203.0.113.5", 1),
    ("10.0.0.100", 61),
    ("192.0.2.10", 51),
    ("192.0.2.11", 52),
    ("10.0.0.11", 21),
    ("10.0.0.12", 22),
    ("10.0.0.13", 23),
    ("10.0.0.14", 24),
    ("192.0.2.1", 1),
    ("192.0.2.9", 1),
    ("10.0.0.1", 11),
    ("10.0.0.2", 12),
    ("10.0.0.3", 13),
    ("10.0.0.4", 14),
    ("10.0.0.9", 1),
    ("10.0.4.1", 15),
    ("10.0.4.2", 16),
    ("10.0.4.3", 17),
    ("10.1.0.1", 31),
    ("10.1.0.2", 32),
    ("10.1.0.3", 33),
    ("10.1.0.9", 1),
    ("10.2.0.1", 41),
    ("10.2.0.2", 42),
    ("127.0.0.1:", 9),
    ("0.0.0.0:", 1),
];

/// A site with answering servers, and DNS names for some of them.
pub(super) struct Site {
    names: NameServer,
    servers: Vec<AnsweringAgent>,
    // Dropped last, because another test may take the addresses at once.
    pub(super) field: TestSite,
}

impl Site {
    pub(super) fn new(name: &str, servers: &[u8]) -> Self {
        let field = TestSite::new(&format!("example-{name}"));
        let names = NameServer::start(SocketAddr::new(field.ip(9), 8600));
        let servers = servers.iter().map(|host| AnsweringAgent::start(field.sip(*host), |_| true)).collect();
        Self { names, servers, field }
    }

    /// Starts the example with the addresses of the site. Files that its readers must create stand beside it.
    fn start(&self, example: &str) -> RunningProxy {
        self.start_as(example, example)
    }

    fn start_as(&self, example: &str, folder: &str) -> RunningProxy {
        self.start_text(fs::read_to_string(examples().join(example)).expect("an example"), folder)
    }

    /// Starts the program with this configuration, with the addresses of the site, in a folder of the site.
    pub(super) fn start_text(&self, mut text: String, folder: &str) -> RunningProxy {
        for (network, host, length) in NETWORKS {
            text = text.replace(network, &format!("{}/{length}", self.field.ip(host)));
        }
        for (address, host) in HOSTS {
            let end = if address.ends_with(':') { ":" } else { "" };
            text = text.replace(address, &format!("{}{end}", self.field.ip(host)));
        }
        let is_foreign = |word: &&str| word.parse::<Ipv4Addr>().is_ok_and(|address| !address.is_loopback());
        let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
        assert_eq!(
            words.filter(is_foreign).collect::<Vec<_>>(),
            [""; 0],
            "{folder}: addresses without a host"
        );
        let port = |n| self.field.port(n);
        text = text.replace("[2001:db8::100]:5060", &format!("[::1]:{}", port(1)));
        text = text.replace("[2001:db8::3]", &format!("[::1]:{}", port(3)));
        text = text.replace("/etc/sarabande/", &format!("{}/authority/", self.field.folder().display()));
        text = text.replace("virsh", "true").replace("# api_server", "api_server");
        let servers = format!("[dns]\nservers = [\"{}\"]\n", self.names.address());
        if !text.contains("[dns]\nservers") {
            text = if text.contains("[dns]\n") { text.replace("[dns]\n", &servers) } else { text + &servers };
        }
        let place = self.field.folder().join(folder);
        fs::create_dir_all(&place).expect("the scratch folder can be written");
        fs::copy(examples().join("users"), place.join("users")).expect("an example");
        let keys = ["shared", "kamailio1", "kamailio2", "kamailio3", "new", "site"];
        for (digit, key) in keys.into_iter().enumerate() {
            fs::write(place.join(key).with_extension("key"), format!("{digit:032x}"))
                .expect("it can be written");
        }
        RunningProxy::with_text(&self.field, &place, &text)
    }

    /// Returns the final response to a request from this host; `None`: there is none.
    fn ask(&self, host: u8, request: &AgentRequest) -> Option<Vec<u8>> {
        let agent = Agent::bind(self.field.sip(host));
        agent.send(self.field.sip(1), &request.bytes(agent.address()));
        loop {
            let (message, _) = agent.receive_within(Duration::from_secs(2))?;
            if status(&message).is_some_and(|status| status >= 200) {
                return Some(message);
            }
        }
    }

    /// Returns the status of an INVITE from this host, if it is answered.
    pub(super) fn invite(&self, host: u8, uri: &str) -> Option<u16> {
        let request =
            AgentRequest { uri: uri.to_owned(), ..AgentRequest::new("INVITE", &format!("{host}-{uri}")) };
        self.ask(host, &request).and_then(|answer| status(&answer))
    }

    /// Makes a call from this host. Returns the address that answered.
    pub(super) fn call(&self, host: u8, uri: &str) -> String {
        let request = AgentRequest {
            uri: uri.to_owned(),
            ..AgentRequest::new("INVITE", &format!("call-{host}-{uri}"))
        };
        let answer = self.ask(host, &request).unwrap_or_else(|| panic!("no answer to {uri} from {host}"));
        self.hang_up(host, &answer);
        value(&answer, "Contact").expect("a Contact")
    }

    fn hang_up(&self, host: u8, answer: &[u8]) {
        assert_eq!(status(answer), Some(200), "{}", show(answer));
        let ack = AgentRequest { cseq: 1, ..AgentRequest::in_dialog("ACK", answer) };
        Agent::bind(self.field.sip(host)).send(self.field.sip(1), &ack.bytes(self.field.sip(host)));
        let ended = self.ask(host, &AgentRequest::in_dialog("BYE", answer)).expect("an answer to the BYE");
        assert_eq!(status(&ended), Some(200), "{}", show(&ended));
    }

    /// Runs a SIPp scenario in which this user of `examples/users` logs in from this host.
    pub(super) fn log_in(&self, scenario: &str, host: u8, user: &str, callee: &str) {
        let ends = (self.field.sip(host), self.field.sip(1));
        let contact = ends.0.to_string();
        let keys = ["-key", "user", user, "-key", "callee", callee, "-key", "contact", &contact];
        let login = ["-au", user, "-ap", "change me", "-auth_uri", "example.com"];
        let load = CallLoad { calls: 1, rate: 1, hold_ms: 10 };
        SippCaller::start(&self.field, scenario, ends, load, &[&keys[..], &login].concat()).finish_clean();
    }

    /// Registers bob. Alice calls him.
    pub(super) fn call_user(&self) {
        self.log_in("uac_register", BOB, "bob", "bob");
        let _bob = AnsweringAgent::start(self.field.sip(BOB), |_| true);
        self.log_in("uac_user", STRANGER, "alice", "bob");
    }

    pub(super) fn name(&self, name: &str, host: u8) {
        self.names.set_addresses(name, &[self.field.ip(host)]);
    }

    fn service(&self, name: &str, host: u8) {
        let target = format!("a.{name}");
        self.name(&target, host);
        self.names.set(name, &[Data::Service { priority: 1, weight: 1, port: 5060, target }]);
    }
}

/// The folder of the examples.
pub(super) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

#[test]
fn pools_and_proxies_carry_calls() {
    for (example, servers) in [
        ("pool.toml", &[11, 12, 13][..]),
        ("unequal.toml", &[11, 12, 13]),
        ("names.toml", &[11]),
        ("kamailio-queue.toml", &[21, 22, 23]),
        ("command-scaling.toml", &[21, 22, 23, 24]),
        ("freeswitch-kubernetes.toml", &[21]),
        ("proxy.toml", &[11, 12]),
        ("stateless-proxy.toml", &[11, 12]),
        ("call-records.toml", &[11, 12]),
        ("distributed-proxy.toml", &[13]),
    ] {
        let site = Site::new(example, servers);
        site.service("_sip._udp.servers.service.example", 11);
        site.name("pbx-0.pbx.voice.svc.cluster.local", 21);
        let _balancer = site.start(example);
        site.call(STRANGER, NUMBER);
    }
}

/// The address moves: calls that began at one balancer end at the other.
#[test]
fn peers_end_calls_of_each_other() {
    let site = Site::new("peers", &[11, 12]);
    let first = site.start_as("peer-balancers.toml", "first");
    let invite = AgentRequest::new("INVITE", "moves");
    let answer = site.ask(2, &invite).expect("an answer");
    drop(first);
    let _second = site.start_as("peer-balancers.toml", "second");
    site.hang_up(2, &answer);
}

#[test]
fn users_of_registrars_log_in_and_strangers_call_no_numbers() {
    for example in ["browsers.toml", "registrar.toml"] {
        let site = Site::new(example, &[11, 12]);
        Authority::new(&site.field, "authority").issue("example.com", "DNS:example.com");
        let _registrar = site.start(example);
        for method in ["INVITE", "REGISTER", "MESSAGE"] {
            for uri in [NUMBER, "sip:example.com"] {
                let request = AgentRequest {
                    uri: uri.to_owned(),
                    ..AgentRequest::new(method, &format!("{method}-{uri}"))
                };
                let refused = site.ask(STRANGER, &request).and_then(|answer| status(&answer));
                assert!(
                    refused.is_some_and(|status| status >= 400),
                    "{example}: {method} {uri}: {refused:?}"
                );
            }
        }
        if example == "browsers.toml" {
            site.log_in("uac_user", 2, "alice", "4989123");
        } else {
            site.call_user();
        }
    }
}

#[test]
fn tls_is_open_to_the_senders_that_the_example_names() {
    for (example, servers, name) in
        [("tls-edge.toml", &[11, 12][..], "sip.example.com"), ("two-sites-tls.toml", &[31, 32], "north")]
    {
        let site = Site::new(example, servers);
        let authority = Authority::new(&site.field, "authority");
        let own = authority.issue(name, &format!("DNS:{name}"));
        let _balancer = site.start(example);
        let tls = SocketAddr::new(site.field.ip(1), 5061);
        let invite = |call_id, shown: &[&str]| {
            let invite = AgentRequest { uri: NUMBER.to_owned(), ..AgentRequest::new("INVITE", call_id) };
            let invite = show(&invite.bytes(site.field.sip(2))).replace("SIP/2.0/UDP", "SIP/2.0/TLS");
            TlsExchange::with(&site.field, tls, shown, invite.as_bytes()).is_answered()
        };
        assert!(invite("shown", &["-cert", path_text(&own.chain), "-key", path_text(&own.key)]));
        assert_eq!(invite("without", &[]), example == "tls-edge.toml");
        site.call(2, NUMBER);
    }
}

#[test]
fn sites_call_each_other_over_tls() {
    let site = Site::new("sites-tls", &[33]);
    let authority = Authority::new(&site.field, "authority");
    authority.issue("north", "DNS:north");
    let own = authority.issue("south", "DNS:south.example.com");
    let files = [own.chain, own.key].map(|path| quoted(&path.display()));
    let tables = format!(
        "[tls]\ncertificates = [{{ chain = {}, key = {} }}]\n[pool.servers]\nmembers = [\"{}\"]\n",
        files[0],
        files[1],
        site.field.sip(33)
    );
    let listen = format!("tls = [\"{}:5061\"]", site.field.ip(62));
    let _south = RunningProxy::listening(&site.field, 62, 1, &listen, &tables);
    site.name("south.example.com", 62);
    let _north = site.start("two-sites-tls.toml");
    assert!(site.call(2, "sip:2@example.com").contains(&site.field.ip(33).to_string()));
}

#[test]
fn connections_behind_a_load_balancer_carry_the_address_of_the_client() {
    let site = Site::new("proxy-protocol", &[11, 12]);
    let _balancer = site.start("proxy-protocol.toml");
    let connect = |host| StreamClient::connect(site.field.ip(host), site.field.sip(1));
    let header = format!("PROXY TCP4 192.0.2.77 {} 40000 5060\r\n", site.field.ip(1));
    let mut through = connect(61);
    through.send(header.as_bytes()).expect("it is taken");
    assert_eq!(through.ask(&AgentRequest::new("INVITE", "through")), 200);
    let mut stranger = connect(STRANGER);
    let _ = stranger.send(header.as_bytes());
    stranger.wait_until_closed();
}

#[test]
fn ipv4_and_ipv6_reach_each_other() {
    let site = Site::new("translated", &[11, 12]);
    let local = |n| SocketAddr::new(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]), site.field.port(n));
    let _third = AnsweringAgent::start(local(3), |_| true);
    let _balancer = site.start("translated.toml");
    let agent = Agent::bind(local(2));
    for call in 0..3 {
        site.call(2, &format!("sip:{call}@example.com"));
        let call_id = format!("six-{call}");
        agent.send(local(1), &AgentRequest::new("INVITE", &call_id).bytes(agent.address()));
        assert_eq!(status(&agent.final_response(&call_id)), Some(200));
    }
}

#[test]
fn sites_have_their_numbers_and_scanners_get_no_response() {
    let site = Site::new("sites", &[31, 32, 33, 41, 42]);
    let _balancer = site.start("several-sites.toml");
    let at = |hosts: &[u8], contact: &str| {
        hosts.iter().any(|host| contact.contains(&site.field.ip(*host).to_string()))
    };
    assert!(at(&[31, 32, 33], &site.call(2, "sip:4420@example.com")));
    assert!(at(&[41, 42], &site.call(2, "sip:+4989123@example.com")));
    assert_eq!(site.invite(2, "sip:x@old.example.com"), Some(302));
    let scan = AgentRequest {
        lines: vec!["User-Agent: friendly-scanner".to_owned()],
        ..AgentRequest::new("OPTIONS", "scan")
    };
    assert_eq!(site.ask(STRANGER, &scan), None);
}

#[test]
fn media_servers_are_called_by_their_networks_and_call_out() {
    let mut site = Site::new("media", &[11, 12, 13, 71, 14]);
    site.name("sbc1.carrier.example.net", 71);
    site.name("sbc2.carrier.example.net", 71);
    let _balancer = site.start("media-cluster.toml");
    site.call(2, NUMBER);
    assert_eq!(site.invite(STRANGER, NUMBER), None);
    drop(site.servers.pop());
    assert!(site.call(14, "sip:+4420@example.net").contains(&site.field.ip(71).to_string()));
    assert_eq!(site.invite(14, "sip:x@elsewhere.example.net"), Some(403));
}

#[test]
fn carriers_take_calls_of_the_own_networks_only() {
    let site = Site::new("carriers", &[51, 52, 53, 54]);
    site.service("_sip._udp.cheap.example.net", 54);
    let _balancer = site.start("carrier-failover.toml");
    site.call(2, "sip:0044123@example.com");
    let contact = site.call(2, "sip:110@example.com");
    let usual = [51, 52].map(|host| format!("{}:", site.field.ip(host)));
    assert!(usual.iter().any(|carrier| contact.contains(carrier)), "{contact}");
    assert_eq!(site.invite(2, "sip:0049900123@example.com"), Some(403));
    for uri in ["sip:0044123@example.com", "sip:110@example.com"] {
        assert_eq!(site.invite(STRANGER, uri), Some(404), "{uri}");
    }
}

#[test]
fn each_example_is_here() {
    let here = include_str!("examples.rs");
    let paths = fs::read_dir(examples()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let names = files.map(|path| path_text(path.file_name().expect("a file").as_ref()).to_owned());
    let runs = names.filter(|name| !name.starts_with("topology"));
    let missing: Vec<_> = runs.filter(|name| !here.contains(&format!("\"{name}\""))).collect();
    assert_eq!(missing, [""; 0]);
}

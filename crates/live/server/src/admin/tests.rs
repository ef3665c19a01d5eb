//! Tests of the admin interface: a real server on loopback, queried over real connections.

#![expect(clippy::float_cmp, reason = "whole numbers are exact")]

mod health;
mod members;
mod page;

use crate::figures::{
    CapacityView, ContactView, ContactsView, CurveView, ExplanationView, HealthView, HistoryView, MemberView,
    MembersView, PeerText, ProxyView, RegistrarView, ScaleView, ScalesView, Session, Sessions,
};
use crate::{Handle, Server};
use base::{Peer, Transport};
use elastic::update::{Key, UpdateSender};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;

/// Returns a peer over UDP.
fn udp(address: SocketAddr) -> PeerText {
    PeerText(Peer::new(Transport::Udp, address))
}

/// A server with one answering member and one that does not exist.
pub(super) struct Site {
    pub(super) sip: SocketAddr,
    tls: SocketAddr,
    admin: SocketAddr,
    pub(super) alive: SocketAddr,
    dead: SocketAddr,
    handle: Handle,
    /// Ends with whether the admin address was free again.
    server: JoinHandle<bool>,
}

pub(super) struct Reply {
    pub(super) status: u16,
    head: String,
    kind: String,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.body))
    }
}

/// Returns an address that was just free.
async fn free_udp() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

async fn free_tcp() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Answers every request with 200, for OPTIONS probes and calls.
async fn answer(socket: UdpSocket) {
    let mut buffer = vec![0; 65_536];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if text.starts_with("ACK ") {
            continue;
        }
        let kept = ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:", "v:", "f:", "i:"];
        let mut reply = "SIP/2.0 200 OK\r\n".to_owned();
        for line in text.lines().skip(1).take_while(|line| !line.is_empty()) {
            if kept.iter().any(|name| line.starts_with(name)) {
                write!(reply, "{line}\r\n").unwrap();
            } else if line.starts_with("To:") || line.starts_with("t:") {
                write!(reply, "{line};tag=answer\r\n").unwrap();
            }
        }
        reply.push_str("Contact: <sip:answer@127.0.0.1>\r\nContent-Length: 0\r\n\r\n");
        socket.send_to(reply.as_bytes(), from).await.unwrap();
    }
}

impl Site {
    /// Starts a balancer without transactions, with one member that is alive and one that is dead.
    pub(super) async fn start() -> Self {
        Self::start_with("").await
    }

    /// Like [`start`](Self::start), with these lines in `[admin]`.
    async fn start_with(admin_lines: &str) -> Self {
        let role = |alive, dead| {
            format!(
                "[pool.servers]\nmembers = [\"{alive}\", \"{dead}\"]\nslow_start = \"0s\"\n\
                 forward = \"stateless\"\nqueue = {{ source = \"fixed\", capacity = 1000 }}\n\
                 probe = {{ interval = \"100ms\", timeout = \"90ms\" }}"
            )
        };
        let site = Self::launch_with(role, admin_lines).await;
        site.until(async |site| site.member(site.dead).await.state == "down").await;
        site
    }

    /// Starts a balancer with these lines in `[admin]`.
    pub(super) async fn with_admin(lines: &str) -> Self {
        Self::launch_with(|alive, _| format!("[pool.servers]\nmembers = [\"{alive}\"]"), lines).await
    }

    /// Starts a proxy with a next hop that is alive, and neighbours for distributed state.
    pub(super) async fn proxy() -> Self {
        let role = |alive, _| {
            format!(
                "[proxy]\nnext = [\"{alive}\"]\nmax_transactions = 5000\nforward = \"distributed\"\n\
                 [distribution]\nneighbours = [\"127.9.9.9\"]"
            )
        };
        Self::launch(role).await
    }

    /// Starts a proxy that keeps the state of calls. Its `[hep]` names a port where no collector listens.
    pub(super) async fn dialogs() -> Self {
        let role = |alive, _| {
            format!(
                "[proxy]\nnext = [\"{alive}\"]\nforward = \"dialog\"\n[hep]\nto = \"udp:127.0.0.1:9\"\nshare = \"0.1%\""
            )
        };
        Self::launch(role).await
    }

    /// Starts a balancer whose servers are listed by a program that fails. One member is alive, the other is dead.
    pub(super) async fn scaled() -> Self {
        let site = Self::launch(|alive, dead| {
            format!(
                "[pool.servers]\nmembers = [\"{alive}\", \"{dead}\"]\n\
                 probe = {{ interval = \"100ms\", timeout = \"90ms\" }}\n\
                 scale = {{ driver = \"command\", start = \"true\", stop = \"true\", calm = \"1s\", most = 1, \
                 list = [\"sh\", \"-c\", \"echo the cloud is away >&2; exit 1\"] }}"
            )
        });
        let site = site.await;
        site.until(async |site| site.scale().await.trouble.is_some()).await;
        site
    }

    pub(super) async fn scale(&self) -> ScaleView {
        self.ask("GET", "/api/scale/servers").await.json()
    }

    /// Starts a registrar without authentication, with bindings in memory.
    pub(super) async fn home() -> Self {
        Self::launch(|_, _| "[registrar]\ndomains = [\"example.com\"]".to_owned()).await
    }

    /// Starts a balancer that receives capacity updates. Also returns the address for them.
    pub(super) async fn with_capacity() -> (Self, SocketAddr) {
        let listen = free_tcp().await;
        let role = |alive, _| {
            format!(
                "[pool.servers]\nmembers = [\"{alive}\"]\n[capacity]\nlisten = \"{listen}\"\nkeys = {{ \"*\" = \"{CAPACITY_KEY}\" }}"
            )
        };
        (Self::launch(role).await, listen)
    }

    async fn launch(role: impl FnOnce(SocketAddr, SocketAddr) -> String) -> Self {
        Self::launch_with(role, "").await
    }

    async fn launch_with(role: impl FnOnce(SocketAddr, SocketAddr) -> String, admin_lines: &str) -> Self {
        let (sip, admin, dead) = (free_udp().await, free_tcp().await, free_udp().await);
        let (tls, keys) = (free_tcp().await, concat!(env!("CARGO_MANIFEST_DIR"), "/../streams/testdata/tls"));
        let member = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let alive = member.local_addr().unwrap();
        tokio::spawn(answer(member));
        let text = format!(
            "[listen]\nudp = [\"{sip}\"]\ntls = [\"{tls}\"]\nthreads = 2\n{}\n\
             [tls]\ncertificates = [{{ chain = \"{keys}/first.pem\", key = \"{keys}/first.key\" }}]\n\
             [token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n[admin]\nlisten = \"{admin}\"\n{admin_lines}\n\
             [stop]\nwait = \"1h\"\n",
            role(alive, dead)
        );
        let config = config::parse(&text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let (started, handle) = oneshot::channel();
        let server = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = Server::start(config, None).await.unwrap();
                let handle = server.handle();
                let mut restarts = handle.restarts();
                tokio::spawn(async move {
                    while let Some(reply) = restarts.recv().await {
                        reply.send(Ok(())).unwrap();
                    }
                });
                started.send(handle).ok().unwrap();
                server.run().await.unwrap();
                TcpListener::bind(admin).await.is_ok()
            })
        });
        Self { sip, tls, admin, alive, dead, handle: handle.await.unwrap(), server }
    }

    /// Repeats the query until the condition holds, for at most half a minute.
    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        let waits = async {
            while !holds(self).await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waits).await.expect("the condition holds in time");
    }

    pub(super) async fn ask(&self, method: &str, path: &str) -> Reply {
        self.send(method, path, "", "").await
    }

    pub(super) async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let mut stream = TcpStream::connect(self.admin).await.unwrap();
        let (host, length) = (self.admin, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or_default();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), kind: kind.to_owned(), body: body.to_owned() }
    }

    async fn member(&self, address: SocketAddr) -> MemberView {
        let members: MembersView = self.ask("GET", "/api/members?oldest=true").await.json();
        members.members.into_iter().find(|member| member.address == udp(address)).unwrap()
    }

    /// Sends an INVITE and waits for its 200. The call is then in progress.
    pub(super) async fn call(&self, call_id: &str) {
        let caller = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let from = caller.local_addr().unwrap();
        caller.send_to(request(from, "INVITE", call_id).as_bytes(), self.sip).await.unwrap();
        let mut buffer = vec![0; 65_536];
        let mut length = caller.recv(&mut buffer).await.unwrap();
        if buffer.starts_with(b"SIP/2.0 100 ") {
            // This 100 is a proxy's own.
            length = caller.recv(&mut buffer).await.unwrap();
        }
        assert!(
            buffer[..length].starts_with(b"SIP/2.0 200 "),
            "{}",
            String::from_utf8_lossy(&buffer[..length])
        );
    }
}

impl Site {
    /// Sends a REGISTER of bob with this contact, from another port each time. Returns the status of the answer.
    pub(super) async fn register(&self, contact: &str) -> u16 {
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let from = client.local_addr().unwrap();
        let aor = "<sip:bob@example.com>".to_owned();
        let request = testkit::TestRequest {
            uri: "sip:example.com".to_owned(),
            from: aor.clone(),
            to: aor,
            contact: contact.to_owned(),
            ..testkit::TestRequest::new("REGISTER", &format!("register-{}", from.port()), from)
        };
        client.send_to(&request.bytes(), self.sip).await.unwrap();
        let mut buffer = vec![0; 65_536];
        let length = client.recv(&mut buffer).await.unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    }
}

pub(super) fn request(from: SocketAddr, method: &str, call_id: &str) -> String {
    let uri = "sip:bob@example.com".to_owned();
    testkit::TestRequest { uri, ..testkit::TestRequest::new(method, call_id, from) }.text()
}

#[tokio::test]
async fn members_show_calls_and_counts() {
    let site = Site::start().await;
    site.call("shown").await;
    let member = site.member(site.alive).await;
    assert_eq!((member.state.as_str(), member.member, member.accepting), ("up", true, true));
    assert_eq!((member.calls, member.transactions, member.work), (1, 0, 0.0));
    assert_eq!((member.assigned_total, member.transactions_total, member.ended["success"]), (1, 1, 1));
    assert_eq!((member.invite_ms.count, member.bye_ms.count), (1, 0));
    assert!(member.invite_ms.p50.is_some() && member.bye_ms.p50.is_none());
    assert_eq!((member.occupancy.mean, member.occupancy.max), (Some(0.0), Some(0)));
    assert!(member.oldest_call_seconds.is_some_and(|age| age < member.since_change_seconds));
    let dead = site.member(site.dead).await;
    assert_eq!((dead.reachable, dead.accepting, dead.oldest_call_seconds), (false, false, None));
    assert!(dead.last_probe.is_some());
    let unasked: MembersView = site.ask("GET", "/api/members").await.json();
    assert!(
        unasked.members.iter().all(|member| member.oldest_call_seconds.is_none()),
        "the age is shown only on request"
    );
}

#[tokio::test]
async fn an_unresolved_name_is_shown() {
    let dead_store = free_udp().await;
    let site = Site::launch(|alive, _| {
        format!(
            "[pool.servers]\nmembers = [\"{alive}\", \"typo.invalid\"]\n[dns]\nservers = [\"{dead_store}\"]\n"
        )
    });
    let site = site.await;
    let health: HealthView = site.ask("GET", "/api/health").await.json();
    assert_eq!(
        (health.healthy, health.members, health.unresolved),
        (true, 1, vec!["typo.invalid".to_owned()])
    );
    let members: MembersView = site.ask("GET", "/api/members").await.json();
    let [name] = members.names.as_slice() else { panic!("expected one name: {members:?}") };
    assert_eq!((name.name.as_str(), name.addresses, name.error.is_some()), ("typo.invalid", 0, true));
    let samples = samples(&site.ask("GET", "/metrics").await.body);
    assert_eq!(samples["sarabande_name_addresses{name=\"typo.invalid\"}"], 0.0);
    assert_eq!(samples["sarabande_name_failed{name=\"typo.invalid\"}"], 1.0);
    site.ask("POST", &format!("/api/drain?member={}", site.alive)).await;
    let health: HealthView = site.ask("GET", "/api/health").await.json();
    let reason =
        format!("no member takes new calls: {} is draining, typo.invalid is not resolved", site.alive);
    assert_eq!(health.reasons, [reason]);
}

#[tokio::test]
async fn sessions_are_counted_and_found_by_call_id() {
    let site = Site::start().await;
    site.call("a/b&c").await;
    let all: Sessions = site.ask("GET", "/api/sessions").await.json();
    assert_eq!((all.active, all.expired, all.shards.len()), (1, 0, 2));
    let session: Session = site.ask("GET", "/api/sessions?call_id=a%2Fb%26c").await.json();
    assert_eq!((session.call_id.as_str(), session.member, session.is_call), ("a/b&c", udp(site.alive), true));
    assert_eq!(session.state, "answered");
    let none = site.ask("GET", "/api/sessions?call_id=other").await;
    assert_eq!((none.status, none.body.as_str()), (404, "no session has the Call-ID \"other\"\n"));
}

#[tokio::test]
async fn drain_takes_a_member_out_and_undrain_back_in() {
    let site = Site::start().await;
    site.call("kept").await;
    let path = |verb: &str| format!("/api/{verb}?member={}", site.alive);
    let drained: MembersView = site.ask("POST", &path("drain")).await.json();
    let [member] = drained.members.as_slice() else { panic!("expected one member: {drained:?}") };
    assert_eq!((member.address, member.state.as_str(), member.calls), (udp(site.alive), "draining", 1));
    let health = site.ask("GET", "/api/health").await;
    let reasons = health.json::<HealthView>().reasons;
    assert_eq!(health.status, 503);
    assert_eq!(
        reasons,
        [format!("no member takes new calls: {} is draining, {} is down", site.alive, site.dead)]
    );
    let back: MembersView = site.ask("POST", &path("undrain")).await.json();
    assert_eq!(back.members[0].state, "up");
    assert_eq!(site.ask("GET", "/api/health").await.status, 200);
    let unknown = site.ask("POST", "/api/drain?member=10.9.9.9:5060").await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("10.9.9.9:5060") && unknown.body.contains(&site.alive.to_string()));
    let which = site.ask("POST", "/api/drain").await;
    assert_eq!((which.status, which.body.starts_with("missing parameter member")), (400, true));
    let method = site.ask("GET", &path("drain")).await;
    assert_eq!(
        (method.status, method.body.starts_with("GET is not allowed for /api/drain; there are: ")),
        (405, true)
    );
}

#[tokio::test]
async fn explain_names_the_member_and_why() {
    let site = Site::start().await;
    let ask = async |path: &str, body: &str| site.send("POST", path, "", body).await;
    let from = "192.0.2.1:5060".parse().unwrap();
    let new: ExplanationView = ask("/api/explain", &request(from, "INVITE", "known")).await.json();
    assert_eq!((new.member, new.why.as_str(), new.known), (Some(udp(site.alive)), "queue", false));
    let refusals: Vec<_> = new.candidates.iter().map(|c| (c.member, c.refusal.as_deref())).collect();
    assert_eq!(refusals, [(udp(site.alive), None), (udp(site.dead), Some("unreachable"))]);
    site.call("known").await;
    let path = "/api/explain?from=192.0.2.1:5060";
    let known: ExplanationView = ask(path, &request(from, "INVITE", "known")).await.json();
    // A transaction other than the served one is queued as a new call.
    assert_eq!((known.member, known.why.as_str(), known.known), (Some(udp(site.alive)), "queue", true));
    // Each call belongs to one of two threads, and only this thread knows it.
    for call in ["one", "two", "three", "four", "five", "six"] {
        site.call(call).await;
        let known: ExplanationView = ask("/api/explain", &request(from, "INVITE", call)).await.json();
        assert!(known.known, "{call}");
    }
    let path = format!("/api/explain?from={}", site.alive);
    let own = request(site.alive, "INVITE", "own").replace("sip:bob@example.com SIP", "tel:+15550100 SIP");
    let own = ask(&path, &own).await;
    assert_eq!(
        own.body, "refused: 502 Next Hop Is No Address\n",
        "a call of a member goes to its Request-URI"
    );
    let bad = ask("/api/explain", "no SIP").await;
    assert_eq!((bad.status, bad.body.as_str()), (400, "dropped: not_sip\n"));
    let here = ask("/api/explain?from=here", "").await;
    assert_eq!(
        (here.status, here.body.as_str()),
        (400, "from=here: expected an address as IP:PORT or IP:PORT;transport=tcp\n")
    );
}

#[tokio::test]
async fn pools_and_routes_are_shown_to_operators() {
    let both = |alive: SocketAddr, dead: SocketAddr| {
        format!(
            "[pool.core]\nmembers = [\"{dead}\", \"{alive}\"]\npolicy = \"cjsq\"\n[pool.out]\nmembers = [\"{alive}\"]\n\
             [[route]]\nname = \"away\"\nuser = {{ prefix = \"+\" }}\nstrip_prefix = \"+\"\nset_header = {{ X-A = \"1\" }}\n\
             pool = \"out\"\n[[route]]\nsource = \"192.0.2.0/24\"\npool = \"core\"\n"
        )
    };
    let site = Site::launch(both).await;
    assert_eq!(site.member(site.dead).await.pools, ["core"]);
    assert_eq!(site.member(site.alive).await.pools, ["core", "out"]);
    let health: HealthView = site.ask("GET", "/api/health").await.json();
    let pools: Vec<_> =
        health.pools.iter().map(|pool| (&pool.name[..], &pool.policy[..], pool.members)).collect();
    assert_eq!((pools, &health.policy[..]), (vec![("core", "cjsq", 2), ("out", "tlwl", 1)], "cjsq"));
    let page = site.ask("GET", "/metrics").await.body;
    let samples = samples(&page);
    assert_eq!(samples["sarabande_policy_info{policy=\"cjsq\",pool=\"core\"}"], 1.0);
    assert_eq!(samples["sarabande_policy_info{policy=\"tlwl\",pool=\"out\"}"], 1.0);
    let alive = format!("member=\"{}\",pool=\"core,out\"", site.alive);
    assert_eq!(samples[&format!("sarabande_member_calls{{{alive}}}")], 0.0, "one series for two pools");
    let explain = async |query: &str, from: &str, uri: &str| {
        let request = request(from.parse().unwrap(), "INVITE", "new").replacen("sip:bob@example.com", uri, 1);
        site.send("POST", &format!("/api/explain?from={from}{query}"), "", &request).await
    };
    let away: ExplanationView = explain("", "198.51.100.1:5060", "sip:+44@h").await.json();
    let route = away.route.expect("the answer has a route");
    assert_eq!((&route.name[..], away.pool.as_deref(), &away.policy[..]), ("away", Some("out"), "tlwl"));
    assert_eq!((away.member, away.why.as_str()), (Some(udp(site.alive)), "policy"));
    let rewrites: Vec<_> =
        route.rewrites.iter().map(|it| (&it.action[..], it.before.as_deref(), it.after.as_deref())).collect();
    let expected =
        [("strip_prefix +", Some("sip:+44@h"), Some("sip:44@h")), ("set_header X-A: 1", None, Some("1"))];
    assert_eq!((rewrites, route.request_uri.as_deref()), (expected.to_vec(), Some("sip:44@h")));
    let here = format!("&listener={}", site.sip);
    let near: ExplanationView = explain(&here, "192.0.2.1:5060", "sip:bob@h").await.json();
    let route = near.route.expect("the answer has a route");
    assert_eq!((&route.name[..], near.pool.as_deref(), route.rewrites.len()), ("route-2", Some("core"), 0));
    assert_eq!(
        (&route.earlier[0].name[..], &route.earlier[0].condition[..]),
        ("away", "user: it is \"bob\"")
    );
    assert_eq!(near.candidates.len(), 2);
    let none = explain("", "198.51.100.1:5060", "sip:bob@h").await;
    let reasons = "refused: 404 No Route: no [[route]] matches it\naway: user: it is \"bob\"\n\
                   route-2: source: it is 198.51.100.1\n";
    assert_eq!((none.status, &none.body[..]), (400, reasons));
    let nowhere = explain("&listener=192.0.2.7:5060", "192.0.2.1:5060", "sip:bob@h").await;
    let answers = format!(
        "there is no listener at 192.0.2.7:5060; there are: {}, {};transport=tls\n",
        site.sip, site.tls
    );
    assert_eq!((nowhere.status, nowhere.body), (400, answers));
    // A request from a member goes where it leads.
    let from = site.alive.to_string();
    let out: ExplanationView = explain("", &from, "sip:bob@127.0.0.9:5090").await.json();
    assert_eq!((out.why.as_str(), out.member, out.pool), ("outside", None, None));
    assert_eq!(out.outside, Some("127.0.0.9:5090".parse().unwrap()));
}

#[tokio::test]
async fn reload_without_a_file_is_refused_with_the_reason() {
    let site = Site::start().await;
    let reply = site.ask("POST", "/api/reload").await;
    assert_eq!((reply.status, reply.body.as_str()), (400, "this process was started without a file\n"));
}

#[tokio::test]
async fn stop_ends_the_process_after_the_last_call() {
    let site = Site::start().await;
    site.call("last").await;
    assert_eq!(site.ask("POST", "/api/stop").await.status, 200);
    let health = site.ask("GET", "/api/health").await;
    assert_eq!((health.status, health.json::<HealthView>().stopping), (503, true));
    let new = request("192.0.2.1:5060".parse().unwrap(), "INVITE", "new");
    let explained = site.send("POST", "/api/explain", "", &new).await;
    let refused = "refused: 503 Service Unavailable: stopping, no new calls are taken\n";
    assert_eq!((explained.status, explained.body.as_str()), (400, refused));
    assert!(!site.server.is_finished(), "one call is in progress");
}

#[tokio::test]
async fn stop_without_calls_ends_the_process_and_its_listener() {
    let site = Site::start().await;
    assert_eq!(site.ask("POST", "/api/stop").await.status, 200);
    site.until(async |site| site.server.is_finished()).await;
    assert!(site.handle.standing().await.is_err());
    assert!(site.server.join().unwrap(), "the port is free again");
}

/// The server has two threads. A caller's port changes from call to call, and the member's does not.
#[tokio::test]
async fn the_kernel_passes_calls_to_their_threads() {
    let site = Site::start().await;
    for call in 0..40 {
        site.call(&format!("{call}-4711@127.0.0.1")).await;
    }
    let metrics = site.ask("GET", "/metrics").await.body;
    let sum = |name: &str| -> f64 {
        let samples: Vec<_> = metrics.lines().filter(|line| line.starts_with(name)).collect();
        assert!(!samples.is_empty(), "{name} is reported");
        samples.into_iter().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    assert!(sum("sarabande_datagrams_received_total") >= 80.0);
    assert_eq!(sum("sarabande_datagrams_handed_over_total"), 0.0);
}

#[tokio::test]
async fn requests_of_other_pages_change_nothing() {
    let site = Site::start().await;
    let path = format!("/api/drain?member={}", site.alive);
    let reply = site.send("POST", &path, "Origin: http://evil.example\r\n", "").await;
    assert_eq!(reply.status, 403);
    assert!(!site.member(site.alive).await.draining);
}

#[tokio::test]
async fn an_unknown_path_lists_the_paths() {
    let site = Site::start().await;
    let reply = site.ask("GET", "/status").await;
    assert_eq!(reply.status, 404);
    assert!(reply.body.contains("/api/members"));
}

#[tokio::test]
async fn unknown_parameters_are_refused() {
    let site = Site::start().await;
    for (method, path, says) in [
        (
            "GET",
            "/api/members?old=true",
            "unknown parameter \"old\" of /api/members; there is: oldest, brief, problems, search, pool",
        ),
        ("GET", "/api/members?oldest=maybe", "oldest=maybe: expected true or false"),
        ("GET", "/api/sessions?callid=x", "unknown parameter \"callid\" of /api/sessions; there is: call_id"),
        ("GET", "/api/sessions?call_id=x&call_id=y", "parameter \"call_id\" is given twice"),
        ("GET", "/api/health?x", "unknown parameter \"x\" of /api/health; there is: none"),
        ("POST", "/api/stop?now", "unknown parameter \"now\" of /api/stop; there is: none"),
    ] {
        let reply = site.ask(method, path).await;
        assert_eq!((reply.status, reply.body.trim_end()), (400, says), "{path}");
    }
    assert!(!site.server.is_finished());
}

#[tokio::test]
async fn a_taken_address_is_an_error_that_names_it() {
    let site = Site::start().await;
    let text = format!(
        "listen.udp = [\"{}\"]\npool.s.members = [\"127.0.0.1:5070\"]\nadmin.listen = \"{}\"",
        free_udp().await,
        site.admin
    );
    let config = config::parse(&text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let error = Server::start(config, None).await.err().expect("the port is taken").to_string();
    assert!(error.contains(&site.admin.to_string()) && error.contains("[admin] listen"), "{error}");
}

/// Returns the sample lines by metric with labels, after the checks of `promtool check metrics`.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples = BTreeMap::new();
    let (mut helped, mut family) = ("", "");
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split(' ').next().unwrap();
            assert!(rest.len() > helped.len() + 1, "no help: {line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, helped, "HELP comes first");
            assert!(types.insert(name, kind).is_none(), "{name} has two TYPE lines");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            family = name;
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} under {family}"));
            let histogram = types[family] == "histogram";
            assert_eq!(histogram, ["_bucket", "_sum", "_count"].contains(&suffix), "{line}");
            assert!(histogram || suffix.is_empty(), "{line}");
            assert!(
                samples.insert(series.to_owned(), value.parse().unwrap()).is_none(),
                "{series} is repeated"
            );
        }
    }
    samples
}

#[tokio::test]
async fn metrics_have_types_and_cumulative_buckets() {
    let site = Site::start_with("member_histograms = true").await;
    site.call("one").await;
    site.call("two").await;
    let reply = site.ask("GET", "/metrics").await;
    assert_eq!((reply.status, reply.kind.as_str()), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let samples = samples(&reply.body);
    let (alive, dead) = (site.alive, site.dead);
    let value = |series: &str| samples.get(series).copied().unwrap_or(-1.0);
    let of = |metric: &str, member: SocketAddr, more: &str| {
        value(&format!("{metric}{{member=\"{member}\",pool=\"servers\"{more}}}"))
    };
    assert_eq!(of("sarabande_member_calls", alive, ""), 2.0);
    assert_eq!(of("sarabande_member_assigned_total", alive, ""), 2.0);
    assert_eq!(of("sarabande_member_state", alive, ",state=\"up\""), 1.0);
    assert_eq!(of("sarabande_member_state", dead, ",state=\"down\""), 1.0);
    assert_eq!(of("sarabande_member_state", dead, ",state=\"up\""), -1.0);
    assert_eq!(of("sarabande_member_transaction_ends_total", alive, ",outcome=\"success\""), 2.0);
    assert_eq!(of("sarabande_member_requests_total", alive, ",method=\"INVITE\""), 2.0);
    assert_eq!(of("sarabande_member_responses_total", alive, ",status=\"200\""), 2.0);
    assert_eq!(samples["sarabande_sessions{state=\"active\"}"], 2.0);
    assert_eq!(samples["sarabande_decisions_total{why=\"policy\"}"], 2.0);
    assert_eq!(samples["sarabande_drops_total{reason=\"not_sip\"}"], 0.0);
    assert_eq!(samples["sarabande_requests_forwarded_total"], 2.0);
    let member = format!("member=\"{alive}\",pool=\"servers\"");
    let parts = [("member", &*member), ("pool", "pool=\"servers\"")];
    let metrics = ["invite_response_seconds", "bye_response_seconds", "occupancy_transactions"];
    for ((part, labels), metric) in parts.iter().flat_map(|part| metrics.map(|metric| (part, metric))) {
        let metric = format!("sarabande_{part}_{metric}");
        let start = format!("{metric}_bucket{{{labels},");
        let lines = reply.body.lines().filter(|line| line.starts_with(&start));
        let bucket = |line: &str| -> (f64, f64) {
            let (_, rest) = line.split_once("le=\"").unwrap();
            let (bound, count) = rest.split_once("\"} ").unwrap();
            (bound.parse().unwrap(), count.parse().unwrap())
        };
        let buckets: Vec<_> = lines.map(bucket).collect();
        assert!(
            buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1),
            "{buckets:?}"
        );
        let expected = if metric.contains("bye") { 0.0 } else { 2.0 };
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, expected)));
        assert_eq!(value(&format!("{metric}_count{{{labels}}}")), expected);
    }
    let seconds = of("sarabande_member_invite_response_seconds_sum", alive, "");
    assert!(seconds > 0.0 && seconds < 60.0, "seconds, not microseconds: {seconds}");
}

#[tokio::test]
async fn the_process_reports_its_resources() {
    let site = Site::start().await;
    let before = samples(&site.ask("GET", "/metrics").await.body);
    let after = samples(&site.ask("GET", "/metrics").await.body);
    let start = "process_start_time_seconds";
    // Standard input, output and error, two sockets for calls, the admin interface and this connection to it.
    assert!(after["process_open_fds"] >= 7.0 && after["process_open_fds"] <= after["process_max_fds"]);
    assert_eq!(after[start], before[start], "it is the same process");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(after[start] < now && after[start] > 1.7e9, "{}", after[start]);
    assert!(after["process_threads"] >= 2.0, "a thread a shard");
    let (resident, all) = (after["process_resident_memory_bytes"], after["process_virtual_memory_bytes"]);
    assert!(resident > 1e6 && resident < all, "{resident} of {all}");
    assert!(after["process_cpu_seconds_total"] >= before["process_cpu_seconds_total"]);
}

/// Returns every word in backticks of the user's page, up to the first blank or bracket.
fn documented() -> BTreeSet<&'static str> {
    let page = include_str!("../../../../../docs/api.md");
    page.split('`').skip(1).step_by(2).map(|word| word.split([' ', '=', '?', '(']).next().unwrap()).collect()
}

/// Collects all keys of a JSON value, at any depth.
pub(super) fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_next_hops_of_a_proxy_are_members() {
    let site = Site::proxy().await;
    site.call("proxied").await;
    let health: HealthView = site.ask("GET", "/api/health").await.json();
    assert_eq!((health.role.as_str(), health.healthy, health.members), ("proxy", true, 1));
    let members: MembersView = site.ask("GET", "/api/members").await.json();
    assert_eq!(members.members.iter().map(|member| member.address).collect::<Vec<_>>(), [udp(site.alive)]);
    let proxy: ProxyView = site.ask("GET", "/api/proxy").await.json();
    let next: Vec<_> = proxy.next.iter().map(|hop| (hop.address, hop.resting)).collect();
    assert_eq!((next, proxy.max_transactions), (vec![(udp(site.alive), false)], 5_000));
    assert_eq!((proxy.transactions, proxy.forwarded_total, proxy.relayed_total), (2, 1, 1));
    let explained: ExplanationView =
        site.send("POST", "/api/explain", "", &request(site.sip, "INVITE", "x")).await.json();
    assert_eq!((explained.member, &explained.policy[..]), (Some(udp(site.alive)), "hash"));
    assert_eq!(Site::start().await.ask("GET", "/api/proxy").await.status, 404);
}

#[tokio::test]
async fn registrar_counts_are_shown() {
    let site = Site::home().await;
    assert_eq!(site.register("sip:bob@127.0.0.1:5099").await, 200);
    assert_eq!(site.register("").await, 200);
    let shown: RegistrarView = site.ask("GET", "/api/registrar").await.json();
    let registrations = &shown.registrations;
    assert_eq!((registrations.granted_total, registrations.fetched_total, shown.waiting), (1, 1, 0));
    let stores: Vec<_> =
        shown.stores.iter().map(|store| (&store.name[..], &store.kind[..], store.up)).collect();
    assert_eq!(stores, [("registrations", "memory", true)]);
    let samples = samples(&site.ask("GET", "/metrics").await.body);
    assert_eq!(samples["sarabande_registrations_total{outcome=\"granted\",status=\"200\"}"], 1.0);
    assert_eq!(samples["sarabande_store_up{store=\"registrations\",kind=\"memory\"}"], 1.0);
    assert_eq!(Site::proxy().await.ask("GET", "/api/registrar").await.status, 404);
}

/// "0123456789abcdef" in hexadecimal digits.
const CAPACITY_KEY: &str = "30313233343536373839616263646566";

/// Sends updates of these servers over one connection. Returns everything received until the last answer.
async fn announce(listen: SocketAddr, updates: &[(&str, f64)]) -> String {
    let stream = TcpStream::connect(listen).await.unwrap();
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut all = lines.next_line().await.unwrap().unwrap();
    let mut sender = UpdateSender::greeted(Key::new(b"0123456789abcdef"), all.as_bytes()).unwrap();
    for (server, capacity) in updates {
        write.write_all(sender.update(&server.parse().unwrap(), *capacity).as_bytes()).await.unwrap();
        all += "\n";
        all += &lines.next_line().await.unwrap().unwrap();
    }
    all
}

#[tokio::test]
async fn announced_capacities_are_shown() {
    let (site, listen) = Site::with_capacity().await;
    let answers =
        announce(listen, &[(&site.alive.to_string(), 300.0), (&site.alive.to_string(), 312.5)]).await;
    assert!(answers.ends_with("\nOK 1 0\nOK 2 0"), "{answers}");
    let answers = announce(listen, &[("nobody.example.com", 1.0)]).await;
    assert!(answers.ends_with("\nERROR unknown_server"), "{answers}");
    let shown: CapacityView = site.ask("GET", "/api/capacity").await.json();
    assert_eq!((shown.accepted_total, shown.connections_total), (2, 2));
    assert_eq!((shown.closed_total["unknown_server"], shown.closed_total["wrong_code"]), (1, 0));
    let members: Vec<_> = shown.members.iter().map(|member| (member.member, member.capacity)).collect();
    assert_eq!(members, [(site.alive, 312.5)]);
    assert!(shown.members[0].capacity_now <= 312.5);
    let samples = samples(&site.ask("GET", "/metrics").await.body);
    let of_member = format!("{{member=\"{}\"}}", site.alive);
    assert_eq!(samples[&format!("sarabande_capacity_announced{of_member}")], 312.5);
    assert_eq!(samples["sarabande_capacity_updates_total"], 2.0);
    assert_eq!(samples["sarabande_capacity_closed_total{reason=\"unknown_server\"}"], 1.0);
    assert_eq!(Site::proxy().await.ask("GET", "/api/capacity").await.status, 404);
}

#[tokio::test]
async fn contacts_of_a_user_are_listed_and_removed() {
    let site = Site::home().await;
    let path = "/api/registrations?user=bob@example.com";
    let none: ContactsView = site.ask("GET", path).await.json();
    assert_eq!((none.contacts.len(), none.removed.len()), (0, 0));
    let none: ContactsView = site.ask("DELETE", path).await.json();
    assert_eq!((none.contacts.len(), none.removed.len()), (0, 0), "there is nothing to remove");
    for contact in ["sip:bob@192.168.1.7:5060", "sip:bob@192.168.1.8;transport=udp", "sip:bob@192.168.1.9"] {
        assert_eq!(site.register(contact).await, 200);
    }
    let uris = |contacts: &[ContactView]| {
        let uris: BTreeSet<_> = contacts.iter().map(|contact| contact.contact.clone()).collect();
        uris.into_iter().collect::<Vec<_>>()
    };
    let listed: ContactsView = site.ask("GET", path).await.json();
    assert_eq!(listed.contacts.len(), 3);
    let first = &listed.contacts[0];
    assert!((3_590..=3_600).contains(&first.expires_seconds) && first.q == 1.0, "{first:?}");
    assert!(
        first.source.is_some_and(|source| source.ip().is_loopback()) && first.path.is_none(),
        "{first:?}"
    );
    let invite = request("192.0.2.1:5060".parse().unwrap(), "INVITE", "new");
    let explained: ExplanationView = site.send("POST", "/api/explain", "", &invite).await.json();
    assert_eq!((explained.user.as_deref(), explained.why.as_str()), (Some("bob@example.com"), "located"));
    assert_eq!((explained.contacts.len(), explained.member, explained.pool), (3, None, None));
    assert_eq!(explained.route.map(|route| route.name).as_deref(), Some("users"));
    let other: ContactsView =
        site.ask("DELETE", &format!("{path}&contact=sip:bob@192.168.1.99")).await.json();
    assert_eq!((other.contacts.len(), other.removed.len()), (3, 0), "the contact does not exist");
    // The same contact in another form (RFC 3261 section 19.1.4).
    let one: ContactsView =
        site.ask("DELETE", &format!("{path}&contact=SIP:%62ob@192.168.1.8;transport=UDP")).await.json();
    assert_eq!(uris(&one.removed), ["sip:bob@192.168.1.8;transport=udp"]);
    assert_eq!(uris(&one.contacts), ["sip:bob@192.168.1.7:5060", "sip:bob@192.168.1.9"]);
    let all: ContactsView = site.ask("DELETE", path).await.json();
    assert_eq!((uris(&all.removed), all.contacts.len()), (uris(&one.contacts), 0));
    let none: ContactsView = site.ask("GET", path).await.json();
    assert!(none.contacts.is_empty());
}

#[tokio::test]
async fn contacts_of_an_unknown_user_are_refused_with_the_reason() {
    let site = Site::home().await;
    for (query, status, says) in [
        ("", 400, "missing parameter user: add ?user=USER@DOMAIN"),
        (
            "?user=bob@elsewhere.example",
            404,
            "the domain of \"bob@elsewhere.example\" is not served here; served domains: example.com",
        ),
        ("?user=example.com", 404, "\"example.com\" is not a user: expected USER@DOMAIN"),
        (
            "?user=bob@example.com&all=1",
            400,
            "unknown parameter \"all\" of /api/registrations; there is: user",
        ),
    ] {
        let reply = site.ask("GET", &format!("/api/registrations{query}")).await;
        assert_eq!((reply.status, reply.body.trim_end()), (status, says));
    }
    let elsewhere = Site::proxy().await.ask("GET", "/api/registrations?user=bob@example.com").await;
    assert_eq!((elsewhere.status, elsewhere.body.as_str()), (404, "this process has no [registrar]\n"));
}

#[tokio::test]
async fn an_unknown_user_is_no_user_without_contacts() {
    let users = std::env::temp_dir().join(format!("sarabande-admin-users-{}", std::process::id()));
    std::fs::write(&users, "bob:example.com:37593d991414f52c30246c60c7798431\n").unwrap();
    let role = |_, _| format!("[registrar]\ndomains = [\"example.com\"]\nusers = {users:?}");
    let site = Site::launch(role).await;
    for method in ["GET", "DELETE"] {
        assert_eq!(site.ask(method, "/api/registrations?user=bob@example.com").await.status, 200);
        let reply = site.ask(method, "/api/registrations?user=dave@example.com").await;
        let says = "there is no user \"dave\" of the realm example.com in [registrar] users\n";
        assert_eq!((reply.status, &*reply.body), (404, says));
    }
    std::fs::remove_file(&users).unwrap();
}

/// A page in an operator's browser must not unregister a user, and a store that is down must not seem empty.
#[tokio::test]
async fn contacts_need_a_token_and_a_reachable_store() {
    let site = Site::home().await;
    assert_eq!(site.register("sip:bob@192.168.1.7").await, 200);
    let path = "/api/registrations?user=bob@example.com";
    let page = site.send("DELETE", path, "Origin: http://evil.example\r\n", "").await;
    assert_eq!(page.status, 403);
    assert_eq!(site.ask("GET", path).await.json::<ContactsView>().contacts.len(), 1);
    let dead_store = free_tcp().await;
    let role = |_, _| format!("[registrar]\ndomains = [\"example.com\"]\nstore = \"redis://{dead_store}\"");
    let site = Site::launch(role).await;
    for method in ["GET", "DELETE"] {
        let reply = site.ask(method, path).await;
        assert_eq!(reply.status, 503, "{method}: {}", reply.body);
        assert!(reply.body.contains("the store cannot be reached"), "{}", reply.body);
    }
}

#[tokio::test]
async fn the_documentation_names_every_metric_label_and_key() {
    let site = Site::start_with("member_histograms = true").await;
    site.call("documented").await;
    let (proxy, dialogs, home) = (Site::proxy().await, Site::dialogs().await, Site::home().await);
    home.register("sip:bob@127.0.0.1:5099").await;
    let scaled = Site::scaled().await;
    let mut page = String::new();
    let (monitored, listen) = Site::with_capacity().await;
    announce(listen, &[(&monitored.alive.to_string(), 1.0)]).await;
    for site in [&site, &proxy, &dialogs, &home, &monitored, &scaled] {
        page += &site.ask("GET", "/metrics").await.body;
    }
    let documented = documented();
    let families: BTreeSet<_> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let described = documented
        .iter()
        .copied()
        .filter(|word| word.starts_with("sarabande_") || word.starts_with("process_"));
    let described: BTreeSet<_> = described.collect();
    assert_eq!(families, described);
    // For each label with a fixed set of values, all values.
    for label in ["state", "reason", "why", "operation", "outcome"] {
        let start = format!("{label}=\"");
        let values = page.lines().filter_map(|line| line.split_once(&start)?.1.split('"').next());
        let missing: BTreeSet<_> = values.filter(|value| !documented.contains(value)).collect();
        assert!(missing.is_empty(), "{label}: {missing:?}");
    }
    let mut found = BTreeSet::new();
    site.until(async |site| !site.ask("GET", "/api/history").await.json::<HistoryView>().times.is_empty())
        .await;
    for path in ["health", "members", "history", "sessions", "sessions?call_id=documented"] {
        keys(&site.ask("GET", &format!("/api/{path}")).await.json(), &mut found);
    }
    for site in [&proxy, &dialogs] {
        keys(&site.ask("GET", "/api/proxy").await.json(), &mut found);
    }
    keys(&home.ask("GET", "/api/registrar").await.json(), &mut found);
    keys(&monitored.ask("GET", "/api/capacity").await.json(), &mut found);
    keys(&scaled.ask("GET", "/api/scale").await.json(), &mut found);
    keys(&home.ask("GET", "/api/registrations?user=bob@example.com").await.json(), &mut found);
    let request = request(site.sip, "INVITE", "documented");
    keys(&site.send("POST", "/api/explain", "", &request).await.json(), &mut found);
    keys(&site.ask("POST", "/api/stop").await.json(), &mut found);
    let missing: BTreeSet<_> = found.iter().filter(|key| !documented.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The running servers are known only from probes. Every figure shows this, calls continue, and no warning is about a
/// server that is switched off.
#[tokio::test]
async fn a_driver_that_fails_is_shown_and_calls_go_on() {
    let site = Site::scaled().await;
    let is_off = async |site: &Site| site.member(site.dead).await.state == "off";
    let is_ready = |shown: ScaleView| shown.ready && shown.retry_seconds > 0.0;
    site.until(async |site| is_ready(site.scale().await) && is_off(site).await).await;
    let shown = site.scale().await;
    let why = "list: sh failed: exit status: 1: the cloud is away";
    assert_eq!((shown.driver.as_str(), shown.trouble.as_deref()), ("command", Some(why)));
    assert!(shown.driver_failures_total > 0 && shown.retry_seconds > 0.0, "{shown:?}");
    let states: Vec<_> = shown.servers.iter().map(|server| (server.address, server.state.as_str())).collect();
    assert_eq!(states, [(Some(site.alive), "ready"), (Some(site.dead), "off")]);
    let all: ScalesView = site.ask("GET", "/api/scale").await.json();
    assert_eq!(all.pools.len(), 1);
    let health: HealthView = site.ask("GET", "/api/health").await.json();
    assert!(health.healthy);
    assert_eq!(health.degraded, [format!("pool servers: the driver fails: {why}")]);
    let metrics = site.ask("GET", "/metrics").await.body;
    for line in [
        "sarabande_scale_servers{pool=\"servers\",state=\"off\"} 1",
        "sarabande_scale_driver_trouble{pool=\"servers\",driver=\"command\"} 1",
        "sarabande_scale_decisions_total{pool=\"servers\",kind=\"start\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    site.call("still").await;
    let other = site.ask("GET", "/api/scale/others").await;
    assert_eq!(
        (other.status, other.body.trim_end()),
        (404, "no pool \"others\" has a `scale`; there are: servers")
    );
    let none: ScalesView = Site::start().await.ask("GET", "/api/scale").await.json();
    assert!(none.pools.is_empty());
}

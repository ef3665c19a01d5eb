//! Agents on real sockets, with a real server and with a faulty one.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use base::{Rng, Transport};
use instruments::agents::{self, AgentLink, RunningAgent, Snapshot};
use load::{
    AnswererConfig, AnswererResults, ArrivalPlan, ArrivalProcess, CallResults, CallerConfig, RandomTime,
    ServiceModel, Timers,
};
use server::figures::MemberView;
use server::{Handle, Server};
use sockets::UdpSocket;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use streams::tls::{CertificateFiles, Tls, TlsSetup};

const ANY_PORT: &str = "127.0.0.1:0";
/// Longest wait for something that takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn bind() -> (UdpSocket, SocketAddr) {
    let socket = agents::bind(ANY_PORT.parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn answerer(name: &str) -> RunningAgent<AnswererResults> {
    let (socket, local) = bind();
    agents::start_answerer(socket, answerer_config(name, local), Rng::from_seed(1).fork(name)).unwrap()
}

fn answerer_config(name: &str, local: SocketAddr) -> AnswererConfig {
    AnswererConfig {
        transport: Transport::Udp,
        listener: 0,
        local,
        name: name.to_owned(),
        ring: RandomTime::Fixed(Duration::from_millis(5)),
        trying: false,
        service: ServiceModel::default(),
        timers: Timers::default(),
    }
}

fn answerers() -> Vec<RunningAgent<AnswererResults>> {
    ["a", "b", "c"].map(answerer).into()
}

fn caller(target: SocketAddr, calls: u64) -> RunningAgent<CallResults> {
    let (socket, local) = bind();
    agents::start_caller(socket, caller_config(local, target, calls), Rng::from_seed(2)).unwrap()
}

fn caller_config(local: SocketAddr, target: SocketAddr, calls: u64) -> CallerConfig {
    CallerConfig {
        transport: Transport::Udp,
        listener: 0,
        connections: 1,
        local,
        target,
        outbound: false,
        uri: format!("sip:service@{target}"),
        arrivals: ArrivalPlan {
            calls_max: Some(calls),
            ..ArrivalPlan::steady(ArrivalProcess::Poisson, 400.0)
        },
        holding: RandomTime::Exponential(Duration::from_millis(30)),
        answer_wait: Duration::from_secs(20),
        timers: Timers::default(),
    }
}

async fn finish(caller: RunningAgent<CallResults>) -> Snapshot<CallResults> {
    let ended = async {
        while !caller.is_finished() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("all calls have ended by now");
    caller.stop().unwrap()
}

/// Starts a server in front of these members. Returns its address and handle.
async fn serve(members: &[SocketAddr]) -> (SocketAddr, Handle, tokio::task::JoinHandle<Result<(), String>>) {
    let address = std::net::UdpSocket::bind(ANY_PORT).unwrap().local_addr().unwrap();
    let text = format!(
        "[listen]\nudp = [\"{address}\"]\nthreads = 2\n[admin]\nlisten = false\n[stop]\nwait = \"0s\"\n\
         [pool.servers]\nmembers = {:?}\n",
        members.iter().map(ToString::to_string).collect::<Vec<_>>()
    );
    let config = config::parse(&text, "test").unwrap();
    let server = Server::start(config, None).await.unwrap();
    let handle = server.handle();
    (address, handle, tokio::task::spawn_local(server.run()))
}

/// Test certificates, from the crate with TLS.
fn tls(answerer: Option<SocketAddr>) -> Arc<TlsSetup> {
    let file = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../streams/testdata/tls").join(name);
    let tls = Tls {
        certificates: vec![CertificateFiles { chain: file("first.pem"), key: file("first.key") }],
        authorities: Some(file("authority.pem")),
        client_authorities: None,
        require_client: false,
        key_log: None,
    };
    let names = answerer.map(|answerer| (answerer, Some("first.example".to_owned())));
    Arc::new(TlsSetup::read(&tls, None).unwrap().with_names(names.into_iter()))
}

/// A caller and an answerer directly connected, over each kind of connection.
#[tokio::test]
async fn calls_over_streams_succeed_on_the_requested_connections() {
    for transport in [Transport::Tcp, Transport::Tls] {
        let link = AgentLink::streams(transport, ANY_PORT.parse().unwrap(), 1, Some(tls(None))).unwrap();
        let target = link.local_addr().unwrap();
        let config = AnswererConfig { transport, ..answerer_config("a", target) };
        let answerer = agents::start_answerer(link, config, Rng::from_seed(1)).unwrap();
        let link =
            AgentLink::streams(transport, ANY_PORT.parse().unwrap(), 7, Some(tls(Some(target)))).unwrap();
        let local = link.local_addr().unwrap();
        let config = CallerConfig { transport, connections: 7, ..caller_config(local, target, 100) };
        let caller = finish(agents::start_caller(link, config, Rng::from_seed(2)).unwrap()).await;
        let results = &caller.results;
        assert_eq!((results.calls_completed, results.calls_failed()), (100, 0), "{transport:?}");
        assert_eq!(results.retransmissions_sent, 0);
        assert_eq!((caller.connections.opened, caller.unreachable), (7, 0));
        let answerer = answerer.stop().unwrap();
        assert_eq!(answerer.connections.accepted, 7);
        assert_eq!((answerer.received, answerer.sent), (caller.sent, caller.received));
    }
}

/// Without a listener messages are lost at once, and counted.
#[tokio::test]
async fn refused_connections_are_counted() {
    let target = std::net::TcpListener::bind(ANY_PORT).unwrap().local_addr().unwrap();
    let link = AgentLink::streams(Transport::Tcp, ANY_PORT.parse().unwrap(), 1, None).unwrap();
    let local = link.local_addr().unwrap();
    let config = CallerConfig { transport: Transport::Tcp, ..caller_config(local, target, 1) };
    let caller = agents::start_caller(link, config, Rng::from_seed(2)).unwrap();
    let counted = async {
        while caller.snapshot().unreachable == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("the connection was refused");
    let snapshot = caller.stop().unwrap();
    assert_eq!((snapshot.connections.opened, snapshot.connections.connect_failed), (0, 1));
}

#[tokio::test]
async fn calls_through_the_server_succeed_and_leave_no_lease() {
    // A server stays on the thread that started it.
    tokio::task::LocalSet::new().run_until(four_hundred_calls()).await;
}

async fn four_hundred_calls() {
    let answerers = answerers();
    let members: Vec<_> = answerers.iter().map(RunningAgent::address).collect();
    let (address, handle, running) = serve(&members).await;
    let snapshot = finish(caller(address, 400)).await;
    let results = &snapshot.results;
    assert_eq!((results.calls_completed, results.calls_failed(), results.wrong_server), (400, 0, 0));
    assert_eq!(results.calls_by_server.values().sum::<u64>(), 400);
    assert_eq!(results.calls_by_server.len(), 3, "every server got calls: {:?}", results.calls_by_server);
    assert_eq!((results.invite_response.count(), results.bye_response.count()), (400, 400));
    for member in handle.figures(true).await.unwrap().members.members {
        let MemberView { calls, transactions, oldest_call_seconds, name, .. } = member;
        assert_eq!((calls, transactions, oldest_call_seconds), (0, 0, None), "{name}");
    }
    let mut sum = AnswererResults::default();
    for answerer in answerers {
        sum.merge(&answerer.stop().unwrap().results);
    }
    assert_eq!((sum.calls_completed, sum.wrong_server, sum.calls_in_progress), (400, 0, 0));
    handle.stop();
    running.await.unwrap().unwrap();
}

/// Forwards every request to the next server in turn, regardless of its call, and adds Record-Route.
fn blind_relay(servers: Vec<SocketAddr>, stop: Arc<AtomicBool>) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let socket = std::net::UdpSocket::bind(ANY_PORT).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let address = socket.local_addr().unwrap();
    let relay = move || {
        let (mut caller, mut turn, mut buffer) = (address, 0, [0; 4_096]);
        while !stop.load(Ordering::Relaxed) {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
            let datagram = &buffer[..length];
            if servers.contains(&from) {
                socket.send_to(datagram, caller).unwrap();
                continue;
            }
            caller = from;
            turn += 1;
            let text = String::from_utf8_lossy(datagram);
            let (start, rest) = text.split_once("\r\n").unwrap();
            let text = format!("{start}\r\nRecord-Route: <sip:{address};lr>\r\n{rest}");
            socket.send_to(text.as_bytes(), servers[turn % servers.len()]).unwrap();
        }
    };
    (address, std::thread::spawn(relay))
}

#[tokio::test]
async fn a_relay_without_call_state_is_noticed_by_both_sides() {
    let answerers = answerers();
    let servers = answerers.iter().map(RunningAgent::address).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let (address, relay) = blind_relay(servers, Arc::clone(&stop));
    let snapshot = finish(caller(address, 100)).await;
    let results = &snapshot.results;
    assert!(results.wrong_server > 0, "{}", results.progress());
    assert!(results.bye_refused[&481] > 0, "a server refuses the BYE of a call that it never had");
    assert!(!snapshot.wrong_call_ids.is_empty() && snapshot.wrong_call_ids.len() <= 10);
    let wrong: u64 =
        answerers.into_iter().map(|answerer| answerer.stop().unwrap().results.wrong_server).sum();
    assert!(wrong > 0);
    stop.store(true, Ordering::Relaxed);
    relay.join().unwrap();
}

#[test]
fn a_stopped_agent_releases_its_port() {
    let first = answerer("a");
    let address = first.address();
    assert!(agents::bind(address).unwrap_err().to_string().contains("cannot listen on 127.0.0.1:"));
    first.stop().unwrap();
    agents::bind(address).unwrap();
    let dropped = answerer("b");
    let address = dropped.address();
    drop(dropped);
    agents::bind(address).unwrap();
}

#[tokio::test]
async fn the_slot_of_a_former_member_is_reused_after_its_sessions_end() {
    tokio::task::LocalSet::new().run_until(members_come_and_go()).await;
}

async fn members_come_and_go() {
    let answerers: Vec<_> = ["a", "b"].map(answerer).into();
    let [first, used] = [answerers[0].address(), answerers[1].address()];
    let [unused, last] = ["127.0.0.1:9", "127.0.0.1:10"].map(|address| address.parse().unwrap());
    let address = std::net::UdpSocket::bind(ANY_PORT).unwrap().local_addr().unwrap();
    let path = std::env::temp_dir().join(format!("sarabande-members-test-{}.toml", std::process::id()));
    let write = |members: &[SocketAddr]| {
        let members: Vec<_> = members.iter().map(ToString::to_string).collect();
        // Ended calls stay in the table for half a minute.
        let text = format!(
            "[listen]\nudp = [\"{address}\"]\nthreads = 2\n[admin]\nlisten = false\n[stop]\nwait = \"0s\"\n\
             [token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n[timers]\ncall = \"1s\"\n\
             [pool.servers]\nmembers = {members:?}\n"
        );
        std::fs::write(&path, text).unwrap();
    };
    write(&[first, used]);
    let server = Server::start(config::load(&path).unwrap(), Some(path.clone())).await.unwrap();
    let handle = server.handle();
    let running = tokio::task::spawn_local(server.run());
    finish(caller(address, 20)).await;
    write(&[first, used, unused]);
    handle.reload().await.unwrap();
    write(&[first]);
    handle.reload().await.unwrap();
    let listed = async || -> Vec<_> {
        let members = handle.figures(false).await.unwrap().members.members;
        members.iter().map(|member| member.address.0.address).collect()
    };
    let forgotten = async {
        while listed().await.contains(&unused) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, forgotten).await.expect("no session uses the slot");
    assert_eq!(listed().await, [first, used], "the table has calls of this member");
    write(&[last, first]);
    handle.reload().await.unwrap();
    assert_eq!(listed().await, [first, used, last]);
    let figures = handle.figures(false).await.unwrap();
    assert_eq!(figures.members.members[2].assigned_total, 0);
    handle.stop();
    running.await.unwrap().unwrap();
    std::fs::remove_file(path).unwrap();
}

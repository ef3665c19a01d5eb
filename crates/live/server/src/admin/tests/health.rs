//! Whether new calls are taken: answers of `/api/health` and `/readyz` when members, next hops or stores are down.

use super::{Site, free_tcp, request, samples};
use crate::figures::{HealthView, RegistrarView};
use std::net::SocketAddr;
use tokio::net::UdpSocket;

/// Sends a call to the dead next hop and waits until it is known to be dead. Next hops are probed only after a failure.
async fn down(site: &Site) {
    let caller = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let invite = request(caller.local_addr().unwrap(), "INVITE", "finds-dead-hop");
    site.until(async |site| {
        caller.send_to(invite.as_bytes(), site.sip).await.unwrap();
        site.member(site.dead).await.state == "down"
    })
    .await;
}

#[tokio::test]
async fn a_proxy_whose_only_next_hop_is_dead_takes_no_calls() {
    let site = Site::launch(|_, dead| format!("[proxy]\nnext = [\"{dead}\"]")).await;
    down(&site).await;
    let reply = site.ask("GET", "/api/health").await;
    let health: HealthView = reply.json();
    let reason = format!("no next hop takes new calls: {} is down", site.dead);
    assert_eq!((reply.status, health.healthy, health.reasons), (503, false, vec![reason]));
    assert_eq!(site.ask("GET", "/readyz").await.status, 503);
}

#[tokio::test]
async fn a_proxy_that_answers_itself_needs_no_next_hop() {
    let site = Site::launch(|alive, _| {
        format!(
            "[[route]]\nuser = \"moved\"\nanswer = {{ status = 302, contact = \"sip:x@{alive}\" }}\n\
             [[route]]\nanswer = 404"
        )
    });
    let site = site.await;
    let health: HealthView = site.ask("GET", "/api/health").await.json();
    assert!(health.healthy && health.pools.is_empty(), "{health:?}");
    assert_eq!(site.ask("GET", "/readyz").await.status, 200);
}

/// A process with only a registrar whose bindings cannot be read has no destination for calls.
#[tokio::test]
async fn a_registrar_without_its_store_takes_no_calls() {
    let dead_store = free_tcp().await;
    let role = |_, _| format!("[registrar]\ndomains = [\"example.com\"]\nstore = \"redis://{dead_store}\"");
    let site = Site::launch(role).await;
    assert_eq!(site.register("sip:bob@127.0.0.1:5099").await, 503);
    let reply = site.ask("GET", "/api/health").await;
    let health: HealthView = reply.json();
    assert_eq!((reply.status, health.healthy), (503, false));
    let [reason] = health.reasons.as_slice() else { panic!("expected one store: {health:?}") };
    let start = "registrations and calls to users fail: the store of registrations (redis) is down: ";
    assert!(reason.starts_with(start) && reason.contains("refused"), "{reason}");
    assert_eq!(site.ask("GET", "/readyz").await.status, 503);
    let shown: RegistrarView = site.ask("GET", "/api/registrar").await.json();
    let [store] = shown.stores.as_slice() else { panic!("expected one store: {shown:?}") };
    assert!(!store.up && store.since_seconds.is_some() && store.failed_total > 0, "{store:?}");
    assert_eq!(format!("{start}{}", store.reason.as_deref().unwrap_or_default()), *reason);
    assert_eq!(shown.registrations.refused_total["503"], 1);
    let samples = samples(&site.ask("GET", "/metrics").await.body);
    assert_eq!(samples["sarabande_store_up{store=\"registrations\",kind=\"redis\"}"], 0.0);
    assert_eq!(samples["sarabande_registrations_total{outcome=\"refused\",status=\"503\"}"], 1.0);
}

/// New calls are taken if they have another destination by another route.
#[tokio::test]
async fn a_fault_of_a_working_server_is_reported() {
    let dead_store = free_tcp().await;
    let role = |store: String, next: SocketAddr| {
        format!(
            "[registrar]\ndomains = [\"example.com\"]\nstore = \"{store}\"\n[proxy]\nnext = [\"{next}\"]\n\
             [[route]]\nhost = \"users.example.com\"\nlocation = true\n[[route]]\npool = \"proxy\"\n"
        )
    };
    let site = Site::launch(|alive, _| role(format!("redis://{dead_store}"), alive)).await;
    assert_eq!(site.register("sip:bob@127.0.0.1:5099").await, 503);
    let health: HealthView = site.ask("GET", "/api/health").await.json();
    assert!(health.healthy, "{health:?}");
    assert!(health.degraded[0].starts_with("registrations and calls to users fail: "), "{health:?}");
    assert_eq!(site.ask("GET", "/readyz").await.status, 200);

    let site = Site::launch(|_, dead| role("memory".to_owned(), dead)).await;
    down(&site).await;
    let health: HealthView = site.ask("GET", "/api/health").await.json();
    let degraded = format!("no member of proxy takes new calls: {} is down", site.dead);
    assert_eq!((health.healthy, health.degraded), (true, vec![degraded]));
    assert_eq!(site.ask("GET", "/readyz").await.status, 200);
}

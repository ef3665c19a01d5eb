//! Tests of members that an operator adds, removes or weights while the process runs.

use super::*;

#[tokio::test]
async fn members_change_and_calls_of_a_removed_member_stay() {
    let site = Site::with_admin("page = \"drain\"").await;
    site.call("kept").await;
    let member = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let second = member.local_addr().unwrap();
    tokio::spawn(answer(member));
    let add = format!("/api/member/add?pool=servers&address={second}&weight=2.5");
    let own = format!("Origin: http://{}\r\n", site.admin);
    assert_eq!(site.send("POST", &add, &own, "").await.status, 403, "a browser may only drain");
    let added: MembersView = site.ask("POST", &add).await.json();
    assert_eq!((added.members.len(), added.members[0].capacity), (1, 2.5));
    let removed: MembersView =
        site.ask("POST", &format!("/api/member/remove?pool=servers&member={}", site.alive)).await.json();
    assert_eq!((removed.members[0].state.as_str(), removed.members[0].calls), ("removed", 1));
    site.call("new").await;
    assert_eq!((site.member(second).await.calls, site.member(site.alive).await.calls), (1, 1));
    let unsaved = async || site.ask("GET", "/api/health").await.json::<HealthView>().unsaved;
    let changes = [format!("servers: {second} added"), format!("servers: {} removed", site.alive)];
    assert_eq!(unsaved().await, changes);
    for path in [
        format!("add?pool=servers&address={}", site.alive),
        format!("weight?pool=servers&member={}&weight=3", site.alive),
    ] {
        assert_eq!(site.ask("POST", &format!("/api/member/{path}")).await.status, 200, "{path}");
    }
    let weight = format!("servers: {} has weight 3, in the file 1", site.alive);
    assert_eq!(unsaved().await, [changes[0].clone(), weight]);
    assert_eq!(site.member(site.alive).await.calls, 1, "it is the same member");
}

/// Starts a balancer whose member has a name.
async fn named() -> Site {
    let role =
        |alive, _| format!("[pool.servers]\nmembers = [{{ address = \"{alive}\", name = \"pbx-1\" }}]");
    Site::launch(role).await
}

#[tokio::test]
async fn a_member_is_shown_and_found_by_its_name() {
    let site = named().await;
    let alive = site.alive;
    let series = format!("sarabande_member_calls{{member=\"{alive}\",name=\"pbx-1\",pool=\"servers\"}}");
    assert_eq!(samples(&site.ask("GET", "/metrics").await.body)[&series], 0.0);
    let drained: MembersView = site.ask("POST", "/api/drain?member=pbx-1").await.json();
    assert_eq!((drained.members[0].name.as_str(), drained.members[0].address), ("pbx-1", udp(alive)));
    let health: HealthView = site.ask("GET", "/api/health").await.json();
    assert_eq!(health.reasons, [format!("no member takes new calls: pbx-1 {alive} is draining")]);
}

#[tokio::test]
async fn a_wrong_change_of_members_changes_nothing() {
    let site = named().await;
    let (alive, own) = (site.alive, site.sip);
    for (change, status, reason) in [
        (format!("add?pool=servers&address={alive}"), 400, "expected each server once"),
        (format!("add?pool=servers&address={own}"), 400, "calls would loop"),
        ("add?pool=servers&address=127.9.0.1;transport=tcp".to_owned(), 400, "listener"),
        ("add?pool=servers&address=127.9.0.1:0".to_owned(), 400, "expected a port"),
        (
            "add?pool=servers&address=127.9.0.1&weight=0".to_owned(),
            400,
            "expected a number above 0; to stop new calls, drain",
        ),
        ("add?pool=servers&address=127.9.0.1&name=pbx+1".to_owned(), 400, "expected a name of 1 to 64"),
        ("add?pool=servers&address=127.9.0.1&name=pbx-1".to_owned(), 400, "pbx-1 names two servers"),
        ("add?pool=servers".to_owned(), 400, "missing parameter address"),
        ("add?pool=typo&address=127.9.0.1".to_owned(), 404, "no pool \"typo\"; there are: servers"),
        (format!("remove?pool=servers&member={alive}"), 400, "the last member"),
        ("remove?pool=servers&member=127.9.0.1".to_owned(), 404, "no member \"127.9.0.1\""),
        ("weight?pool=servers&member=pbx-1&weight=much".to_owned(), 400, "expected a number from 0.001"),
    ] {
        let reply = site.ask("POST", &format!("/api/member/{change}")).await;
        assert_eq!(reply.status, status, "{change}: {}", reply.body);
        assert!(reply.body.contains(reason), "{change}: {}", reply.body);
    }
    assert!(site.ask("GET", "/api/health").await.json::<HealthView>().unsaved.is_empty());
}

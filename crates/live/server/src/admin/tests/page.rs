//! Tests of the web page and of the figures that only it reads.

use super::*;

#[tokio::test]
async fn the_page_and_its_files_are_served() {
    let site = Site::start().await;
    let page = site.ask("GET", "/").await;
    assert_eq!((page.status, page.kind.as_str()), (200, "text/html; charset=utf-8"));
    for field in
        ["content-security-policy: default-src 'none'; script-src 'self';", "x-content-type-options: nosniff"]
    {
        assert!(page.head.contains(field), "{}", page.head);
    }
    let parts: Vec<_> = page.body.split('"').collect();
    let is_file = |before: &str| before.ends_with("src=") || before.ends_with("href=");
    let files = parts.windows(2).filter(|pair| is_file(pair[0])).map(|pair| pair[1]);
    let files: Vec<_> = files.filter(|file| !file.starts_with("data:")).collect();
    assert_eq!(files, ["uplot.css", "page.css", "uplot.js", "page.js"]);
    let mut texts = page.body.clone();
    for file in files {
        let reply = site.ask("GET", &format!("/{file}")).await;
        assert_eq!(reply.status, 200, "{file}");
        if file.starts_with("page") {
            texts += &reply.body;
        }
    }
    for forbidden in ["://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
        assert!(!texts.contains(forbidden), "{forbidden}: texts from the network are no HTML or script");
    }
}

#[tokio::test]
async fn a_browser_changes_only_what_the_configuration_allows() {
    for (lines, drain, page) in [("", 403, 200), ("page = \"drain\"", 200, 200), ("page = \"off\"", 403, 404)]
    {
        let site = Site::with_admin(lines).await;
        let own = format!("Origin: http://{}\r\n", site.admin);
        let path = format!("/api/drain?member={}", site.alive);
        assert_eq!(site.send("POST", &path, &own, "").await.status, drain, "{lines}");
        assert_eq!(site.member(site.alive).await.draining, drain == 200, "{lines}");
        assert_eq!(site.send("POST", "/api/stop", &own, "").await.status, 403, "{lines}");
        let shown = site.ask("GET", "/").await;
        assert_eq!(shown.status, page, "{lines}");
        assert_eq!(shown.body.contains("content=\"yes\""), drain == 200, "{lines}");
    }
}

#[tokio::test]
async fn the_page_is_open_and_its_data_need_the_token() {
    let site = Site::with_admin("token = \"0123456789abcdef\"\npage = \"drain\"").await;
    assert_eq!(site.ask("GET", "/").await.status, 200);
    for path in ["/api/health", "/api/history", "/api/members?brief=true"] {
        assert_eq!(site.ask("GET", path).await.status, 401, "{path}");
    }
    // The page may be reached by a name, for instance of a proxy with TLS.
    let origin = "Origin: https://lb.example.com\r\n";
    let path = format!("/api/drain?member={}", site.alive);
    assert_eq!(site.send("POST", &path, origin, "").await.status, 403);
    let with_token = format!("{origin}Authorization: Bearer 0123456789abcdef\r\n");
    assert_eq!(site.send("POST", &path, &with_token, "").await.status, 200);
    assert_eq!(site.send("POST", "/api/stop", &with_token, "").await.status, 403);
}

#[tokio::test]
async fn members_are_shown_in_brief_and_filtered() {
    let site = Site::start().await;
    site.call("brief").await;
    let ask =
        async |query: &str| -> MembersView { site.ask("GET", &format!("/api/members?{query}")).await.json() };
    let members = ask("brief=true").await.members;
    let alive = members.iter().find(|member| member.address == udp(site.alive)).unwrap();
    let full = site.member(site.alive).await;
    assert_eq!((members.len(), alive.calls, alive.assigned_total), (2, 1, 1));
    assert_eq!((alive.responses["2xx"], &alive.responses), (1, &full.responses));
    assert_eq!((alive.invite_ms.count, alive.invite_ms.mean), (1, full.invite_ms.mean));
    assert!(alive.invite_ms.mean.is_some() && alive.invite_ms.p50.is_none() && full.invite_ms.p50.is_some());
    assert_eq!((alive.occupancy.mean, full.occupancy.mean), (None, Some(0.0)));
    let found = async |query: &str| -> Vec<SocketAddr> {
        ask(query).await.members.iter().map(|member| member.address.0.address).collect()
    };
    assert_eq!(found("brief=true&problems=true").await, [site.dead]);
    assert_eq!(found("problems=true").await, [site.dead]);
    assert_eq!(found(&format!("search={}", site.alive)).await, [site.alive]);
    assert_eq!(found("brief=true&search=down").await, [site.dead]);
    assert_eq!(found(&format!("problems=true&search={}", site.alive)).await, []);
}

#[tokio::test]
async fn the_history_shows_calls() {
    let site = Site::start().await;
    let history = async || -> HistoryView { site.ask("GET", "/api/history").await.json() };
    site.until(async |_| !history().await.times.is_empty()).await;
    site.call("drawn").await;
    let is_drawn = |history: &HistoryView| {
        let of = |curves: &[CurveView], name: &str| {
            let curve = curves.iter().find(|curve| curve.name == name);
            curve.is_some_and(|curve| curve.values.iter().flatten().any(|value| *value > 0.0))
        };
        of(&history.requests, "servers")
            && of(&history.requests, "all")
            && of(&history.response_ms, "servers INVITE")
            && of(&history.calls, &site.alive.to_string())
    };
    site.until(async |_| is_drawn(&history().await)).await;
}

//! Invented To tags: a request with one, and with neither a token nor a known dialog, is handled like any other
//! request.

use crate::common::*;
use route::Access;

const MODES: [Service; 4] =
    [Service::HOPS, STATELESS, Service::Calls(Spread::Found), Service::Distribute { record_route: true }];

/// INVITEs with an invented To tag. They name their target in different ways: not at all, by a Route past this proxy,
/// by a Route with a false token of either kind, or by the Request-URI.
fn forged(call_id: &str, user: &str) -> Vec<Req> {
    let uri = format!("sip:{user}@pool.example");
    let new =
        || Req { to_tag: Some("zz".to_owned()), uri: uri.clone(), ..Req::new("INVITE", call_id, client()) };
    let mut all = vec![new(), Req { uri: format!("sip:{user}@{}", HOPS[0]), ..new() }];
    for own in ["", ";sbp=00000000000000000000", ";sbt=00000000000000000000", ";sbp=x", ";sbt"] {
        for next in [None, Some(format!("<sip:{};lr>", HOPS[0]))] {
            let routes = [Some(format!("<sip:{PROXY}{own};lr>")), next].into_iter().flatten().collect();
            all.push(Req { routes, ..new() });
        }
    }
    all.into_iter()
        .enumerate()
        .map(|(index, request)| request.via(&via(&format!("{call_id}-{index}"))))
        .collect()
}

fn limited(per_second: u32) -> RateSettings {
    rate(per_second, per_second)
}

fn rule(pool: u16, user: &str, access: Access) -> Rule {
    Rule { access, ..to_pool(pool, users(user)) }
}

fn bed(mode: Service) -> ProxyBed {
    ProxyBed::two_hops().with_mode(mode)
}

/// Returns the next hops reached, and the status codes besides 100.
fn outcome(bed: &mut ProxyBed, request: &Req) -> (Vec<SocketAddr>, Vec<u16>) {
    let sent = bed.receive(0, client(), &request.bytes());
    let (back, on): (Vec<_>, Vec<_>) = sent.into_iter().partition(|sent| sent.to == client());
    let statuses = back.iter().map(Sent::status).filter(|status| *status != 100);
    (on.iter().map(|sent| sent.to).collect(), statuses.collect())
}

/// Returns whether the request has an invalid token of a proxy, and leads neither to this proxy nor to a next hop. It
/// then gets 403 before all other checks.
fn leads_elsewhere(request: &Req) -> bool {
    request.routes.len() == 1 && request.routes[0].contains(";sbp=")
}

#[test]
fn invented_to_tags_do_not_bypass_rate_limits() {
    for mode in MODES {
        let mut bed = bed(mode);
        bed.set(|setup| setup.settings.rates = limited(10));
        let mut passed = 0;
        for call in 0..50 {
            for request in forged(&format!("call-{call}"), "bob") {
                let (on, back) = outcome(&mut bed, &request);
                passed += on.len();
                let refused = if leads_elsewhere(&request) { [403] } else { [503] };
                assert!(!on.is_empty() || back == refused, "{mode:?}: {back:?}\n{}", request.text());
            }
        }
        assert_eq!(passed, 10, "{mode:?}");
    }
}

#[test]
fn invented_to_tags_do_not_bypass_a_stop() {
    for mode in MODES {
        let mut bed = bed(mode);
        let call = bed.call("call");
        stop(&mut bed);
        for request in forged("forged", "bob").into_iter().chain([Req::new("INVITE", "new", client())]) {
            let (on, back) = outcome(&mut bed, &request);
            let refused = if leads_elsewhere(&request) { 403 } else { 503 };
            assert_eq!((on.len(), back), (0, vec![refused]), "{mode:?}\n{}", request.text());
        }
        // A request that ends a call is accepted, with a token or without.
        for bye in [call.by_caller("BYE", 2), Req { routes: Vec::new(), ..call.by_caller("BYE", 3) }] {
            assert_eq!(outcome(&mut bed, &bye).0, [call.callee.at]);
        }
    }
}

/// Next hops in two pools, as of two routes with `next`. A sender admitted to one route may not use the other.
#[test]
fn invented_to_tags_do_not_bypass_routes_and_access_lists() {
    for mode in MODES {
        for orphans in [true, false] {
            let mut bed = bed(mode);
            bed.set_pools([0, 1].map(|slot| hops(mode, Members::of([Slot(slot)]))));
            let closed = Access::new(&[], &["0.0.0.0/0".parse().unwrap()], AccessRefusal::Forbidden).unwrap();
            let rules = vec![rule(0, "closed", closed), rule(1, "open", Access::default())];
            set_rules(&mut bed, rules);
            bed.set(|setup| setup.settings.forwards_orphans = orphans);
            for user in ["closed", "none", "open"] {
                for request in forged(user, user) {
                    let (on, back) = outcome(&mut bed, &request);
                    let text = format!("{mode:?} {orphans:?}\n{}", request.text());
                    let names_first = request.routes.iter().any(|route| route.contains(HOPS[0]));
                    let expected = match (orphans, user) {
                        _ if leads_elsewhere(&request) => (vec![], vec![403]),
                        (false, _) => (vec![], vec![481]),
                        (true, "closed") => (vec![], vec![403]),
                        (true, "none") => (vec![], vec![404]),
                        // Its route leads to the second hop, so a request that names the first one is refused.
                        (true, _) if names_first => (vec![], vec![403]),
                        (true, _) => (vec![addr(HOPS[1])], vec![]),
                    };
                    assert_eq!((on, back), expected, "{text}");
                }
            }
        }
    }
}

/// A pool with sessions beside next hops: a request that it balances is a new one.
#[test]
fn invented_to_tags_bypass_nothing_in_pools_with_sessions() {
    let mut bed = Bed::new(Site { forwards_orphans: true, ..Site::plain() });
    bed.set(|setup| setup.settings.rates = limited(10));
    let mut passed = 0;
    for call in 0..600 {
        let invite =
            Req { to_tag: Some("zz".to_owned()), ..Req::new("INVITE", &format!("call-{call}"), client()) };
        let sent = bed.one(0, client(), &invite.bytes());
        passed += usize::from(sent.message().status().is_none());
    }
    assert_eq!((passed, bed.load().calls), (10, 10));
    // It also goes by the present routes, to the pool that they name.
    let mut bed = Bed::new(Site { forwards_orphans: true, ..Site::plain() });
    let default = Service::Balance;
    bed.set_pools([pool_of(default, [0, 1]), pool_of(default, [2])]);
    set_rules(&mut bed, [rule(1, "open", Access::default())]);
    let forged = |user: &str| Req {
        to_tag: Some("zz".to_owned()),
        uri: format!("sip:{user}@pool.example"),
        ..Req::new("INVITE", user, client())
    };
    assert_eq!(bed.one(0, client(), &forged("open").bytes()).to, addr(bed.site.nodes[2].0));
    assert_eq!(bed.one(0, client(), &forged("none").bytes()).status(), 404);
}

/// A call that begins with an invented To tag is kept like any other: it has a record, and counts for the limit.
#[test]
fn a_call_with_an_invented_to_tag_is_kept() {
    let mut bed = bed(Service::Calls(Spread::Found));
    keep_dialogs(&mut bed, DialogSettings::default());
    let invite = Req { to_tag: Some("zz".to_owned()), ..Req::new("INVITE", "call", client()) };
    let at_hop = bed.invite(&invite);
    let calls =
        |bed: &ProxyBed| bed.shard.proxy_report().and_then(|report| report.calls).expect("dialogs are kept");
    assert_eq!(calls(&bed).ringing, 1);
    answered(&mut bed, &at_hop, 200);
    assert_eq!(calls(&bed).answered, 1);
}

/// Limits do not apply to requests that a token or a session proves.
#[test]
fn known_dialogs_continue() {
    for mode in MODES {
        let mut bed = bed(mode);
        let call = bed.call("call");
        bed.set(|setup| setup.settings.rates = limited(0));
        for cseq in 2..20 {
            let (on, _) = outcome(&mut bed, &call.by_caller("INFO", cseq));
            assert_eq!(on, [call.callee.at], "{mode:?}");
        }
    }
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "call", client(), 0);
    bed.set(|setup| setup.settings.rates = limited(0));
    for (cseq, routes) in [(2, call.by_caller("INFO", 2).routes), (3, Vec::new())] {
        let info = Req { routes, ..call.by_caller("INFO", cseq) };
        let at_node = bed.one(0, client(), &info.bytes());
        assert_eq!(at_node.to, call.callee.at);
        answered(&mut bed, &at_node, 200);
    }
    call.caller_asks(&mut bed, "BYE", 4);
    assert_eq!(bed.load(), Load::default());
}

//! Members by name: addresses come and go in the DNS while calls run. Also further effects of a reload.

use sarabande_tests::{
    Agent, AgentRequest, CallLoad, Data, NameServer, RunningBalancer, RunningProxy, SippCaller, SippServer,
    TestSettings, TestSite, quoted, show, until,
};

use super::change::after_more;
use super::{SERVERS, SOME, Scene, finish_clean, servers};

/// Long enough for the tests.
const STEADY: CallLoad = CallLoad { calls: 800, rate: 40, hold_ms: 1000 };

fn name_server(field: &TestSite, host: u8) -> NameServer {
    let mut address = field.sip(host);
    address.set_port(5300);
    NameServer::start(address)
}

fn dns(server: &NameServer) -> Vec<String> {
    vec!["refresh = \"1s\"".to_owned(), format!("servers = [{}]", quoted(&server.address()))]
}

/// A name with two addresses and an SRV name: all addresses are members. One more joins, and one leaves with its calls.
/// A name that is not found any more keeps its last answer. After a reload another DNS server is asked.
#[test]
fn members_join_and_leave_by_dns_under_load() {
    let field = TestSite::new("names");
    let hosts = [11, 12, 13, 14];
    let [leaving, staying, service, joining] = hosts.map(|host| field.sip(host));
    let servers = servers(&field, "uas_call", &hosts);
    let zone = name_server(&field, 53);
    zone.set_addresses("pool.test", &[leaving.ip(), staying.ip()]);
    zone.set_addresses("host.test", &[service.ip()]);
    zone.set_addresses("spare.test", &[field.ip(99)]);
    let target = |priority, target: &str| Data::Service {
        priority,
        weight: 10,
        port: service.port(),
        target: target.to_owned(),
    };
    zone.set("_sip._udp.test.test", &[target(20, "spare.test"), target(10, "host.test")]);
    let mut settings = TestSettings::new(&field, &[]);
    settings.members = ["pool.test", "_sip._udp.test.test"].map(|name| quoted(&name)).into();
    settings.dns = dns(&zone);
    let mut balancer = RunningBalancer::start(&field, settings);
    let addresses: Vec<_> = balancer.members().iter().map(|member| member.address).collect();
    assert_eq!(addresses, [leaving, staying, service], "the spare is for later (RFC 2782)");

    let mut caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), STEADY);
    for member in [leaving, staying, service] {
        after_more(&balancer, member, 5);
    }
    zone.set_addresses("pool.test", &[leaving.ip(), staying.ip(), joining.ip()]);
    until("the new address is a member", || balancer.member(joining));
    after_more(&balancer, joining, 10);

    zone.set_addresses("pool.test", &[staying.ip(), joining.ip()]);
    zone.set("_sip._udp.test.test", &[]);
    let gone = || balancer.member(leaving).filter(|member| member.state == "removed");
    let calls = until("the old address is no member", gone).assigned;
    after_more(&balancer, joining, 30);
    assert_eq!(gone().map(|member| member.assigned), Some(calls), "a removed member got new calls");
    assert!(
        balancer.member(service).is_some_and(|member| member.accepting),
        "without an answer the member stays"
    );

    let other = name_server(&field, 54);
    other.set_addresses("pool.test", &[leaving.ip(), staying.ip()]);
    balancer.reload(|settings| settings.dns = dns(&other));
    until("it is back", || balancer.member(leaving).filter(|member| member.accepting));
    after_more(&balancer, leaving, 10);
    assert_eq!(balancer.member(joining).map(|member| member.state), Some("removed".to_owned()));
    assert!(!caller.ended(), "the load ended too early to show anything");
    caller.finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, STEADY.calls);
}

/// A name with an A and an AAAA record: both addresses are members. All ends share `::1`, so they differ by port, and
/// the name has one port.
#[test]
fn a_name_stands_for_its_addresses_of_both_families() {
    let field = TestSite::new("families");
    let (four, mut six) = (field.sip(11), field.sip(11));
    six.set_ip("::1".parse().expect("an address"));
    six.set_port(field.port(1));
    let four = std::net::SocketAddr::new(four.ip(), six.port());
    let servers = [four, six].map(|address| SippServer::start(&field, "uas_call", address, 500));
    let zone = name_server(&field, 53);
    zone.set_addresses("both.test", &[four.ip(), six.ip()]);
    let mut settings = TestSettings::new(&field, &[]);
    settings.listen.push(std::net::SocketAddr::new(six.ip(), field.port(2)));
    settings.members = vec![quoted(&format!("both.test:{}", six.port()))];
    settings.dns = dns(&zone);
    let balancer = RunningBalancer::start(&field, settings);
    let load = CallLoad { calls: 40, rate: 40, hold_ms: 200 };
    SippCaller::plain(&field, (field.sip(2), balancer.address()), load).finish_clean();
    let assigned = [four, six].map(|address| balancer.member(address).map_or(0, |member| member.assigned));
    assert!(assigned.iter().all(|&calls| calls > 0), "{assigned:?}");
    balancer.wait_until_idle();
    finish_clean(servers.into(), load.calls);
}

/// The Contact of a caller is a name, with a port and without one (SRV). Requests of the called side reach it.
#[test]
fn a_callee_hangs_up_on_a_caller_with_a_name() {
    let field = TestSite::new("callers");
    let servers = servers(&field, "uas_callee_bye", &SERVERS);
    let caller = field.sip(2);
    let zone = name_server(&field, 53);
    zone.set_addresses("phone.test", &[caller.ip()]);
    let service =
        Data::Service { priority: 1, weight: 1, port: caller.port(), target: "phone.test".to_owned() };
    zone.set("_sip._udp.site.test", &[service]);
    let mut settings = TestSettings::new(&field, &SERVERS);
    settings.dns = dns(&zone);
    let balancer = RunningBalancer::start(&field, settings);
    let contacts = [format!("Phone.Test:{}", caller.port()), "site.test".to_owned()];
    for contact in &contacts {
        let ends = (caller, balancer.address());
        SippCaller::start(&field, "uac_callee_bye", ends, SOME, &["-key", "contact", contact]).finish_clean();
    }
    let metrics = balancer.get("/metrics");
    assert!(
        !metrics.contains("reason=\"unresolved\"} 0\n"),
        "the first requests waited for the DNS: {metrics}"
    );
    balancer.wait_until_idle();
    finish_clean(servers, contacts.len() as u64 * SOME.calls);
}

/// RFC 3263 §4.1: a member sends a request to a domain. Its NAPTR record selects TCP, although there is an SRV record
/// for UDP too.
#[test]
fn the_dns_selects_the_transport_to_a_domain() {
    let field = TestSite::new("naptr");
    let (member, far) = (Agent::bind(field.sip(11)), field.sip(4));
    let listener = std::net::TcpListener::bind(far).expect("the address is free");
    listener.set_nonblocking(true).expect("a socket takes the option");
    let zone = name_server(&field, 53);
    let pointer = |order, service: &str, replacement: &str| Data::Pointer {
        order,
        preference: 1,
        service: service.to_owned(),
        replacement: replacement.to_owned(),
    };
    let by_tcp = pointer(1, "SIP+D2T", "sip-servers.far.test");
    zone.set("far.test", &[pointer(2, "SIP+D2U", "_sip._udp.far.test"), by_tcp]);
    let service =
        |target: &str| Data::Service { priority: 1, weight: 1, port: far.port(), target: target.to_owned() };
    zone.set("sip-servers.far.test", &[service("tcp.far.test")]);
    zone.set("_sip._udp.far.test", &[service("udp.far.test")]);
    zone.set_addresses("tcp.far.test", &[far.ip()]);
    zone.set_addresses("udp.far.test", &[field.ip(5)]);
    let mut settings = TestSettings::new(&field, &[11]);
    settings.probe = vec!["enabled = false"];
    settings.dns = dns(&zone);
    settings.listen_more.push(format!("tcp = [\"{}\"]", field.sip(1)));
    let balancer = RunningBalancer::start(&field, settings);
    let request = AgentRequest::new("MESSAGE", "to-far");
    let bytes = request.bytes(member.address());
    let text = show(&bytes);
    let (line, rest) = text.split_once("\r\n").expect("a request line");
    let there = format!("MESSAGE sip:bob@far.test SIP/2.0\r\n{rest}");
    assert_ne!(line, "MESSAGE sip:bob@far.test SIP/2.0");
    // The first copies start the look-up and are dropped.
    let (mut stream, _) = until("the domain is connected to", || {
        member.send(balancer.address(), there.as_bytes());
        listener.accept().ok()
    });
    let mut buffer = [0; 4_096];
    let length = std::io::Read::read(&mut stream, &mut buffer).expect("the request comes");
    let got = show(&buffer[..length]);
    assert!(got.starts_with("MESSAGE sip:bob@far.test SIP/2.0\r\nVia: SIP/2.0/TCP "), "{got}");
}

/// The same through the stateful proxy.
#[test]
fn a_proxied_callee_hangs_up_on_a_caller_with_a_name() {
    let field = TestSite::new("proxied-callers");
    let server = SippServer::start(&field, "uas_callee_bye", field.sip(11), 500);
    let caller = field.sip(2);
    let zone = name_server(&field, 53);
    zone.set_addresses("phone.test", &[caller.ip()]);
    let dns = format!("[dns]\n{}", dns(&zone).join("\n"));
    let proxy = RunningProxy::start(&field, 1, &[server.address()], &dns);
    let contact = format!("phone.test:{}", caller.port());
    let ends = (caller, proxy.address());
    SippCaller::start(&field, "uac_callee_bye", ends, SOME, &["-key", "contact", &contact]).finish_clean();
    proxy.wait_until_idle();
    assert_eq!(server.finish_clean().calls(), SOME.calls);
}

/// A reload changes the token key under established calls. Their tokens are still accepted, and new calls get tokens of
/// the new key: a restart shows this, as it knows no other.
#[test]
fn a_new_key_is_used_from_the_reload_on() {
    let load = CallLoad { calls: 40, rate: 100, hold_ms: 4000 };
    let mut scene = Scene::new("rekey", "reinvite");
    let before = scene.established(load);
    scene.balancer.reload_by_request(|settings| {
        settings.token = vec![format!("previous_keys = [{}]", quoted(&settings.key))];
        settings.key = "ffeeddccbbaa99887766554433221100";
    });
    let after = scene.call(3, load);
    after.wait_until_answered();
    before.finish_clean();
    let refused = scene.balancer.get("/metrics");
    assert!(refused.contains("sarabande_tokens_refused_total 0\n"), "the old key is accepted: {refused}");
    scene.balancer.reload_by_request(|settings| settings.token.clear());
    scene.balancer.kill_and_restart();
    after.finish_clean();
    scene.finish_clean(2 * load.calls);
}

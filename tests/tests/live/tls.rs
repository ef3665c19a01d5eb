//! TLS with third-party programs: Kamailio and `openssl`.

use std::net::SocketAddr;

use sarabande_tests::{
    AgentRequest, AnsweringAgent, Authority, KamailioProxy, RunningBalancer, SippCaller, SippServer,
    TestSettings, TestSite, TlsExchange, Tool, path_text, show,
};

use super::{SERVERS, SOME, finish_clean, servers};

/// Name in the balancer's certificate, beside its address.
const NAME: &str = "sip.example.com";

fn tls(field: &TestSite) -> SocketAddr {
    SocketAddr::new(field.ip(1), 5061)
}

/// A balancer at host 1 that listens on TLS, with these further lines of `[tls]`.
fn settings(field: &TestSite, authority: &Authority, members: &[u8], more: &str) -> TestSettings {
    let own = authority.issue("balancer", &format!("IP:{},DNS:{NAME}", field.ip(1)));
    TestSettings {
        threads: 2,
        listen_more: vec![format!("tls = [\"{}\"]", tls(field))],
        tables: format!(
            "[tls]\ncertificates = [{}]\nauthorities = {:?}\n{more}\n",
            own.toml(),
            path_text(&authority.file())
        ),
        ..TestSettings::new(field, members)
    }
}

/// Returns lines that require client certificates of this authority.
fn mutual(authority: &Authority) -> String {
    format!("client_authorities = {:?}\nrequire_client = true", path_text(&authority.file()))
}

/// A third-party proxy calls over TLS and is called over TLS. Each side requires the other's certificate.
#[test]
fn a_kamailio_over_tls_calls_and_is_called() {
    let field = TestSite::new("tls-kamailio");
    let authority = Authority::new(&field, "authority");
    let behind = servers(&field, "uas_call", &SERVERS);
    let balancer =
        RunningBalancer::start(&field, settings(&field, &authority, &SERVERS, &mutual(&authority)));
    let next = format!("sip:{};transport=tls", tls(&field));
    let kamailio = KamailioProxy::over_tls(&field, 3, &next, &authority);
    SippCaller::plain(&field, (field.sip(2), kamailio.address()), SOME).finish_clean();
    balancer.wait_until_idle();
    assert!(balancer.metric("sarabande_tls_handshakes_total") > 0.0);
    finish_clean(behind, SOME.calls);
    drop((kamailio, balancer));

    let field = TestSite::new("kamailio-tls");
    let authority = Authority::new(&field, "authority");
    let server = SippServer::start(&field, "uas_call", field.sip(11), 500);
    let _kamailio = KamailioProxy::over_tls(&field, 3, &format!("sip:{}", server.address()), &authority);
    let mut settings = settings(&field, &authority, &[], "");
    settings.members = vec![format!("\"{}:5061;transport=tls\"", field.ip(3))];
    let balancer = RunningBalancer::start(&field, settings);
    SippCaller::plain(&field, (field.sip(2), balancer.address()), SOME).finish_clean();
    finish_clean(vec![server], SOME.calls);
}

/// Returns a request as sent over TLS.
fn options(field: &TestSite, call_id: &str) -> Vec<u8> {
    let udp = show(&AgentRequest::new("OPTIONS", call_id).bytes(field.sip(2)));
    udp.replacen("SIP/2.0/UDP", "SIP/2.0/TLS", 1).into_bytes()
}

/// Both versions, server name indication, and resumed sessions.
#[test]
fn openssl_speaks_each_version_checks_our_name_and_resumes() {
    let field = TestSite::new("tls-openssl");
    let authority = Authority::new(&field, "authority");
    let _server = AnsweringAgent::start(field.sip(11), |_| true);
    let balancer = RunningBalancer::start(&field, settings(&field, &authority, &[11], ""));
    let file = authority.file();
    let checks =
        ["-CAfile", path_text(&file), "-verify_return_error", "-servername", NAME, "-verify_hostname", NAME];
    for version in ["1_2", "1_3"] {
        let (flag, session) = (format!("-tls{version}"), field.folder().join(format!("session-{version}")));
        let with = |more: [&str; 3], call_id: &str| {
            let options_of_it = [&checks[..], &more].concat();
            TlsExchange::with(&field, tls(&field), &options_of_it, &options(&field, call_id))
        };
        let first = with([&flag, "-sess_out", path_text(&session)], &format!("full-{version}"));
        assert!(first.is_answered(), "{first:?}");
        first.says(&format!("New, TLSv{}", version.replace('_', ".")));
        first.says("Verify return code: 0 (ok)");
        let second = with([&flag, "-sess_in", path_text(&session)], &format!("again-{version}"));
        assert!(second.is_answered(), "{second:?}");
        second.says(&format!("Reused, TLSv{}", version.replace('_', ".")));
    }
    assert_eq!(balancer.connections()["resumed_total"], 2);
    // The client refuses a server with another name than requested.
    let wrong = ["-CAfile", path_text(&file), "-verify_return_error", "-verify_hostname", "else.example.com"];
    let refused = TlsExchange::with(&field, tls(&field), &wrong, &options(&field, "wrong-name"));
    assert!(!refused.is_answered(), "{refused:?}");
    refused.says("hostname mismatch");
    let old = TlsExchange::with(&field, tls(&field), &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], b"");
    assert!(!old.is_answered());
    old.says("alert");
}

/// Clients without a certificate, with an expired one, and with one of an unknown authority.
#[test]
fn a_required_client_certificate_must_be_valid() {
    let field = TestSite::new("tls-mutual");
    let authority = Authority::new(&field, "authority");
    let _server = AnsweringAgent::start(field.sip(11), |_| true);
    let balancer = RunningBalancer::start(&field, settings(&field, &authority, &[11], &mutual(&authority)));
    let stranger = Authority::new(&field, "stranger").issue("client", "DNS:client.example.com");
    let expired = authority.issue_expired("expired", "DNS:client.example.com");
    let good = authority.issue("client", "DNS:client.example.com");
    for version in ["-tls1_2", "-tls1_3"] {
        let with = |more: &[&str], name: &str| {
            let call_id = format!("{name}{version}");
            TlsExchange::with(&field, tls(&field), &[&[version], more].concat(), &options(&field, &call_id))
        };
        let showing = |certificate: &sarabande_tests::Certificate, name: &str| {
            with(&["-cert", path_text(&certificate.chain), "-key", path_text(&certificate.key)], name)
        };
        let before = balancer.closed("tls");
        for refused in [with(&[], "without"), showing(&expired, "expired"), showing(&stranger, "stranger")] {
            assert!(!refused.is_answered(), "{refused:?}");
            refused.says("alert");
        }
        assert_eq!(balancer.closed("tls"), before + 3);
        let taken = showing(&good, "good");
        assert!(taken.is_answered(), "{taken:?}");
    }
}

/// An expired certificate of the balancer is reported before clients complain.
#[test]
fn an_expired_certificate_of_the_balancer_is_reported() {
    let field = TestSite::new("tls-expired");
    let authority = Authority::new(&field, "authority");
    let _server = AnsweringAgent::start(field.sip(11), |_| true);
    let mut settings = settings(&field, &authority, &[11], "");
    let expired = authority.issue_expired("expired", &format!("IP:{}", field.ip(1)));
    settings.tables = format!(
        "[tls]\ncertificates = [{}]\nauthorities = {:?}\n",
        expired.toml(),
        path_text(&authority.file())
    );
    let balancer = RunningBalancer::start(&field, settings);
    let file = authority.file();
    let checks = ["-CAfile", path_text(&file), "-verify_return_error"];
    let refused = TlsExchange::with(&field, tls(&field), &checks, &options(&field, "expired"));
    assert!(!refused.is_answered(), "{refused:?}");
    refused.says("certificate has expired");
    let shown = balancer.get("/api/connections");
    assert!(shown.contains("it has expired: clients will refuse it"), "{shown}");
    assert!(balancer.log().contains("it has expired: clients will refuse it"), "{}", balancer.log());
    let failed = balancer.log();
    let failed = failed.lines().find(|line| line.contains("TLS failed: ")).expect("a line in the log");
    assert!(failed.contains("peer=127."), "{failed}");
    // A reboot with such a certificate still brings up the other transports: the unit runs `check` first.
    let health = balancer.get("/api/health");
    assert!(health.contains("\"healthy\":true") && health.contains("it has expired"), "{health}");
    let (status, checked) = Tool::run(&field, &["check", path_text(balancer.file())]);
    assert!(status.success() && checked.contains("warning: certificate"), "{checked}");
}

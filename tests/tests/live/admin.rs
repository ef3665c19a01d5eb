//! The admin interface: open to its operator, closed to strangers, and not to be blocked.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use sarabande_tests::http::{Reply, request, request_with};
use sarabande_tests::{RunningBalancer, SippServer, TestSettings, TestSite, Tool, until};

/// Returns a port that is free on all addresses, to listen on a wildcard.
fn free_port() -> u16 {
    let listener = TcpListener::bind("[::]:0").expect("some port is free");
    listener.local_addr().expect("it is bound").port()
}

/// Starts a balancer that other machines can reach, with these further lines in `[admin]`.
fn exposed(field: &TestSite, listen: &str, more: &[&str]) -> RunningBalancer {
    let admin = format!("{listen}:{}", free_port()).parse().expect("an address");
    let admin_more = more.iter().map(ToString::to_string).collect();
    RunningBalancer::launch(field, TestSettings { admin, admin_more, ..TestSettings::new(field, &[11]) })
}

fn status_of(reply: std::io::Result<Reply>) -> u16 {
    reply.expect("the admin interface answers").status
}

/// Returns true if `sarabande status` with these arguments shows the member.
fn shows(field: &TestSite, arguments: &[&str]) -> bool {
    let (status, text) = Tool::run(field, &[&["status"], arguments].concat());
    status.success() && text.contains(&field.ip(11).to_string())
}

/// On an address that others can reach, each request needs the server's token, which the commands find.
#[test]
fn strangers_need_the_token() {
    let field = TestSite::new("admin-token");
    let _server = SippServer::plain(&field, 11);
    let mut balancer = exposed(&field, "0.0.0.0", &[]);
    let kept = balancer.file().with_extension("admin-token");
    let mode = fs::metadata(&kept).expect("the token is kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = fs::read_to_string(&kept).expect("it is text").trim().to_owned();
    let warning = "other machines can reach the admin interface";
    until("the log warns", || balancer.log().contains(warning).then_some(()));
    assert!(!balancer.log().contains(&token), "the log shows the token");

    let address = SocketAddr::new(field.ip(1), balancer.admin().port());
    for (method, path) in
        [("GET", "/api/members"), ("GET", "/metrics"), ("POST", "/api/stop"), ("GET", "/nowhere")]
    {
        assert_eq!(status_of(request(address, method, path)), 401, "{path}");
        let wrong = format!("Authorization: Bearer {}\r\n", token.replace(|_: char| true, "0"));
        assert_eq!(status_of(request_with(address, method, path, &wrong)), 401, "{path}");
    }
    assert_eq!(balancer.ended(), None);
    for open in ["/healthz", "/readyz"] {
        assert_eq!(status_of(request(address, "GET", open)), 200, "{open}");
        // One response for each connection: otherwise a few strangers with many requests would keep the operator out.
        let mut stream = TcpStream::connect(address).expect("it takes connections");
        let requests = format!("GET {open} HTTP/1.1\r\nHost: {address}\r\n\r\n").repeat(3);
        stream.write_all(requests.as_bytes()).expect("it reads");
        let mut answers = Vec::new();
        // Closing with unread requests may reset the connection.
        let _ = stream.read_to_end(&mut answers);
        assert_eq!(String::from_utf8_lossy(&answers).matches("HTTP/1.1 ").count(), 1, "{open}");
    }
    let right = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(status_of(request_with(address, "GET", "/metrics", &right)), 200);

    let (url, file) = (address.to_string(), balancer.file().display().to_string());
    let kept = kept.display().to_string();
    assert!(!shows(&field, &["--admin", &url]));
    assert!(shows(&field, &["--admin", &url, "--token-file", &kept]));
    assert!(shows(&field, &["--config", &file]));
    let member = field.sip(11).to_string();
    assert!(Tool::run(&field, &["drain", &member, "--config", &file]).0.success());
    assert_eq!(status_of(request(address, "GET", "/readyz")), 503, "the only member drains");
    assert_eq!(status_of(request(address, "GET", "/healthz")), 200);
    assert!(Tool::run(&field, &["drain", &member, "--undo", "--config", &file]).0.success());
    assert!(Tool::run(&field, &["reload", "--config", &file]).0.success());
}

/// Requests of a web page in a local browser are refused, also over IPv4 at `[::]`.
#[test]
fn pages_are_refused_on_a_listener_of_both_families() {
    let field = TestSite::new("admin-mapped");
    let _server = SippServer::plain(&field, 11);
    let balancer = exposed(&field, "[::]", &["token = \"0123456789abcdef\""]);
    let address = SocketAddr::new(field.ip(1), balancer.admin().port());
    let ask = |fields: &str| {
        let fields = format!("Authorization: Bearer 0123456789abcdef\r\n{fields}");
        status_of(request_with(address, "GET", "/api/members", &fields))
    };
    assert_eq!(ask(&format!("Host: {address}\r\n")), 200);
    assert_eq!(ask("Host: evil.example\r\n"), 403);
    assert_eq!(ask(&format!("Host: {address}\r\nOrigin: http://evil.example\r\n")), 403);
}

/// A hundred idle connections, more than there are descriptors, do not keep the operator out.
#[test]
fn idle_connections_do_not_keep_the_operator_out() {
    let field = TestSite::new("admin-idle");
    let _server = SippServer::plain(&field, 11);
    let balancer = RunningBalancer::start(&field, TestSettings::new(&field, &[11]));
    balancer.limit_descriptors(8);
    let admin = balancer.admin();
    let mut idle = Vec::new();
    for n in 0..100 {
        let mut stream = TcpStream::connect(admin).expect("the system takes connections");
        if n % 2 == 0 {
            let half = write!(stream, "GET /api/members HTTP/1.1\r\nHost: {admin}\r\n");
            half.expect("a connection that has just been made takes a line");
        }
        idle.push(stream);
    }
    assert!(shows(&field, &["--admin", &admin.to_string()]));
    drop(idle);
}

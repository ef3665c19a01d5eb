//! Too many calls: neighbours that understand each other, and servers that know nothing of overload control.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sarabande_tests::{
    AnsweringAgent, CallLoad, RunningBalancer, RunningProxy, SippCaller, SippServer, TestSettings, TestSite,
    Tool, until, value,
};
use serde_json::Value;

use super::SOME;

/// Expressions that a new request is compared with before its route is found. On any machine they take milliseconds.
const EXPRESSIONS: u32 = 40_000;

/// A route that is for no call, and that takes long to find that out.
fn slow_route() -> String {
    let mut expressions = String::new();
    for number in 0..EXPRESSIONS {
        let _ = write!(expressions, "\".{number}x\",");
    }
    format!("[[route]]\nuser = {{ regex = [{expressions}] }}\nanswer = 404\n[[route]]\npool = \"servers\"\n")
}

fn overload(text: &str) -> Value {
    let health: Value = serde_json::from_str(text).expect("health is JSON");
    health["overload"].clone()
}

/// What the first neighbour asks for, and what became of it.
fn neighbour(health: &str) -> Value {
    overload(health)["neighbours"][0].clone()
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("number {key:?} in {of}"))
}

/// Two processes in a chain, the second of which can do a tenth of what is asked for: it tells the first one how much
/// it takes, and that holds the rest back itself. Nothing that was refused reaches the server behind them. When it is
/// over, all calls are set up again.
#[test]
fn the_edge_of_a_chain_holds_back_what_the_core_cannot_do() {
    let field = TestSite::new("overload-chain");
    let server = SippServer::start(&field, "uas_direct", field.sip(11), 500);
    let feedback =
        format!("[overload]\nfeedback = \"rate\"\nneighbours = [\"{}\", \"{}\"]\n", field.ip(1), field.ip(3));
    let mut settings = TestSettings::new(&field, &[11]);
    settings.threads = 1;
    settings.tables = format!("{}{feedback}", slow_route());
    let core = RunningBalancer::start(&field, settings);
    let edge = RunningProxy::with_threads(&field, 3, &[core.address()], 1, &feedback);
    let load = CallLoad { calls: 2_400, rate: 400, hold_ms: 100 };
    let caller = SippCaller::plain(&field, (field.sip(2), edge.address()), load);
    until("the core asks the edge for less", || {
        let asks = neighbour(&edge.get("/api/health"));
        (asks["limited"] == true && asks["rate"].as_f64()? > 0.0).then_some(())
    });
    let metric = "sarabande_neighbour_requests_per_second_max{neighbour=";
    until("the edge has a metric of the rate", || edge.get("/metrics").contains(metric).then_some(()));
    let stats = caller.finish();
    assert_eq!(stats.successful + stats.failed, load.calls, "{stats:?}");
    let asks = neighbour(&edge.get("/api/health"));
    let (offered, held_back) = (count(&asks, "offered"), count(&asks, "refused"));
    assert!(held_back > 0 && held_back < offered, "{asks}");
    assert!(count(&neighbour(&core.get("/api/health")), "received") > 0);
    until("the core asks for nothing any more", || {
        (neighbour(&edge.get("/api/health"))["limited"] == false).then_some(())
    });
    let calm = CallLoad { calls: 10, rate: 10, hold_ms: 100 };
    SippCaller::plain(&field, (field.sip(4), edge.address()), calm).finish_clean();
    edge.wait_until_idle();
    core.wait_until_idle();
    assert_eq!(server.finish_clean().calls(), stats.successful + calm.calls);
}

/// Call-IDs of the INVITEs that a server got.
type Seen = Arc<Mutex<BTreeSet<String>>>;

/// A server that answers one INVITE after the other, and takes so long for each.
fn slow_server(field: &TestSite, host: u8, takes: Duration) -> (AnsweringAgent, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let server = AnsweringAgent::start(field.sip(host), move |message| {
        if message.starts_with(b"INVITE ") {
            std::thread::sleep(takes);
            noted.lock().expect("nobody panics").extend(value(message, "Call-ID"));
        }
        true
    });
    (server, seen)
}

/// A server that knows nothing of overload control gets four times what it can do. What it cannot do in time is
/// refused in front of it, and never reaches it; each call that was let in is answered.
#[test]
fn a_slow_server_gets_what_it_can_do_and_the_rest_is_refused_in_front_of_it() {
    let field = TestSite::new("overload-member");
    let (_server, seen) = slow_server(&field, 11, Duration::from_millis(20));
    let mut settings = TestSettings::new(&field, &[11]);
    settings.threads = 1;
    settings.pool.push("overload = { law = \"gradient\", retry_after = \"3s\" }".to_owned());
    let balancer = RunningBalancer::start(&field, settings);
    let few = CallLoad { calls: 40, rate: 20, hold_ms: 100 };
    SippCaller::plain(&field, (field.sip(2), balancer.address()), few).finish_clean();
    let many = CallLoad { calls: 1_600, rate: 200, hold_ms: 100 };
    let caller = SippCaller::plain(&field, (field.sip(3), balancer.address()), many);
    until("it is shown that the server is at its limit", || {
        (balancer.members()[0].state == "limit").then_some(())
    });
    let stats = caller.finish();
    let refused = balancer.metric("sarabande_pool_refused_total{pool=\"servers\",limit=\"limit\"}") as u64;
    assert_eq!((stats.failed, stats.successful), (refused, many.calls - refused), "{stats:?}");
    assert!(refused > many.calls / 4, "{refused}");
    let calls = seen.lock().expect("nobody panics").len() as u64;
    assert_eq!(calls, few.calls + stats.successful, "no refused call has reached it");
    assert!(
        balancer.log().contains("every member that takes new calls is at its limit"),
        "{}",
        balancer.log()
    );
    assert!(!balancer.log().contains("no member takes new calls"), "{}", balancer.log());
    let file = balancer.file().to_str().expect("a path in UTF-8").to_owned();
    let (_, text) = Tool::run(&field, &["status", "--config", &file]);
    let line = format!("of {} held back", few.calls + many.calls);
    let text = text.replace(" new requests", "");
    assert!(text.contains(&line) && text.contains("(gradient)"), "{text}");
    // Nothing is held against it later.
    until("it takes calls again", || (balancer.members()[0].state == "up").then_some(()));
    balancer.wait_until_idle();
    SippCaller::plain(&field, (field.sip(4), balancer.address()), CallLoad { rate: 20, ..SOME })
        .finish_clean();
}

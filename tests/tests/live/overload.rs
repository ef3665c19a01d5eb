//! Too many calls: neighbours with overload control, and servers without.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sarabande_tests::{
    AnsweringAgent, CallLoad, RunningBalancer, RunningProxy, SippCaller, SippServer, TestSettings, TestSite,
    Tool, until, value,
};
use serde_json::Value;

use super::SOME;

fn overload(text: &str) -> Value {
    let health: Value = serde_json::from_str(text).expect("health is JSON");
    health["overload"].clone()
}

/// Returns the feedback of the first neighbour, and its effect.
fn neighbour(health: &str) -> Value {
    overload(health)["neighbours"][0].clone()
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("number {key:?} in {of}"))
}

/// Two processes in a chain: every response of the second carries its feedback. Without load it asks for no reduction.
#[test]
fn two_processes_of_a_chain_understand_each_other() {
    let field = TestSite::new("overload-chain");
    let server = SippServer::start(&field, "uas_direct", field.sip(11), 20);
    let feedback =
        format!("[overload]\nfeedback = \"rate\"\nneighbours = [\"{}\", \"{}\"]\n", field.ip(1), field.ip(3));
    let mut settings = TestSettings::new(&field, &[11]);
    settings.tables = feedback.clone();
    let core = RunningBalancer::start(&field, settings);
    let edge = RunningProxy::with_threads(&field, 3, &[core.address()], 1, &feedback);
    let calm = CallLoad { calls: 120, rate: 40, hold_ms: 100 };
    SippCaller::plain(&field, (field.sip(4), edge.address()), calm).finish_clean();
    assert_eq!(server.finish_clean().calls(), calm.calls);
    let behind = neighbour(&edge.get("/api/health"));
    assert_eq!((&behind["ignores_offer"], &behind["limited"]), (&Value::Bool(false), &Value::Bool(false)));
    assert!(count(&behind, "offered") >= calm.calls, "{behind}");
    assert!(count(&neighbour(&core.get("/api/health")), "received") >= calm.calls);
}

/// Call-IDs of the INVITEs that a server got.
type Seen = Arc<Mutex<BTreeSet<String>>>;

/// Starts a server that answers one INVITE at a time, each after this time.
fn slow_server(field: &TestSite, host: u8, takes: Duration) -> (AnsweringAgent, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let server = AnsweringAgent::start(field.sip(host), move |message| {
        if message.starts_with(b"INVITE ") {
            std::thread::sleep(takes);
            noted.lock().expect("no thread panics while it holds the lock").extend(value(message, "Call-ID"));
        }
        true
    });
    (server, seen)
}

/// A server without overload control gets four times its capacity. Excess calls are refused in front of it and never
/// reach it. Each admitted call is answered.
#[test]
fn excess_calls_of_a_slow_server_are_refused_in_front_of_it() {
    let field = TestSite::new("overload-member");
    let (_server, seen) = slow_server(&field, 11, Duration::from_millis(20));
    let mut settings = TestSettings::new(&field, &[11]);
    settings.threads = 1;
    settings.pool.push("overload.law = \"gradient\"".to_owned());
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
    let calls = seen.lock().expect("no thread panics while it holds the lock").len() as u64;
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
    // Its state recovers.
    until("it takes calls again", || (balancer.members()[0].state == "up").then_some(()));
    balancer.wait_until_idle();
    SippCaller::plain(&field, (field.sip(4), balancer.address()), CallLoad { rate: 20, ..SOME })
        .finish_clean();
}

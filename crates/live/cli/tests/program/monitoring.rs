//! The dashboard and the alert rules in `monitoring/` use only metrics, labels and values that exist.

use crate::running::{Running, Server, free, get, sarabande, until};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use testkit::TestRequest;

const RULES: &str = include_str!("../../../../../monitoring/alerts.yml");
const API: &str = include_str!("../../../../../docs/api.md");
const DASHBOARD: &str = include_str!("../../../../../monitoring/dashboard.json");

/// Labels by metric, with the values that were seen.
type Metrics = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn read(page: &str, metrics: &mut Metrics) {
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').expect("a series and its value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let known = metrics.entry(name.to_owned()).or_default();
        for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once("=\"").expect("a label and its value");
            known.entry(label.to_owned()).or_default().insert(value.trim_end_matches('"').to_owned());
        }
    }
}

/// Returns the metrics of five servers: a pool after a call from a neighbour, this neighbour, a proxy, a registrar, and
/// a scaled pool with a queue.
fn metrics() -> Metrics {
    let member = free().to_string();
    let _answerer = Running::start(sarabande(&["load", "answer", "--listen", &member]).stdout(Stdio::null()));
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../streams/testdata/tls/first");
    let more = format!(
        "[overload]\nfeedback = \"rate\"\nneighbours = [\"127.0.0.0/8\"]\n\
         [tls]\ncertificates = [{{ chain = \"{keys}.pem\", key = \"{keys}.key\" }}]"
    );
    let role = format!(
        "[pool.servers]\nmembers = [{{ address = \"{member}\", name = \"pbx\" }}, \"monitoring.invalid\"]\n{more}"
    );
    let pool = Server::start("monitoring-pool", &role);
    let role = format!("[pool.servers]\nmembers = [\"{}\"]\n{more}", pool.sip);
    let front = Server::start("monitoring-front", &role);
    for server in [&pool, &front] {
        until("the server has a member", || (server.ask(&["status"]).0 == Some(0)).then_some(()));
    }
    let target = front.sip.to_string();
    let call = ["load", "call", "--to", &target, "--rate", "50", "--calls", "1", "--hold", "10ms"];
    let ended = Running::start(sarabande(&call).stdout(Stdio::null())).wait();
    assert_eq!(ended, Some(0));
    // The metrics have a response of the server itself only after it was sent.
    let role = format!("[proxy]\nnext = [\"{}\"]\nforward = \"dialog\"", free());
    let proxy = Server::start("monitoring-proxy", &role);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let from = socket.local_addr().expect("its address");
    let refused = TestRequest::new("OPTIONS", "monitoring", from)
        .with("Require", "nothing")
        .with("Proxy-Require", "nothing");
    socket.send_to(&refused.bytes(), pool.sip).expect("the request is sent");
    let mut found = Metrics::new();
    until("the request was refused", || {
        let page = get(&pool.admin, "/metrics");
        page.contains("sarabande_replies_total{").then(|| read(&page, &mut found))
    });
    read(&get(&proxy.admin, "/metrics"), &mut found);
    read(&get(&front.admin, "/metrics"), &mut found);
    let registrar = Server::start("monitoring-registrar", "[registrar]\ndomains = [\"example.com\"]");
    read(&get(&registrar.admin, "/metrics"), &mut found);
    let role = format!(
        "[pool.servers]\nmembers = [\"{member}\"]\nqueue = {{ capacity = 10 }}\n[pool.servers.scale]\ndriver = \"none\""
    );
    let elastic = Server::start("monitoring-elastic", &role);
    until("the queue has its member, and the scaler has run", || {
        let page = get(&elastic.admin, "/metrics");
        let is_there =
            page.contains("sarabande_queue_member_silent{") && page.contains("sarabande_scale_rate{");
        is_there.then(|| read(&page, &mut found))
    });
    found
}

/// Returns the parts of an expression that select series: name of the metric and matchers.
fn selectors(expression: &str) -> Vec<(&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let (name, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let braces = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (matchers, after) = braces.unwrap_or(("", after));
        rest = after;
        if name.starts_with("sarabande_") || name.starts_with("process_") {
            found.push((name, matchers));
        }
    }
    found
}

/// Returns the labels that an expression groups by or joins on.
fn grouping(expression: &str) -> BTreeSet<&str> {
    let lists = ["by (", "on ("].into_iter().flat_map(|word| expression.split(word).skip(1));
    lists.flat_map(|rest| rest.split(')').next().unwrap_or_default().split(',')).map(str::trim).collect()
}

fn check(expression: &str, metrics: &Metrics) {
    let selected = selectors(expression);
    assert!(
        !selected.is_empty() || expression.starts_with("up{"),
        "no metric of this project in {expression:?}"
    );
    // Prometheus itself adds these two labels to each series.
    let mut labels = BTreeSet::from(["instance", "job"]);
    for (name, matchers) in selected {
        let known = metrics.get(name).unwrap_or_else(|| panic!("no metric {name}: {expression}"));
        labels.extend(known.keys().map(String::as_str));
        for matcher in matchers.split(',').filter(|matcher| !matcher.is_empty()) {
            let (label, value) =
                matcher.split_at(matcher.find(['=', '!']).expect("a label, an operator and a value"));
            if matches!(label, "instance" | "job") {
                continue;
            }
            let values = known.get(label).unwrap_or_else(|| panic!("{name} has no {label}: {expression}"));
            let value = value.trim_start_matches(['=', '!', '~']).trim_matches('"');
            // Values that do not apply now have no series.
            if matches!(label, "state" | "outcome") {
                let is_known = |value: &str| values.contains(value) || API.contains(&format!("`{value}`"));
                assert!(value.split('|').all(is_known), "{name} has no {label}={value}: {values:?}");
            }
        }
    }
    for label in grouping(expression) {
        assert!(labels.contains(label), "nothing in {expression:?} has the label {label:?}");
    }
}

/// Returns the expressions of the alert rules. A line that ends with `|` has its text in the lines below, indented
/// deeper.
fn rules() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut lines = RULES.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(text) = line.trim_start().strip_prefix("expr: ") else { continue };
        let indent = line.len() - line.trim_start().len();
        let mut expression = text.trim_start_matches('|').to_owned();
        while let Some(more) =
            lines.next_if(|next| text == "|" && next.len() - next.trim_start().len() > indent)
        {
            expression.push_str(more.trim_start());
            expression.push(' ');
        }
        found.push(expression.trim().to_owned());
    }
    found
}

/// Collects all texts under a key with an expression for Prometheus.
fn collect_expressions<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "expr" => found.push(text),
                    value => collect_expressions(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect_expressions(value, found)),
        _ => {}
    }
}

#[test]
fn dashboard_and_alerts_use_existing_metrics() {
    let metrics = metrics();
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("the dashboard is JSON");
    let mut expressions = Vec::new();
    collect_expressions(&dashboard, &mut expressions);
    assert!(expressions.len() > 20, "{expressions:?}");
    for part in [
        "sarabande_connections{",
        "sarabande_tls_handshakes",
        "sarabande_certificate_",
        "sarabande_neighbour_",
    ] {
        assert!(expressions.iter().any(|expression| expression.contains(part)), "{part}");
    }
    let rules = rules();
    assert_eq!(rules.len(), RULES.matches("- alert: ").count());
    for expression in expressions.into_iter().chain(rules.iter().map(String::as_str)) {
        check(expression, &metrics);
    }
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        let Some(query) = variable["definition"].as_str() else { continue };
        let inner = query.strip_prefix("label_values(").and_then(|text| text.strip_suffix(')'));
        let (series, label) = inner.and_then(|text| text.rsplit_once(", ")).expect("a series and a label");
        check(&format!("sum by ({label}) ({series})"), &metrics);
    }
}

/// The parsers that the test above relies on.
#[test]
fn expressions_are_split_into_series_and_labels() {
    let two = "sum by (a, b) (rate(sarabande_x{c=\"d\",e!~\"f|g\"}[5m])) / on (h) process_y > 0.1";
    assert_eq!(selectors(two), [("sarabande_x", "c=\"d\",e!~\"f|g\""), ("process_y", "")]);
    assert_eq!(grouping(two), BTreeSet::from(["a", "b", "h"]));
    let mut metrics = Metrics::new();
    check("up{job=\"x\"} == 0", &metrics);
    read("# TYPE sarabande_x gauge\nsarabande_x{state=\"up\",m=\"1\"} 1\nprocess_y 2\n", &mut metrics);
    check("sum by (m) (sarabande_x{state=\"up\"})", &metrics);
    for wrong in [
        "sarabande_z",
        "sarabande_x{k=\"1\"}",
        "sarabande_x{state=\"u\"}",
        "sum by (k) (process_y)",
        "sarabande_x{k!~\"1\"}",
        "1",
    ] {
        assert!(std::panic::catch_unwind(|| check(wrong, &metrics)).is_err(), "{wrong}");
    }
}

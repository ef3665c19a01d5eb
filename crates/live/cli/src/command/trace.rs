//! `sarabande trace`: the last failed requests of a running server, each as a ladder.

use super::load::duration;
use super::text::{plain, plural};
use crate::admin::{Target, escape};
use crate::print;
use anyhow::Result;
use server::figures::{FailureView, FailuresView, TriedView};
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Show failed requests. Others are not kept, so this is the default.
    #[arg(long)]
    failed: bool,
    /// Only requests with this Call-ID.
    #[arg(long, value_name = "ID")]
    call_id: Option<String>,
    /// Only requests whose From contains this text.
    #[arg(long, value_name = "TEXT")]
    from: Option<String>,
    /// Only requests whose To or Request-URI contains this text.
    #[arg(long, value_name = "TEXT")]
    to: Option<String>,
    /// Only failures of this time, such as 5m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    last: Option<Duration>,
    /// Also print later failures, until interrupted (Ctrl-C).
    #[arg(long)]
    follow: bool,
    /// Print the failures as JSON, one a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Path of the failed requests.
pub(super) const FAILURES: &str = "/api/failures";

/// Interval between two requests of `--follow`.
const PERIOD: Duration = Duration::from_secs(1);

/// Prints the failed requests that the server still has.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let path = path(arguments);
    let mut shown = BTreeSet::new();
    loop {
        let FailuresView { failures } = arguments.target.get(&path)?;
        let known = std::mem::take(&mut shown);
        for failure in &failures {
            if !known.contains(&failure.id) {
                print::line(if arguments.json { serde_json::to_string(failure)? } else { ladder(failure) })?;
            }
        }
        shown.extend(failures.into_iter().map(|failure| failure.id));
        if !arguments.follow {
            break;
        }
        sleep(PERIOD);
    }
    if shown.is_empty() && !arguments.json { print::line("no such request has failed") } else { Ok(()) }
}

fn path(arguments: &Arguments) -> String {
    let Arguments { call_id, from, to, last, .. } = arguments;
    // A part of a second counts as a second.
    let last = last.map(|last| last.as_millis().div_ceil(1_000).to_string());
    let query = [("call_id", call_id), ("from", from), ("to", to), ("last", &last)];
    let query =
        query.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", escape(value.as_ref()?))));
    let query: Vec<_> = query.collect();
    if query.is_empty() { FAILURES.to_owned() } else { format!("{FAILURES}?{}", query.join("&")) }
}

/// A failed request: its parties, then a line for each message, then the cause.
fn ladder(failure: &FailureView) -> String {
    let FailureView { call_id, from, to, uri, tried, status, seconds, .. } = failure;
    let head = format!("{}  {}{}", short(&failure.time, 0), title(failure), repetitions(failure));
    let route = failure.route.as_deref().unwrap_or_default();
    let parties = [("Call-ID", &**call_id), ("from", from), ("to", to), ("URI", uri), ("route", route)];
    let named = |(name, value): (&str, &str)| format!("  {name:<8} {}", plain(value));
    let parties = parties.into_iter().filter(|(_, value)| !value.is_empty()).map(named);
    let mut lines: Vec<_> = [head].into_iter().chain(parties).collect();
    let source = failure.source.0;
    if !failure.method.is_empty() {
        lines.push(format!("  {:>6.3} s {source} ──▶ here", 0.0));
        lines.extend(tried.iter().map(|TriedView { target, name, seconds, result }| {
            let name = name.as_ref().map(|name| format!("{} ", plain(name))).unwrap_or_default();
            format!("  {seconds:>6.3} s   here ──▶ {name}{}: {result}", target.0)
        }));
        let answer = status.map_or("no answer".to_owned(), |status| status.to_string());
        lines.push(format!("  {seconds:>6.3} s {source} ◀── here: {answer}"));
    }
    lines.push(named(("cause", &failure.cause)) + "\n");
    lines.join("\n")
}

/// A failure on one line, for `status`.
pub(super) fn summary(failure: &FailureView) -> String {
    let FailureView { from, to, status, cause, time, .. } = failure;
    let parties = if from.is_empty() { String::new() } else { format!(" from {from} to {to}") };
    let status = status.map(|status| format!("{status} ")).unwrap_or_default();
    let line = format!("{}{parties}: {status}{cause}{}", title(failure), repetitions(failure));
    format!("{} {}", short(time, "2026-01-02 ".len()), plain(&line))
}

fn title(failure: &FailureView) -> String {
    match &*failure.method {
        "" => format!("connection with {}", failure.source.0),
        method => plain(method),
    }
}

/// Text about further failures with the same cause.
fn repetitions(failure: &FailureView) -> String {
    let FailureView { count, last, several_sources, .. } = failure;
    let sources = if *several_sources { ", also from other sources" } else { "" };
    match count - 1 {
        0 => String::new(),
        more => format!(" (and {} like it until {}{sources})", plural(more, "failure"), short(last, 11)),
    }
}

/// A time of RFC 3339 in the form `2026-01-02 12:03:04.123`, without the first bytes.
fn short(time: &str, skip: usize) -> String {
    time.replace('T', " ").trim_end_matches('Z').chars().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn failure(more: &Value) -> FailureView {
        let mut value = json!({
            "id": "0-3", "time": "2026-01-02T12:03:08.250Z", "last": "2026-01-02T12:03:08.250Z", "count": 1,
            "several_sources": false, "seconds": 4.25, "source": "192.0.2.7:5060", "method": "INVITE",
            "call_id": "a\u{1b}[2J", "uri": "2000@example.com", "from": "1000@example.com", "to": "2000@example.com",
            "route": "core", "status": 486, "cause": "10.0.0.12:5060: answered 486",
            "tried": [
                { "target": "10.0.0.11:5060", "name": "pbx-1", "seconds": 0.0, "result": "no response" },
                { "target": "10.0.0.12:5060", "name": null, "seconds": 4.0, "result": "answered 486" },
            ],
        });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_failed_call_is_a_ladder() {
        let text = "2026-01-02 12:03:08.250  INVITE\n  Call-ID  a\u{fffd}[2J\n  from     1000@example.com\n\
                    \x20 to       2000@example.com\n  URI      2000@example.com\n  route    core\n\
                    \x20  0.000 s 192.0.2.7:5060 ──▶ here\n\
                    \x20  0.000 s   here ──▶ pbx-1 10.0.0.11:5060: no response\n\
                    \x20  4.000 s   here ──▶ 10.0.0.12:5060: answered 486\n\
                    \x20  4.250 s 192.0.2.7:5060 ◀── here: 486\n\
                    \x20 cause    10.0.0.12:5060: answered 486\n";
        assert_eq!(ladder(&failure(&json!({}))), text);
        let connection = failure(&json!({
            "method": "", "call_id": "", "uri": "", "from": "", "to": "", "route": null, "tried": [], "status": null,
            "source": "192.0.2.7:40000;transport=tls", "cause": "handshake failed: tls: no certificate",
        }));
        let text = "2026-01-02 12:03:08.250  connection with 192.0.2.7:40000;transport=tls\n\
                    \x20 cause    handshake failed: tls: no certificate\n";
        assert_eq!(ladder(&connection), text);
    }

    #[test]
    fn a_summary_is_one_line() {
        let repeated = json!({ "count": 3, "last": "2026-01-02T12:04:00.000Z", "several_sources": true });
        assert_eq!(
            summary(&failure(&repeated)),
            "12:03:08.250 INVITE from 1000@example.com to 2000@example.com: 486 10.0.0.12:5060: answered 486 (and 2 \
             failures like it until 12:04:00.000, also from other sources)"
        );
    }

    #[test]
    fn conditions_are_passed_to_the_server() {
        let arguments = |call_id: Option<&str>, last| Arguments {
            failed: false,
            call_id: call_id.map(str::to_owned),
            from: None,
            to: Some("+1&".to_owned()),
            last,
            follow: false,
            json: false,
            target: Target::default(),
        };
        assert_eq!(path(&Arguments { to: None, ..arguments(None, None) }), "/api/failures");
        let last = Some(Duration::from_millis(1_500));
        assert_eq!(path(&arguments(Some("a b"), last)), "/api/failures?call_id=a%20b&to=%2B1%26&last=2");
    }
}

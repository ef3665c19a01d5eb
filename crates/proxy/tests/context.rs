//! The response context as a table, compared with the one in the repository: a change of behaviour is a diff to read.

use proxy::{Context, ProxyEvent};
use std::fmt::Write;

const UPDATE: &str = "UPDATE_DOCS";

const EVENTS: [ProxyEvent; 12] = [
    ProxyEvent::Response(100),
    ProxyEvent::Response(180),
    ProxyEvent::Response(200),
    ProxyEvent::Response(302),
    ProxyEvent::Response(408),
    ProxyEvent::Response(486),
    ProxyEvent::Response(503),
    ProxyEvent::Response(600),
    ProxyEvent::Timeout,
    ProxyEvent::Unreachable,
    ProxyEvent::TimerC,
    ProxyEvent::Cancelled,
];

/// What holds of a context, in words.
fn name(context: Context) -> String {
    let text = format!("{context:?}");
    let facts = text.trim_start_matches("Context { ").trim_end_matches(" }").split(", ");
    let facts: Vec<_> = facts.filter_map(|fact| fact.strip_suffix(": true")).collect();
    if facts.is_empty() { "other".to_owned() } else { facts.join(" ") }
}

/// Every context that can be reached, in the order in which they are.
fn reachable() -> Vec<Context> {
    let new = |invite| [false, true].map(|alternate| Context::new(invite, alternate));
    let mut all: Vec<Context> = [true, false].into_iter().flat_map(new).collect();
    let mut next = 0;
    while let Some(&context) = all.get(next) {
        next += 1;
        for event in EVENTS {
            let mut after = context;
            after.on(event);
            if !all.contains(&after) {
                all.push(after);
            }
        }
    }
    all
}

#[test]
fn the_table_of_the_response_context_is_the_one_in_the_repository() {
    let mut table = String::new();
    for context in reachable() {
        for event in EVENTS {
            let mut after = context;
            let actions = after.on(event);
            let what = if actions.is_empty() { "-".to_owned() } else { format!("{actions:?}") };
            let (before, event) = (name(context), format!("{event:?}"));
            let stays = if after == context { String::new() } else { format!(" | {}", name(after)) };
            writeln!(table, "{before:<45} | {event:<14} | {what}{stays}").expect("a String takes all");
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/context.txt");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, &table).expect("the repository can be written to");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == table, "{path} is old: run with {UPDATE}=1 and read the difference");
}

/// RFC 3261 §16.7 step 5: one final response goes back, save for further 2xx to an INVITE.
#[test]
fn what_is_finished_stays_finished_and_only_a_2xx_passes() {
    for context in reachable().into_iter().filter(|context| context.is_finished()) {
        for event in EVENTS {
            let mut after = context;
            let actions = after.on(event);
            assert!(after.is_finished());
            let passes = context.is_invite() && event == ProxyEvent::Response(200);
            assert_eq!(actions.is_empty(), !passes, "{context:?} {event:?}: {actions:?}");
        }
    }
}

//! `sarabande calls`: the calls in progress of a running server.

use super::load::table::table;
use super::text::{plain, plural, span, word_column};
use crate::admin::{Exit, Target, escape};
use anyhow::Result;
use server::figures::{EndedCallsView, OpenCallView, OpenCallsView};
use std::net::SocketAddr;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only calls whose Call-ID, From, To or Request-URI contains this text.
    text: Option<String>,
    /// Only calls to this pool.
    #[arg(long)]
    pool: Option<String>,
    /// Only calls that this server answered.
    #[arg(long, value_name = "IP:PORT")]
    member: Option<SocketAddr>,
    /// Most calls to print, the oldest first.
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// End the answered calls with this Call-ID: both sides get a BYE. Needs `longest` in `[calls]`.
    #[arg(long, value_name = "CALL-ID", conflicts_with_all = ["text", "pool", "member", "limit"])]
    end: Option<String>,
    /// Print the answer of the server as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Prints the calls. Exits with 4 if there are none.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { text, pool, member, limit, end, json, target } = arguments;
    if let Some(call_id) = end {
        let path = format!("/api/calls?call_id={}", escape(call_id));
        let answer: EndedCallsView = target.send("DELETE", &path, b"")?.json(&[200])?;
        let text = if *json { serde_json::to_string_pretty(&answer)? } else { format!("{call_id}: ended") };
        return print_line!("{text}");
    }
    let text = text.as_ref().map(|text| format!("&text={}", escape(text))).unwrap_or_default();
    let pool = pool.as_ref().map(|pool| format!("&pool={}", escape(pool))).unwrap_or_default();
    let member = member.map(|member| format!("&member={}", escape(&member.to_string()))).unwrap_or_default();
    let path = format!("/api/calls?limit={limit}{text}{pool}{member}");
    let found: OpenCallsView = target.send("GET", &path, b"")?.json(&[200])?;
    if *json {
        return print_line!("{}", serde_json::to_string_pretty(&found)?);
    }
    if found.calls.is_empty() {
        return Err(Exit::no("there are no such calls".to_owned()));
    }
    print_line!("{}", rows(&found))
}

fn rows(found: &OpenCallsView) -> String {
    let mut table = table(&["age", "state", "member", "from", "to", "call-id"]);
    (1..6).for_each(|column| word_column(&mut table, column));
    for call in &found.calls {
        let OpenCallView { call_id, from, to, member, seconds, answered_seconds, answered, .. } = call;
        let state = match answered_seconds {
            Some(seconds) => format!("answered {}", span(*seconds)),
            None if *answered => "answered".to_owned(),
            None => "rings".to_owned(),
        };
        let member = member.map_or("-".to_owned(), |member| member.to_string());
        table.add_row([span(*seconds as f64), state, member, plain(from), plain(to), plain(call_id)]);
    }
    let count = plural(found.count as u64, "call");
    let shown = if found.calls.len() < found.count {
        format!(", the {} oldest shown", found.calls.len())
    } else {
        String::new()
    };
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("{count}{shown}\n\n{}", lines.join("\n"))
}

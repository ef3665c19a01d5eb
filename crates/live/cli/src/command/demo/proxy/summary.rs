//! What the demo has shown, in words.

use super::chain::CAST;
use super::scene::{Outcome, known_percent, percent};
use crate::command::load::table;
use std::fmt::Write as _;

/// What the phases have shown.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    if !outcome.ended.is_empty() {
        text += "At the end of each phase:\n\n";
        text += &phases(outcome);
        text += "\n\n busy: of what the proxy's processor, which is a model, can do\n \
                 keeps: calls whose state it keeps; home rings the phones, and keeps all\n\n";
    }
    let calls = &outcome.calls;
    write!(
        text,
        "{} calls, {} lost; INVITE p50 {} ms, p99 {} ms\n{} phones registered, {} times in all, {} times in vain",
        calls.calls_started,
        calls.calls_failed(),
        table::percentile(&calls.invite_response, 50.0),
        table::percentile(&calls.invite_response, 99.0),
        outcome.registrations.phones,
        outcome.registrations.granted,
        outcome.registrations.failed,
    )
    .expect("a String takes any text");
    if let Some(quit) = &outcome.quit {
        write!(text, "\n\n{quit}").expect("a String takes any text");
    }
    text
}

fn phases(outcome: &Outcome) -> String {
    let columns = CAST.iter().flat_map(|part| [format!("{}\nbusy", part.name), "\nkeeps".to_owned()]);
    let header = ["phase", "calls/s"].map(str::to_owned).into_iter().chain(columns);
    let header: Vec<_> = header.collect();
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    let mut table = table::table(&header);
    for ended in &outcome.ended {
        let figures = ended.lines.iter().flat_map(|line| [percent(line.busy), known_percent(line.keeps)]);
        let first = [ended.phase.name.to_owned(), format!("{:.0}", ended.rate())];
        table.add_row(first.into_iter().chain(figures));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

//! Results of the demo as text.

use super::chain::{CARRIES, CAST};
use super::scene::{Outcome, known_percent, percent};
use crate::command::load::table;
use std::fmt::Write as _;

/// Text of the results.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    if !outcome.ended.is_empty() {
        text += "At the end of each phase:\n\n";
        text += &phases(outcome);
        write!(
            text,
            "\n\n calls/s: edge carries {CARRIES:.0} with the state of all calls, by the model\n busy: utilisation \
             of the modelled processor\n keeps: calls with state here; home rings the phones, and keeps all\n \
             INVITE: ms from the INVITE to the 200, in the phase\n\n"
        )
        .expect("writing to a String cannot fail");
    }
    write!(
        text,
        "{} calls, {} lost; {} refused by full proxies\n{} phones registered, {} times in all, {} failures",
        outcome.calls.calls_started,
        outcome.lost(),
        outcome.refused(),
        outcome.registrations.phones,
        outcome.registrations.granted,
        outcome.registrations.failed,
    )
    .expect("writing to a String cannot fail");
    if let Some(quit) = &outcome.quit {
        write!(text, "\n\n{quit}").expect("writing to a String cannot fail");
    }
    text
}

fn phases(outcome: &Outcome) -> String {
    let columns = CAST.iter().flat_map(|part| [format!("{}\nbusy", part.name), "\nkeeps".to_owned()]);
    let header = ["phase", "calls/s"].map(str::to_owned).into_iter().chain(columns);
    let header = header.chain(["INVITE\np50", "\np99"].map(str::to_owned));
    let header: Vec<_> = header.collect();
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    let mut table = table::table(&header);
    for ended in &outcome.ended {
        let figures = ended.lines.iter().flat_map(|line| [percent(line.busy), known_percent(line.keeps)]);
        let first = [ended.phase.name.to_owned(), format!("{:.0}", ended.rate)];
        let times = [50.0, 99.0].map(|percent| table::percentile(&ended.times, percent));
        table.add_row(first.into_iter().chain(figures).chain(times));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

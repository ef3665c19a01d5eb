//! Results of the demo as text.

use super::scene::{Outcome, Plot, calls_broken, calls_lost};
use crate::command::load::table;
use std::fmt::Write as _;

/// Text of the results.
pub(super) fn text(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let compared: Vec<_> = outcomes.iter().filter(|outcome| outcome.plot == Plot::Compare).collect();
    if let Some(first) = compared.first() {
        writeln!(text, "{:.0} calls/s to four servers of unequal speed, times in ms:\n", first.rate)
            .expect("writing to a String cannot fail");
        text += &comparison(&compared);
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.plot == Plot::Crash) {
        let results = &outcome.results;
        writeln!(
            text,
            "\nA server killed and restarted, another one drained, {} calls at {:.0} calls/s with {}:\n  {} new \
             calls lost\n  {} answered calls ended by the crash\n  {} messages at a wrong server",
            results.calls_started,
            outcome.rate,
            outcome.policy,
            calls_lost(results),
            calls_broken(results),
            results.wrong_server
        )
        .expect("writing to a String cannot fail");
        if results.calls_in_progress > 0 {
            let still = results.calls_in_progress;
            writeln!(text, "  {still} calls had not ended at the end of the act")
                .expect("writing to a String cannot fail");
        }
    }
    text.trim_end().to_owned()
}

fn comparison(outcomes: &[&Outcome]) -> String {
    let mut table =
        table::table(&["policy", "calls", "lost", "INVITE p50", "p95", "p99", "BYE p99", "imbalance"]);
    for outcome in outcomes {
        let results = &outcome.results;
        let invite = |percent| table::percentile(&results.invite_response, percent);
        table.add_row([
            outcome.policy.clone(),
            results.calls_started.to_string(),
            calls_lost(results).to_string(),
            invite(50.0),
            invite(95.0),
            invite(99.0),
            table::percentile(&results.bye_response, 99.0),
            format!("{:.2}", outcome.imbalance()),
        ]);
    }
    format!(
        "{table}\n\n lost: calls that were not set up\n \
         imbalance: load of the busiest server over the mean of all\n"
    )
}

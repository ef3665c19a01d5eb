//! Results of the demo as text.

use super::cluster::{DISTURBED, name};
use super::scene::Outcome;
use crate::command::load::table::{self, milliseconds};
use load::CallResults;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Text of the results.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    if !outcome.ended.is_empty() {
        text += "In the second half of each phase; servers and capacity at its end:\n\n";
        text += &phases(outcome);
        text += "\n\n capacity: calls/s, estimated from response times\n share: part of all calls that pbx-1 gets\n \
                 p95: time within which pbx-1 answers 95 % of its calls\n\n";
    }
    let (calls, usage) = (&outcome.calls, &outcome.usage);
    write!(
        text,
        "{} calls, {} lost; INVITE p50 {} ms, p95 {} ms, from the start of the call\n\
         {} servers started, {} stopped\n\
         {:.0} server-seconds; with {} servers all the time, the highest number: {:.0}",
        calls.calls_started,
        calls.calls_failed(),
        table::percentile(&calls.invite_response, 50.0),
        table::percentile(&calls.invite_response, 95.0),
        outcome.started,
        outcome.stopped,
        usage.server_seconds,
        usage.most,
        usage.fixed(),
    )
    .expect("writing to a String cannot fail");
    if calls.calls_failed() > 0 {
        write!(text, "\nlost: {}", causes(calls)).expect("writing to a String cannot fail");
    }
    if calls.calls_in_progress > 0 {
        write!(text, "\n{} calls had not ended at the end of the demo", calls.calls_in_progress)
            .expect("writing to a String cannot fail");
    }
    if let Some(quit) = &outcome.quit {
        write!(text, "\n\n{quit}").expect("writing to a String cannot fail");
    }
    text
}

/// Text about the causes of lost calls.
fn causes(calls: &CallResults) -> String {
    let refused = |method, by: &BTreeMap<u16, u64>| {
        let each = by.iter().map(move |(status, count)| format!("{count} by {status} to {method}"));
        each.collect::<Vec<_>>()
    };
    let silence = [("INVITE", calls.invite_timeouts), ("BYE", calls.bye_timeouts)];
    let silence = silence.into_iter().filter(|(_, count)| *count > 0);
    let silence = silence.map(|(method, count)| format!("{count} without an answer to {method}"));
    let refused = [refused("INVITE", &calls.calls_refused), refused("BYE", &calls.bye_refused)].concat();
    refused.into_iter().chain(silence).collect::<Vec<_>>().join(", ")
}

fn phases(outcome: &Outcome) -> String {
    let first = name(DISTURBED);
    let [capacity, share, p95] = ["capacity", "share", "p95 ms"].map(|what| format!("{first}\n{what}"));
    let mut table =
        table::table(&["\nphase", "\ncalls/s", "\ncapacity", "\nservers", &capacity, &share, &p95]);
    for ended in &outcome.ended {
        let dash = || "-".to_owned();
        table.add_row([
            ended.phase.to_owned(),
            format!("{:.0}", ended.offered),
            format!("{:.0}", ended.capacity),
            ended.ready.to_string(),
            ended.first_capacity.map_or_else(dash, |capacity| format!("{capacity:.0}")),
            ended.share.map_or_else(dash, |share| format!("{:.0} %", 100.0 * share)),
            ended.first_p95_us.map_or_else(dash, milliseconds),
        ]);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_calls_have_a_cause() {
        let calls = CallResults {
            calls_refused: [(503, 70)].into(),
            invite_timeouts: 8,
            bye_refused: [(481, 1)].into(),
            ..CallResults::default()
        };
        assert_eq!(causes(&calls), "70 by 503 to INVITE, 1 by 481 to BYE, 8 without an answer to INVITE");
    }
}

//! Proxies that keep the state of calls, and break rules.

use crate::canary::*;
use dialog::{CallRecord, DialogSide};
use swarm::{ProcessRule, RunRule, Shown};

fn breaks(rule: ProcessRule) -> Canary {
    Canary::new(rule.text(), keeping_calls)
}

pub(crate) fn all() -> Vec<Canary> {
    let is_answered = |record: &&mut CallRecord| record.accepted.is_some();
    vec![
        breaks(ProcessRule::RecordMissing).writes(|_, records| records.clear()),
        // The record of one call comes with that of the next one.
        breaks(ProcessRule::RecordMissing).writes(|memory, records| {
            core::mem::swap(&mut memory.records, records);
        }),
        breaks(ProcessRule::RecordTwice).writes(|_, records| records.extend(records.clone())),
        // The record of a call comes again with the next one.
        breaks(ProcessRule::RecordTwice).writes(|memory, records| {
            let before = core::mem::replace(&mut memory.records, records.clone());
            records.extend(before);
        }),
        breaks(ProcessRule::RecordWrong).writes(move |_, records| {
            for record in records.iter_mut().filter(is_answered) {
                record.by = Some(if record.by == Some(DialogSide::Caller) {
                    DialogSide::Callee
                } else {
                    DialogSide::Caller
                });
            }
        }),
        breaks(ProcessRule::RecordWrong).writes(move |_, records| {
            records.iter_mut().filter(is_answered).for_each(|record| record.bye_status = 299);
        }),
        breaks(ProcessRule::TooManyCalls).shows(|_, shown| {
            if let Shown::Proxy { report, .. } = shown
                && let Some(calls) = &mut report.calls
            {
                calls.answered += 1_000;
            }
        }),
        Canary::new(RunRule::CallsLeft.text(), keeping_calls).shows(|_, shown| {
            if let Shown::Proxy { report, .. } = shown
                && let Some(calls) = &mut report.calls
            {
                calls.ringing += 1;
            }
        }),
    ]
}

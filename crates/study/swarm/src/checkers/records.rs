//! Checks the call records of sites that share out dialogs, all sites together: an answered call that was hung up has
//! exactly one final record.

use crate::call::{COPIES, CallName, DialogName, dialogs_of};
use crate::plan::SITES;
use crate::{RunRule, Sent};
use base::Instant;
use dialog::{CallRecord, RecordEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::Method;

/// Phase that a call was in when a process on its path ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Died {
    /// During the call. The process that replaces it learns from the Record-Route token whether it keeps the call, but
    /// not whether a record was written.
    InCall,
    /// While copies of the INVITE could come. A late copy may make another site keep the call.
    WhileInvited,
}

/// The dialogs of a run.
#[derive(Default)]
pub(super) struct Records {
    /// Calls that passed each site.
    seen: BTreeMap<u16, BTreeSet<CallName>>,
    /// When the caller first got a 2xx to the INVITE.
    answered: BTreeMap<DialogName, Instant>,
    /// When a party first got a 2xx to a BYE.
    hung_up: BTreeMap<DialogName, Instant>,
    /// Sites that wrote a final record. A site appears once for each of its records.
    written: BTreeMap<DialogName, Vec<u16>>,
    died: BTreeMap<CallName, Died>,
}

impl Records {
    /// A site sent these messages.
    pub(super) fn sent(&mut self, now: Instant, site: u16, sent: &[Sent]) {
        for one in sent {
            let Ok(message) = wire::scan(&one.bytes) else { continue };
            let is_inside = one.to.ip() == IpAddr::from(SITES);
            let [by_caller, by_callee] = dialogs_of(&message);
            match (message.cseq().method, message.status()) {
                (Method::Invite, None) if message.to_tag().is_none() => {
                    self.seen.entry(site).or_default().insert(by_caller.0);
                }
                (Method::Invite, Some(200..300)) if !is_inside => {
                    self.answered.entry(by_caller).or_insert(now);
                }
                (Method::Bye, Some(200..300)) if !is_inside => {
                    let mut both = [by_caller, by_callee].into_iter();
                    if let Some(name) = both.find(|name| self.answered.contains_key(name)) {
                        self.hung_up.entry(name).or_insert(now);
                    }
                }
                _ => {}
            }
        }
    }

    /// A site wrote these records.
    pub(super) fn written(&mut self, site: u16, records: &[CallRecord]) {
        for record in records.iter().filter(|record| record.is_final && record.event == RecordEvent::Ended) {
            let Some(accepted) = &record.accepted else { continue };
            let call = (record.about.call_id().to_vec(), record.about.tag().to_vec());
            self.written.entry((call, accepted.tag.to_vec())).or_default().push(site);
        }
    }

    /// The process of a site ended.
    pub(super) fn ended(&mut self, now: Instant, site: u16) {
        let is_long_ago = |at: Option<&Instant>| at.is_some_and(|at| now > *at + COPIES);
        for call in self.seen.get(&site).into_iter().flatten() {
            let first = (call.clone(), Vec::new());
            let dialogs = || self.answered.range(first.clone()..).take_while(|((of, _), _)| of == call);
            let is_settled =
                |name: &DialogName| self.written.contains_key(name) && is_long_ago(self.hung_up.get(name));
            if dialogs().count() > 0 && dialogs().all(|(name, _)| is_settled(name)) {
                continue;
            }
            let is_set_up = dialogs().any(|(_, at)| is_long_ago(Some(at)));
            let died = if is_set_up { Died::InCall } else { Died::WhileInvited };
            let worst = self.died.entry(call.clone()).or_insert(died);
            *worst = died.max(*worst);
        }
    }

    /// Checks that each answered call that was hung up has one final record.
    pub(super) fn all_written(&self) -> Result<(), String> {
        for name in self.hung_up.keys() {
            let (call, sites) = (&name.0, self.written.get(name).map_or(&[][..], Vec::as_slice));
            let detail = || format!("call {} at sites {sites:?}", call.0.escape_ascii());
            let all_at_one = || sites.windows(2).all(|two| two[0] == two[1]);
            let (least, is_one) = match self.died.get(call) {
                None => (1, sites.len() <= 1),
                // The process that replaces it writes another record when a copy of the BYE comes.
                Some(Died::InCall) => (0, all_at_one()),
                Some(Died::WhileInvited) => continue,
            };
            if sites.len() < least {
                return Err(RunRule::NoRecord.broken(format_args!("{}", detail())));
            }
            if !is_one {
                return Err(RunRule::TwoRecords.broken(format_args!("{}", detail())));
            }
        }
        Ok(())
    }
}

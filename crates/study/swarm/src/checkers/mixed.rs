//! Observers of a site with several pools. Calls follow their routes, a refusal is final, and each answered call has a
//! record if its pool keeps the state of calls.

use super::balancer::{RequestKey, key};
use crate::call::{COPIES, CallName, DialogName, call_of, is_initial_invite};
use crate::plan::{FilePlan, PoolPlan, user_number};
use crate::watch::Hop;
use crate::{RunRule, Sent};
use base::Instant;
use dialog::{CallRecord, Cause, RecordEvent};
use route::Forward;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Message, Method};

/// Start of a refusal because of a limit on calls.
const TOO_MANY: &[u8] = b"SIP/2.0 503 Too Many Calls\r\n";

/// A call whose INVITE was received.
struct Call {
    /// The callee's number, if the Request-URI has one.
    user: Option<u16>,
    /// The shard that owns it.
    shard: Option<usize>,
    /// Members that the routes allow, by any file loaded since the INVITE came.
    targets: BTreeSet<SocketAddr>,
    /// Whether the chosen pools keep the state of calls. Both values if it went to pools of both kinds.
    kept: BTreeSet<bool>,
}

/// Observations of one process since it started.
#[derive(Default)]
struct Life {
    calls: BTreeMap<CallName, Call>,
    /// Requests without a final response, and their calls.
    open: BTreeMap<RequestKey, (CallName, Method)>,
    /// INVITEs that were refused, and when.
    refused: BTreeMap<RequestKey, Instant>,
    /// Dialogs of calls whose state a pool keeps.
    answered: BTreeSet<DialogName>,
    /// Dialogs with an answered BYE.
    hung_up: BTreeSet<DialogName>,
    /// For each record of a dialog, in order: the cause of the end, and whether the record is final.
    records: BTreeMap<DialogName, Vec<(Option<Cause>, bool)>>,
}

/// Observers of the processes of a site.
pub(super) struct MixedChecker {
    hop: Hop,
    file: FilePlan,
    /// When `file` was loaded.
    since: Instant,
    lives: Vec<Life>,
    /// Whether no process has ended, and no process has taken over from another. No call is then known by its tokens
    /// alone.
    is_unbroken: bool,
}

fn name_of((call_id, _): &CallName) -> String {
    call_id.escape_ascii().to_string()
}

impl MixedChecker {
    pub(super) fn new(address: SocketAddr, plan: &FilePlan, processes: u16) -> Self {
        let lives = (0..processes).map(|_| Life::default()).collect();
        Self {
            hop: Hop::new(&[address], true),
            file: plan.clone(),
            since: Instant::ZERO,
            lives,
            is_unbroken: true,
        }
    }

    /// Another file is loaded. Calls from before may follow either file.
    pub(super) fn reloaded(&mut self, now: Instant, plan: &FilePlan) {
        if self.file == *plan {
            return;
        }
        (self.file, self.since) = (plan.clone(), now);
        for call in self.lives.iter_mut().flat_map(|life| life.calls.values_mut()) {
            call.targets.extend(targets(&self.file, call.user));
        }
    }

    /// A process ended. The next one starts without state. Returns the Call-IDs of its open requests.
    pub(super) fn ended(&mut self, process: u16) -> Vec<Vec<u8>> {
        self.is_unbroken = false;
        call_ids(core::mem::take(&mut self.lives[usize::from(process)]).open)
    }

    /// Another process took over the address. Returns the Call-IDs of the open requests, which are lost.
    pub(super) fn taken_over(&mut self, process: u16) -> Vec<Vec<u8>> {
        self.is_unbroken = false;
        call_ids(core::mem::take(&mut self.lives[usize::from(process)].open))
    }

    /// A process wrote these records.
    pub(super) fn written(&mut self, process: u16, records: &[CallRecord]) {
        let life = &mut self.lives[usize::from(process)];
        for record in records.iter().filter(|record| record.event == RecordEvent::Ended) {
            let Some(accepted) = &record.accepted else { continue };
            if !record.is_found_again() {
                let call = (record.about.call_id().to_vec(), record.about.tag().to_vec());
                life.records
                    .entry((call, accepted.tag.to_vec()))
                    .or_default()
                    .push((record.cause, record.is_final));
            }
        }
    }

    /// A process got a datagram, or a timer fired (`None`), and it sent `sent`.
    pub(super) fn step(
        &mut self,
        (now, process): (Instant, u16),
        (got, shard): (Option<(SocketAddr, &[u8])>, Option<usize>),
        sent: &[Sent],
    ) -> Result<(), String> {
        self.hop.check(got, sent);
        let (file, since) = (&self.file, self.since);
        let life = &mut self.lives[usize::from(process)];
        let got = got.and_then(|(_, bytes)| wire::scan(bytes).ok());
        let request = got.filter(|message| message.method().is_some_and(|method| method != Method::Ack));
        if let Some(request) = &request {
            life.request_received(file, request, shard);
            life.check_refused((now, since), file, request, sent)?;
        }
        for one in sent {
            let Ok(message) = wire::scan(&one.bytes) else { continue };
            if message.method().is_none() {
                if self.is_unbroken {
                    life.check_full(file, &message)?;
                }
                life.response_sent(now, &message);
            } else if is_initial_invite(&message) {
                life.invite_forwarded(file, &message, one.to)?;
            }
        }
        Ok(())
    }

    /// Checks that each answered call has a record.
    pub(super) fn all_written(&self) -> Result<(), String> {
        for Life { answered, hung_up, records, .. } in &self.lives {
            if let Some((call, _)) = answered.iter().find(|dialog| !records.contains_key(dialog)) {
                return Err(RunRule::NoRecord.broken(format_args!("call {}", name_of(call))));
            }
            if let Some(((call, _), ends)) = records.iter().find(|(_, ends)| finals(ends) > 1) {
                return Err(RunRule::TwoRecords.broken(format_args!("call {}: {ends:?}", name_of(call))));
            }
            let is_lost = |dialog: &&DialogName| {
                records.get(*dialog).is_some_and(|ends| matches!(ends[..], [(Some(Cause::Lost), _)]))
            };
            if let Some((call, _)) = hung_up.iter().find(is_lost) {
                return Err(RunRule::LostRecord.broken(format_args!("call {}", name_of(call))));
            }
        }
        Ok(())
    }
}

/// Returns the Call-IDs of requests without a final response.
fn call_ids(open: BTreeMap<RequestKey, (CallName, Method)>) -> Vec<Vec<u8>> {
    open.into_values().map(|((call_id, _), _)| call_id).collect()
}

/// Counts the final revisions of a record. Later messages of a call may have revised the records that are not final.
fn finals(ends: &[(Option<Cause>, bool)]) -> usize {
    ends.iter().filter(|(_, is_final)| *is_final).count()
}

/// Returns the members of all pools that a call for this user may go to.
fn targets(file: &FilePlan, user: Option<u16>) -> BTreeSet<SocketAddr> {
    file.pools_for(user).flat_map(PoolPlan::addresses).collect()
}

impl Life {
    fn request_received(&mut self, file: &FilePlan, request: &Message<'_>, shard: Option<usize>) {
        let method = request.cseq().method;
        self.open.insert(key(request, method), (call_of(request), method));
        if is_initial_invite(request) {
            let user = user_number(request);
            let targets = || targets(file, user);
            let call = || Call { user, shard, targets: targets(), kept: BTreeSet::new() };
            self.calls.entry(call_of(request)).or_insert_with(call);
        }
    }

    /// Checks that a refusal is final where transactions are kept: a late copy of a refused INVITE starts no call.
    fn check_refused(
        &self,
        (now, since): (Instant, Instant),
        file: &FilePlan,
        request: &Message<'_>,
        sent: &[Sent],
    ) -> Result<(), String> {
        let refused = self.refused.get(&key(request, request.cseq().method));
        let Some(&at) = refused else { return Ok(()) };
        let is_kept =
            file.pools_for(user_number(request)).all(|pool| pool.settings.service.has_transactions());
        let goes_on =
            || sent.iter().any(|one| wire::scan(&one.bytes).is_ok_and(|sent| is_initial_invite(&sent)));
        if is_kept && since < at && now < at + COPIES && goes_on() {
            return Err(RunRule::RefusedStarted.broken(format_args!("call {}", name_of(&call_of(request)))));
        }
        Ok(())
    }

    /// Checks that a limit on calls refuses a call only at the limit. INVITEs without an answer count, and so do
    /// answered calls that have not ended according to their records.
    fn check_full(&self, file: &FilePlan, response: &Message<'_>) -> Result<(), String> {
        let call = call_of(response);
        // A copy of a refused INVITE gets the same answer, whatever the number of calls.
        let is_copy = self.refused.contains_key(&key(response, Method::Invite));
        let is_refusal = !is_copy && response.status() == Some(503) && response.bytes().starts_with(TOO_MANY);
        let Some(known) = self.calls.get(&call).filter(|_| is_refusal) else { return Ok(()) };
        let is_other = |name: &&CallName| {
            **name != call && self.calls.get(*name).is_some_and(|other| other.shard == known.shard)
        };
        let rings = self.open.values().filter(|(_, method)| *method == Method::Invite).map(|(name, _)| name);
        let goes_on =
            |ends: &Vec<(Option<Cause>, bool)>| matches!(ends.last(), Some((Some(Cause::Reopened), _)));
        let talks = self.answered.iter().filter(|dialog| self.records.get(*dialog).is_none_or(goes_on));
        let there = rings.chain(talks.map(|(name, _)| name)).filter(is_other).count();
        let most = file.calls.most.div_ceil(usize::from(file.shards));
        if there < most {
            let name = name_of(&call);
            return Err(RunRule::RefusedEarly.broken(format_args!("call {name}, {there} of {most} calls")));
        }
        Ok(())
    }

    /// A response was sent.
    fn response_sent(&mut self, now: Instant, response: &Message<'_>) {
        let status = response.status().unwrap_or_default();
        if status < 200 {
            return;
        }
        let method = response.cseq().method;
        let key = key(response, method);
        self.open.remove(&key);
        let call = call_of(response);
        if method == Method::Bye
            && let Some(tag) = response.to_tag()
        {
            self.hung_up.insert((call, tag.to_vec()));
            return;
        }
        if method != Method::Invite {
            return;
        }
        if status >= 300 {
            self.refused.insert(key, now);
        } else if self.refused.contains_key(&key) {
            // A dialog accepted after the call failed is found by its token alone, if messages of it come.
        } else if let (Some(known), Some(tag)) = (self.calls.get(&call), response.to_tag())
            && known.kept == BTreeSet::from([true])
        {
            self.answered.insert((call, tag.to_vec()));
        }
    }

    /// An INVITE was forwarded to a member.
    fn invite_forwarded(
        &mut self,
        file: &FilePlan,
        invite: &Message<'_>,
        to: SocketAddr,
    ) -> Result<(), String> {
        let name = call_of(invite);
        let call = self.calls.get_mut(&name).filter(|call| call.targets.contains(&to));
        let Some(call) = call else {
            return Err(RunRule::WrongPool.broken(format_args!("call {} to {to}", name_of(&name))));
        };
        let has = |pool: &&PoolPlan| pool.addresses().contains(&to);
        let kept =
            file.pools.iter().filter(has).map(|pool| pool.settings.service.forward() == Forward::Dialog);
        call.kept.extend(kept);
        Ok(())
    }
}

//! Observers of a site of several pools: that calls go by their routes, that a refusal is final, and that each call that was answered
//! has a record where its pool keeps the state of calls.

use super::balancer::{RequestKey, key};
use crate::plan::{MixedPlan, user_number};
use crate::{RunRule, Sent};
use base::Instant;
use core::time::Duration;
use dialog::{CallRecord, RecordEvent};
use route::Forward;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Message, Method};

/// Call-ID and tag of the caller.
type CallName = (Vec<u8>, Vec<u8>);
/// A call and the tag of the callee.
type DialogName = (CallName, Vec<u8>);

/// A client's transaction lasts for 64*T1 (RFC 3261 §17.1.1.2): until then a copy of its INVITE may come.
const COPIES: Duration = Duration::from_secs(32);

/// A call whose INVITE has come in.
struct Call {
    /// Whom it is for, if its Request-URI says it by number.
    user: Option<u16>,
    /// The members of the pools that it may have gone to by the files since it came.
    targets: BTreeSet<SocketAddr>,
    /// Whether the pools that it went to keep the state of calls: all or none; both where it went to some of each.
    kept: BTreeSet<bool>,
}

/// What one process has done since it started.
#[derive(Default)]
struct Life {
    calls: BTreeMap<CallName, Call>,
    /// The requests without a final response, and the Call-ID of each.
    open: BTreeMap<RequestKey, Vec<u8>>,
    /// INVITEs that were refused, and when.
    refused: BTreeMap<RequestKey, Instant>,
    /// Dialogs of calls that a pool keeps the state of.
    answered: BTreeSet<DialogName>,
    /// How many records there are of each.
    records: BTreeMap<DialogName, u32>,
}

/// The observers of the processes of a site.
pub(super) struct MixedChecker {
    file: MixedPlan,
    /// When that file was read.
    since: Instant,
    lives: Vec<Life>,
}

fn call_of(message: &Message<'_>) -> CallName {
    (message.call_id().to_vec(), message.from_tag().unwrap_or_default().to_vec())
}

fn name_of((call_id, _): &CallName) -> String {
    call_id.escape_ascii().to_string()
}

/// Whether this is an INVITE that begins a call.
fn begins(message: &Message<'_>) -> bool {
    message.method() == Some(Method::Invite) && message.to_tag().is_none()
}

impl MixedChecker {
    pub(super) fn new(plan: &MixedPlan, processes: u16) -> Self {
        let lives = (0..processes).map(|_| Life::default()).collect();
        Self { file: plan.clone(), since: Instant::ZERO, lives }
    }

    /// Another file is read. What has come in goes by this one or by that of when it came.
    pub(super) fn reloaded(&mut self, now: Instant, plan: &MixedPlan) {
        if self.file == *plan {
            return;
        }
        (self.file, self.since) = (plan.clone(), now);
        for call in self.lives.iter_mut().flat_map(|life| life.calls.values_mut()) {
            call.targets.extend(targets(&self.file, call.user));
        }
    }

    /// A process has ended: the next one knows nothing. The Call-IDs of what it had in hand.
    pub(super) fn ended(&mut self, process: u16) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.lives[usize::from(process)]).open.into_values().collect()
    }

    /// A process gets no messages any more: what it had in hand is lost.
    pub(super) fn taken_over(&mut self, process: u16) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.lives[usize::from(process)].open).into_values().collect()
    }

    /// A process wrote these records.
    pub(super) fn written(&mut self, process: u16, records: &[CallRecord]) {
        let life = &mut self.lives[usize::from(process)];
        for record in records.iter().filter(|record| record.event == RecordEvent::Ended) {
            let Some(accepted) = &record.accepted else { continue };
            if !record.is_found_again() {
                let call = (record.about.call_id().to_vec(), record.about.tag().to_vec());
                *life.records.entry((call, accepted.tag.to_vec())).or_default() += 1;
            }
        }
    }

    /// A process got `bytes`, unless its time had come for something, and sent `sent`.
    pub(super) fn step(
        &mut self,
        (now, process): (Instant, u16),
        bytes: Option<&[u8]>,
        sent: &[Sent],
    ) -> Result<(), String> {
        let (file, since) = (&self.file, self.since);
        let life = &mut self.lives[usize::from(process)];
        let got = bytes.and_then(|bytes| wire::scan(bytes).ok());
        let request = got.filter(|message| message.method().is_some_and(|method| method != Method::Ack));
        if let Some(request) = &request {
            life.asked(file, request);
            life.check_refused((now, since), file, request, sent)?;
        }
        for one in sent {
            let Ok(message) = wire::scan(&one.bytes) else { continue };
            if message.method().is_none() {
                life.answers(now, &message);
            } else if begins(&message) {
                life.goes(file, &message, one.to)?;
            }
        }
        Ok(())
    }

    /// All is over: each call has been written of that was answered.
    pub(super) fn all_written(&self) -> Result<(), String> {
        for Life { answered, records, .. } in &self.lives {
            if let Some((call, _)) = answered.iter().find(|dialog| !records.contains_key(dialog)) {
                return Err(RunRule::NoRecord.broken(format_args!("call {}", name_of(call))));
            }
            let too_many = records.iter().find(|(dialog, count)| !answered.contains(dialog) || **count > 1);
            // Of a call that went to pools of both kinds it is not asked who keeps it.
            if let Some(((call, _), count)) = too_many.filter(|(_, count)| **count > 1) {
                return Err(RunRule::TwoRecords.broken(format_args!("call {}: {count}", name_of(call))));
            }
        }
        Ok(())
    }
}

/// The members of all pools that a call for this user may go to.
fn targets(file: &MixedPlan, user: Option<u16>) -> BTreeSet<SocketAddr> {
    file.pools_for(user).flat_map(|pool| pool.addresses()).collect()
}

impl Life {
    fn asked(&mut self, file: &MixedPlan, request: &Message<'_>) {
        let method = request.cseq().method;
        self.open.insert(key(request, method), request.call_id().to_vec());
        if begins(request) {
            let user = user_number(request);
            let targets = || targets(file, user);
            let call = || Call { user, targets: targets(), kept: BTreeSet::new() };
            self.calls.entry(call_of(request)).or_insert_with(call);
        }
    }

    /// A refusal is final: a copy of an INVITE that comes later begins no call, where its transaction is known.
    fn check_refused(
        &self,
        (now, since): (Instant, Instant),
        file: &MixedPlan,
        request: &Message<'_>,
        sent: &[Sent],
    ) -> Result<(), String> {
        let Some(&at) = self.refused.get(&key(request, request.cseq().method)) else { return Ok(()) };
        let is_kept = file.pools_for(user_number(request)).all(|pool| pool.mode.forward.has_transactions());
        let goes_on = || sent.iter().any(|one| wire::scan(&one.bytes).is_ok_and(|sent| begins(&sent)));
        if is_kept && since < at && now < at + COPIES && goes_on() {
            return Err(RunRule::Ghost.broken(format_args!("call {}", name_of(&call_of(request)))));
        }
        Ok(())
    }

    /// A response goes back.
    fn answers(&mut self, now: Instant, response: &Message<'_>) {
        let status = response.status().unwrap_or_default();
        if status < 200 {
            return;
        }
        let method = response.cseq().method;
        let key = key(response, method);
        self.open.remove(&key);
        if method != Method::Invite {
            return;
        }
        let call = call_of(response);
        if status >= 300 {
            self.refused.insert(key, now);
        } else if let (Some(known), Some(tag)) = (self.calls.get(&call), response.to_tag())
            && known.kept == BTreeSet::from([true])
        {
            self.answered.insert((call, tag.to_vec()));
        }
    }

    /// A call goes on to a member.
    fn goes(&mut self, file: &MixedPlan, invite: &Message<'_>, to: SocketAddr) -> Result<(), String> {
        let name = call_of(invite);
        let call = self.calls.get_mut(&name).filter(|call| call.targets.contains(&to));
        let Some(call) = call else {
            return Err(RunRule::WrongPool.broken(format_args!("call {} to {to}", name_of(&name))));
        };
        let has = |pool: &&crate::PoolPlan| pool.addresses().contains(&to);
        let kept = file.pools.iter().filter(has).map(|pool| pool.mode.forward == Forward::Dialog);
        call.kept.extend(kept);
        Ok(())
    }
}

//! Observers of a site of several pools: that calls go by their routes, that a refusal is final, and that each call
//! that was answered has a record where its pool keeps the state of calls.

use super::balancer::{RequestKey, key};
use crate::call::{COPIES, CallName, DialogName, begins, call_of};
use crate::plan::{FilePlan, PoolPlan, user_number};
use crate::watch::Hop;
use crate::{RunRule, Sent};
use base::Instant;
use dialog::{CallRecord, Cause, RecordEvent};
use route::Forward;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Message, Method};

/// How a refusal begins that is for the number of calls.
const TOO_MANY: &[u8] = b"SIP/2.0 503 Too Many Calls\r\n";

/// A call whose INVITE has come in.
struct Call {
    /// Whom it is for, if its Request-URI says it by number.
    user: Option<u16>,
    /// The shard that owns it.
    shard: Option<usize>,
    /// The members of the pools that it may have gone to by the files since it came.
    targets: BTreeSet<SocketAddr>,
    /// Whether the pools that it went to keep the state of calls: all or none; both where it went to some of each.
    kept: BTreeSet<bool>,
}

/// What one process has done since it started.
#[derive(Default)]
struct Life {
    calls: BTreeMap<CallName, Call>,
    /// The requests without a final response, and the call of each.
    open: BTreeMap<RequestKey, (CallName, Method)>,
    /// INVITEs that were refused, and when.
    refused: BTreeMap<RequestKey, Instant>,
    /// Dialogs of calls that a pool keeps the state of.
    answered: BTreeSet<DialogName>,
    /// Those that somebody has hung up, and was answered.
    hung_up: BTreeSet<DialogName>,
    /// How each has ended by its records, one after the other, and whether that is final.
    records: BTreeMap<DialogName, Vec<(Option<Cause>, bool)>>,
}

/// The observers of the processes of a site.
pub(super) struct MixedChecker {
    hop: Hop,
    file: FilePlan,
    /// When that file was read.
    since: Instant,
    lives: Vec<Life>,
    /// Whether no process has ended or was taken over from: then no call is known by its tokens alone.
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

    /// Another file is read. What has come in goes by this one or by that of when it came.
    pub(super) fn reloaded(&mut self, now: Instant, plan: &FilePlan) {
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
        self.is_unbroken = false;
        in_hand(core::mem::take(&mut self.lives[usize::from(process)]).open)
    }

    /// A process gets no messages any more: what it had in hand is lost.
    pub(super) fn taken_over(&mut self, process: u16) -> Vec<Vec<u8>> {
        self.is_unbroken = false;
        in_hand(core::mem::take(&mut self.lives[usize::from(process)].open))
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

    /// A process got a datagram, unless its time had come for something, and sent `sent`.
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
            life.asked(file, request, shard);
            life.check_refused((now, since), file, request, sent)?;
        }
        for one in sent {
            let Ok(message) = wire::scan(&one.bytes) else { continue };
            if message.method().is_none() {
                if self.is_unbroken {
                    life.check_full(file, &message)?;
                }
                life.answers(now, &message);
            } else if begins(&message) {
                life.goes(file, &message, one.to)?;
            }
        }
        Ok(())
    }

    /// All is over: each call has been written of that was answered.
    pub(super) fn all_written(&self) -> Result<(), String> {
        for Life { answered, hung_up, records, .. } in &self.lives {
            if let Some((call, _)) = answered.iter().find(|dialog| !records.contains_key(dialog)) {
                return Err(RunRule::NoRecord.broken(format_args!("call {}", name_of(call))));
            }
            if let Some(((call, _), told)) = records.iter().find(|(_, told)| finals(told) > 1) {
                return Err(RunRule::TwoRecords.broken(format_args!("call {}: {told:?}", name_of(call))));
            }
            let is_lost = |dialog: &&DialogName| {
                records.get(*dialog).is_some_and(|told| matches!(told[..], [(Some(Cause::Lost), _)]))
            };
            if let Some((call, _)) = hung_up.iter().find(is_lost) {
                return Err(RunRule::LostRecord.broken(format_args!("call {}", name_of(call))));
            }
        }
        Ok(())
    }
}

/// The Call-IDs of requests without a final response.
fn in_hand(open: BTreeMap<RequestKey, (CallName, Method)>) -> Vec<Vec<u8>> {
    open.into_values().map(|((call_id, _), _)| call_id).collect()
}

/// How many of these revisions of a record are final: what was heard of a call later may have taken back the others.
fn finals(told: &[(Option<Cause>, bool)]) -> usize {
    told.iter().filter(|(_, is_final)| *is_final).count()
}

/// The members of all pools that a call for this user may go to.
fn targets(file: &FilePlan, user: Option<u16>) -> BTreeSet<SocketAddr> {
    file.pools_for(user).flat_map(PoolPlan::addresses).collect()
}

impl Life {
    fn asked(&mut self, file: &FilePlan, request: &Message<'_>, shard: Option<usize>) {
        let method = request.cseq().method;
        self.open.insert(key(request, method), (call_of(request), method));
        if begins(request) {
            let user = user_number(request);
            let targets = || targets(file, user);
            let call = || Call { user, shard, targets: targets(), kept: BTreeSet::new() };
            self.calls.entry(call_of(request)).or_insert_with(call);
        }
    }

    /// A refusal is final: a copy of an INVITE that comes later begins no call, where transactions are kept.
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
        let goes_on = || sent.iter().any(|one| wire::scan(&one.bytes).is_ok_and(|sent| begins(&sent)));
        if is_kept && since < at && now < at + COPIES && goes_on() {
            return Err(RunRule::Ghost.broken(format_args!("call {}", name_of(&call_of(request)))));
        }
        Ok(())
    }

    /// Calls are refused for their number only where there are as many: of those whose INVITE has no answer yet, and
    /// those that were answered and go on by their records.
    fn check_full(&self, file: &FilePlan, response: &Message<'_>) -> Result<(), String> {
        let call = call_of(response);
        // A copy of what was refused gets the same answer, however many there are by then.
        let is_copy = self.refused.contains_key(&key(response, Method::Invite));
        let is_refusal = !is_copy && response.status() == Some(503) && response.bytes().starts_with(TOO_MANY);
        let Some(known) = self.calls.get(&call).filter(|_| is_refusal) else { return Ok(()) };
        let is_other = |name: &&CallName| {
            **name != call && self.calls.get(*name).is_some_and(|other| other.shard == known.shard)
        };
        let rings = self.open.values().filter(|(_, method)| *method == Method::Invite).map(|(name, _)| name);
        let goes_on =
            |told: &Vec<(Option<Cause>, bool)>| matches!(told.last(), Some((Some(Cause::Reopened), _)));
        let talks = self.answered.iter().filter(|dialog| self.records.get(*dialog).is_none_or(goes_on));
        let there = rings.chain(talks.map(|(name, _)| name)).filter(is_other).count();
        let most = file.calls.most.div_ceil(usize::from(file.shards));
        if there < most {
            let name = name_of(&call);
            return Err(RunRule::RefusedEarly.broken(format_args!("call {name}, {there} there of {most}")));
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
            // What is accepted after the call has failed is found by its token alone, should it be heard of again.
        } else if let (Some(known), Some(tag)) = (self.calls.get(&call), response.to_tag())
            && known.kept == BTreeSet::from([true])
        {
            self.answered.insert((call, tag.to_vec()));
        }
    }

    /// A call goes on to a member.
    fn goes(&mut self, file: &FilePlan, invite: &Message<'_>, to: SocketAddr) -> Result<(), String> {
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

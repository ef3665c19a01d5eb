//! All calls of a shard: this file handles their INVITEs and the counters.
//!
//! - `within.rs`: requests within dialogs, and their responses,
//! - `room.rs`: limits of the number of calls,
//! - `ending.rs`: timers, proved ends, and watched calls.

mod ending;
mod room;
mod within;

use crate::call::{Call, CallCategory, Dialog, DialogEnds, DialogPath, DialogSide, Phase, SHORTEST_SESSION};
use crate::description::CallDescription;
use crate::record::{Accepted, CallRecord, CallStart, Cause, RecordEvent};
use crate::settings::CallSettings;
use base::{Instant, Recent, Slab, TimerWheel};
use core::time::Duration;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Number of failed calls that are remembered, in each of two generations: as many as fail in 32 s (64*T1) at 1,000
/// calls a second.
const FAILED: usize = 32_768;

/// Longest reason that is kept, in bytes.
const LONGEST_REASON: usize = 128;

/// Key of a dialog: keyed hashes of Call-ID and caller's tag, and of the callee's tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DialogKey {
    /// Key of the call.
    pub call: u64,
    /// Hash of the callee's tag.
    pub tag: u64,
}

/// Error: the limit of calls is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallsFull;

/// Event that a step causes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallEvent {
    /// A record to write.
    Record(Box<CallRecord>),
    /// Send a BYE to both sides.
    HangUp(Box<HangUp>),
}

/// Dialog whose two sides must get a BYE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HangUp {
    /// Call-ID of the dialog.
    pub call_id: Box<[u8]>,
    /// Addressing of its sides.
    pub ends: DialogEnds,
    /// Last CSeq numbers of caller and callee.
    pub cseq: [u32; 2],
}

/// INVITE that starts a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invited {
    /// Parties of the call.
    pub about: CallDescription,
    /// Start of the call in Unix seconds, as in the token of its Record-Route.
    pub unix: u32,
    /// CSeq number.
    pub cseq: u32,
    /// Whether the INVITE has passed this proxy before.
    pub is_spiral: bool,
}

/// State of the dialog of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The dialog is known.
    Known,
    /// The dialog is watched: a 2xx to the request reopens it ([`Calls::request_accepted`]).
    Watched,
}

/// A forwarded BYE that waits for its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardedBye {
    /// Sender.
    pub by: DialogSide,
    /// Time of receipt.
    pub since: Instant,
    /// Whether the BYE went to the other side of the dialog, and to no third party.
    pub is_proved: bool,
}

/// Counters of calls.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CallCounts {
    /// Calls that are not answered so far.
    pub ringing: usize,
    /// Calls that are answered and active.
    pub answered: usize,
    /// Calls that are watched after an unproved end. Later traffic reopens them.
    pub watched: usize,
    /// Memory of all calls in bytes, including those that have just ended.
    pub memory: usize,
    /// Calls refused because the limit of calls was reached.
    pub refused: u64,
    /// Calls found again after a restart.
    pub found: u64,
    /// Calls ended by the time limit.
    pub limited: u64,
    /// Calls ended because their session was not refreshed.
    pub expired: u64,
    /// Calls ended because they were silent for too long.
    pub lost: u64,
    /// Calls reopened after an unproved end.
    pub reopened: u64,
}

impl CallCounts {
    /// Adds the counters of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.ringing += other.ringing;
        self.answered += other.answered;
        self.watched += other.watched;
        self.memory += other.memory;
        self.refused += other.refused;
        self.found += other.found;
        self.limited += other.limited;
        self.expired += other.expired;
        self.lost += other.lost;
        self.reopened += other.reopened;
    }
}

/// A call in progress.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenCall {
    /// Parties of the call.
    pub about: CallDescription,
    /// Time of its INVITE, in Unix seconds.
    pub began_unix: u32,
    /// Time at which it was answered; `None` if it was not, or before a restart.
    pub answered: Option<Instant>,
    /// Whether it was answered.
    pub is_answered: bool,
    /// Server that answered.
    pub peer: Option<SocketAddr>,
}

/// All calls of a shard. See the documentation of the crate.
#[derive(Debug)]
pub struct Calls {
    settings: CallSettings,
    table: Slab<Call>,
    index: HashTable<u32>,
    /// Number of active calls. All other calls have ended and are remembered for a while.
    open: usize,
    /// Ended calls in the order of their ends, by key and number of the end. Some of them may be active again, or
    /// already removed.
    ended: VecDeque<(u64, u64)>,
    /// Least number of ends that are remembered.
    most_ended: usize,
    /// Number of ends of calls so far.
    endings: u64,
    timers: TimerWheel,
    events: VecDeque<CallEvent>,
    counts: CallCounts,
    /// Calls that failed recently, with the time. A later message of such a call must not count as part of a call from
    /// before a restart.
    failed: Recent<u64, Instant>,
    /// Watched dialogs with the time of their end, oldest first. Some of them are no longer watched.
    watched: VecDeque<(DialogKey, Instant)>,
}

impl Default for Calls {
    fn default() -> Self {
        Self::new(CallSettings::default())
    }
}

impl Calls {
    /// Makes an empty set of calls with these settings.
    pub fn new(settings: CallSettings) -> Self {
        Self::remembering(settings, room::ENDED)
    }

    fn remembering(settings: CallSettings, most_ended: usize) -> Self {
        Self {
            settings,
            table: Slab::default(),
            index: HashTable::new(),
            open: 0,
            ended: VecDeque::new(),
            most_ended,
            endings: 0,
            timers: TimerWheel::default(),
            events: VecDeque::new(),
            counts: CallCounts::default(),
            failed: Recent::new(FAILED),
            watched: VecDeque::new(),
        }
    }

    /// Changes the settings. An active call keeps its timers until its next message.
    pub fn configure(&mut self, settings: CallSettings) {
        self.settings = settings;
    }

    /// Reports an INVITE without To tag: the first INVITE of a call, or the same INVITE when it passes this proxy
    /// again.
    ///
    /// # Errors
    /// If the limit of calls is reached.
    pub fn invited(&mut self, now: Instant, call: u64, invited: &Invited) -> Result<(), CallsFull> {
        if !self.has_room(call) {
            self.counts.refused += 1;
            return Err(CallsFull);
        }
        if let Some(at) = self.find(call) {
            let known = &mut self.table[at];
            known.heard = now;
            if known.is_open() {
                known.passes = known.passes.saturating_add(1);
            } else {
                // The INVITE was sent again, with credentials or after a while. It is another call with the same key.
                let timer = known.timer;
                self.table[at] = Call { timer, ..new_call(now, call, invited) };
            }
            self.set_timer(at);
            return Ok(());
        }
        self.insert(new_call(now, call, invited));
        Ok(())
    }

    /// [12.1-1] Reports a provisional response to the INVITE. `ringing`: a 180 or a similar response.
    pub fn provisional(&mut self, now: Instant, key: DialogKey, ringing: bool) {
        let Some(at) = self.find(key.call) else { return };
        let call = &mut self.table[at];
        // The response is from a branch that is being cancelled, since another branch already has the call.
        if call.passes == 0 {
            return;
        }
        call.heard = now;
        if ringing {
            call.rang.get_or_insert(now);
        }
        if let Some(dialog) = call.enter(now, key.tag, Phase::Early) {
            dialog.heard = now;
        }
        self.set_timer(at);
    }

    /// Reports the number of next hops that got the INVITE, before its final response.
    pub fn tried(&mut self, call: u64, attempts: u16) {
        if let Some(at) = self.find(call) {
            self.table[at].attempts = attempts;
        }
    }

    /// [12.1-1] Reports a 2xx to the INVITE from `peer`; `ways` are the paths to caller and callee. [8.2-5] Each 2xx
    /// has its own session; `session` is the interval of this session. `invited` is the INVITE, unless the INVITE had a
    /// final response before. `ends` is called if calls have a time limit.
    pub fn accepted(
        &mut self,
        now: Instant,
        key: DialogKey,
        (tag, peer, ways): (&[u8], SocketAddr, [Option<DialogPath>; 2]),
        invited: Option<&Invited>,
        session: Option<Duration>,
        ends: impl FnOnce() -> Option<DialogEnds>,
    ) {
        let Some(at) = self.find(key.call) else { return };
        let wants_ends = self.settings.longest.is_some();
        let call = &mut self.table[at];
        call.heard = now;
        // A spiral belongs to the same call. Only the first INVITE of the spiral has the Request-URI that the caller
        // wanted.
        let other = invited.filter(|invited| !invited.is_spiral && invited.about != call.about);
        let about = other.map(|invited| Box::new(invited.about.clone()));
        let Some(dialog) = call.enter(now, key.tag, Phase::Early) else { return };
        // Retransmissions contain nothing new.
        if dialog.phase != Phase::Early {
            return;
        }
        dialog.phase = Phase::Confirmed;
        dialog.accepted = Some(Accepted { at: Some(now), tag: tag.into() });
        (dialog.peer, dialog.session, dialog.heard) = (Some(peer), ends_at(now, session), now);
        (dialog.ways, dialog.alive) = (ways, now);
        dialog.about = about;
        dialog.ends = if wants_ends { ends().map(Box::new) } else { None };
        // This response is the final response for every time that the INVITE has passed this proxy.
        call.passes = 0;
        call.drop_early();
        if self.settings.record_answers {
            let call = &self.table[at];
            if let Some(dialog) = call.dialogs.iter().find(|dialog| dialog.tag == key.tag) {
                let told = call.record(dialog, (RecordEvent::Answered, now), (None, None, 0), false);
                self.events.push_back(CallEvent::Record(Box::new(told)));
            }
        }
        self.set_timer(at);
    }

    /// Reports a failure as the final response to the INVITE, for one time that it has passed this proxy. `peer` is the
    /// source of the response; `None` if this proxy made it.
    pub fn failed(
        &mut self,
        now: Instant,
        (call, invited): (u64, &Invited),
        status: u16,
        (peer, reason): (Option<SocketAddr>, &[u8]),
    ) {
        let Some(at) = self.find(call) else { return };
        let known = &mut self.table[at];
        known.passes = known.passes.saturating_sub(1);
        known.drop_early();
        // Either the INVITE comes again with credentials, or the caller has no credentials.
        let is_challenge = matches!(status, 401 | 407);
        if known.passes > 0 || known.is_accepted() {
            let is_other = known.about != invited.about;
            self.set_timer(at);
            if !invited.is_spiral && !is_challenge && is_other {
                let other = new_call(now, call, invited);
                let record = refused(other, now, status, (peer, reason));
                self.events.push_back(CallEvent::Record(Box::new(record)));
            }
            return;
        }
        let known = self.remove(at);
        self.failed.insert(call, now);
        if !is_challenge {
            let record = refused(known, now, status, (peer, reason));
            self.events.push_back(CallEvent::Record(Box::new(record)));
        }
    }

    /// Reports a CANCEL of the INVITE, or a BYE before it was answered.
    pub fn cancelled(&mut self, call: u64, by: DialogSide, reason: &[u8]) {
        let Some(at) = self.find(call) else { return };
        let call = &mut self.table[at];
        if call.passes > 0 && call.cancelled.is_none() {
            call.cancelled = Some(by);
            call.cancel_reason = cut(reason).into();
        }
    }

    /// Time of the next call of [`expire`](Self::expire).
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.deadline()
    }

    /// Removes and returns the oldest event.
    pub fn next_event(&mut self) -> Option<CallEvent> {
        self.events.pop_front()
    }

    /// Call-IDs of the active calls, without watched ones.
    pub fn call_ids(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter().filter(|(_, call)| call.goes_on()).map(|(_, call)| call.about.call_id())
    }

    /// The oldest active calls that `wanted` selects by their parties and the server that answered, at most `most`, and
    /// how many it selects. Takes time in proportion to the number of calls.
    pub fn oldest(
        &self,
        most: usize,
        wanted: impl Fn(&CallDescription, Option<SocketAddr>) -> bool,
    ) -> (Vec<OpenCall>, usize) {
        let of = |call: &Call| call.dialogs.iter().position(|it| it.accepted.is_some() && it.goes_on());
        let active = self.table.iter().map(|(_, call)| call).filter(|call| call.goes_on());
        let with_dialog = active.map(|call| (call, of(call).map(|at| &call.dialogs[at])));
        let mut chosen: Vec<_> =
            with_dialog.filter(|(call, dialog)| wanted(&call.about, dialog.and_then(|it| it.peer))).collect();
        chosen.sort_by_key(|(call, _)| call.began_unix);
        let shown = chosen.iter().take(most).map(|(call, dialog)| OpenCall {
            about: call.about.clone(),
            began_unix: call.began_unix,
            answered: dialog.and_then(|dialog| dialog.accepted.as_ref()?.at),
            is_answered: dialog.is_some(),
            peer: dialog.and_then(|dialog| dialog.peer),
        });
        (shown.collect(), chosen.len())
    }

    /// Whether no call is known, so that no message needs to be reported.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Counts the calls. Takes time in proportion to their number.
    pub fn counts(&self) -> CallCounts {
        let mut counts = self.counts;
        for (_, call) in self.table.iter() {
            counts.memory += size_of::<Call>() + call.memory();
            let are_answered = |dialog: &&Dialog| dialog.accepted.is_some() && dialog.goes_on();
            counts.answered += call.dialogs.iter().filter(are_answered).count();
            counts.watched += call.dialogs.iter().filter(|dialog| dialog.is_watched()).count();
            counts.ringing += usize::from(call.passes > 0);
        }
        counts
    }

    fn find(&self, call: u64) -> Option<u32> {
        self.index.find(call, |&at| self.table[at].key == call).copied()
    }

    fn insert(&mut self, call: Call) -> u32 {
        let (key, deadline) = (call.key, call.deadline(&self.settings));
        let at = self.table.insert(call);
        self.table[at].timer = (self.timers.set(deadline, at), deadline);
        let table = &self.table;
        self.index.insert_unique(key, at, |&other| table[other].key);
        self.count(at);
        at
    }

    fn remove(&mut self, at: u32) -> Call {
        let call = self.table.remove(at).expect("an indexed call is in the table");
        self.open -= usize::from(call.category == CallCategory::Active);
        if call.timer.0 != u32::MAX {
            self.timers.cancel(call.timer.0);
        }
        let found = self.index.find_entry(call.key, |&other| other == at);
        found.expect("a call in the table is in the index").remove();
        call
    }

    /// Sets the timer of a call. A timer that would fire too early is left as it is, since most calls have another
    /// message before it fires. When it fires, the deadlines are checked again.
    fn set_timer(&mut self, at: u32) {
        self.count(at);
        let call = &mut self.table[at];
        let deadline = call.deadline(&self.settings);
        if call.timer.0 == u32::MAX {
            call.timer = (self.timers.set(deadline, at), deadline);
        } else if deadline < call.timer.1 {
            self.timers.reset(call.timer.0, deadline);
            call.timer.1 = deadline;
        }
    }
}

fn new_call(now: Instant, key: u64, invited: &Invited) -> Call {
    Call {
        key,
        about: invited.about.clone(),
        began: CallStart::Seen(now),
        began_unix: invited.unix,
        cseq: invited.cseq,
        rang: None,
        heard: now,
        cancelled: None,
        cancel_reason: Box::default(),
        attempts: 0,
        passes: 1,
        dialogs: Vec::new(),
        timer: (u32::MAX, now),
        category: CallCategory::Over,
        ending: 0,
    }
}

/// Makes the record of a call that was not answered.
fn refused(call: Call, now: Instant, status: u16, (peer, reason): (Option<SocketAddr>, &[u8])) -> CallRecord {
    let (by, cause, reason) = match call.cancelled {
        Some(by) => (by, Cause::Cancelled, &call.cancel_reason[..]),
        None if peer.is_some() => (DialogSide::Callee, Cause::Refused, cut(reason)),
        None => (DialogSide::Proxy, Cause::Refused, cut(reason)),
    };
    CallRecord {
        event: RecordEvent::Ended,
        about: call.about,
        began: call.began,
        began_unix: call.began_unix,
        rang: call.rang,
        accepted: None,
        peer,
        attempts: call.attempts,
        ended: now,
        status,
        bye_status: 0,
        by: Some(by),
        cause: Some(cause),
        reason: reason.into(),
        is_final: true,
    }
}

/// Time at which a session with this interval ends if it starts now.
fn ends_at(now: Instant, session: Option<Duration>) -> Option<Instant> {
    session.map(|session| now + session.max(SHORTEST_SESSION))
}

fn cut(reason: &[u8]) -> &[u8] {
    &reason[..reason.len().min(LONGEST_REASON)]
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod watched_tests;

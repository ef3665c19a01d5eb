//! All calls of a shard.

use crate::about::About;
use crate::call::{Call, Ends, LATE, Phase, SHORTEST_SESSION, Side};
use crate::record::{Accepted, Began, CallRecord, Cause, RecordEvent};
use crate::settings::CallSettings;
use base::{Instant, Recent, Slab, TimerWheel};
use core::time::Duration;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Failed calls that are remembered, in each of two generations: of 32 s (64*T1) at 1,000 a second.
const FAILED: usize = 32_768;

/// Longest reason that is kept.
const LONGEST_REASON: usize = 128;

/// What a dialog is known by: keyed hashes of Call-ID and caller's tag, and of the callee's tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DialogKey {
    /// Of the call.
    pub call: u64,
    /// Of the callee's tag.
    pub tag: u64,
}

/// There are as many calls as there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallsFull;

/// What comes of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallEvent {
    /// To be written.
    Record(Box<CallRecord>),
    /// Both sides are to be sent a BYE.
    HangUp(Box<HangUp>),
}

/// Who is to be sent a BYE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HangUp {
    /// Call-ID of the dialog.
    pub call_id: Box<[u8]>,
    /// How its sides are reached.
    pub ends: Ends,
    /// The last CSeq numbers of caller and callee.
    pub cseq: [u32; 2],
}

/// An INVITE that begins a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invited {
    /// Who calls whom.
    pub about: About,
    /// When the token in its Record-Route says that the call began, in Unix seconds.
    pub unix: u32,
    /// Its CSeq number.
    pub cseq: u32,
    /// Whether it has been here before, on its way.
    pub is_spiral: bool,
}

/// How many calls there are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CallCounts {
    /// Not answered yet.
    pub ringing: usize,
    /// Answered.
    pub answered: usize,
    /// Bytes of memory that all of them take, those included that have just ended.
    pub memory: usize,
    /// Refused for want of room.
    pub refused: u64,
    /// Found again after a restart.
    pub found: u64,
    /// Ended because they had had their time.
    pub limited: u64,
    /// Ended because their session was not refreshed.
    pub expired: u64,
    /// Ended because nothing was heard of them.
    pub lost: u64,
}

impl CallCounts {
    /// Adds those of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.ringing += other.ringing;
        self.answered += other.answered;
        self.memory += other.memory;
        self.refused += other.refused;
        self.found += other.found;
        self.limited += other.limited;
        self.expired += other.expired;
        self.lost += other.lost;
    }
}

/// All calls of a shard. See the documentation of the crate.
#[derive(Debug)]
pub struct Calls {
    settings: CallSettings,
    table: Slab<Call>,
    index: HashTable<u32>,
    /// How many of them go on; the others are remembered for a while.
    open: usize,
    /// Those that have ended, by key, and which ending each was, in order; some may go on again, or be forgotten.
    ended: VecDeque<(u64, u64)>,
    /// So many endings are remembered at least.
    most_ended: usize,
    /// How often a call has ended.
    endings: u64,
    timers: TimerWheel,
    events: Vec<CallEvent>,
    counts: CallCounts,
    /// Calls that have failed lately, and when: what comes of them yet is of no call from before a restart.
    failed: Recent<u64, Instant>,
}

impl Default for Calls {
    fn default() -> Self {
        Self::new(CallSettings::default())
    }
}

impl Calls {
    /// None, with these settings.
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
            events: Vec::new(),
            counts: CallCounts::default(),
            failed: Recent::new(FAILED),
        }
    }

    /// Changes the settings. What goes on keeps the timers that it has until something of it comes by.
    pub fn configure(&mut self, settings: CallSettings) {
        self.settings = settings;
    }

    /// An INVITE without To tag goes on for the first time; one that is on its way already comes by once more.
    ///
    /// # Errors
    /// There is no room for a call more.
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
                // Asked again, with credentials or after a while: another call with the same name.
                let timer = known.timer;
                self.table[at] = Call { timer, ..begun(now, call, invited) };
            }
            self.set_timer(at);
            return Ok(());
        }
        self.insert(begun(now, call, invited));
        Ok(())
    }

    /// [12.1-1] A provisional response to the INVITE goes back; `ringing`: a 180 or another one that says so.
    pub fn provisional(&mut self, now: Instant, key: DialogKey, ringing: bool) {
        let Some(at) = self.find(key.call) else { return };
        let call = &mut self.table[at];
        // Of one branch when another has the call already: it is cancelled.
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

    /// [12.1-1] A 2xx to the INVITE goes back from `peer`. [8.2-5] Each has a session of its own; `session` is how long it lasts.
    /// `invited` is the INVITE, unless that has had a final response before; `ends` is asked for where calls have a time limit.
    pub fn accepted(
        &mut self,
        now: Instant,
        key: DialogKey,
        (tag, peer): (&[u8], SocketAddr),
        invited: Option<&Invited>,
        session: Option<Duration>,
        ends: impl FnOnce() -> Option<Ends>,
    ) {
        let Some(at) = self.find(key.call) else { return };
        let wants_ends = self.settings.longest.is_some();
        let call = &mut self.table[at];
        call.heard = now;
        // A spiral is of the same call, and the first pass says best what the caller wanted.
        let other = invited.filter(|invited| !invited.is_spiral && invited.about != call.about);
        let about = other.map(|invited| Box::new(invited.about.clone()));
        let Some(dialog) = call.enter(now, key.tag, Phase::Early) else { return };
        // Its repetitions say nothing new.
        if dialog.phase != Phase::Early {
            return;
        }
        dialog.phase = Phase::Confirmed;
        dialog.accepted = Some(Accepted { at: Some(now), tag: tag.into() });
        (dialog.peer, dialog.session, dialog.heard) = (Some(peer), ends_at(now, session), now);
        dialog.about = about;
        dialog.ends = if wants_ends { ends().map(Box::new) } else { None };
        // Every pass of the INVITE has its final response with this one.
        call.passes = 0;
        call.drop_early();
        if self.settings.tell_answers {
            let call = &self.table[at];
            if let Some(dialog) = call.dialogs.iter().find(|dialog| dialog.tag == key.tag) {
                let told = call.record(dialog, (RecordEvent::Answered, now), (None, None, 0));
                self.events.push(CallEvent::Record(Box::new(told)));
            }
        }
        self.set_timer(at);
    }

    /// A failure goes back as the final response to a pass of the INVITE; `peer`: where it came from, if not from here.
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
        // It comes again with credentials, or nobody is there who could.
        let is_challenge = matches!(status, 401 | 407);
        if known.passes > 0 || known.is_accepted() {
            let is_other = known.about != invited.about;
            self.set_timer(at);
            if !invited.is_spiral && !is_challenge && is_other {
                let other = begun(now, call, invited);
                let record = refused(other, now, status, (peer, reason));
                self.events.push(CallEvent::Record(Box::new(record)));
            }
            return;
        }
        let known = self.remove(at);
        self.failed.insert(call, now);
        if !is_challenge {
            let record = refused(known, now, status, (peer, reason));
            self.events.push(CallEvent::Record(Box::new(record)));
        }
    }

    /// A CANCEL of the INVITE has come, or a BYE before it was answered.
    pub fn cancelled(&mut self, call: u64, by: Side, reason: &[u8]) {
        let Some(at) = self.find(call) else { return };
        let call = &mut self.table[at];
        if call.passes > 0 && call.cancelled.is_none() {
            call.cancelled = Some(by);
            call.cancel_reason = cut(reason).into();
        }
    }

    /// A request within a dialog comes by. Returns whether the dialog is known.
    pub fn heard(&mut self, now: Instant, key: DialogKey, by: Side, cseq: u32) -> bool {
        let Some(at) = self.find(key.call) else { return false };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return false };
        dialog.heard = now;
        // Whoever goes on talking has not hung up.
        dialog.refused_bye = None;
        let last = &mut dialog.cseq[Ends::index(by)];
        *last = (*last).max(cseq);
        self.set_timer(at);
        true
    }

    /// A request has come that belongs to a dialog from before a restart: its token says since when, in Unix seconds.
    ///
    /// Returns whether there is room for it.
    pub fn found(&mut self, now: Instant, key: DialogKey, about: About, tag: &[u8], began: u32) -> bool {
        let has_failed = self.failed.get(&key.call).is_some_and(|&then| now < then + LATE);
        let at = match self.find(key.call) {
            // What this process has seen begin it does not find: the dialog was not confirmed, or is another's.
            Some(at) if matches!(self.table[at].began, Began::Seen(_)) => return true,
            Some(at) => at,
            None if has_failed => return true,
            None if !self.has_room(key.call) => {
                self.counts.refused += 1;
                return false;
            }
            None => {
                let invited = Invited { about, unix: began, cseq: 0, is_spiral: false };
                let call = begun(now, key.call, &invited);
                self.insert(Call { passes: 0, began: Began::Token(began), ..call })
            }
        };
        let dialog = self.table[at].enter(now, key.tag, Phase::Confirmed);
        if let Some(dialog) =
            dialog.filter(|dialog| dialog.phase == Phase::Confirmed && dialog.accepted.is_none())
        {
            dialog.accepted = Some(Accepted { at: None, tag: tag.into() });
            self.counts.found += 1;
        }
        self.set_timer(at);
        true
    }

    /// A BYE comes by.
    pub fn bye(&mut self, now: Instant, key: DialogKey, by: Side, reason: &[u8]) {
        let Some(at) = self.find(key.call) else { return };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return };
        match dialog.phase {
            Phase::Confirmed => {
                (dialog.phase, dialog.reason) = (Phase::Ending { by, since: now }, cut(reason).into());
            }
            // Its INVITE gets its failure yet.
            Phase::Early => self.cancelled(key.call, by, reason),
            Phase::Over(_) => dialog.ends = None,
            Phase::Ending { .. } => {}
        }
        self.set_timer(at);
    }

    /// [15.1.1-1] The final response to a BYE goes back. A challenge does not end the dialog: the BYE comes again. Nor does
    /// another refusal, as of a wrong CSeq; only if nothing more is heard, it was the end.
    pub fn bye_answered(&mut self, now: Instant, key: DialogKey, status: u16) {
        let Some(at) = self.find(key.call) else { return };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return };
        let Phase::Ending { by, since } = dialog.phase else { return };
        match status {
            200..300 | 408 | 481 => {
                // It ended when the BYE came.
                self.end((at, key.tag), now, since, (Some(by), Cause::Bye, status));
            }
            401 | 407 => dialog.phase = Phase::Confirmed,
            // Whoever refuses a BYE may talk on.
            _ => (dialog.phase, dialog.refused_bye) = (Phase::Confirmed, Some((by, since, status))),
        }
        self.set_timer(at);
    }

    /// [8.2-4] A 2xx to a request that refreshes the session goes back: it lasts so long from now. `contacts` are those
    /// of caller and callee, where they are told: [12.2.2-1] requests go there from now on.
    pub fn refreshed(
        &mut self,
        now: Instant,
        key: DialogKey,
        session: Option<Duration>,
        contacts: [Option<&[u8]>; 2],
    ) {
        let Some(at) = self.find(key.call) else { return };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return };
        (dialog.session, dialog.heard) = (ends_at(now, session), now);
        if let Some(ends) = &mut dialog.ends {
            for (kept, told) in ends.contacts.iter_mut().zip(contacts) {
                if let Some(told) = told {
                    *kept = told.into();
                }
            }
        }
        self.set_timer(at);
    }

    /// Time has passed: ends what is to end, a bounded number of calls; [`deadline`](Self::deadline) tells whether some are left.
    pub fn expire(&mut self, now: Instant) {
        const MOST: usize = 64;
        for _ in 0..MOST {
            let Some((_, at)) = self.timers.pop(now) else { return };
            // It has fired: what stands there is no key any more.
            self.table[at].timer.0 = u32::MAX;
            self.expire_one(now, at);
        }
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.deadline()
    }

    /// What came of the steps so far.
    pub fn drain_events(&mut self) -> impl Iterator<Item = CallEvent> + '_ {
        self.events.drain(..)
    }

    /// The Call-IDs of the calls that go on.
    pub fn call_ids(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter().filter(|(_, call)| call.is_open()).map(|(_, call)| call.about.call_id())
    }

    /// Whether nothing is known, so that no message can be about anything.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many calls there are. Walks all of them.
    pub fn counts(&self) -> CallCounts {
        let mut counts = self.counts;
        for (_, call) in self.table.iter() {
            counts.memory += size_of::<Call>() + call.memory();
            let answered = call.dialogs.iter().filter(|dialog| dialog.accepted.is_some() && dialog.is_open());
            counts.answered += answered.count();
            counts.ringing += usize::from(call.passes > 0);
        }
        counts
    }

    fn expire_one(&mut self, now: Instant, at: u32) {
        let due: Vec<_> = self.table[at]
            .dialogs
            .iter()
            .filter_map(|dialog| Some((dialog.tag, dialog.phase, dialog.due(now, &self.settings)?)))
            .collect();
        for (tag, phase, cause) in due {
            let refused_bye = self.table[at].dialog(tag).and_then(|dialog| dialog.refused_bye);
            let (ended, by, bye_status) = match phase {
                Phase::Ending { by, since } => (since, Some(by), 408),
                _ if let (Some((by, since, status)), true) = (refused_bye, cause != Cause::TimeLimit) => {
                    (since, Some(by), status)
                }
                _ if cause == Cause::TimeLimit => (now, Some(Side::Proxy), 0),
                _ => (now, None, 0),
            };
            match cause {
                Cause::TimeLimit => {
                    self.counts.limited += 1;
                    self.hang_up(at, tag);
                }
                // [8.3-1] Nobody is sent a BYE.
                Cause::SessionExpired => self.counts.expired += 1,
                Cause::Lost => self.counts.lost += 1,
                Cause::Bye | Cause::Cancelled | Cause::Refused => {}
            }
            self.end((at, tag), now, ended, (by, cause, bye_status));
        }
        let is_over = |phase| matches!(phase, Phase::Over(until) if until <= now);
        let over = self.table[at].dialogs.iter().filter(|dialog| is_over(dialog.phase));
        for tag in over.map(|dialog| dialog.tag).collect::<Vec<_>>() {
            self.hang_up(at, tag);
        }
        let call = &mut self.table[at];
        call.dialogs.retain(|dialog| !is_over(dialog.phase));
        let is_silent = now >= call.heard + self.settings.silence;
        if call.passes > 0 && is_silent {
            // What has to answer an INVITE is gone: a proxy that works does so by Timer C.
            call.passes = 0;
            call.drop_early();
        }
        if call.passes == 0 && call.dialogs.is_empty() {
            self.remove(at);
        } else {
            self.set_timer(at);
        }
    }

    fn hang_up(&mut self, at: u32, tag: u64) {
        let call = &mut self.table[at];
        let call_id = call.about.call_id().into();
        let ends = call.dialog(tag).and_then(|dialog| Some((*dialog.ends.take()?, dialog.cseq)));
        if let Some((ends, cseq)) = ends {
            self.events.push(CallEvent::HangUp(Box::new(HangUp { call_id, ends, cseq })));
        }
    }

    /// A dialog is over: its record comes out, and it is remembered for a while.
    fn end(
        &mut self,
        (at, tag): (u32, u64),
        now: Instant,
        ended: Instant,
        (by, cause, bye_status): (Option<Side>, Cause, u16),
    ) {
        let call = &mut self.table[at];
        let Some(dialog) = call.dialogs.iter().position(|dialog| dialog.tag == tag) else { return };
        let record =
            call.record(&call.dialogs[dialog], (RecordEvent::Ended, ended), (by, Some(cause), bye_status));
        let limit = call.dialogs[dialog].time_limit(&self.settings);
        let dialog = &mut call.dialogs[dialog];
        dialog.reason = Box::default();
        dialog.phase = Phase::Over(now + LATE);
        if let Some(limit) = limit.filter(|_| cause == Cause::SessionExpired) {
            // Whoever said that it has ended and talks on is hung up all the same when a call has had its time.
            dialog.phase = Phase::Over(limit.max(now + LATE));
        } else {
            dialog.ends = None;
        }
        self.events.push(CallEvent::Record(Box::new(record)));
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
        let call = self.table.remove(at).expect("it was found");
        self.open -= usize::from(call.is_counted);
        if call.timer.0 != u32::MAX {
            self.timers.cancel(call.timer.0);
        }
        let found = self.index.find_entry(call.key, |&other| other == at);
        found.expect("what is there is in the index").remove();
        call
    }

    /// Sets the timer of a call for what is next. One that would ring early stays: it looks again then, and most calls hear of
    /// something before.
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

fn begun(now: Instant, key: u64, invited: &Invited) -> Call {
    Call {
        key,
        about: invited.about.clone(),
        began: Began::Seen(now),
        began_unix: invited.unix,
        cseq: invited.cseq,
        rang: None,
        heard: now,
        cancelled: None,
        cancel_reason: Box::default(),
        passes: 1,
        dialogs: Vec::new(),
        timer: (u32::MAX, now),
        is_counted: false,
        ending: 0,
    }
}

/// What is written of a call that nobody took.
fn refused(call: Call, now: Instant, status: u16, (peer, reason): (Option<SocketAddr>, &[u8])) -> CallRecord {
    let (by, cause, reason) = match call.cancelled {
        Some(by) => (by, Cause::Cancelled, &call.cancel_reason[..]),
        None if peer.is_some() => (Side::Callee, Cause::Refused, cut(reason)),
        None => (Side::Proxy, Cause::Refused, cut(reason)),
    };
    CallRecord {
        event: RecordEvent::Ended,
        about: call.about,
        began: call.began,
        began_unix: call.began_unix,
        rang: call.rang,
        accepted: None,
        peer,
        ended: now,
        status,
        bye_status: 0,
        by: Some(by),
        cause: Some(cause),
        reason: reason.into(),
    }
}

/// When a session ends that lasts so long from now.
fn ends_at(now: Instant, session: Option<Duration>) -> Option<Instant> {
    session.map(|session| now + session.max(SHORTEST_SESSION))
}

fn cut(reason: &[u8]) -> &[u8] {
    &reason[..reason.len().min(LONGEST_REASON)]
}

mod room;
#[cfg(test)]
mod tests;

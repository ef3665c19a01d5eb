//! All calls of a shard: their INVITEs, and what is counted.
//!
//! - `within.rs`: requests within dialogs, and their answers,
//! - `room.rs`: how many there may be,
//! - `ending.rs`: what time brings, ends that are proved, and calls that are watched since theirs is not.

mod ending;
mod room;
mod within;

use crate::about::About;
use crate::call::{Call, Dialog, DialogPath, Ends, Phase, SHORTEST_SESSION, Side, Standing};
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

/// What is known of the dialog of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It is there.
    Known,
    /// It is watched: a 2xx to the request reopens it ([`Calls::goes_on`]).
    Watched,
}

/// A BYE that went on, until its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardedBye {
    /// Which side sent it.
    pub by: Side,
    /// When it came.
    pub since: Instant,
    /// Whether it went to the other side of the dialog, and to nobody else.
    pub is_proved: bool,
}

/// How many calls there are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CallCounts {
    /// Not answered yet.
    pub ringing: usize,
    /// Answered.
    pub answered: usize,
    /// Over as far as somebody has said, and watched: what is heard of them yet reopens them.
    pub watched: usize,
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
    /// Reopened after an end that was none.
    pub reopened: u64,
}

impl CallCounts {
    /// Adds those of another shard.
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
    /// The dialogs that are watched, and since when; the oldest first. Some are not any more.
    watched: VecDeque<(DialogKey, Instant)>,
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
            watched: VecDeque::new(),
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

    /// [12.1-1] A 2xx to the INVITE goes back from `peer`; by these `ways` requests go to caller and callee. [8.2-5]
    /// Each has a session of its own; `session` is how long it lasts. `invited` is the INVITE, unless that has had a
    /// final response before; `ends` is asked for where calls have a time limit.
    pub fn accepted(
        &mut self,
        now: Instant,
        key: DialogKey,
        (tag, peer, ways): (&[u8], SocketAddr, [Option<DialogPath>; 2]),
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
        (dialog.ways, dialog.alive) = (ways, now);
        dialog.about = about;
        dialog.ends = if wants_ends { ends().map(Box::new) } else { None };
        // Every pass of the INVITE has its final response with this one.
        call.passes = 0;
        call.drop_early();
        if self.settings.tell_answers {
            let call = &self.table[at];
            if let Some(dialog) = call.dialogs.iter().find(|dialog| dialog.tag == key.tag) {
                let told = call.record(dialog, (RecordEvent::Answered, now), (None, None, 0), false);
                self.events.push(CallEvent::Record(Box::new(told)));
            }
        }
        self.set_timer(at);
    }

    /// A failure goes back as the final response to a pass of the INVITE; `peer`: where it came from, if not from
    /// here.
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

    /// When [`expire`](Self::expire) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.deadline()
    }

    /// What came of the steps so far.
    pub fn drain_events(&mut self) -> impl Iterator<Item = CallEvent> + '_ {
        self.events.drain(..)
    }

    /// The Call-IDs of the calls that go on. Those that are watched are not among them.
    pub fn call_ids(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter().filter(|(_, call)| call.goes_on()).map(|(_, call)| call.about.call_id())
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
        let call = self.table.remove(at).expect("it was found");
        self.open -= usize::from(call.standing == Standing::GoesOn);
        if call.timer.0 != u32::MAX {
            self.timers.cancel(call.timer.0);
        }
        let found = self.index.find_entry(call.key, |&other| other == at);
        found.expect("what is there is in the index").remove();
        call
    }

    /// Sets the timer of a call for what is next. One that would ring early stays: it looks again then, and most
    /// calls hear of something before.
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
        standing: Standing::Over,
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
        is_final: true,
    }
}

/// When a session ends that lasts so long from now.
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

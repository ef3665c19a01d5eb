//! Entries of the session table, and their keys.

use crate::Slot;
use crate::lease::CallLease;
use base::{Instant, Slab, TimerWheel};
use core::time::Duration;
use hashbrown::HashTable;

/// Key of a call: a keyed 128-bit hash of its Call-ID. 128 bits rule out accidental collisions. The secret key rules
/// out that a sender chooses Call-IDs that collide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallKey(pub u128);

impl CallKey {
    /// Key of the session whose initiator has this tag ([`Tags`]). A sender may start many calls with one Call-ID, and
    /// each of them counts.
    #[must_use]
    pub fn with_initiator(self, tag: u64) -> Self {
        Self(self.0 ^ u128::from(tag))
    }

    /// The part that all sessions of a Call-ID share. Only the lower half depends on the tag.
    pub fn call_id(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// Value in place of the initiator for requests outside dialogs other than INVITE. These requests share the session of
/// their Call-ID. Some clients change their tag between a REGISTER and the same REGISTER with credentials. The second
/// REGISTER has to find the node that sent the challenge.
pub(crate) const NO_INITIATOR: u64 = 0;

/// Most dialogs of a call that are distinguished besides the first. A further dialog is not entered, and ends with the
/// last dialog that was entered.
pub(crate) const OTHERS: usize = 7;

/// Keyed hashes of the tags of a message, 0 for none. Tags find sessions and end calls, so a sender without the key
/// must not be able to make two of them collide.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tags {
    /// From tag.
    pub from: u64,
    /// To tag.
    pub to: u64,
}

impl Tags {
    /// Key of a dialog within its call: a hash of both tags, equal for messages of both sides (RFC 3261 §12). Never 0.
    pub fn dialog(self) -> u32 {
        (self.from.wrapping_add(self.to) as u32).max(1)
    }
}

/// State of a session (`STATUS_...` in figure 4 of the TLWL digest).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionState {
    /// No call: REGISTER, OPTIONS, MESSAGE, SUBSCRIBE and the like. The session lives as long as its transactions.
    Plain,
    /// The INVITE was forwarded and has no final response yet.
    Invited,
    /// The INVITE was answered with 2xx.
    Answered,
    /// The ACK to the 2xx was seen, or the call is known only from a token.
    Confirmed,
    /// A BYE was forwarded.
    Closing,
    /// The session is over. It is kept for a while, so that late messages and retransmissions still find their node.
    Expired,
}

/// One entry of the session table.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) key: CallKey,
    pub(crate) created: Instant,
    pub(crate) call: Option<CallLease>,
    /// Highest CSeq seen, plus one: of requests to the pool, and of requests from the pool. 0 if there was none.
    pub(crate) seen: [u32; 2],
    /// First open transaction, or [`NONE`].
    pub(crate) first: u32,
    timer: u32,
    pub(crate) slot: Slot,
    pub(crate) state: SessionState,
    /// Whether the last response was a challenge. The request then comes again with credentials, and must find the same
    /// node.
    pub(crate) challenged: bool,
    /// Whether a 2xx of the call was seen, so that there is or was an answered call.
    pub(crate) proven: bool,
    /// First answered dialog that has not ended ([`crate::dialogs`]); 0 for none.
    pub(crate) dialog: u32,
    /// Further dialogs; a free place is 0.
    pub(crate) other_dialogs: Option<Box<[u32; OTHERS]>>,
}

// An established call takes 200 bytes: this entry, and its entries in the index and the timer wheel.
const _: () = assert!(size_of::<Option<Session>>() <= 64);

/// End of a list of keys.
pub(crate) const NONE: u32 = u32::MAX;

/// A session as the API shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionView {
    /// Key of the session: from its Call-ID and initiator.
    pub key: CallKey,
    /// Its node.
    pub slot: Slot,
    /// State.
    pub state: SessionState,
    /// Time of its first request.
    pub created: Instant,
    /// Whether the session has a call lease.
    pub is_call: bool,
}

impl Session {
    /// Whether there is no call and no call was answered: its INVITE was given up, or there was no INVITE.
    pub(crate) fn was_never_answered(&self) -> bool {
        matches!(self.state, SessionState::Plain | SessionState::Expired) && !self.proven
    }

    /// `is_call`: whether its call lease is live.
    pub(crate) fn view(&self, is_call: bool) -> SessionView {
        SessionView { key: self.key, slot: self.slot, state: self.state, created: self.created, is_call }
    }
}

/// Numbers of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableCounts {
    /// Sessions in progress.
    pub active: usize,
    /// Ended sessions, kept for late messages.
    pub expired: usize,
}

/// A part of the index with at most this capacity does not shrink.
const SHORT: usize = 64;

/// Number of parts of the index. Each part grows separately, so a step of growth moves only a 256th of a large table.
const PARTS: usize = 256;

/// The session table: active and expired entries (TLWL digest, section V), found by [`CallKey::with_initiator`].
#[derive(Debug)]
pub(crate) struct SessionTable {
    sessions: Slab<Session>,
    index: Vec<HashTable<u32>>,
    /// Timers of active sessions.
    timers: TimerWheel,
    /// Timers of expired sessions.
    ended: TimerWheel,
}

impl Default for SessionTable {
    fn default() -> Self {
        let index = (0..PARTS).map(|_| HashTable::new()).collect();
        Self { sessions: Slab::default(), index, timers: TimerWheel::default(), ended: TimerWheel::default() }
    }
}

/// The key is already a hash. The hash table uses its low half, and the part of the index uses bits that the table does
/// not need. Sessions of one Call-ID differ only in the low half.
fn hash_of(key: CallKey) -> u64 {
    key.0 as u64
}

fn part_of(key: CallKey) -> usize {
    (key.0 >> 40) as u8 as usize
}

impl SessionTable {
    /// Session of a message with both tags. The initiator may be the sender, the other side, or [`NO_INITIATOR`].
    /// Returns the first session for which `is_it` is true. If there is none, returns the first session that was found.
    pub(crate) fn find_of(&self, key: CallKey, tags: Tags, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut first = None;
        for tag in [tags.from, tags.to, NO_INITIATOR] {
            let at = self.find(key.with_initiator(tag));
            if at.is_some_and(&is_it) {
                return at;
            }
            first = first.or(at);
        }
        first
    }

    pub(crate) fn find(&self, key: CallKey) -> Option<u32> {
        self.index[part_of(key)].find(hash_of(key), |&at| self.sessions[at].key == key).copied()
    }

    pub(crate) fn get(&self, at: u32) -> &Session {
        &self.sessions[at]
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> &mut Session {
        &mut self.sessions[at]
    }

    pub(crate) fn insert(&mut self, now: Instant, key: CallKey, slot: Slot, lifetime: Duration) -> u32 {
        let session = Session {
            key,
            created: now,
            call: None,
            seen: [0; 2],
            first: NONE,
            timer: NONE,
            slot,
            state: SessionState::Plain,
            challenged: false,
            proven: false,
            dialog: 0,
            other_dialogs: None,
        };
        let at = self.sessions.insert(session);
        self.sessions[at].timer = self.timers.set(now + lifetime, at);
        let sessions = &self.sessions;
        self.index[part_of(key)].insert_unique(hash_of(key), at, |&other| hash_of(sessions[other].key));
        at
    }

    /// Moves a session to another state. `lifetime` is the time that it lives without messages.
    pub(crate) fn set_state(&mut self, now: Instant, at: u32, state: SessionState, lifetime: Duration) {
        let session = &mut self.sessions[at];
        let before = core::mem::replace(&mut session.state, state);
        let timer = session.timer;
        let [from, to] = [before, state].map(|state| state == SessionState::Expired);
        if from == to {
            self.wheel(to).reset(timer, now + lifetime);
        } else {
            self.wheel(from).cancel(timer);
            self.sessions[at].timer = self.wheel(to).set(now + lifetime, at);
        }
    }

    fn wheel(&mut self, has_ended: bool) -> &mut TimerWheel {
        if has_ended { &mut self.ended } else { &mut self.timers }
    }

    /// Removes and returns the next session whose time is over.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Session> {
        let (_, at) = self.timers.pop(now).or_else(|| self.ended.pop(now))?;
        Some(self.take_out(at))
    }

    /// Removes and returns a session before its time is over.
    pub(crate) fn remove(&mut self, at: u32) -> Session {
        let session = &self.sessions[at];
        let (has_ended, timer) = (session.state == SessionState::Expired, session.timer);
        self.wheel(has_ended).cancel(timer);
        self.take_out(at)
    }

    /// The ended session whose last message is the oldest.
    pub(crate) fn oldest_ended(&self) -> Option<u32> {
        self.ended.next()
    }

    /// Removes a session that no longer has a timer.
    fn take_out(&mut self, at: u32) -> Session {
        let session = self.sessions.remove(at).expect("a session lives as long as its timer");
        let part = &mut self.index[part_of(session.key)];
        part.find_entry(hash_of(session.key), |&other| other == at)
            .expect("a session is indexed as long as it lives")
            .remove();
        // Frees memory after a peak of sessions.
        if part.capacity() > SHORT && part.len() < part.capacity() / 8 {
            let sessions = &self.sessions;
            part.shrink_to(part.capacity() / 4, |&other| hash_of(sessions[other].key));
        }
        session
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        Instant::earliest(self.timers.deadline(), self.ended.deadline())
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn counts(&self) -> TableCounts {
        TableCounts { active: self.timers.len(), expired: self.ended.len() }
    }

    pub(crate) fn iter_from(&self, at: u32) -> impl Iterator<Item = (u32, &Session)> {
        self.sessions.iter_from(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many requests with one Call-ID do not make one part of the index larger than the others.
    #[test]
    fn sessions_of_one_call_id_are_spread_over_the_index() {
        const SESSIONS: u64 = 100_000;
        let mut table = SessionTable::default();
        let call = CallKey(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        for tag in 1..=SESSIONS {
            let key = call.with_initiator(tag.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert_eq!(key.call_id(), call.call_id());
            table.insert(Instant::ZERO, key, Slot(0), Duration::from_secs(1));
        }
        let mean = SESSIONS as usize / PARTS;
        assert!(table.index.iter().all(|part| part.len() < 2 * mean));
    }
}

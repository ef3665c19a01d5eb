//! Requests in progress in a proxy.

use crate::branches::{BranchEntry, Branches, MOST};
use crate::context::Context;
use crate::medium::{Answered, KeptRequest};
use base::{Instant, Slab, TimerWheel};
use core::ops::{Index, IndexMut};
use transaction::{Id, KeptMessage};

/// Result of a race between next hops. Later next hops got the request because earlier ones were silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Race {
    /// There is no other next hop.
    None,
    /// No next hop has answered.
    Open,
    /// This branch was the first to answer.
    Won(u8),
}

/// The part of a request that is kept.
pub(crate) enum Held<R: KeptRequest> {
    /// The request, kept until its final response: responses and further attempts are made from it.
    Request(R),
    /// Return path of further 2xx.
    Back(R::Back),
}

impl<R: KeptRequest> Held<R> {
    pub(crate) fn as_ref(&self) -> Option<&R> {
        if let Self::Request(request) = self { Some(request) } else { None }
    }

    pub(crate) fn as_mut(&mut self) -> Option<&mut R> {
        if let Self::Request(request) = self { Some(request) } else { None }
    }

    /// The request in the form that [`crate::Medium::relay`] takes.
    pub(crate) fn answered(&mut self) -> Answered<'_, R> {
        match self {
            Self::Request(request) => Answered::Waiting(request),
            Self::Back(back) => Answered::Final(*back),
        }
    }

    /// Removes and returns the request, if present.
    fn take(&mut self) -> Option<R> {
        let back = Self::Back(self.as_ref()?.back());
        if let Self::Request(request) = core::mem::replace(self, back) { Some(request) } else { None }
    }
}

/// A request in progress.
pub(crate) struct Proxied<R: KeptRequest, M, C> {
    pub(crate) context: Context,
    pub(crate) server: Id,
    /// Removed by [`Table::take_request`].
    pub(crate) request: Held<R>,
    pub(crate) branches: Branches,
    /// Best final response so far, in its forwarded form. Set by [`Table::keep_best`].
    best: Option<M>,
    call: C,
    /// Memory of the request beside its size, in bytes.
    memory: u32,
    /// Incoming Max-Breadth (RFC 5393 §5.3.2).
    pub(crate) breadth: u8,
    /// Number of the current group of targets.
    pub(crate) group: u8,
    /// Number of targets in the next group, which waits for Max-Breadth.
    pub(crate) waiting: u8,
    pub(crate) race: Race,
    /// Number of searches for another next hop that found none.
    pub(crate) looks: u8,
    /// Whether it no longer counts as unanswered.
    answered: bool,
    /// Key in the timer wheel: of the timer of its group, or of the timer for the silence of its next hops.
    ring: Option<u32>,
}

/// Data of a new request.
pub(crate) struct Entered<R, C> {
    pub(crate) server: Id,
    pub(crate) request: R,
    pub(crate) call: C,
    /// Memory of the request beside its size, in bytes.
    pub(crate) memory: usize,
    /// Incoming Max-Breadth.
    pub(crate) breadth: u8,
}

impl<R: KeptRequest, M, C> Proxied<R, M, C> {
    pub(crate) fn new(context: Context, first: BranchEntry, entered: Entered<R, C>) -> Self {
        let Entered { server, request, call, memory, breadth } = entered;
        Self {
            context,
            server,
            request: Held::Request(request),
            branches: Branches::new(first),
            best: None,
            call,
            memory: u32::try_from(memory).unwrap_or(u32::MAX),
            breadth,
            group: 0,
            waiting: 0,
            race: Race::None,
            looks: 0,
            answered: false,
            ring: None,
        }
    }

    /// Whether there is still a client transaction.
    fn has_client(&self) -> bool {
        self.branches.iter().any(|branch| branch.client.is_some())
    }
}

/// A branch: the place of its request, and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) at: u32,
    pub(crate) branch: u8,
}

/// The proxy's data of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leg {
    /// Server transaction of the proxied request at this place, which may be reused later.
    Server(u32),
    /// Client transaction of a branch: the place of its request, and its number. The two fields of the variant take no
    /// more memory than the place alone.
    Client(u32, u8),
    /// Transaction without a proxied request: of a CANCEL, or of a request that the proxy refused.
    Alone,
}

/// Timer of a request: Timer C of a branch, the timer of its group, or the timer for the silence of its next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestTimer {
    pub(crate) at: u32,
    pub(crate) branch: Option<u8>,
}

impl RequestTimer {
    const BITS: u32 = 4;

    /// Value in the wheel. There are far fewer places than 2^28, since each holds a message.
    fn value(self) -> u32 {
        debug_assert!(self.at < 1 << (u32::BITS - Self::BITS));
        self.at << Self::BITS | u32::from(self.branch.unwrap_or(MOST))
    }

    fn of(value: u32) -> Self {
        let branch = (value & ((1 << Self::BITS) - 1)) as u8;
        Self { at: value >> Self::BITS, branch: (branch < MOST).then_some(branch) }
    }
}

/// All requests in progress, with their timers. An entry is removed when its request is finished and its client
/// transactions have ended.
pub(crate) struct Table<R: KeptRequest, M, C> {
    entries: Slab<Proxied<R, M, C>>,
    /// Timer C of all INVITEs, and the timers of groups. This is a wheel and not queues, since almost all timers are
    /// cancelled early, and each provisional response restarts one.
    timers: TimerWheel,
    /// Requests without a final response.
    unanswered: usize,
    /// Memory of requests, of their further branches and of kept responses, besides their own size, in bytes.
    memory: usize,
}

impl<R: KeptRequest, M, C> Default for Table<R, M, C> {
    fn default() -> Self {
        Self { entries: Slab::default(), timers: TimerWheel::default(), unanswered: 0, memory: 0 }
    }
}

impl<R: KeptRequest, M, C> Index<u32> for Table<R, M, C> {
    type Output = Proxied<R, M, C>;

    fn index(&self, at: u32) -> &Proxied<R, M, C> {
        &self.entries[at]
    }
}

impl<R: KeptRequest, M, C> IndexMut<u32> for Table<R, M, C> {
    fn index_mut(&mut self, at: u32) -> &mut Proxied<R, M, C> {
        &mut self.entries[at]
    }
}

impl<R: KeptRequest, M, C> Index<Place> for Table<R, M, C> {
    type Output = BranchEntry;

    fn index(&self, place: Place) -> &BranchEntry {
        self.entries[place.at].branches.get(place.branch).expect("branches stay as long as their request")
    }
}

impl<R: KeptRequest, M, C> IndexMut<Place> for Table<R, M, C> {
    fn index_mut(&mut self, place: Place) -> &mut BranchEntry {
        self.entries[place.at].branches.get_mut(place.branch).expect("branches stay as long as their request")
    }
}

impl<R: KeptRequest, M: KeptMessage, C: Copy> Table<R, M, C> {
    /// Adds a request; returns its place.
    pub(crate) fn insert(&mut self, entry: Proxied<R, M, C>) -> u32 {
        self.unanswered += 1;
        self.memory += entry.memory as usize;
        self.entries.insert(entry)
    }

    /// Adds a branch to a request.
    pub(crate) fn push(&mut self, at: u32, branch: BranchEntry) -> Place {
        let entry = &mut self.entries[at];
        let place = Place { at, branch: entry.branches.len() };
        entry.branches.push(branch);
        self.memory += size_of::<BranchEntry>();
        place
    }

    /// Removes and returns the request, to make its final response.
    pub(crate) fn take_request(&mut self, at: u32) -> Option<R> {
        let entry = self.entries.get_mut(at)?;
        let request = entry.request.take()?;
        self.memory -= entry.memory as usize;
        Some(request)
    }

    /// Replaces the kept final response.
    pub(crate) fn keep_best(&mut self, at: u32, message: Option<M>) {
        self.take_best(at);
        self.memory += message.as_ref().map_or(0, M::memory);
        self.entries[at].best = message;
    }

    /// Removes and returns the kept final response.
    pub(crate) fn take_best(&mut self, at: u32) -> Option<M> {
        let message = self.entries.get_mut(at)?.best.take()?;
        self.memory -= message.memory();
        Some(message)
    }

    /// Request at this place, if it still belongs to this server transaction.
    pub(crate) fn of_server(&self, at: u32, server: Id) -> Option<&Proxied<R, M, C>> {
        self.entries.get(at).filter(|entry| entry.server == server)
    }

    /// Branch that a client transaction serves. `None` if the branch already uses an alternate.
    pub(crate) fn of_client(&self, client: Id, leg: Leg) -> Option<Place> {
        let Leg::Client(at, branch) = leg else { return None };
        let entry = self.entries.get(at)?.branches.get(branch)?;
        (entry.client == Some(client)).then_some(Place { at, branch })
    }

    pub(crate) fn set_timer_c(&mut self, place: Place, deadline: Instant) {
        if let Some(timer) = self[place].timer_c {
            self.timers.reset(timer, deadline);
        } else {
            let timer = RequestTimer { at: place.at, branch: Some(place.branch) };
            self[place].timer_c = Some(self.timers.set(deadline, timer.value()));
        }
    }

    pub(crate) fn stop_timer_c(&mut self, place: Place) {
        if let Some(timer) = self[place].timer_c.take() {
            self.timers.cancel(timer);
        }
    }

    /// Sets the timer of the current group.
    pub(crate) fn set_ring(&mut self, at: u32, deadline: Instant) {
        self.stop_ring(at);
        let timer = RequestTimer { at, branch: None };
        self.entries[at].ring = Some(self.timers.set(deadline, timer.value()));
    }

    pub(crate) fn stop_ring(&mut self, at: u32) {
        if let Some(timer) = self.entries[at].ring.take() {
            self.timers.cancel(timer);
        }
    }

    /// Returns the next due timer, and the server transaction of its request.
    pub(crate) fn pop_timer(&mut self, now: Instant) -> Option<(RequestTimer, Id)> {
        let (_, value) = self.timers.pop(now)?;
        let timer = RequestTimer::of(value);
        let entry = &mut self.entries[timer.at];
        match timer.branch.and_then(|branch| entry.branches.get_mut(branch)) {
            Some(branch) => branch.timer_c = None,
            None => entry.ring = None,
        }
        Some((timer, entry.server))
    }

    /// Deadline of the next timer.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timers.deadline()
    }

    /// Notes the end of a transaction.
    pub(crate) fn ended(&mut self, id: Id, leg: Leg) {
        if let Some(place) = self.of_client(id, leg) {
            self[place].client = None;
            self.free(place.at);
        }
    }

    /// Frees the parts of a finished request that are no longer needed.
    pub(crate) fn settle(&mut self, at: u32) {
        if let Some(entry) = self.entries.get_mut(at)
            && entry.context.is_finished()
        {
            if !core::mem::replace(&mut entry.answered, true) {
                self.unanswered -= 1;
            }
            self.take_request(at);
            self.take_best(at);
            self.stop_ring(at);
            self.free(at);
        }
    }

    /// Removes a request after it is answered and all its client transactions have ended (§16.7 step 9: not earlier).
    fn free(&mut self, at: u32) {
        let entry = &mut self.entries[at];
        if !entry.context.is_finished() || entry.has_client() {
            return;
        }
        for timer in entry.branches.iter_mut().filter_map(|branch| branch.timer_c.take()) {
            self.timers.cancel(timer);
        }
        self.memory -= usize::from(entry.branches.len() - 1) * size_of::<BranchEntry>();
        self.entries.remove(at);
    }

    /// Calls of the requests.
    pub(crate) fn calls(&self) -> impl Iterator<Item = C> {
        self.entries.iter().map(|(_, entry)| entry.call)
    }

    /// The requests without a final response.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &R> {
        self.entries.iter().filter_map(|(_, entry)| entry.request.as_ref())
    }

    /// Number of requests without a final response.
    pub(crate) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Memory of the requests in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.entries.len() * size_of::<Proxied<R, M, C>>() + self.memory
    }

    /// Number of requests that wait for their response, or for more 2xx.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_read_back_from_the_wheel() {
        for branch in [None, Some(0), Some(MOST - 1)] {
            let timer = RequestTimer { at: 0x0fff_ffff, branch };
            assert_eq!(RequestTimer::of(timer.value()), timer);
        }
    }
}

//! The requests that a proxy has in hand.

use crate::branches::{BranchEntry, Branches, MOST};
use crate::context::Context;
use crate::medium::{Answered, KeptRequest};
use base::{Instant, Slab, TimerWheel};
use core::ops::{Index, IndexMut};
use transaction::{Id, KeptMessage};

/// Who has a request that further next hops have got because those before were silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Race {
    /// No other one has got it.
    None,
    /// None has answered.
    Open,
    /// The branch that was the first to answer.
    Won(u8),
}

/// What is kept of a request.
pub(crate) enum Held<R: KeptRequest> {
    /// The request, until its final response: answers and further attempts are made of it.
    Request(R),
    /// The way back of further 2xx.
    Back(R::Back),
}

impl<R: KeptRequest> Held<R> {
    pub(crate) fn as_ref(&self) -> Option<&R> {
        if let Self::Request(request) = self { Some(request) } else { None }
    }

    pub(crate) fn as_mut(&mut self) -> Option<&mut R> {
        if let Self::Request(request) = self { Some(request) } else { None }
    }

    /// The request as what a response answers.
    pub(crate) fn answered(&mut self) -> Answered<'_, R> {
        match self {
            Self::Request(request) => Answered::Waiting(request),
            Self::Back(back) => Answered::Final(*back),
        }
    }

    /// Takes the request out, if it is there.
    fn take(&mut self) -> Option<R> {
        let back = Self::Back(self.as_ref()?.back());
        if let Self::Request(request) = core::mem::replace(self, back) { Some(request) } else { None }
    }
}

/// A request on its way through.
pub(crate) struct Proxied<R: KeptRequest, M, C> {
    pub(crate) context: Context,
    pub(crate) server: Id,
    /// [`Table::take_request`] takes it out.
    pub(crate) request: Held<R>,
    pub(crate) branches: Branches,
    /// The best final response that has come, as it would go back. [`Table::keep_best`] puts it there.
    best: Option<M>,
    call: C,
    /// Bytes of memory that the request holds beside its size.
    memory: u32,
    /// Incoming Max-Breadth (RFC 5393 §5.3.2).
    pub(crate) breadth: u8,
    /// The group of targets that is tried.
    pub(crate) group: u8,
    /// Targets of the next group, which wait for Max-Breadth.
    pub(crate) waiting: u8,
    pub(crate) race: Race,
    /// How often another next hop was looked for, and there was none.
    pub(crate) looks: u8,
    /// Whether it counts no more as unanswered.
    answered: bool,
    /// The key in the wheel of the timer of its group, or of its next hops' silence.
    ring: Option<u32>,
}

/// What the table is told of a new request.
pub(crate) struct Entered<R, C> {
    pub(crate) server: Id,
    pub(crate) request: R,
    pub(crate) call: C,
    /// Bytes that the request holds beside its size.
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

    /// Whether a client transaction is left.
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

/// What the proxy keeps with a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leg {
    /// The server transaction of this proxied request; others may use the place after it.
    Server(u32),
    /// The client transaction of a branch: the place of its request, and its number. Side by side they take no more
    /// room than the place alone, and every transaction has one.
    Client(u32, u8),
    /// A transaction that nothing hangs on: of a CANCEL, or of a request that the proxy refused.
    Alone,
}

/// A timer of a request: Timer C of a branch, or else that of its group or of its next hops' silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestTimer {
    pub(crate) at: u32,
    pub(crate) branch: Option<u8>,
}

impl RequestTimer {
    const BITS: u32 = 4;

    /// As the wheel keeps it: there are far fewer places than 2^28, each of which holds a message.
    fn value(self) -> u32 {
        debug_assert!(self.at < 1 << (u32::BITS - Self::BITS));
        self.at << Self::BITS | u32::from(self.branch.unwrap_or(MOST))
    }

    fn of(value: u32) -> Self {
        let branch = (value & ((1 << Self::BITS) - 1)) as u8;
        Self { at: value >> Self::BITS, branch: (branch < MOST).then_some(branch) }
    }
}

/// All requests on their way, each with its timers. An entry is there until it is finished and its client
/// transactions over.
pub(crate) struct Table<R: KeptRequest, M, C> {
    entries: Slab<Proxied<R, M, C>>,
    /// Timer C of all INVITEs, and the timers of groups. No queue: nearly all are called off early, and each
    /// provisional response sets one anew.
    timers: TimerWheel,
    /// Requests without a final response.
    unanswered: usize,
    /// Bytes of memory that requests, their further branches and kept responses hold beside their size.
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
    /// Enters a request; returns its place.
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

    /// Takes the request out: its final response is about to be made of it.
    pub(crate) fn take_request(&mut self, at: u32) -> Option<R> {
        let entry = self.entries.get_mut(at)?;
        let request = entry.request.take()?;
        self.memory -= entry.memory as usize;
        Some(request)
    }

    /// Keeps a final response in place of the one before, or none.
    pub(crate) fn keep_best(&mut self, at: u32, message: Option<M>) {
        self.take_best(at);
        self.memory += message.as_ref().map_or(0, M::memory);
        self.entries[at].best = message;
    }

    /// Takes the final response out that was kept.
    pub(crate) fn take_best(&mut self, at: u32) -> Option<M> {
        let message = self.entries.get_mut(at)?.best.take()?;
        self.memory -= message.memory();
        Some(message)
    }

    /// The request at this place, if it still is the one of this server transaction.
    pub(crate) fn of_server(&self, at: u32, server: Id) -> Option<&Proxied<R, M, C>> {
        self.entries.get(at).filter(|entry| entry.server == server)
    }

    /// The branch that a client transaction serves now; one that lost its branch to an alternate serves none.
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

    /// Sets the timer of the group that is tried.
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

    /// The next timer that is due, and the server transaction of its request.
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

    /// When a timer fires next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timers.deadline()
    }

    /// A transaction is over: from a client transaction nothing more will come.
    pub(crate) fn ended(&mut self, id: Id, leg: Leg) {
        if let Some(place) = self.of_client(id, leg) {
            self[place].client = None;
            self.free(place.at);
        }
    }

    /// Lets go of what a finished request needs no more.
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

    /// Forgets a request that has been answered and whose client transactions are over (§16.7 step 9: not earlier).
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

    /// The calls of the requests.
    pub(crate) fn calls(&self) -> impl Iterator<Item = C> {
        self.entries.iter().map(|(_, entry)| entry.call)
    }

    /// The requests without a final response.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &R> {
        self.entries.iter().filter_map(|(_, entry)| entry.request.as_ref())
    }

    /// Requests that wait for their final response.
    pub(crate) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Bytes of memory that the requests take.
    pub(crate) fn memory(&self) -> usize {
        self.entries.len() * size_of::<Proxied<R, M, C>>() + self.memory
    }

    /// Requests that wait for their answer, or for more 2xx.
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

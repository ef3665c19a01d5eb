//! The requests that a proxy has in hand.

use crate::context::Context;
use base::{Instant, Slab, TimerWheel};
use core::ops::{Index, IndexMut};
use transaction::Id;

/// A request on its way through.
pub(crate) struct Proxied<R, C> {
    pub(crate) context: Context,
    pub(crate) server: Id,
    pub(crate) client: Option<Id>,
    /// Kept until the final response: answers and further attempts are made of it. [`Table::take_request`] takes it out.
    pub(crate) request: Option<R>,
    call: C,
    /// Bytes of memory that the request holds beside its size.
    memory: u32,
    pub(crate) attempt: u8,
    /// Whether the medium knows that this attempt has been answered.
    pub(crate) settled: bool,
    /// Whether it counts no more as unanswered.
    answered: bool,
    /// Timer C's key in the wheel.
    timer_c: Option<u32>,
}

impl<R, C> Proxied<R, C> {
    /// `memory`: bytes that the request holds beside its size.
    pub(crate) fn new(context: Context, server: Id, request: R, call: C, memory: usize) -> Self {
        Self {
            context,
            server,
            client: None,
            request: Some(request),
            call,
            memory: u32::try_from(memory).unwrap_or(u32::MAX),
            attempt: 0,
            settled: false,
            answered: false,
            timer_c: None,
        }
    }
}

/// What the proxy keeps with a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leg {
    /// The server transaction of this proxied request; others may use the place after it.
    Server(u32),
    /// Its client transaction.
    Client(u32),
    /// A transaction that nothing hangs on: of a CANCEL, or of a request that the proxy refused.
    Alone,
}

/// All requests on their way, each with its Timer C. An entry is there until it is finished and its client transaction over.
pub(crate) struct Table<R, C> {
    entries: Slab<Proxied<R, C>>,
    /// Timer C of all INVITEs. No queue: nearly all are called off early, and each provisional response sets one anew.
    timers_c: TimerWheel,
    /// Requests without a final response.
    unanswered: usize,
    /// Bytes of memory that requests hold beside their size.
    memory: usize,
}

impl<R, C> Default for Table<R, C> {
    fn default() -> Self {
        Self { entries: Slab::default(), timers_c: TimerWheel::default(), unanswered: 0, memory: 0 }
    }
}

impl<R, C> Index<u32> for Table<R, C> {
    type Output = Proxied<R, C>;

    fn index(&self, at: u32) -> &Proxied<R, C> {
        &self.entries[at]
    }
}

impl<R, C> IndexMut<u32> for Table<R, C> {
    fn index_mut(&mut self, at: u32) -> &mut Proxied<R, C> {
        &mut self.entries[at]
    }
}

impl<R, C: Copy> Table<R, C> {
    /// Enters a request; returns its place.
    pub(crate) fn insert(&mut self, entry: Proxied<R, C>) -> u32 {
        self.unanswered += 1;
        self.memory += entry.memory as usize;
        self.entries.insert(entry)
    }

    /// Takes the request out: its final response is about to be made of it.
    pub(crate) fn take_request(&mut self, at: u32) -> Option<R> {
        let entry = self.entries.get_mut(at)?;
        let request = entry.request.take()?;
        self.memory -= entry.memory as usize;
        Some(request)
    }

    /// The request at this place, if it still is the one of this server transaction.
    pub(crate) fn of_server(&self, at: u32, server: Id) -> Option<&Proxied<R, C>> {
        self.entries.get(at).filter(|entry| entry.server == server)
    }

    /// The request that a client transaction serves now; one that lost its request to an alternate serves none.
    pub(crate) fn of_client(&self, client: Id, leg: Leg) -> Option<u32> {
        let Leg::Client(at) = leg else { return None };
        self.entries.get(at).filter(|entry| entry.client == Some(client)).map(|_| at)
    }

    pub(crate) fn set_timer_c(&mut self, at: u32, deadline: Instant) {
        let entry = &mut self.entries[at];
        match entry.timer_c {
            Some(timer) => self.timers_c.reset(timer, deadline),
            None => entry.timer_c = Some(self.timers_c.set(deadline, at)),
        }
    }

    pub(crate) fn stop_timer_c(&mut self, at: u32) {
        if let Some(timer) = self.entries[at].timer_c.take() {
            self.timers_c.cancel(timer);
        }
    }

    /// The next request whose Timer C is due, and its server transaction.
    pub(crate) fn pop_timer_c(&mut self, now: Instant) -> Option<(u32, Id)> {
        let (_, at) = self.timers_c.pop(now)?;
        let entry = &mut self.entries[at];
        entry.timer_c = None;
        Some((at, entry.server))
    }

    /// When a Timer C fires next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timers_c.deadline()
    }

    /// A transaction is over: from a client transaction nothing more will come.
    pub(crate) fn ended(&mut self, id: Id, leg: Leg) {
        if let Some(at) = self.of_client(id, leg) {
            self.entries[at].client = None;
            self.free(at);
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
            self.free(at);
        }
    }

    /// Forgets a request that has been answered and whose client transaction is over.
    fn free(&mut self, at: u32) {
        let entry = &self.entries[at];
        if entry.context.is_finished() && entry.client.is_none() {
            self.stop_timer_c(at);
            self.entries.remove(at);
        }
    }

    /// The calls of the requests.
    pub(crate) fn calls(&self) -> impl Iterator<Item = C> {
        self.entries.iter().map(|(_, entry)| entry.call)
    }

    /// Requests that wait for their final response.
    pub(crate) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Bytes of memory that the requests take.
    pub(crate) fn memory(&self) -> usize {
        self.entries.len() * size_of::<Proxied<R, C>>() + self.memory
    }

    /// Requests that wait for their answer, or for more 2xx.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

//! Start of a request: its targets group by group (RFC 3261 §16.6), with their shares of Max-Breadth (RFC 5393 §5.3.3).

use super::{Arrived, Proxy, kind_of};
use crate::branch::Branch;
use crate::branches::BranchEntry;
use crate::collect::Collect;
use crate::context::{Context, ContextEvent};
use crate::medium::{Attempt, Form, Medium, NewBranch, ProxyStep, Router};
use crate::table::{Entered, Leg, Place, Proxied};
use base::Operation;
use transaction::{New, TransactionKind};
use wire::Method;

/// Group of targets that is about to be tried.
#[derive(Clone, Copy)]
struct Group {
    targets: u8,
    /// Free Max-Breadth: at least 1 for each target.
    breadth: u8,
    /// Whether the next group, or another next hop, may start while this group holds its share.
    is_followed: bool,
}

impl Group {
    /// Share of Max-Breadth for a target (RFC 5393 §5.3.3 leaves it to the proxy). The next group gets the share of one
    /// target, or has to wait for a final response.
    fn share(self, target: u8) -> u8 {
        if self.is_followed {
            return (self.breadth / (self.targets + 1)).max(1);
        }
        self.breadth / self.targets + u8::from(target < self.breadth % self.targets)
    }
}

impl<F: Form> Proxy<F> {
    /// §16.2 to §16.6: creates the server transaction, the response context and the first group of branches of a new
    /// request.
    pub(super) fn begin(&mut self, arrived: &Arrived, mut request: F::Request, step: &mut ProxyStep<'_, F>) {
        let invite = arrived.method == Method::Invite;
        let new = Self::server(arrived, Leg::Alone);
        let Some(server) = self.layer.accept(step.now, new, &mut Collect::new(step.sink)) else { return };
        let targets = step.router.next_group(&mut request, 0, self.most_branches).max(1);
        let breadth = step.medium.breadth(&request);
        if targets > breadth {
            // RFC 5393 §5.3.3: Max-Breadth is too small.
            return self.answer(server, &request, 440, step);
        }
        let attempt = Attempt::default();
        let hop = match step.router.next_hop(&mut request, attempt) {
            Ok(hop) => hop,
            Err(refusal) => return self.answer(server, &request, refusal.0, step),
        };
        if invite && step.medium.tries_at_once(&request) {
            // §16.2: sent at once, so that the previous hop stops retransmitting. [17.2.1-2]
            self.answer(server, &request, 100, step);
        }
        let has_second = step.router.patience(&request).is_some();
        let is_rung_out = step.router.has_group(&request, 0) && step.router.ring_time(&request).is_some();
        let group = Group { targets, breadth, is_followed: has_second || is_rung_out };
        let state = Branch::new(invite, step.router.has_alternate(&request, attempt));
        let (call, memory) = (step.medium.call(&request), step.medium.memory(&request));
        let mut context = Context::new(invite);
        context.begin();
        let first = BranchEntry::new(state, attempt, group.share(0));
        let entered = Entered { server, request, call, memory, breadth };
        let at = self.table.insert(Proxied::new(context, first, entered));
        *self.layer.user_mut(server).expect("the server transaction has just been accepted") =
            Leg::Server(at);
        self.counters.forwarded += 1;
        self.send_on(Place { at, branch: 0 }, hop, step);
        for target in 1..targets {
            self.add_branch(at, group.share(target), step);
        }
        self.watch_group(at, step);
    }

    /// Starts the next group that has a target. A group that lacks Max-Breadth starts when a branch has ended.
    pub(super) fn next_group(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        while self.table[at].context.may_go_on() {
            let has_memory = self.has_memory();
            let entry = &mut self.table[at];
            let request = entry.request.as_mut().expect("a request is kept until it is answered");
            if entry.waiting == 0 {
                let most =
                    if has_memory { self.most_branches.saturating_sub(entry.branches.len()) } else { 0 };
                let Some(group) = entry.group.checked_add(1).filter(|_| most > 0) else { break };
                entry.group = group;
                entry.waiting = step.router.next_group(request, group, most).min(most);
            }
            let targets = entry.waiting;
            if targets > entry.breadth {
                // RFC 5393 §5.3.3: the lack counts as a 440 of one branch, since other branches may have better
                // responses.
                entry.waiting = 0;
                entry.context.set_more(false);
                entry.context.begin();
                return self.tell(at, ContextEvent::Failure(440), None, step);
            }
            let breadth = entry.breadth - entry.branches.breadth();
            if targets > breadth {
                return;
            }
            entry.waiting = 0;
            let is_followed =
                step.router.has_group(request, entry.group) && step.router.ring_time(request).is_some();
            let group = Group { targets, breadth, is_followed };
            let begun = (0..targets).filter(|&target| self.add_branch(at, group.share(target), step)).count();
            self.watch_group(at, step);
            if begun > 0 {
                return;
            }
        }
        self.tell(at, ContextEvent::Exhausted, None, step);
    }

    /// Sends a request to one more target. Returns whether this was possible.
    pub(super) fn add_branch(&mut self, at: u32, breadth: u8, step: &mut ProxyStep<'_, F>) -> bool {
        if !self.has_memory() {
            return false;
        }
        let entry = &mut self.table[at];
        let request = entry.request.as_mut().expect("a request is kept until it is answered");
        let attempt = Attempt { branch: entry.branches.len(), alternate: 0 };
        let Ok(hop) = step.router.next_hop(request, attempt) else { return false };
        let state = Branch::new(entry.context.is_invite(), step.router.has_alternate(request, attempt));
        entry.context.begin();
        let place = self.table.push(at, BranchEntry::new(state, attempt, breadth));
        self.counters.forked += 1;
        self.send_on(place, hop, step);
        true
    }

    /// Sets the timer of the group that has just started, if another group follows, or if a further next hop may get
    /// the request.
    fn watch_group(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        let entry = &mut self.table[at];
        let request = entry.request.as_ref().expect("a request is kept until it is answered");
        let more = entry.branches.len() < self.most_branches && step.router.has_group(request, entry.group);
        entry.context.set_more(more);
        let ring_time = step.router.ring_time(request).filter(|_| more);
        match ring_time.or_else(|| step.router.patience(request)) {
            Some(time) => self.table.set_ring(at, step.now + time),
            None => self.table.stop_ring(at),
        }
    }

    /// Handles the end of the current group's time.
    pub(super) fn ring_time_over(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        let entry = &mut self.table[at];
        if let Some(request) = entry.request.as_ref() {
            // No branch is cancelled in favour of targets that have meanwhile disappeared.
            entry.context.set_more(step.router.has_group(request, entry.group));
        }
        self.counters.rung_out += u64::from(entry.context.may_go_on());
        self.tell(at, ContextEvent::RingTimeOver, None, step);
        self.table.settle(at);
    }

    /// §16.6 steps 8 to 11.
    pub(super) fn send_on(&mut self, place: Place, hop: F::Hop, step: &mut ProxyStep<'_, F>) {
        self.ledger.charge(Operation::Forward);
        let entry = &self.table[place.at];
        let request = entry.request.as_ref().expect("a request is kept until it is answered");
        let new = NewBranch { serial: self.serial, breadth: self.table[place].breadth };
        let (message, key) = step.medium.forward(request, hop, Some(new));
        self.serial += 1;
        let kind = kind_of(if entry.context.is_invite() { Method::Invite } else { Method::Other });
        let most_repeats = step.router.most_repeats(request);
        let transport = step.medium.transport(request, hop, &message);
        let user = Leg::Client(place.at, place.branch);
        let new = New { key, kind, transport, user };
        let client = self.layer.request(step.now, new, message, &mut Collect::new(step.sink));
        if let (Some(client), Some(most)) = (client, most_repeats) {
            self.layer.limit_repeats(client, most);
        }
        self.table[place].client = client;
        if kind == TransactionKind::Invite {
            self.set_timer_c(step.now, place);
        }
    }
}

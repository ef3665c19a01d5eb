//! The response context of one proxied request (RFC 3261 §16.7): what the proxy does with what its client
//! transaction brings.

use arrayvec::ArrayVec;

/// What happens to a proxied request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyEvent {
    /// A response came from the next hop.
    Response(u16),
    /// The client transaction timed out (Timer B or F).
    Timeout,
    /// The next hop can't be reached.
    Unreachable,
    /// Timer C fired.
    TimerC,
    /// The previous hop sent CANCEL.
    Cancelled,
}

/// What the proxy has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Forward the response that came to the previous hop.
    Relay,
    /// Answer the request ourselves with this status.
    Respond(u16),
    /// Send CANCEL to the next hop.
    Cancel,
    /// Set Timer C anew, in full.
    SetTimerC,
    /// Stop Timer C.
    StopTimerC,
    /// Send the request to the next alternate.
    TryNext,
    /// Forget the client transaction.
    Abandon,
    /// Nothing more will come of the request: it has no final response and needs none.
    GiveUp,
}

/// The actions of one step, in order.
pub type ActionList = ArrayVec<Action, 3>;

/// Cheaper than collecting them: how many there are is known.
fn list<const N: usize>(actions: [Action; N]) -> ActionList {
    let mut list = ActionList::new();
    for action in actions {
        list.push(action);
    }
    list
}

/// Where a proxied request stands.
#[expect(clippy::struct_excessive_bools, reason = "five independent facts, most of which may hold together")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// Whether it is an INVITE; every other method knows neither CANCEL nor Timer C.
    invite: bool,
    /// Whether an alternate next hop is left to be tried.
    alternate: bool,
    provisional: bool,
    cancelled: bool,
    finished: bool,
}

impl Context {
    /// The context of a request that has just been sent on; for an INVITE, Timer C has been set (§16.6 step 11).
    pub fn new(invite: bool, alternate: bool) -> Self {
        Self { invite, alternate, ..Self::default() }
    }

    /// Whether the request is an INVITE.
    pub fn is_invite(self) -> bool {
        self.invite
    }

    /// Whether there is another alternate now.
    pub fn set_alternate(&mut self, alternate: bool) {
        self.alternate = alternate;
    }

    /// Whether a final response has gone back.
    pub fn is_finished(self) -> bool {
        self.finished
    }

    /// One bounded step.
    pub fn on(&mut self, event: ProxyEvent) -> ActionList {
        match event {
            ProxyEvent::Response(100..=199) if self.finished => ActionList::new(),
            ProxyEvent::Response(status @ 100..=199) => self.provisional(status),
            ProxyEvent::Response(200..=299) => self.success(),
            _ if self.finished => ActionList::new(),
            ProxyEvent::Response(503) | ProxyEvent::Unreachable => self.unavailable(),
            ProxyEvent::Response(_) => self.finish(Action::Relay),
            ProxyEvent::Timeout => self.timeout(),
            ProxyEvent::TimerC => self.timer_c(),
            ProxyEvent::Cancelled => self.cancel(),
        }
    }

    /// §16.7 steps 2 and 5: a provisional response other than 100 goes back at once and restarts Timer C. 100 is only
    /// for the next hop (§16.7 step 3, note; §17.1.1.1).
    fn provisional(&mut self, status: u16) -> ActionList {
        let first = !core::mem::replace(&mut self.provisional, true);
        let mut actions = ActionList::new();
        if status > 100 {
            actions.push(Action::Relay);
        }
        if self.cancelled {
            // §9.1: the CANCEL had to wait for this.
            if first {
                actions.push(Action::Cancel);
                actions.push(Action::StopTimerC);
            }
        } else if self.invite && status > 100 {
            actions.push(Action::SetTimerC);
        }
        actions
    }

    /// §16.7 step 5: every 2xx to an INVITE goes back at once, also a second one; to other requests there is one.
    fn success(&mut self) -> ActionList {
        let first = !core::mem::replace(&mut self.finished, true);
        match (first, self.invite) {
            (true, true) => list([Action::Relay, Action::StopTimerC]),
            (true, false) | (false, true) => list([Action::Relay]),
            (false, false) => ActionList::new(),
        }
    }

    /// §16.7 step 6: a 503 speaks of the next hop, not of this proxy, and goes back as 500; §16.9: a next hop that
    /// can't be reached counts as one that answered 503. First the alternates are tried (RFC 3263 §4.3).
    fn unavailable(&mut self) -> ActionList {
        if self.alternate && !self.cancelled {
            self.provisional = false;
            return list([Action::TryNext]);
        }
        self.finish(Action::Respond(500))
    }

    /// RFC 3263 §4.3: a next hop that does not answer at all has failed as one that answers 503 has.
    /// §16.8: an INVITE without an answer counts as answered 408. RFC 4320 §4.2: a 408 to any other request would come
    /// too late to be of use, and must not be sent.
    fn timeout(&mut self) -> ActionList {
        match (self.invite, self.alternate && !self.cancelled) {
            (true, true) => list([Action::TryNext]),
            (true, false) => self.finish(Action::Respond(408)),
            (false, _) => self.finish(Action::GiveUp),
        }
    }

    /// §16.8: an INVITE that keeps ringing is cancelled; one that nobody answered at all counts as answered 408. The
    /// client transaction gives a cancelled INVITE up after another 64*T1 (§9.1).
    fn timer_c(&mut self) -> ActionList {
        if !self.provisional {
            self.finished = true;
            return list([Action::Respond(408), Action::Abandon]);
        }
        self.cancelled = true;
        list([Action::Cancel])
    }

    /// §16.10. Timer C has nothing left to do: the client transaction limits what is cancelled. §9.2: on requests other
    /// than INVITE it has no effect.
    fn cancel(&mut self) -> ActionList {
        let first = self.invite && !core::mem::replace(&mut self.cancelled, true);
        match (first, self.provisional) {
            (true, true) => list([Action::Cancel, Action::StopTimerC]),
            (true, false) | (false, _) => ActionList::new(),
        }
    }

    fn finish(&mut self, action: Action) -> ActionList {
        self.finished = true;
        let mut actions = list([action]);
        if self.invite {
            actions.push(Action::StopTimerC);
        }
        actions
    }
}

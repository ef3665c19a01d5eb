//! One branch of a proxied request (RFC 3261 §16.6): the proxy's reactions to events of its client transaction, and the
//! retries at alternate next hops.

use arrayvec::ArrayVec;

/// Event of a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyEvent {
    /// A response came from the next hop.
    Response(u16),
    /// The client transaction timed out (Timer B or F).
    Timeout,
    /// The next hop cannot be reached.
    Unreachable,
    /// The only connection to the next hop is closed (RFC 5626 §5.3.1).
    FlowFailed,
    /// Timer C fired.
    TimerC,
    /// The previous hop sent CANCEL, or the branch is no longer needed.
    Cancelled,
}

/// Action of the proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BranchAction {
    /// Report a provisional response to the response context.
    Provisional,
    /// Report a 2xx to the response context.
    Success,
    /// Report that the branch has ended with this response, or counts as ended with it.
    Failure(u16),
    /// Report that the branch has ended without a response to forward.
    Silence,
    /// Send CANCEL to the next hop.
    Cancel,
    /// Restart Timer C in full.
    SetTimerC,
    /// Stop Timer C.
    StopTimerC,
    /// Send the request to the next alternate.
    TryNext,
    /// Drop the client transaction.
    Abandon,
}

/// The actions of one step, in order.
pub type BranchActions = ArrayVec<BranchAction, 3>;

/// Makes the list. Cheaper than `collect`, since the number of actions is known.
fn list<const N: usize>(actions: [BranchAction; N]) -> BranchActions {
    let mut list = BranchActions::new();
    for action in actions {
        list.push(action);
    }
    list
}

/// State of a branch.
#[expect(clippy::struct_excessive_bools, reason = "five independent facts, most of which may hold together")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Branch {
    /// Whether the request is an INVITE. Other methods have neither CANCEL nor Timer C.
    invite: bool,
    /// Whether there is another alternate next hop.
    alternate: bool,
    provisional: bool,
    cancelled: bool,
    finished: bool,
}

impl Branch {
    /// Makes the branch of a request that has just been sent. For an INVITE, Timer C is set (§16.6 step 11).
    pub fn new(invite: bool, alternate: bool) -> Self {
        Self { invite, alternate, ..Self::default() }
    }

    /// Sets whether there is another alternate.
    pub fn set_alternate(&mut self, alternate: bool) {
        self.alternate = alternate;
    }

    /// Whether the branch has a final response, or counts as having one.
    pub fn is_finished(self) -> bool {
        self.finished
    }

    /// Whether the next hop of the branch has sent no response so far.
    pub fn is_silent(self) -> bool {
        !self.provisional && !self.finished
    }

    /// Whether the branch was cancelled.
    pub fn is_cancelled(self) -> bool {
        self.cancelled
    }

    /// Whether it is an INVITE.
    pub fn is_invite(self) -> bool {
        self.invite
    }

    /// Handles one event.
    pub fn on(&mut self, event: ProxyEvent) -> BranchActions {
        match event {
            ProxyEvent::Response(100..=199) if self.finished => BranchActions::new(),
            ProxyEvent::Response(status @ 100..=199) => self.provisional(status),
            ProxyEvent::Response(200..=299) => self.success(),
            _ if self.finished => BranchActions::new(),
            ProxyEvent::Response(503) | ProxyEvent::Unreachable => self.unavailable(503),
            ProxyEvent::Response(430) | ProxyEvent::FlowFailed => self.unavailable(430),
            ProxyEvent::Response(status) => self.fail(BranchAction::Failure(status)),
            ProxyEvent::Timeout => self.timeout(),
            ProxyEvent::TimerC => self.timer_c(),
            ProxyEvent::Cancelled => self.cancel(),
        }
    }

    /// §16.7 step 2: a provisional response other than 100 restarts Timer C. A 100 comes only from the next hop, so it
    /// does not restart Timer C (§16.7 step 3, note; §17.1.1.1).
    fn provisional(&mut self, status: u16) -> BranchActions {
        let first = !core::mem::replace(&mut self.provisional, true);
        let mut actions = BranchActions::new();
        if status > 100 {
            actions.push(BranchAction::Provisional);
        }
        if self.cancelled {
            // §9.1: the CANCEL had to wait for this response.
            if first {
                actions.push(BranchAction::Cancel);
                actions.push(BranchAction::StopTimerC);
            }
        } else if self.invite && status > 100 {
            actions.push(BranchAction::SetTimerC);
        }
        actions
    }

    /// Reports every 2xx to an INVITE, also a second one, or one after a failure. Other requests have only one 2xx.
    fn success(&mut self) -> BranchActions {
        let first = !core::mem::replace(&mut self.finished, true);
        match (first, self.invite) {
            (true, true) => list([BranchAction::StopTimerC, BranchAction::Success]),
            (true, false) | (false, true) => list([BranchAction::Success]),
            (false, false) => BranchActions::new(),
        }
    }

    /// §16.9: a next hop that cannot be reached counts as having answered 503. Alternates are tried first (RFC 3263
    /// §4.3). RFC 5626 §5.3.1: a client whose connection is closed has failed with 430.
    fn unavailable(&mut self, status: u16) -> BranchActions {
        if self.alternate && !self.cancelled {
            self.provisional = false;
            return list([BranchAction::TryNext]);
        }
        self.fail(BranchAction::Failure(status))
    }

    /// RFC 3263 §4.3: a next hop that does not answer has failed like a next hop that answers 503. §16.8: an INVITE
    /// without an answer counts as answered with 408. RFC 4320 §4.2: a 408 to any other request would come too late to
    /// be of use, and must not be sent.
    fn timeout(&mut self) -> BranchActions {
        match (self.invite, self.alternate && !self.cancelled) {
            (true, true) => {
                self.provisional = false;
                list([BranchAction::TryNext])
            }
            (true, false) => self.fail(BranchAction::Failure(408)),
            (false, _) => self.fail(BranchAction::Silence),
        }
    }

    /// §16.8: an INVITE that still rings is cancelled. An INVITE without any response counts as answered with 408. The
    /// client transaction ends a cancelled INVITE after another 64*T1 (§9.1).
    fn timer_c(&mut self) -> BranchActions {
        if !self.provisional {
            self.finished = true;
            return list([BranchAction::Abandon, BranchAction::Failure(408)]);
        }
        self.cancelled = true;
        list([BranchAction::Cancel])
    }

    /// §16.10. Timer C stops, since the client transaction limits a cancelled INVITE. §9.2: CANCEL has no effect on
    /// other requests.
    fn cancel(&mut self) -> BranchActions {
        let first = self.invite && !core::mem::replace(&mut self.cancelled, true);
        match (first, self.provisional) {
            (true, true) => list([BranchAction::Cancel, BranchAction::StopTimerC]),
            (true, false) | (false, _) => BranchActions::new(),
        }
    }

    fn fail(&mut self, action: BranchAction) -> BranchActions {
        self.finished = true;
        if self.invite { list([BranchAction::StopTimerC, action]) } else { list([action]) }
    }
}

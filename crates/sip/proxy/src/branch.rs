//! One branch of a proxied request (RFC 3261 §16.6): what the proxy does with what its client transaction brings, and
//! those of the alternates that are tried in its place.

use arrayvec::ArrayVec;

/// What happens to a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyEvent {
    /// A response came from the next hop.
    Response(u16),
    /// The client transaction timed out (Timer B or F).
    Timeout,
    /// The next hop can't be reached.
    Unreachable,
    /// The connection is gone by which alone the next hop is reached (RFC 5626 §5.3.1).
    FlowFailed,
    /// Timer C fired.
    TimerC,
    /// The previous hop sent CANCEL, or the branch is not needed any more.
    Cancelled,
}

/// What the proxy has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BranchAction {
    /// Tell the response context of a provisional response.
    Provisional,
    /// Tell it of a 2xx.
    Success,
    /// Tell it that the branch has ended as if this response had come.
    Failure(u16),
    /// Tell it that the branch has ended without anything that could go back.
    Silence,
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
}

/// The actions of one step, in order.
pub type BranchActions = ArrayVec<BranchAction, 3>;

/// Cheaper than collecting them: how many there are is known.
fn list<const N: usize>(actions: [BranchAction; N]) -> BranchActions {
    let mut list = BranchActions::new();
    for action in actions {
        list.push(action);
    }
    list
}

/// Where a branch stands.
#[expect(clippy::struct_excessive_bools, reason = "five independent facts, most of which may hold together")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Branch {
    /// Whether it is an INVITE; every other method knows neither CANCEL nor Timer C.
    invite: bool,
    /// Whether an alternate next hop is left to be tried.
    alternate: bool,
    provisional: bool,
    cancelled: bool,
    finished: bool,
}

impl Branch {
    /// A branch that has just been sent on; for an INVITE, Timer C has been set (§16.6 step 11).
    pub fn new(invite: bool, alternate: bool) -> Self {
        Self { invite, alternate, ..Self::default() }
    }

    /// Whether there is another alternate now.
    pub fn set_alternate(&mut self, alternate: bool) {
        self.alternate = alternate;
    }

    /// Whether it has had a final response, or counts as having had one.
    pub fn is_finished(self) -> bool {
        self.finished
    }

    /// Whether its next hop has answered nothing yet.
    pub fn is_silent(self) -> bool {
        !self.provisional && !self.finished
    }

    /// Whether nobody waits for it any more.
    pub fn is_cancelled(self) -> bool {
        self.cancelled
    }

    /// Whether it is an INVITE.
    pub fn is_invite(self) -> bool {
        self.invite
    }

    /// One bounded step.
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

    /// §16.7 step 2: a provisional response other than 100 restarts Timer C. 100 is only for the next hop (§16.7 step
    /// 3, note; §17.1.1.1).
    fn provisional(&mut self, status: u16) -> BranchActions {
        let first = !core::mem::replace(&mut self.provisional, true);
        let mut actions = BranchActions::new();
        if status > 100 {
            actions.push(BranchAction::Provisional);
        }
        if self.cancelled {
            // §9.1: the CANCEL had to wait for this.
            if first {
                actions.push(BranchAction::Cancel);
                actions.push(BranchAction::StopTimerC);
            }
        } else if self.invite && status > 100 {
            actions.push(BranchAction::SetTimerC);
        }
        actions
    }

    /// Every 2xx to an INVITE counts, also a second one, or one after a failure; to other requests there is one.
    fn success(&mut self) -> BranchActions {
        let first = !core::mem::replace(&mut self.finished, true);
        match (first, self.invite) {
            (true, true) => list([BranchAction::StopTimerC, BranchAction::Success]),
            (true, false) | (false, true) => list([BranchAction::Success]),
            (false, false) => BranchActions::new(),
        }
    }

    /// §16.9: a next hop that can't be reached counts as one that answered 503. First the alternates are tried (RFC
    /// 3263 §4.3). RFC 5626 §5.3.1: a client whose connection is gone has failed with 430.
    fn unavailable(&mut self, status: u16) -> BranchActions {
        if self.alternate && !self.cancelled {
            self.provisional = false;
            return list([BranchAction::TryNext]);
        }
        self.fail(BranchAction::Failure(status))
    }

    /// RFC 3263 §4.3: a next hop that does not answer at all has failed as one that answers 503 has. §16.8: an INVITE
    /// without an answer counts as answered 408. RFC 4320 §4.2: a 408 to any other request would come too late to be
    /// of use, and must not be sent.
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

    /// §16.8: an INVITE that keeps ringing is cancelled; one that nobody answered at all counts as answered 408. The
    /// client transaction gives a cancelled INVITE up after another 64*T1 (§9.1).
    fn timer_c(&mut self) -> BranchActions {
        if !self.provisional {
            self.finished = true;
            return list([BranchAction::Abandon, BranchAction::Failure(408)]);
        }
        self.cancelled = true;
        list([BranchAction::Cancel])
    }

    /// §16.10. Timer C has nothing left to do: the client transaction limits what is cancelled. §9.2: on requests
    /// other than INVITE it has no effect.
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

//! Response context of one proxied request (RFC 3261 §16.7): combines the responses of its branches.

use arrayvec::ArrayVec;

/// Event of a response context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextEvent {
    /// A branch has a provisional response other than 100.
    Provisional,
    /// A branch has a 2xx.
    Success,
    /// A branch has ended with this response, or counts as ended with it. A timeout, for example, counts as 408.
    Failure(u16),
    /// A branch has ended with this response, and the context must not wait for the other branches.
    Decided(u16),
    /// A branch has ended without a response to forward.
    Silence,
    /// The time of the current group is over.
    RingTimeOver,
    /// The previous hop sent CANCEL.
    Cancelled,
    /// There turned out to be no further group.
    Exhausted,
}

/// Action of the proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextAction {
    /// Forward the current response.
    Relay,
    /// Keep the current response in place of the kept one. If no next hop sent this response (after a timeout, for
    /// example), only its status is kept.
    Keep,
    /// Add the challenges of the current response to the kept one.
    AddChallenges,
    /// Send CANCEL to the branches that have not ended, without trying their alternates.
    CancelRest,
    /// Try the next group.
    NextGroup,
    /// Forward the kept response; if there is none, answer with this status.
    Answer(u16),
    /// End the request without a final response. It needs none.
    GiveUp,
}

/// The actions of one step, in order.
pub type ContextActions = ArrayVec<ContextAction, 3>;

/// State of a request with active branches.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts; several may hold at once")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// Whether it is an INVITE.
    invite: bool,
    /// Whether the target set has another group.
    more: bool,
    /// Whether no new branch may start.
    closed: bool,
    /// Whether a final response was sent.
    finished: bool,
    /// Number of branches that have not ended.
    pending: u8,
    /// Best final status so far; 0 if there is none.
    best: u16,
}

impl Context {
    /// Makes the context of a request without branches.
    pub fn new(invite: bool) -> Self {
        Self { invite, more: false, closed: false, finished: false, pending: 0, best: 0 }
    }

    /// Adds a branch.
    pub fn begin(&mut self) {
        self.pending += 1;
    }

    /// Sets whether another group of targets follows the current one.
    pub fn set_more(&mut self, more: bool) {
        self.more = more;
    }

    /// Whether the request is an INVITE.
    pub fn is_invite(self) -> bool {
        self.invite
    }

    /// Whether a final response was sent.
    pub fn is_finished(self) -> bool {
        self.finished
    }

    /// Whether another branch may start.
    pub fn is_open(self) -> bool {
        !self.closed && !self.finished
    }

    /// Whether another group may be tried.
    pub fn may_go_on(self) -> bool {
        self.more && !self.closed
    }

    /// Handles one event.
    pub fn on(&mut self, event: ContextEvent) -> ContextActions {
        let mut actions = ContextActions::new();
        match event {
            ContextEvent::Provisional if self.finished => {}
            // §16.7 step 5: provisional responses are forwarded at once.
            ContextEvent::Provisional => actions.push(ContextAction::Relay),
            ContextEvent::Success => self.success(&mut actions),
            ContextEvent::Failure(status) => {
                self.pending -= 1;
                if !self.finished {
                    self.failure(status, &mut actions);
                    self.go_on(&mut actions);
                }
            }
            ContextEvent::Decided(status) => {
                self.pending -= 1;
                if !self.finished {
                    // Earlier failures, except a 6xx, concern only one next hop, so they no longer count.
                    if self.best < 600 {
                        self.best = 0;
                    }
                    self.failure(status, &mut actions);
                    self.close(&mut actions);
                    self.conclude(&mut actions);
                }
            }
            ContextEvent::Silence => {
                self.pending -= 1;
                self.go_on(&mut actions);
            }
            ContextEvent::RingTimeOver if self.may_go_on() => {
                actions.push(ContextAction::CancelRest);
                actions.push(ContextAction::NextGroup);
            }
            ContextEvent::RingTimeOver => {}
            ContextEvent::Cancelled => self.cancel(&mut actions),
            ContextEvent::Exhausted => {
                self.more = false;
                self.go_on(&mut actions);
            }
        }
        actions
    }

    /// §16.7 step 5: every 2xx to an INVITE is forwarded at once. For another request, only the first 2xx is forwarded.
    /// Step 10: the other branches are cancelled.
    fn success(&mut self, actions: &mut ContextActions) {
        let is_first = !core::mem::replace(&mut self.finished, true);
        self.closed = true;
        if is_first || self.invite {
            actions.push(ContextAction::Relay);
        }
        if is_first {
            actions.push(ContextAction::CancelRest);
        }
    }

    /// §16.7: the best response is kept (step 6) and gets the challenges of all (step 7). A 6xx ends the search (step
    /// 5). The context still waits for the final responses of the cancelled branches, as one of them may be a 2xx.
    fn failure(&mut self, status: u16, actions: &mut ContextActions) {
        if self.best == 0 || rank(status) < rank(self.best) {
            self.best = status;
            actions.push(ContextAction::Keep);
        } else if is_challenge(status) && is_challenge(self.best) {
            actions.push(ContextAction::AddChallenges);
        }
        if status >= 600 {
            self.close(actions);
        }
    }

    /// Forbids new branches, and cancels the active ones.
    fn close(&mut self, actions: &mut ContextActions) {
        if !core::mem::replace(&mut self.closed, true) {
            actions.push(ContextAction::CancelRest);
        }
    }

    /// §16.10: only an INVITE can be cancelled (§9.2).
    fn cancel(&mut self, actions: &mut ContextActions) {
        if self.invite && !self.finished {
            self.closed = true;
            actions.push(ContextAction::CancelRest);
        }
    }

    /// Tries the next group, or sends the final response, if no branch is active.
    fn go_on(&mut self, actions: &mut ContextActions) {
        if self.pending > 0 || self.finished {
            return;
        }
        if self.may_go_on() {
            return actions.push(ContextAction::NextGroup);
        }
        self.conclude(actions);
    }

    /// Sends the final response.
    fn conclude(&mut self, actions: &mut ContextActions) {
        self.finished = true;
        actions.push(match self.best {
            // RFC 4320 §4.2: no 408 to a request other than INVITE.
            0 if !self.invite => ContextAction::GiveUp,
            // §16.7 step 6: if there is no response, the answer is 408.
            0 => ContextAction::Answer(408),
            // §16.7 step 6: a 503 concerns the next hops, not this proxy.
            503 => ContextAction::Answer(500),
            best => ContextAction::Answer(best),
        });
    }
}

/// Order of responses; the lowest is the best (§16.7 step 6). A 6xx comes first, then the lowest class.
/// - 4xx: responses that say how to repeat the request come first. Responses that only say that a branch was cancelled,
///   timed out or had no connection come last.
/// - 5xx: a 503 is last, since it must not be forwarded unchanged.
fn rank(status: u16) -> (u16, u8) {
    let class = if status >= 600 { 0 } else { status / 100 };
    let within = match status {
        401 | 407 => 0,
        415 | 420 | 484 => 1,
        408 | 430 | 503 => 3,
        487 => 4,
        _ => 2,
    };
    (class, within)
}

fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}

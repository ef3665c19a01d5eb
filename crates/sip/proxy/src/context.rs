//! The response context of one proxied request (RFC 3261 §16.7): what the proxy makes of what its branches bring.

use arrayvec::ArrayVec;

/// What a response context hears of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextEvent {
    /// A branch has a provisional response other than 100.
    Provisional,
    /// A branch has a 2xx.
    Success,
    /// A branch has ended with this response, or as if it had come.
    Failure(u16),
    /// A branch has ended with this response, and no other one is to be waited for.
    Decided(u16),
    /// A branch has ended without anything that could go back.
    Silence,
    /// The group that is tried has had its time.
    RingTimeOver,
    /// The previous hop sent CANCEL.
    Cancelled,
    /// There is no other group after all.
    Exhausted,
}

/// What the proxy has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextAction {
    /// Send the response in hand back.
    Relay,
    /// Keep the response in hand in place of the one that was kept; where it is none of a next hop, keep none.
    Keep,
    /// Add the challenges of the response in hand to those of the one that is kept.
    AddChallenges,
    /// Send CANCEL to the branches that have not ended, and try no alternates of theirs.
    CancelRest,
    /// Try the next group.
    NextGroup,
    /// Send the response back that is kept; where none is, answer with this status.
    Answer(u16),
    /// Nothing will come of the request: it has no final response and needs none.
    GiveUp,
}

/// The actions of one step, in order.
pub type ContextActions = ArrayVec<ContextAction, 3>;

/// Where a request stands whose branches are under way.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts, most of which may hold together")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// Whether it is an INVITE.
    invite: bool,
    /// Whether the target set has another group.
    more: bool,
    /// No new branch may begin.
    closed: bool,
    /// Whether a final response has gone back.
    finished: bool,
    /// Branches that have not ended.
    pending: u8,
    /// The best final response so far; 0 where there is none.
    best: u16,
}

impl Context {
    /// The context of a request without a branch.
    pub fn new(invite: bool) -> Self {
        Self { invite, more: false, closed: false, finished: false, pending: 0, best: 0 }
    }

    /// A branch begins.
    pub fn begin(&mut self) {
        self.pending += 1;
    }

    /// Whether another group of targets follows the present one.
    pub fn set_more(&mut self, more: bool) {
        self.more = more;
    }

    /// Whether the request is an INVITE.
    pub fn is_invite(self) -> bool {
        self.invite
    }

    /// Whether a final response has gone back.
    pub fn is_finished(self) -> bool {
        self.finished
    }

    /// Whether another branch may begin.
    pub fn is_open(self) -> bool {
        !self.closed && !self.finished
    }

    /// Whether another group may be tried.
    pub fn may_go_on(self) -> bool {
        self.more && !self.closed
    }

    /// One bounded step.
    pub fn on(&mut self, event: ContextEvent) -> ContextActions {
        let mut actions = ContextActions::new();
        match event {
            ContextEvent::Provisional if self.finished => {}
            // §16.7 step 5: at once.
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
                    // All that can have come before spoke of next hops, but for a 6xx.
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

    /// §16.7 step 5: every 2xx to an INVITE goes back at once; of those to another request one does. Step 10: the
    /// other branches are cancelled.
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

    /// §16.7 step 6: the best of the responses is kept; step 7: with the challenges of all. A 6xx ends the search
    /// (step 5), and waits for the answers to the CANCELs: one of them may be a 2xx.
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

    /// No new branch may begin, and those that are under way are not wanted any more.
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

    /// Where no branch is left: the next group, or the final response.
    fn go_on(&mut self, actions: &mut ContextActions) {
        if self.pending > 0 || self.finished {
            return;
        }
        if self.may_go_on() {
            return actions.push(ContextAction::NextGroup);
        }
        self.conclude(actions);
    }

    /// The final response goes back.
    fn conclude(&mut self, actions: &mut ContextActions) {
        self.finished = true;
        actions.push(match self.best {
            // RFC 4320 §4.2: no 408 to a request other than INVITE.
            0 if !self.invite => ContextAction::GiveUp,
            // §16.7 step 6: without a response it is a 408.
            0 => ContextAction::Answer(408),
            // §16.7 step 6: a 503 speaks of the next hops, not of this proxy.
            503 => ContextAction::Answer(500),
            best => ContextAction::Answer(best),
        });
    }
}

/// The lower, the better (§16.7 step 6): a 6xx, else the lowest class; in 4xx what tells how to ask again, and last
/// what tells of nothing but that a branch was given up, or had no connection; in 5xx a 503 last, which could not go back as it is.
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

//! What is known of a request from before its wait: for a store, for a host name, for room in a queue.

use crate::address::hop_name::HopName;
use crate::admission::{Novelty, Ticket};
use crate::outcome::rejection::Rejection;
use crate::site::allowance::Sender;
use balance::{PoolId, Slot};
use base::Flow;
use location::{Authorization, Binding};

/// A waiting request, as it came in.
pub(crate) struct Waiter {
    pub(crate) flow: Flow,
    pub(crate) bytes: Box<[u8]>,
    pub(crate) progress: Progress,
}

/// The progress of a request that has waited. After the wait, the request is processed from the beginning with it.
#[derive(Default)]
pub(crate) struct Progress {
    /// Its ticket, once the gate has admitted it. Whoever takes the request over has to end the ticket.
    pub(crate) ticket: Option<Ticket>,
    /// What is known of who sends it.
    pub(crate) proof: Proof,
    /// Whether the bindings of the user in its credentials have been looked up.
    pub(crate) has_looked_up: bool,
    /// Whether its sender has registered from where it came, over UDP, if that has been asked for.
    pub(crate) is_registered: Option<bool>,
    /// The bindings of the user that its Request-URI names.
    pub(crate) bindings: Option<Vec<Binding>>,
    /// The host names of contacts whose look-up has ended.
    pub(crate) resolved: Vec<HopName>,
    /// The pool in whose queue it has waited, and how the wait ended.
    pub(crate) waited: Option<(PoolId, Waited)>,
    /// Whether its sender has got 100.
    pub(crate) is_told: bool,
}

impl Progress {
    /// Whether the sender of the request is authenticated.
    pub(crate) fn sender(&self) -> Sender {
        if self.user().is_some() { Sender::Genuine } else { Sender::Unproved }
    }

    /// The user that its sender has proved to be, here.
    pub(crate) fn user(&self) -> Option<&User> {
        if let Proof::Here(user) = &self.proof { Some(user) } else { None }
    }

    /// The request is rejected, or answered here with a failure.
    pub(crate) fn refuse(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.refuse();
        }
    }

    /// The request has its answer from here.
    pub(crate) fn settle(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.settle();
        }
    }

    /// Whether its ticket counts.
    pub(crate) fn holds_ticket(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::is_counted)
    }

    /// The ticket, for whoever sends the request on.
    pub(crate) fn hand_over(&mut self) -> Ticket {
        self.ticket.take().expect("nothing goes on before the gate has admitted it")
    }

    /// The relation of the request to earlier ones, once the gate has admitted it.
    pub(crate) fn novelty(&self) -> Novelty {
        self.ticket.as_ref().map_or(Novelty::Part, Ticket::novelty)
    }
}

/// Whether a request goes on after a stage of its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// It goes on to the next stage.
    GoesOn,
    /// It waits, is answered, or is forwarded.
    Done,
}

/// What is known of who sends a request.
#[derive(Default)]
pub(crate) enum Proof {
    /// Nothing.
    #[default]
    None,
    /// The user's credentials were verified here.
    Here(User),
    /// A neighbour before us has verified them.
    Before,
    /// A neighbour behind us has to.
    Behind,
}

impl Proof {
    /// What a neighbour that gets the request is told of it.
    pub(crate) fn mark(&self) -> AuthenticationMark {
        match self {
            Self::None => AuthenticationMark::Nothing,
            Self::Here(_) | Self::Before => AuthenticationMark::Verified,
            Self::Behind => AuthenticationMark::Asked,
        }
    }
}

/// What a neighbour is told of who sends a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum AuthenticationMark {
    /// Nothing.
    #[default]
    Nothing,
    /// Who it is was proved here or before.
    Verified,
    /// It has to be proved there or behind, by the credentials in the request.
    Asked,
}

/// An authenticated user.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: Box<[u8]>,
    pub(crate) realm: Box<[u8]>,
}

impl User {
    /// The authorization of the user.
    pub(crate) fn authorization(&self) -> Authorization {
        Authorization::As { user: self.name.clone(), realm: self.realm.clone() }
    }
}

/// The outcome of a wait in a queue.
#[derive(Clone, Copy)]
pub(crate) enum Waited {
    /// This member has room, and gets the call.
    Pulled(Slot),
    /// No member had room for as long as the call may wait. The caller gets this rejection.
    Expired(Rejection),
}

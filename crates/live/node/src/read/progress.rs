//! State of a request that is kept while it waits for a store, for a host name, or for room in a queue.

use crate::address::hop_name::HopName;
use crate::admission::{Novelty, Ticket};
use crate::outcome::rejection::Rejection;
use crate::site::allowance::Sender;
use balance::{PoolId, Slot};
use base::Flow;
use location::{Authorization, Binding};

/// A waiting request as received.
pub(crate) struct Waiter {
    pub(crate) flow: Flow,
    pub(crate) bytes: Box<[u8]>,
    pub(crate) progress: Progress,
}

/// Progress of a request that has waited. After the wait, the request is processed from the beginning with this
/// progress.
#[derive(Default)]
pub(crate) struct Progress {
    /// The ticket, if the gate has given it already. Code that takes over the request has to end the ticket.
    pub(crate) ticket: Option<Ticket>,
    /// How far the sender is authenticated.
    pub(crate) proof: Proof,
    /// Whether the bindings of the user in the credentials have been looked up.
    pub(crate) has_looked_up: bool,
    /// Whether the sender over UDP is reached at its source address: it has registered from there, or is behind a NAT.
    /// `None`: not known yet.
    pub(crate) is_at_source: Option<bool>,
    /// Bindings of the user in the Request-URI.
    pub(crate) bindings: Option<Vec<Binding>>,
    /// Host names of contacts whose look-up has ended.
    pub(crate) resolved: Vec<HopName>,
    /// The pool in whose queue the request has waited, and how the wait ended.
    pub(crate) waited: Option<(PoolId, Waited)>,
    /// Whether the sender got a 100.
    pub(crate) got_trying: bool,
}

impl Progress {
    /// Returns whether the sender of the request is authenticated.
    pub(crate) fn sender(&self) -> Sender {
        if self.user().is_some() { Sender::Genuine } else { Sender::Unproved }
    }

    /// Returns the user whose credentials this proxy has verified.
    pub(crate) fn user(&self) -> Option<&User> {
        if let Proof::Here(user) = &self.proof { Some(user) } else { None }
    }

    /// Ends the ticket of a rejected request.
    pub(crate) fn refuse(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.refuse();
        }
    }

    /// Ends the ticket of a request that was answered here.
    pub(crate) fn settle(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.settle();
        }
    }

    pub(crate) fn holds_ticket(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::is_counted)
    }

    /// Removes and returns the ticket, for forwarding.
    pub(crate) fn hand_over(&mut self) -> Ticket {
        self.ticket.take().expect("the gate admits a request before it is forwarded")
    }

    /// Returns the relation of the request to earlier requests, as found by the gate.
    pub(crate) fn novelty(&self) -> Novelty {
        self.ticket.as_ref().map_or(Novelty::Part, Ticket::novelty)
    }
}

/// Whether a request proceeds after a stage of its processing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The request proceeds to the next stage.
    GoesOn,
    /// The request waits, is answered, or is forwarded.
    Done,
}

/// How far the sender of a request is authenticated.
#[derive(Default)]
pub(crate) enum Proof {
    /// Not at all.
    #[default]
    None,
    /// This proxy has verified the user's credentials.
    Here(User),
    /// A neighbour before this proxy has verified the credentials.
    Before,
    /// A neighbour behind this proxy has to verify the credentials.
    Behind,
}

impl Proof {
    /// Returns the mark for the next neighbour.
    pub(crate) fn mark(&self) -> AuthenticationMark {
        match self {
            Self::None => AuthenticationMark::Nothing,
            Self::Here(_) | Self::Before => AuthenticationMark::Verified,
            Self::Behind => AuthenticationMark::Asked,
        }
    }
}

/// Statement to a neighbour about the authentication of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum AuthenticationMark {
    /// No statement.
    #[default]
    Nothing,
    /// The sender was authenticated here or before.
    Verified,
    /// The neighbour or a proxy behind it has to verify the credentials in the request.
    Asked,
}

#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: Box<[u8]>,
    pub(crate) realm: Box<[u8]>,
}

impl User {
    pub(crate) fn authorization(&self) -> Authorization {
        Authorization::As { user: self.name.clone(), realm: self.realm.clone() }
    }
}

/// Outcome of a wait in a queue.
#[derive(Clone, Copy)]
pub(crate) enum Waited {
    /// This member has room, and gets the call.
    Pulled(Slot),
    /// No member had room within the time for which the call may wait. The caller gets this rejection.
    Expired(Rejection),
}

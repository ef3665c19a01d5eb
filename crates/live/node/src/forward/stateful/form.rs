//! Messages as bytes: what the proxy's core works with on live traffic.

use super::budgets::Budgets;
use super::dialogs::Dialogs;
use super::received::Received;
use crate::address::hop_name::HopName;
use crate::message::validate::LARGEST;
use crate::outcome::failure::Failure;
use crate::queue::Queues;
use crate::site::Site;
use ::proxy::{Form, Sink};
use balance::{Balancer, CallKey};
use base::{Flow, Instant, Outbox};
use transaction::{Keys, Packet, Sending};
use wire::Message;

/// Messages as bytes.
pub(crate) enum Wire {}

impl Form for Wire {
    type Message = Packet;
    type Request = Received;
    type Call = CallKey;
    type Hop = Flow;
    type Medium<'a> = Editor<'a>;
    type Router<'a> = Assigner<'a>;
}

/// Says where requests go: to the members that the balancer chooses.
pub(crate) struct Assigner<'a> {
    pub(crate) now: Instant,
    pub(crate) balancer: &'a mut Balancer,
    /// Who of a pool has room for what another member leaves unanswered.
    pub(crate) queues: Option<&'a mut Queues>,
    /// The ways to the members, by slot.
    pub(crate) members: &'a [Flow],
    pub(crate) budgets: &'a mut Budgets,
}

/// Edits messages with what the shard knows.
pub(crate) struct Editor<'a> {
    pub(crate) site: &'a mut Site,
    pub(crate) keys: &'a Keys,
    pub(crate) notes: &'a mut Notes,
    pub(crate) dialogs: Option<&'a mut Dialogs>,
    /// The request that has just come in, as it was read: it need not be read again to be answered and forwarded.
    pub(crate) in_hand: Option<&'a Message<'a>>,
}

/// What the editing of a message leaves to be done.
pub(crate) struct Notes {
    /// What the message in hand came by.
    pub(crate) source: Flow,
    /// A host name that the requests of a dialog will go to: it is asked for now, since an ACK does not come again.
    pub(crate) look_up: Option<HopName>,
    /// Requests that were answered here with a failure, if they are to be told of.
    pub(crate) failures: Vec<Failure>,
}

impl Default for Notes {
    fn default() -> Self {
        Self { source: Flow::udp(0, ([0; 4], 0).into()), look_up: None, failures: Vec::new() }
    }
}

/// What leaves.
pub(crate) struct Out<'a, E>(pub(crate) &'a mut Outbox<E>);

impl<E> Sink<Packet> for Out<'_, E> {
    fn send(&mut self, packet: &Packet, _: Sending) {
        self.0.send(packet.flow, |buffer| {
            let start = buffer.len();
            packet.bytes.write(buffer);
            debug_assert!(buffer.len() - start <= LARGEST, "what does not fit was refused");
        });
    }
}

/// How often a request is sent again to an address that is no next hop and that nothing came from: enough for a loss
/// or two, and what somebody else pays who was named there without being asked.
pub(super) const UNHEARD_REPEATS: u8 = 2;

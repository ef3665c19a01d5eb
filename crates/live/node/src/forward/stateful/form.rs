//! Types by which the proxy's core works on live traffic, with messages as bytes.

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

/// Chooses next hops: the members that the balancer chooses.
pub(crate) struct Assigner<'a> {
    pub(crate) now: Instant,
    pub(crate) balancer: &'a mut Balancer,
    /// Queues. If a member leaves a call unanswered, they know the other members with room for it.
    pub(crate) queues: Option<&'a mut Queues>,
    /// Flows to the members, by slot.
    pub(crate) members: &'a [Flow],
    pub(crate) budgets: &'a mut Budgets,
}

/// Edits messages with the state of the shard.
pub(crate) struct Editor<'a> {
    pub(crate) site: &'a mut Site,
    pub(crate) keys: &'a Keys,
    pub(crate) notes: &'a mut Notes,
    pub(crate) dialogs: Option<&'a mut Dialogs>,
    /// The current request as already read, so that answering and forwarding need not read it again.
    pub(crate) in_hand: Option<&'a Message<'a>>,
}

/// Results of editing a message beside the message: work that has to be done afterwards, and a buffer.
pub(crate) struct Notes {
    /// Ingress flow of the current message.
    pub(crate) source: Flow,
    /// A host name that requests of a dialog will go to. It is looked up now, since an ACK is not retransmitted.
    pub(crate) look_up: Option<HopName>,
    /// Requests answered here with a failure, if failures are reported.
    pub(crate) failures: Vec<Failure>,
    /// Buffer in which a response is written. Its transaction keeps a copy of the exact length.
    pub(crate) response: Vec<u8>,
}

impl Default for Notes {
    fn default() -> Self {
        let source = Flow::udp(0, ([0; 4], 0).into());
        Self { source, look_up: None, failures: Vec::new(), response: Vec::new() }
    }
}

/// The outbox as a sink of packets.
pub(crate) struct Out<'a, E>(pub(crate) &'a mut Outbox<E>);

impl<E> Sink<Packet> for Out<'_, E> {
    fn send(&mut self, packet: &Packet, _: Sending) {
        self.0.send(packet.flow, |buffer| {
            let start = buffer.len();
            packet.bytes.write(buffer);
            debug_assert!(buffer.len() - start <= LARGEST, "longer messages were refused");
        });
    }
}

/// Maximum retransmissions to an address that is no next hop and has sent no message. This is enough if one or two
/// datagrams are lost. It limits the traffic to a host that a sender named without its consent.
pub(super) const UNVERIFIED_REPEATS: u8 = 2;

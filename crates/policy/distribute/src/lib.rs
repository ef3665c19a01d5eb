//! Distribution of state in a chain of proxies: SERvartuka's dynamic distribution, without a central element.
//!
//! Pure: time, utilisation and messages are arguments. A proxy that distributes state with its neighbours
//! - calls [`Distributor::on_call`] for each new call, which decides whether to keep the call's state, and forwards the
//!   call with the resulting [`Mark`];
//! - reports the utilisation of each period ([`Distributor::on_period`]);
//! - sends each upstream neighbour its [`Notice`] ([`Distributor::notice`]), and passes on the notices of downstream
//!   neighbours ([`Distributor::on_notice`]).
//!
//! The paper (sections 3 and 5) assumes servers that are strictly ordered in the direction of requests. This crate
//! needs no order: two edges may call each other through a core, and calls may pass parts of a ring of proxies.
//!
//! # State is kept exactly once
//!
//! *At most once.* The first node that keeps a call's state marks the call as *kept*, and no node keeps the state of a
//! marked call. The mark travels with the call, so nodes need no common order, and no knowledge of each other's
//! decisions.
//!
//! *At least once.* The node that sends a call out of the network (no trusted neighbour follows) keeps the state of an
//! unmarked call, whatever its load. This does not depend on the content of any notice. A lost, late or wrong notice, a
//! restart or a throttle in any order may move state to another node of the path. None of them doubles or drops it.
//!
//! Three cases could break this:
//! - *A retransmission* may pass a node that forwarded the first copy without state, after the node's share has
//!   changed. If its state were kept now, two nodes would keep it. So a node remembers the keys of calls forwarded
//!   without state for as long as a retransmission may come ([`DistributionSettings::remembered`]), and repeats its
//!   decision. A restart loses these keys, so copies of calls that were being set up are the one gap. The second state
//!   then has no effect but its cost, since the later node still absorbs the copy. Copies of a call whose state is kept
//!   here find their transaction, and the host does not call the distributor.
//! - *A stranger's mark* could make a call pass with no state at all. Only marks and notices of trusted neighbours
//!   count. At the edge of the network the host removes them, in both directions.
//! - *A call that comes back* (a spiral) is marked, or it is unmarked and forwarded unmarked again, like a copy. At the
//!   exit its state is kept.
//!
//! # Nothing is throttled for ever
//!
//! A node reports two utilisations and a flag to each upstream neighbour:
//! - *Least* is the utilisation of the least busy node, among this node and the later nodes on the paths of that
//!   neighbour's calls.
//! - *Throttled* means that the least is high, which is the paper's condition: the server and all paths behind it are
//!   saturated.
//! - *Level* is the utilisation of the nodes that would keep the state of one more call of the neighbour. The law
//!   [`ShareLaw::Level`] uses it.
//!
//! *No deadlock.* Neither value is ever above the node's own measured utilisation. When the load falls, the measured
//! value and the reported values fall at once, whatever neighbours report. A circle of nodes that throttle each other
//! dissolves in one period. A neighbour that falls silent counts as having room, after
//! [`DistributionSettings::validity`]. A neighbour that keeps all state itself also learns of the room behind this
//! node, since its marked calls show the paths that concern it.
//!
//! *No phantom room.* Without an order, the reverse may happen: A reports room because B does, and B because A does,
//! long after both are full. No node would throttle again. Two rules prevent this.
//!
//! - A node reports only about paths that calls of the receiving neighbour take, so the two edges of a core never get
//!   reports about themselves.
//! - A reported value increases by [`AGE`] with each hop, for rings, where the first rule is not enough. The value of a
//!   nearby node hardly changes. A value that only circulates grows until it exceeds the measured ones, and no longer
//!   counts. A limit of hops would not work: an echo would hide the room of a nearby node until the echo is dropped.
//!
//! This crate refuses no calls. A node at the entry computes the share of clients' new calls that it should accept
//! ([`Distributor::accepted_share`]); the host refuses the others.
//!
//! # Other functions
//!
//! Any function that one node of a path performs for a call can be distributed in the same way. A second `Distributor`
//! with its own marks distributes authentication ([`Function`]). A function that starts at one node and must end there,
//! such as the answer to its challenge, is counted by [`Distributor::on_own_call`].
#![forbid(unsafe_code)]

mod distributor;
mod entry;
mod law;
mod mark;
mod notice;
mod settings;

pub use distributor::{Call, Distributor, NextHop, StateDecision};
pub use law::ShareLaw;
pub use mark::{Function, Mark};
pub use notice::{AGE, Notice};
pub use settings::{DistributionSettings, UtilisationSource};

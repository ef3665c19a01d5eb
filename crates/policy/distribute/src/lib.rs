//! Who in a chain of proxies keeps the state of a call: SERvartuka's dynamic distribution, without a centre.
//!
//! Pure: time, utilisation and messages are arguments. A proxy that shares out state with its neighbours
//! - asks its [`Distributor`] for each new call ([`Distributor::on_call`]) whether it keeps the call's state, and
//!   forwards the call with the [`Mark`] that the decision names;
//! - tells it the utilisation of each period ([`Distributor::on_period`]);
//! - puts the [`Notice`] for an upstream neighbour ([`Distributor::notice`]) into what it sends there, and hands over
//!   those of its downstream neighbours ([`Distributor::on_notice`]).
//!
//! The paper (sections 3 and 5) works where servers are strictly ordered in the direction of requests. What follows
//! needs no order: two edges may call each other through a core, and calls may go round a ring of proxies in parts.
//!
//! # State is kept exactly once
//!
//! *At most once.* A call is marked *kept* by the first node that keeps its state, and a node that gets a marked call
//! never keeps it. The mark travels with the call, so nodes need not agree on an order, and none of them has to know
//! what others decide. *At least once.* The node that sends a call out of the network (there is no trusted neighbour
//! behind it) keeps the state of one that is not marked, whatever its load. The decision depends on nothing that a
//! neighbour says. So a lost, late or wrong notice, a restart or a throttle in any order moves state to another node
//! of the path, but neither doubles nor drops it.
//!
//! Three attacks on this, and what is done about each:
//! - *A retransmission* passes a node that forwarded the first copy without state, after the node's share has
//!   changed. Kept now, its state would be at two nodes. So a node remembers the keys of calls that it forwarded open
//!   for as long as a retransmission may come ([`Settings::remembered`]) and decides the same again. A restart
//!   forgets them: the copies of calls that were being set up then are the one gap, and the second state has no
//!   effect beyond its cost, since the node behind still absorbs the copy. Copies of a call whose state is kept here
//!   find their transaction, and the host does not ask.
//! - *A stranger's mark* would make a call pass with no state at all. Marks and notices count from trusted neighbours
//!   alone; at the edge of the network the host removes them, in both directions.
//! - *A call that comes back* (a spiral) is marked, or it is open and passed on open again, as a copy of it would be;
//!   where it leaves the network it is kept.
//!
//! # Nothing is throttled for ever
//!
//! A node tells each upstream neighbour two shares of time. The *least* is how busy the least busy node is, of this
//! one and of those behind on the ways of that neighbour's calls. *Throttled* means that it is high, which is the
//! paper's condition: the server is saturated, and so are all paths behind it. The *level* is how busy those are who
//! would have to keep the state of one more call of the neighbour, and the law [`Law::Level`] works with it.
//!
//! *No deadlock.* Neither is ever above the node's own utilisation as measured. When load goes away, that falls by
//! itself, and what is told falls at once, whatever neighbours say; a circle of nodes that throttle each other
//! dissolves in one period. A neighbour that falls silent is taken as one that has room, after
//! [`Settings::validity`]. And a neighbour that keeps all state itself hears of the room behind, too: its marked
//! calls show which ways concern it.
//!
//! *No phantom room.* Without an order, the reverse may happen: A says that there is room because B says so, and B
//! because A says so, long after both are full. Nobody would throttle again. Two rules prevent it. A node tells only
//! of the paths that calls of the one who is told take, so the two edges of a core never hear of themselves. For
//! rings, where that is not enough, what is told on counts for [`AGE`] busier with each hop. What is true of a node
//! near by is hardly changed by that; what only goes round grows until it is above what nodes measure, and is gone.
//! To count hops and to drop what is too far away would not do: an echo that is dropped has hidden the room of a node
//! near by until then.
//!
//! Nothing is ever refused here. A node at the entry says which share of the clients' new calls it should take
//! ([`Distributor::takes`]); the host refuses the others.
//!
//! # Other functions
//!
//! The same holds for anything that one node of a path has to do for a call: a second `Distributor` with marks of its
//! own shares out authentication ([`Function`]). What has begun at one node and has to end there, such as the answer to
//! its challenge, is told by [`Distributor::on_own_call`].
#![forbid(unsafe_code)]

mod distributor;
mod entry;
mod law;
mod mark;
mod notice;
mod settings;

pub use distributor::{Call, Decision, Distributor, NextHop};
pub use law::Law;
pub use mark::{Function, Mark};
pub use notice::{AGE, Notice};
pub use settings::{Load, Settings};

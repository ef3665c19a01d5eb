//! Types that every other crate uses: time, timers, randomness, transports, effects, and a ledger of work.
//!
//! Pure: no sockets, no clock, no threads, no operating system randomness. Time is an argument of type [`Instant`],
//! effects go into an [`Outbox`], and work done is charged to a [`Ledger`].
#![forbid(unsafe_code)]

mod bucket;
mod flow;
mod ledger;
mod outbox;
mod recent;
mod rng;
mod sip_hash;
mod slab;
mod time;
mod timer_queues;
mod unix_time;
mod wheel;

pub use bucket::{Bucket, Buckets, Rate};
pub use flow::{Connection, Flow, NoPeer, Peer, Transport};
pub use ledger::{INVITE_WORK, Ledger, Operation};
pub use outbox::{Outbox, Transmit};
pub use recent::Recent;
pub use rng::Rng;
pub use sip_hash::{SipHash, SipHash128};
pub use slab::Slab;
pub use time::Instant;
pub use timer_queues::{LaneTimer, TimerQueues, shrink_queue};
pub use unix_time::UnixTime;
pub use wheel::TimerWheel;

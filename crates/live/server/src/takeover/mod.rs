//! A start while another process of the same configuration runs: the new one takes over its sockets, so that no
//! datagram meets a closed port or a process that refuses calls.
//!
//! The running process, the predecessor, listens on a Unix socket in the state directory of the service, or beside
//! the configuration ([`offer`]). The new one, the successor, connects to it ([`claim`]) and gets its UDP sockets and
//! the listener of the admin interface (`SCM_RIGHTS`). It makes all ready that it needs while the predecessor goes
//! on, and then says which sockets it takes. The predecessor stops reading those; what comes in the moment until the
//! successor reads them waits in the kernel.
//!
//! Calls and transactions stay with the predecessor until they are over. It says which they are ([`shards::OtherProcess`]); the
//! successor hands it their datagrams, as one thread hands them to another, and the answers leave through the
//! predecessor's own copies of the sockets. It also says how much each member has to do for these calls, so that
//! policies count them.
//!
//! Whichever of the two ends, by `kill -9` too, the other one goes on alone: the predecessor reads its sockets again,
//! the successor treats the predecessor's calls like those of a process that was killed.

pub(crate) mod claim;
pub(crate) mod exchange;
pub(crate) mod offer;
mod passing;

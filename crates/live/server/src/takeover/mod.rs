//! Takeover at start: a process of the same configuration runs already, and the new process takes over its sockets. No
//! datagram meets a closed port or a process that refuses calls.
//!
//! The running process, the predecessor, listens on a Unix socket in the state directory of the service, or beside the
//! configuration ([`offer`]). The new process, the successor, connects to it ([`claim`]) and gets its UDP sockets and
//! the listener of the admin interface (`SCM_RIGHTS`). It prepares everything while the predecessor continues, and then
//! says which sockets it takes. The predecessor stops reading these sockets. Datagrams that arrive before the successor
//! reads them wait in the kernel.
//!
//! Calls and transactions stay with the predecessor until they end. It names them ([`shards::OtherProcess`]), and the
//! successor hands it their datagrams, as one thread hands them to another. The answers leave through the predecessor's
//! own copies of the sockets. It also reports each member's load from these calls, so that policies count it.
//!
//! If one of the two ends, even by `kill -9`, the other continues alone. The predecessor reads its sockets again. The
//! successor treats the predecessor's calls like those of a killed process.

pub(crate) mod claim;
pub(crate) mod exchange;
pub(crate) mod offer;
mod passing;

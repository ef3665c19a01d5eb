//! Updates of capacity, from the monitor of a server to the queue in front: lines of text over TCP, authenticated by
//! a shared secret: one for each server, or one for all. `docs/elastic.md` has the protocol.
//!
//! ```text
//! receiver  sarabande-capacity 2 NONCE                        once: version, and a random challenge
//! sender    UPDATE NUMBER SERVER CAPACITY CODE                once a second
//! receiver  OK NUMBER SENT    or    ERROR REASON, and the connection is closed
//! ```
//!
//! CODE is HMAC-SHA256 (RFC 2104) with the key of SERVER, over the greeting and the line before it. Hence an update
//! that is accepted was made by a holder of the key, for this connection and this place in it: one that was altered,
//! repeated, left out, moved, or seen on another connection is refused. Neither side keeps anything beyond the
//! connection, so each may be restarted at any time; only [`Announcements`] knows of several connections, so that a
//! delayed update of an old connection does not replace that of a newer one.
//!
//! Pure: the nonce is an argument, reading and writing is done outside.
//!
//! - [`Lines`]: bytes to lines, bounded,
//! - [`Receiver`], [`Sender`]: the two ends of a connection,
//! - [`Announcements`]: the last accepted update of each server,
//! - [`Division`]: which part of a capacity each of several receivers is told,
//! - [`Keys`]: who may speak for which server,
//! - [`Key`], [`Server`], [`Refusal`]: values that these work with.

mod announcements;
mod division;
mod key;
mod line;
mod message;
mod receiver;
mod refusal;
mod sender;

pub use announcements::{Announcement, Announcements};
pub use division::Division;
pub use key::{Key, KeyKind, Keys};
pub use line::{LINE_MAX, Lines};
pub use message::{CAPACITY_MAX, NONCE_BYTES, NotAServer, Server, VERSION};
pub use receiver::{Receiver, Update};
pub use refusal::Refusal;
pub use sender::{SendError, Sender};

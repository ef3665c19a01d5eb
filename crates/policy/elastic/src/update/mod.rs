//! Updates of capacity, from the monitor of a server to the queue in front. Lines of text over TCP, authenticated by a
//! shared secret: one for each server, or one for all. `docs/capacity-updates.md` describes the protocol.
//!
//! ```text
//! receiver  sarabande-capacity 2 NONCE                        once: version, and a random challenge
//! sender    UPDATE NUMBER SERVER CAPACITY CODE                once a second
//! receiver  OK NUMBER SENT    or    ERROR REASON, and the connection is closed
//! ```
//!
//! CODE is HMAC-SHA256 (RFC 2104) with the key of SERVER, over the greeting and the line up to CODE. So an accepted
//! update was made by a holder of the key, for this connection and for this position in it. An update that was altered,
//! repeated, left out, moved, or seen on another connection is refused. Neither side keeps state beyond the connection,
//! so each may be restarted at any time. Only [`Announcements`] covers several connections, so that a delayed update of
//! an old connection does not replace a newer one.
//!
//! Pure: the nonce is an argument, and the caller reads and writes.
//!
//! - [`Lines`]: splits bytes into lines, bounded,
//! - [`UpdateReceiver`], [`UpdateSender`]: the two ends of a connection,
//! - [`Announcements`]: the last accepted update of each server,
//! - [`Division`]: divides a capacity among several receivers,
//! - [`UpdateKeys`]: keys by server,
//! - [`Key`], [`ServerName`], [`UpdateRefusal`]: values used by these.

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
pub use key::{Key, KeyKind, UpdateKeys};
pub use line::{LINE_MAX, Lines};
pub use message::{CAPACITY_MAX, NONCE_BYTES, NotAServer, ServerName, VERSION};
pub use receiver::{Update, UpdateReceiver};
pub use refusal::UpdateRefusal;
pub use sender::{SendError, UpdateSender};

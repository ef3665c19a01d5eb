//! SIP on the wire: bytes to messages and back, without policy.
//!
//! [`scan`] reads a datagram once, lazily: it finds and checks the header fields that forwarding needs, and skips the
//! others. [`Edits`] collects changes as splices and renders them in one copy. [`Framer`] divides a byte stream into
//! messages. It is the only type with state: the bytes of an incomplete message. [`mod@proxy_header`] reads the PROXY
//! header that a load balancer sends first. [`write_response`] and [`build`] write new messages. Nothing here opens a
//! socket or reads a clock.
//!
//! # Leniency
//! Accepted as RFC 3261 §7 and §25 specify: compact and case-insensitive names, white space before the colon, folds,
//! comma lists, quoted strings, escapes. Accepted beyond the grammar: `_` in host names, `#` in user parts, unquoted
//! display names in other alphabets, any opaque parameter value, two equal tags. Refused although some elements accept
//! it: line ends other than CRLF, and repeated single-value fields. Two elements that read such a message differently
//! would see different messages. A response cannot be rejected with an error. So in a response, repeated fields are
//! accepted if they are equal, and so is any fault of From and To.

#![forbid(unsafe_code)]

pub mod build;
mod chars;
mod cursor;
mod edit;
mod framing;
mod header;
mod host;
mod line;
mod message;
mod method;
mod peek;
pub mod proxy_header;
mod registration;
mod response;
mod scan;
mod session;
mod span;
mod start;
mod target;
mod text;
mod uri;
mod uri_equality;
mod vector;

pub use edit::{Edits, Patch};
pub use framing::{
    FoundHeader, Framed, Framer, FramingFault, HEADER_MAX, HeaderSearch, begins_message, content_lengths,
};
pub use header::call_id::peek_call_id;
pub use header::contact::{BadContact, ContactAddress, ContactValue, MALFORMED_EXPIRES};
pub use header::cseq::CSeq;
pub use header::digest::{AuthText, BadDigest, Challenge, Credentials, DIGEST_MAX};
pub use header::name::matches as is_header;
pub use header::name_addr::NameAddr;
pub use header::overload::{
    OVERLOAD_OFFER, OVERLOAD_VALIDITY, OverloadAlgorithm, OverloadEdit, OverloadFeedback, OverloadParams,
    edit_overload,
};
pub use header::route::RouteValue;
pub use header::via::{BadVia, Rport, Via, ViaParam};
pub use host::Host;
pub use message::Message;
pub use method::Method;
pub use peek::{Acknowledgement, Peek};
pub use response::write_response;
pub use scan::{Discard, Fault, MAX_LEN, scan};
pub use span::Span;
pub use start::Start;
pub use target::{request_source_target, response_target};
pub use uri::{Scheme, SipUri, UriError, scheme_of, unescape};
pub use uri_equality::same_uri;

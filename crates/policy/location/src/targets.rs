//! Where a request to an address-of-record goes.

use crate::{Binding, Record};
use base::UnixTime;
use core::cmp::Reverse;

/// The bindings that are good now, in the order in which they are tried (RFC 3261 §16.6): higher `q` first, and of
/// the same `q` the one that was refreshed last.
///
/// The Request-URI becomes [`Binding::uri`]. With a path, its values are the route set that is put before it (RFC
/// 3327 §5.4). Without, the request is sent to [`Binding::source`] where there is one, else where the URI leads.
pub fn targets(record: &Record, now: UnixTime) -> Vec<Binding> {
    let mut live = record.bindings();
    live.retain(|binding| binding.is_live(now));
    // Stable, so what is equal stays in the order of the record.
    live.sort_by_key(|binding| Reverse((binding.q, binding.updated)));
    live
}

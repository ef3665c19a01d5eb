//! Destinations of a request to an address-of-record.

use crate::{Binding, BindingsRecord};
use base::UnixTime;
use core::cmp::Reverse;

/// Valid bindings in the order in which they are tried (RFC 3261 §16.6): higher `q` first, and for equal `q` the last
/// refreshed first.
///
/// The Request-URI becomes [`Binding::uri`]. With a path, the values of the path become the route set in front of the
/// URI (RFC 3327 §5.4). Without a path, the request goes to [`Binding::source`] if there is one, otherwise to the URI.
pub fn targets(record: &BindingsRecord, now: UnixTime) -> Vec<Binding> {
    let mut live = record.bindings();
    live.retain(|binding| binding.is_live(now));
    // The sort is stable: equal bindings keep the order of the record.
    live.sort_by_key(|binding| Reverse((binding.q, binding.updated)));
    live
}

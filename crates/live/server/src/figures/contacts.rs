//! The contacts of a user.

use super::metric::figures;
use crate::registrations::Contacts;
use base::UnixTime;
use location::Binding;
use std::net::SocketAddr;

figures! {
    /// `GET /api/registrations` and `DELETE /api/registrations`
    ContactsView as "Contacts" from (asked: String, found: &Contacts) {
        /// The user, as it was asked for.
        user: String = asked,
        /// Contacts that there are, those first that are tried first.
        contacts: Vec<ContactView> = ContactView::list(&found.there, found.date),
        /// Contacts that were removed just now; empty for GET.
        removed: Vec<ContactView> = ContactView::list(&found.removed, found.date),
    }
}

figures! {
    /// A contact of a user.
    ContactView as "Contact" from (binding: &Binding, now: UnixTime) {
        /// Its URI.
        contact: String = text(&binding.uri),
        /// Its preference, from 0 to 1.
        q: f64 = f64::from(binding.q) / 1000.0,
        /// Until it expires.
        expires_seconds: u64 = binding.remaining_secs(now),
        /// Where requests for it go in place of its URI: where it registered from; `null`: to its URI, or along its
        /// path.
        source: Option<SocketAddr> = binding.source.map(|source| source.peer),
        /// The Path that its registration came with (RFC 3327); `null` for none.
        path: Option<String> = (!binding.path.is_empty()).then(|| text(&binding.path)),
    }
}

impl ContactView {
    pub(super) fn list(bindings: &[Binding], now: UnixTime) -> Vec<Self> {
        bindings.iter().map(|binding| Self::new(binding, now)).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

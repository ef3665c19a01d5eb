//! The contacts of a user.

use super::metric::figures;
use crate::registrations::UserContacts;
use base::UnixTime;
use location::Binding;
use std::net::SocketAddr;

figures! {
    /// `GET /api/registrations` and `DELETE /api/registrations`
    ContactsView as "Contacts" from (asked: String, found: &UserContacts) {
        /// The user of the query.
        user: String = asked,
        /// Contacts of the user, in the order in which they are tried.
        contacts: Vec<ContactView> = ContactView::list(&found.there, found.date),
        /// Contacts that this request removed; empty for GET.
        removed: Vec<ContactView> = ContactView::list(&found.removed, found.date),
    }
}

figures! {
    /// A contact of a user.
    ContactView as "Contact" from (binding: &Binding, now: UnixTime) {
        /// URI of the contact.
        contact: String = text(&binding.uri),
        /// Preference (q value), from 0 to 1.
        q: f64 = f64::from(binding.q) / 1000.0,
        /// Time until the contact expires.
        expires_seconds: u64 = binding.remaining_secs(now),
        /// Address that it registered from, to which its requests go; `null` if they go to its URI or along its path.
        source: Option<SocketAddr> = binding.source.map(|source| source.peer),
        /// Whether the address in its URI is not the address that it registered from.
        behind_nat: bool = binding.is_behind_nat(),
        /// Path of its registration (RFC 3327); `null` without one.
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

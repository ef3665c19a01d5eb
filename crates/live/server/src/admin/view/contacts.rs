//! What the admin interface shows of the contacts of a user.

use crate::Contacts;
use base::UnixTime;
use location::Binding;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// `GET /api/registrations` and `DELETE /api/registrations`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Contacts"))]
pub struct ContactsView {
    /// The user, as it was asked for.
    pub user: String,
    /// Contacts that there are, those first that are tried first.
    pub contacts: Vec<ContactView>,
    /// Contacts that were removed just now; empty for GET.
    pub removed: Vec<ContactView>,
}

/// A contact of a user.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Contact"))]
pub struct ContactView {
    /// Its URI.
    pub contact: String,
    /// Its preference, from 0 to 1.
    pub q: f64,
    /// Until it expires.
    pub expires_seconds: u64,
    /// Where requests for it go in place of its URI: where it registered from; `null`: to its URI, or along its path.
    pub source: Option<SocketAddr>,
    /// The Path that its registration came with (RFC 3327); `null` for none.
    pub path: Option<String>,
}

impl ContactsView {
    pub(in super::super) fn new(user: String, found: &Contacts) -> Self {
        let shown = |bindings: &[Binding]| ContactView::list(bindings, found.date);
        Self { user, contacts: shown(&found.there), removed: shown(&found.removed) }
    }
}

impl ContactView {
    pub(super) fn list(bindings: &[Binding], now: UnixTime) -> Vec<Self> {
        bindings.iter().map(|binding| Self::new(binding, now)).collect()
    }

    fn new(binding: &Binding, now: UnixTime) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            contact: text(&binding.uri),
            q: f64::from(binding.q) / 1000.0,
            expires_seconds: binding.remaining_secs(now),
            source: binding.source.map(|source| source.peer),
            path: (!binding.path.is_empty()).then(|| text(&binding.path)),
        }
    }
}

//! Authorization of a REGISTER to change bindings (RFC 3261 §10.3 step 4).

use crate::Aor;

/// Sender of a REGISTER as authenticated (RFC 3261 §10.3 step 3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Authorization {
    /// No authentication: any sender may change the bindings of any address-of-record.
    Open,
    /// The sender has proved to know this user's password.
    As {
        /// Exact user name, `alice` or `alice@example.com`.
        user: Box<[u8]>,
        /// Realm of the user name: `alice` of another realm is another user.
        realm: Box<[u8]>,
    },
}

impl Authorization {
    /// Whether the sender may change the bindings of this address-of-record. The realm must be the domain of the
    /// address-of-record, or `shared_realm`. The user name must equal its user part, or `user@host` with that domain.
    /// User parts are compared exactly, domains in any case.
    pub fn covers(&self, aor: &Aor, shared_realm: Option<&[u8]>) -> bool {
        let Self::As { user, realm } = self else { return true };
        let is_ours = realm.eq_ignore_ascii_case(aor.host()) || shared_realm == Some(realm);
        is_ours && (**user == *aor.user() || is_full_name(user, aor))
    }
}

/// Whether a user name is `user@host` of an address-of-record.
fn is_full_name(name: &[u8], aor: &Aor) -> bool {
    let Some(at) = name.iter().rposition(|&b| b == b'@') else { return false };
    name[..at] == *aor.user() && name[at + 1..].eq_ignore_ascii_case(aor.host())
}

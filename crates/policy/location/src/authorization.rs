//! Whose bindings a REGISTER may change (RFC 3261 §10.3 step 4).

use crate::Aor;

/// Who sends a REGISTER, as the authentication has found out (RFC 3261 §10.3 step 3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Authorization {
    /// Nobody was asked: whoever sends a REGISTER may change the bindings of every address-of-record.
    Open,
    /// This user has proved to know the password.
    As {
        /// The user name to the letter, `alice` or `alice@example.com`.
        user: Box<[u8]>,
        /// The realm that the user name belongs to: `alice` of another realm is another user.
        realm: Box<[u8]>,
    },
}

impl Authorization {
    /// Whether the bindings of this address-of-record may be changed. The realm has to be the domain of the
    /// address-of-record, or `shared_realm`. The user name has to be its user part; where the name ends with `@host`,
    /// `host` has to be that domain. User parts are compared to the letter, domains are not.
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

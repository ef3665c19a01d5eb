//! A row of Kamailio's table `subscriber`: which one is asked for, and what secret it gives.

use digest_auth::{Algorithm, Hash, Needs, Secret};

/// The query for one user: `$1` is the user name, `$2` the domain. Gives five texts. The names are those that `kamdbctl`
/// makes. Two rows are enough to know that the user is not unique.
pub(crate) const QUERY: &str = "SELECT username::text, domain::text, password::text, ha1::text, ha1b::text \
    FROM subscriber WHERE username = $1 AND domain = $2 LIMIT 2";

/// What hashes of 64 digits were made with, which do not tell it themselves. Those of 32 digits are of MD5.
const LONG: Algorithm = Algorithm::Sha256;

/// Which row is asked for: as the primary key has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) username: Box<str>,
    pub(crate) domain: Box<str>,
}

/// What a claim asks for, in terms of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    /// The client sent `user@domain` as its user name.
    pub(crate) has_domain: bool,
    pub(crate) algorithm: Algorithm,
}

impl Wanted {
    /// `None` for a name that no row has: it is no text, or it names the domain of another realm.
    pub(crate) fn of(needs: Needs<'_>) -> Option<Self> {
        let text = |bytes| core::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        let (user, realm) = (text(needs.user)?, text(needs.realm)?);
        let (username, domain) = user.rsplit_once('@').map_or((user, None), |(user, at)| (user, Some(at)));
        if domain.is_some_and(|domain| domain != realm) {
            return None;
        }
        let key = Key { username: username.into(), domain: realm.into() };
        Some(Self { key, has_domain: domain.is_some(), algorithm: needs.algorithm })
    }
}

/// What the table knows of a user.
pub(crate) struct Row {
    pub(crate) password: Option<Box<str>>,
    pub(crate) ha1: Option<Box<str>>,
    pub(crate) ha1b: Option<Box<str>>,
}

impl Row {
    /// The secret for a claim; `None` when the row has none, which is as if there were no such user.
    pub(crate) fn secret(&self, wanted: &Wanted) -> Option<Secret> {
        if let Some(password) = filled(self.password.as_deref()) {
            return Some(Secret::Clear(password.as_bytes().into()));
        }
        // `ha1` is made of the bare user name, `ha1b` of `user@domain`: the client hashes what it sends.
        let digits = filled(if wanted.has_domain { self.ha1b.as_deref() } else { self.ha1.as_deref() })?;
        let algorithms = [Algorithm::Md5, LONG];
        let hash = algorithms.into_iter().find_map(|one| Hash::from_hex(one, digits.as_bytes()))?;
        Some(Secret::Ha1(hash))
    }
}

/// Kamailio's columns are empty, not NULL, where they have nothing.
fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(user: &str) -> Option<Wanted> {
        Wanted::of(Needs { user: user.as_bytes(), realm: b"a.example", algorithm: Algorithm::Sha256 })
    }

    #[test]
    fn names_are_split_at_the_domain() {
        let key = |username: &str| Key { username: username.into(), domain: "a.example".into() };
        let bare = wanted("alice").unwrap();
        assert_eq!((bare.key, bare.has_domain, bare.algorithm), (key("alice"), false, Algorithm::Sha256));
        let long = wanted("alice@a.example").unwrap();
        assert_eq!((long.key, long.has_domain), (key("alice"), true));
        assert_eq!(wanted("a@b@a.example").unwrap().key, key("a@b"));
        for other in ["alice@b.example", "alice@", "alice@A.example", "nul\0", "alice@a.example@"] {
            assert_eq!(wanted(other), None, "{other:?}");
        }
        assert_eq!(Wanted::of(Needs { user: b"\xff", realm: b"a", algorithm: Algorithm::Md5 }), None);
    }

    #[test]
    fn the_secret_is_of_the_name_that_the_client_sent() {
        let row = |password: &str, ha1: &str, ha1b: &str| {
            let column = |text: &str| Some(text.into());
            Row { password: column(password), ha1: column(ha1), ha1b: column(ha1b) }
        };
        let shown = |row: &Row, user: &str| match row.secret(&wanted(user).unwrap()) {
            Some(Secret::Clear(password)) => String::from_utf8(password.into()).unwrap(),
            Some(Secret::Ha1(hash)) => {
                format!("{} {}", hash.algorithm().name(), String::from_utf8(hash.hex()).unwrap())
            }
            None => "none".to_owned(),
        };
        let (short, long) = ("0123456789abcdef".repeat(2), "fedcba9876543210".repeat(4));
        let hashed = row("", &short, &long);
        assert_eq!(shown(&hashed, "alice"), format!("MD5 {short}"));
        assert_eq!(shown(&hashed, "alice@a.example"), format!("SHA-256 {long}"));
        assert_eq!(shown(&row("secret", &short, &long), "alice"), "secret", "it serves every algorithm");
        for empty in [row("", "", ""), row("", "123", ""), Row { password: None, ha1: None, ha1b: None }] {
            assert_eq!(shown(&empty, "alice"), "none");
        }
    }
}

//! Rows of Kamailio's table `subscriber`: their key, and their secret.

use digest_auth::{Algorithm, Needs, Secret, SecretHash};

/// Query for one user: `$1` is the user name, `$2` the domain. Returns five texts. The names are those of `kamdbctl`.
/// Two rows suffice to detect that the user is not unique.
pub(crate) const QUERY: &str = "SELECT username::text, domain::text, password::text, ha1::text, ha1b::text \
    FROM subscriber WHERE username = $1 AND domain = $2 LIMIT 2";

/// Algorithm of hashes with 64 digits, which they do not name themselves. Hashes with 32 digits are MD5.
const LONG: Algorithm = Algorithm::Sha256;

/// Key of a row: the primary key of the table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) username: Box<str>,
    pub(crate) domain: Box<str>,
}

/// Row that a claim needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    /// Whether the client sent `user@domain` as its user name.
    pub(crate) has_domain: bool,
    pub(crate) algorithm: Algorithm,
}

impl Wanted {
    /// `None` for a name that no row can have: it is not text, or it names the domain of another realm.
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

/// Secrets of a row.
pub(crate) struct Row {
    pub(crate) password: Option<Box<str>>,
    pub(crate) ha1: Option<Box<str>>,
    pub(crate) ha1b: Option<Box<str>>,
}

impl Row {
    /// Secret for a claim; `None` if the row has none, which counts as an unknown user.
    pub(crate) fn secret(&self, wanted: &Wanted) -> Option<Secret> {
        if let Some(password) = filled(self.password.as_deref()) {
            return Some(Secret::Clear(password.as_bytes().into()));
        }
        // `ha1` is made from the bare user name, `ha1b` from `user@domain`: the client hashes the name that it sends.
        let digits = filled(if wanted.has_domain { self.ha1b.as_deref() } else { self.ha1.as_deref() })?;
        let algorithms = [Algorithm::Md5, LONG];
        let hash = algorithms.into_iter().find_map(|one| SecretHash::from_hex(one, digits.as_bytes()))?;
        Some(Secret::Ha1(hash))
    }
}

/// Kamailio leaves unused columns empty, not NULL.
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
    fn the_secret_belongs_to_the_name_that_the_client_sent() {
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
        assert_eq!(
            shown(&row("secret", &short, &long), "alice"),
            "secret",
            "a password serves every algorithm"
        );
        for empty in [row("", "", ""), row("", "123", ""), Row { password: None, ha1: None, ha1b: None }] {
            assert_eq!(shown(&empty, "alice"), "none");
        }
    }
}

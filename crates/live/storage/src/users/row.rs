//! A row of Kamailio's table `subscriber`: which one is asked for, and what secret it gives.

use digest_auth::{Algorithm, Hash, Needs, Secret};

/// Names of the table and of its columns. A name is taken to the letter; a dot in that of the table ends a schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriberColumns {
    /// The table.
    pub table: String,
    /// The user part.
    pub username: String,
    /// The realm; `None` when the table has the users of one realm alone.
    pub domain: Option<String>,
    /// The password in clear; `None` when there is none, or something else.
    pub password: Option<String>,
    /// The hash of `username:domain:password`; `None` when there is none.
    pub ha1: Option<String>,
    /// The hash of `username@domain:domain:password`; `None` when there is none.
    pub ha1b: Option<String>,
}

impl Default for SubscriberColumns {
    /// As `kamdbctl` makes them.
    fn default() -> Self {
        let name = |name: &str| Some(name.to_owned());
        Self {
            table: "subscriber".to_owned(),
            username: "username".to_owned(),
            domain: name("domain"),
            password: name("password"),
            ha1: name("ha1"),
            ha1b: name("ha1b"),
        }
    }
}

impl SubscriberColumns {
    /// The query for one user: `$1` is the user name, `$2` the domain if there is such a column. Gives five texts:
    /// user name, domain, password, ha1, ha1b. Two rows are enough to know that the user is not unique.
    pub(crate) fn query(&self) -> String {
        let text = |name: &Option<String>| match name {
            Some(name) => format!("{}::text", quote(name)),
            None => "NULL::text".to_owned(),
        };
        let username = quote(&self.username);
        let texts = [&self.domain, &self.password, &self.ha1, &self.ha1b].map(text).join(", ");
        let table = self.table.split('.').map(quote).collect::<Vec<_>>().join(".");
        let domain = self.domain.as_ref().map(|name| format!(" AND {} = $2", quote(name)));
        let domain = domain.unwrap_or_default();
        format!("SELECT {username}::text, {texts} FROM {table} WHERE {username} = $1{domain} LIMIT 2")
    }
}

/// An identifier of SQL.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

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
    /// The secret for a claim; `None` when the row has none, which is as if there were no such user. `long` is the
    /// algorithm of hashes of 64 digits, which do not tell it themselves.
    pub(crate) fn secret(&self, wanted: &Wanted, long: Algorithm) -> Option<Secret> {
        if let Some(password) = filled(self.password.as_deref()) {
            return Some(Secret::Clear(password.as_bytes().into()));
        }
        // `ha1` is made of the bare user name, `ha1b` of `user@domain`: the client hashes what it sends.
        let digits = filled(if wanted.has_domain { self.ha1b.as_deref() } else { self.ha1.as_deref() })?;
        let algorithms = [Algorithm::Md5, long];
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
        let shown = |row: &Row, user: &str| match row.secret(&wanted(user).unwrap(), Algorithm::Sha512_256) {
            Some(Secret::Clear(password)) => String::from_utf8(password.into()).unwrap(),
            Some(Secret::Ha1(hash)) => {
                format!("{} {}", hash.algorithm().name(), String::from_utf8(hash.hex()).unwrap())
            }
            None => "none".to_owned(),
        };
        let (short, long) = ("0123456789abcdef".repeat(2), "fedcba9876543210".repeat(4));
        let hashed = row("", &short, &long);
        assert_eq!(shown(&hashed, "alice"), format!("MD5 {short}"));
        assert_eq!(shown(&hashed, "alice@a.example"), format!("SHA-512-256 {long}"));
        assert_eq!(shown(&row("secret", &short, &long), "alice"), "secret", "it serves every algorithm");
        for empty in [row("", "", ""), row("", "123", ""), Row { password: None, ha1: None, ha1b: None }] {
            assert_eq!(shown(&empty, "alice"), "none");
        }
    }

    #[test]
    fn names_of_columns_are_quoted() {
        let mut columns = SubscriberColumns::default();
        assert_eq!(
            columns.query(),
            "SELECT \"username\"::text, \"domain\"::text, \"password\"::text, \"ha1\"::text, \"ha1b\"::text \
             FROM \"subscriber\" WHERE \"username\" = $1 AND \"domain\" = $2 LIMIT 2"
        );
        columns.table = "sip.users".to_owned();
        columns.username = "na\"me".to_owned();
        (columns.domain, columns.password) = (None, None);
        assert_eq!(
            columns.query(),
            "SELECT \"na\"\"me\"::text, NULL::text, NULL::text, \"ha1\"::text, \"ha1b\"::text \
             FROM \"sip\".\"users\" WHERE \"na\"\"me\" = $1 LIMIT 2"
        );
    }
}

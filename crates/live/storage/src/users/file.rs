//! Users in a file with one line for each.

use core::fmt;
use digest_auth::{Algorithm, Needs, Secret, SecretHash};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Users of a file, which is read as a whole, and again when the process reloads its configuration.
///
/// ```text
/// # user:realm:algorithm:H(user:realm:password)
/// alice:example.com:SHA-256:8a76b8adf2eb7492ff78f57bc361a5c93e2f53c6e93f7ee91f68b5382cfea14f
/// alice:example.com:MD5:93dfce8dfebfae8af4a726982429d23a
/// bob:example.com:37593d991414f52c30246c60c7798431
/// ```
///
/// Without an algorithm it is MD5, as Apache's `htdigest` writes it. A realm may contain colons, but a user name may
/// not, since the hashed text has a colon after it (RFC 7616 §3.4.2). A user has one line for each offered algorithm.
/// Empty lines, and lines that begin with `#`, are ignored.
#[derive(Clone, Debug, Default)]
pub struct UserFile {
    users: BTreeMap<Name, Vec<Kept>>,
}

/// Exact name of a user.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Name {
    user: Box<[u8]>,
    realm: Box<[u8]>,
}

/// Data of a line for a user.
#[derive(Clone, Copy, Debug)]
struct Kept {
    hash: SecretHash,
    line: usize,
}

impl UserFile {
    /// Reads a file. After an error a caller with an older version keeps it.
    pub fn read(path: &Path) -> Result<Self, UserFileError> {
        let text = std::fs::read(path).map_err(|error| UserFileError::new(path, error.to_string()))?;
        Self::parse(&text).map_err(|(line, problem)| UserFileError::at(path, line, problem))
    }

    /// Parses the text of a file. An error is a line number with the fault.
    pub(super) fn parse(text: &[u8]) -> Result<Self, (usize, String)> {
        let mut file = Self::default();
        for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if !text.trim_ascii().is_empty() && !text.starts_with(b"#") {
                file.add(line, text).map_err(|problem| (line, problem))?;
            }
        }
        Ok(file)
    }

    fn add(&mut self, line: usize, text: &[u8]) -> Result<(), String> {
        let Some(Line { user, realm, algorithm, digits }) = Line::of(text) else {
            return Err("a line has to be user:realm:algorithm:hash, or user:realm:hash for MD5".to_owned());
        };
        if user.is_empty() || realm.is_empty() {
            return Err(format!("the {} is empty", if user.is_empty() { "user" } else { "realm" }));
        }
        let hash = SecretHash::from_hex(algorithm, digits).ok_or_else(|| {
            let (name, length) = (algorithm.name(), 2 * algorithm.bytes());
            format!("a hash of {name} has {length} hexadecimal digits; the hash in this line does not")
        })?;
        let kept = self.users.entry(Name { user: user.into(), realm: realm.into() }).or_default();
        if let Some(same) = kept.iter().find(|kept| kept.hash.algorithm() == algorithm) {
            let (user, realm) = (user.escape_ascii(), realm.escape_ascii());
            return Err(format!(
                "{user} of {realm} has a hash of {} in line {} already: remove one of them",
                algorithm.name(),
                same.line
            ));
        }
        kept.push(Kept { hash, line });
        Ok(())
    }

    /// Secret for a claim; `None` for a user who is not in the file. Without a hash of the algorithm another one is
    /// returned: then the result blames the settings, and not the password.
    pub fn secret(&self, needs: Needs<'_>) -> Option<Secret> {
        let kept = self.users.get(&Name { user: needs.user.into(), realm: needs.realm.into() })?;
        let fits = kept.iter().find(|kept| kept.hash.algorithm() == needs.algorithm);
        fits.or(kept.first()).map(|kept| Secret::Ha1(kept.hash))
    }

    /// Realms of the users, sorted, without duplicates.
    pub fn realms(&self) -> Vec<&[u8]> {
        let mut realms: Vec<_> = self.users.keys().map(|name| &*name.realm).collect();
        realms.sort_unstable();
        realms.dedup();
        realms
    }

    /// Algorithms for which every user of a realm has a hash, so that they may be offered.
    pub fn algorithms(&self, realm: &[u8]) -> Vec<Algorithm> {
        let mut users =
            self.users.iter().filter(|(name, _)| *name.realm == *realm).map(|(_, kept)| kept).peekable();
        if users.peek().is_none() {
            return Vec::new();
        }
        let mut all = Algorithm::ALL.to_vec();
        for kept in users {
            all.retain(|algorithm| kept.iter().any(|kept| kept.hash.algorithm() == *algorithm));
        }
        all
    }

    /// Users in the order of their names, each with its realm and the algorithms of its hashes.
    pub fn users(&self) -> impl Iterator<Item = (&[u8], &[u8], Vec<Algorithm>)> {
        self.users.iter().map(|(Name { user, realm }, kept)| {
            (&**user, &**realm, kept.iter().map(|kept| kept.hash.algorithm()).collect())
        })
    }

    /// Number of users; a name in two realms counts twice.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

/// Parts of a line.
pub(super) struct Line<'a> {
    pub(super) user: &'a [u8],
    pub(super) realm: &'a [u8],
    algorithm: Algorithm,
    digits: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads hash and algorithm from the end, since realms may contain colons.
    pub(super) fn of(text: &'a [u8]) -> Option<Self> {
        let (user, rest) = at_colon(text, text.iter().position(|byte| *byte == b':')?);
        let (rest, digits) = at_colon(rest, rest.iter().rposition(|byte| *byte == b':')?);
        let Some(colon) = rest.iter().rposition(|byte| *byte == b':') else {
            return Some(Self { user, realm: rest, algorithm: Algorithm::Md5, digits });
        };
        // Three parts are in the format of htdigest; with more, the last but one names an algorithm.
        let (realm, name) = at_colon(rest, colon);
        Some(Self { user, realm, algorithm: Algorithm::of(Some(name))?, digits })
    }
}

fn at_colon(text: &[u8], colon: usize) -> (&[u8], &[u8]) {
    (&text[..colon], &text[colon + 1..])
}

/// Fault in a file of users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserFileError {
    path: PathBuf,
    /// Line number from 1; `None` if the file cannot be read.
    line: Option<usize>,
    problem: String,
}

impl UserFileError {
    pub(super) fn new(path: &Path, problem: String) -> Self {
        Self { path: path.to_owned(), line: None, problem }
    }

    pub(super) fn at(path: &Path, line: usize, problem: String) -> Self {
        Self { line: Some(line), ..Self::new(path, problem) }
    }
}

impl fmt::Display for UserFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl core::error::Error for UserFileError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(user: &str, realm: &str, algorithm: Algorithm) -> String {
        let hash = algorithm.hash(&[user.as_bytes(), realm.as_bytes(), b"secret"]).hex();
        format!("{user}:{realm}:{}:{}\n", algorithm.name(), String::from_utf8(hash).unwrap())
    }

    /// Algorithm and digits of the stored hash.
    fn found(file: &UserFile, user: &str, realm: &str, algorithm: Algorithm) -> Option<(Algorithm, Vec<u8>)> {
        match file.secret(Needs { user: user.as_bytes(), realm: realm.as_bytes(), algorithm })? {
            Secret::Ha1(hash) => Some((hash.algorithm(), hash.hex())),
            Secret::Clear(_) => panic!("a file has no passwords"),
        }
    }

    #[test]
    fn user_names_are_compared_exactly() {
        let mut text = "# users\r\n\n".to_owned();
        for algorithm in Algorithm::ALL {
            text += &line("alice", "example.com", algorithm);
        }
        text += &line("bob", "[2001:db8::1]", Algorithm::Md5).replace(":MD5:", ":md5:").replace('\n', "\r\n");
        // As htdigest writes it, without a line end after the last.
        text += line("carol", "example.com", Algorithm::Md5).replace(":MD5:", ":").trim_end();
        let file = UserFile::parse(text.as_bytes()).unwrap();
        assert_eq!((file.len(), file.is_empty()), (3, false));
        for algorithm in Algorithm::ALL {
            let hash = algorithm.hash(&[b"alice", b"example.com", b"secret"]).hex();
            assert_eq!(found(&file, "alice", "example.com", algorithm), Some((algorithm, hash)));
        }
        for (user, realm) in [("bob", "[2001:db8::1]"), ("carol", "example.com")] {
            let hash = Algorithm::Md5.hash(&[user.as_bytes(), realm.as_bytes(), b"secret"]).hex();
            let expected = Some((Algorithm::Md5, hash));
            assert_eq!(found(&file, user, realm, Algorithm::Md5), expected);
            assert_eq!(
                found(&file, user, realm, Algorithm::Sha256),
                expected,
                "a hash of another algorithm is returned"
            );
        }
        for (user, realm) in [("Alice", "example.com"), ("alice", "Example.com"), ("bob", "example.com")] {
            assert!(found(&file, user, realm, Algorithm::Md5).is_none(), "{user} of {realm}");
        }
        assert_eq!(file.algorithms(b"example.com"), [Algorithm::Md5]);
        assert_eq!(file.algorithms(b"other.example"), []);
    }

    #[test]
    fn algorithms_of_all_users_may_be_offered() {
        let text = Algorithm::ALL.map(|algorithm| line("alice", "a", algorithm)).concat()
            + &line("bob", "a", Algorithm::Sha256)
            + &line("bob", "a", Algorithm::Md5);
        let file = UserFile::parse(text.as_bytes()).unwrap();
        assert_eq!(file.algorithms(b"a"), [Algorithm::Sha256, Algorithm::Md5]);
    }

    #[test]
    fn faults_are_reported_with_their_line() {
        let good = line("alice", "example.com", Algorithm::Sha256);
        let short = good.replace(":SHA-256:", ":MD5:");
        let cases = [
            (format!("{good}\n{good}"), 3, "in line 1 already"),
            (format!("{good}alice"), 2, "has to be user:realm:algorithm:hash"),
            (good.replace("SHA-256", "SHA-1"), 1, "has to be user:realm:algorithm:hash"),
            (short, 1, "MD5 has 32 hexadecimal digits"),
            (format!("# x\n{}", good.replacen("alice", "", 1)), 2, "the user is empty"),
            (good.replacen("example.com", "", 1), 1, "the realm is empty"),
            (format!("{} ", good.trim_end()), 1, "SHA-256 has 64 hexadecimal digits"),
        ];
        for (text, line, problem) in cases {
            let (at, why) = UserFile::parse(text.as_bytes()).expect_err(&text);
            assert_eq!(at, line, "{text}");
            assert!(why.contains(problem), "{why}");
            // A hash is as good as a password, and errors go to logs.
            assert!(!why.contains(&text[text.len() - 20..]), "{why}");
        }
        let error = UserFile::read(Path::new("/nowhere/users")).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/users: "), "{error}");
        let path = std::env::temp_dir().join(format!("sarabande-users-{}", std::process::id()));
        std::fs::write(&path, "\n\nbob").unwrap();
        let error = UserFile::read(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:3: ", path.display())), "{error}");
        std::fs::remove_file(path).unwrap();
    }
}

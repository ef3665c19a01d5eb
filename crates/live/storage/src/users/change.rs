//! Changes of a file of users by its administrator.

use super::file::{Line, UserFile, UserFileError};
use digest_auth::SecretHash;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::Path;

/// New hashes of a user.
#[derive(Clone, Debug)]
pub struct UserHashes<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// Realm of the user.
    pub realm: &'a [u8],
    /// Hashes of the password, one for each algorithm.
    pub hashes: Vec<SecretHash>,
}

/// Reads the file of users at `path`, which may not exist yet; then `change` returns new hashes for the users in it, or
/// why there are none. All lines of this user are replaced, and all other lines stay. The file is replaced as a whole,
/// with its owner and permissions. A new file gets owner and group of the file at `like`, and is readable for the group
/// only if `like` is readable for the group and not for everybody.
pub fn change_users<'a>(
    path: &Path,
    like: &Path,
    change: impl FnOnce(&UserFile) -> Result<UserHashes<'a>, String>,
) -> Result<(), UserFileError> {
    let fail = |problem: String| UserFileError::new(path, problem);
    // Through a link the file is replaced, and not the link.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    // A second command waits, so that it does not undo this change. Where a directory cannot be locked, it may.
    let directory = File::open(directory).map_err(|error| fail(error.to_string()))?;
    let _ = directory.lock();
    let (text, like) = match fs::read(path) {
        Ok(text) => (text, path.as_path()),
        Err(error) if error.kind() == ErrorKind::NotFound => (Vec::new(), like),
        Err(error) => return Err(fail(error.to_string())),
    };
    let users = UserFile::parse(&text).map_err(|(line, problem)| UserFileError::at(path, line, problem))?;
    let new = changed(&text, &change(&users).map_err(fail)?);
    let replaced = fs::metadata(like).and_then(|like| {
        let draft = path.with_added_extension("new");
        let mode = match like.mode() & 0o7777 {
            mode if path.exists() => mode,
            mode if mode & 0o004 == 0 => mode & 0o640,
            _ => 0o600,
        };
        write(&draft, &new, (like.uid(), like.gid()), mode)
            .and_then(|()| fs::rename(&draft, path))
            .inspect_err(|_| drop(fs::remove_file(&draft)))
    });
    replaced.map_err(|error| fail(error.to_string()))?;
    // A file system that cannot do this has the file nevertheless.
    let _ = directory.sync_all();
    Ok(())
}

fn write(draft: &Path, text: &[u8], owner: (u32, u32), mode: u32) -> io::Result<()> {
    // Left by a command that was interrupted.
    let _ = fs::remove_file(draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    let is_own = |of: &fs::Metadata| (of.uid(), of.gid()) == owner;
    if !is_own(&file.metadata()?) {
        chown(draft, Some(owner.0), Some(owner.1))?;
    }
    file.write_all(text)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Returns the text with these hashes in the place of the user's first line, or at the end.
fn changed(text: &[u8], UserHashes { user, realm, hashes }: &UserHashes<'_>) -> Vec<u8> {
    let mut own = Vec::new();
    for hash in hashes {
        let parts = [user.as_bytes(), realm, hash.algorithm().name().as_bytes(), &hash.hex()];
        own.extend(parts.join(&b':'));
        own.push(b'\n');
    }
    let is_own = |line: &[u8]| {
        !line.starts_with(b"#")
            && Line::of(line).is_some_and(|line| line.user == user.as_bytes() && line.realm == *realm)
    };
    let mut new = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if is_own(line) {
            new.append(&mut own);
        } else {
            new.extend_from_slice(line);
        }
    }
    if !own.is_empty() && !new.is_empty() && !new.ends_with(b"\n") {
        new.push(b'\n');
    }
    new.append(&mut own);
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use digest_auth::Algorithm;

    fn hashes<'a>(user: &'a str, algorithms: &[Algorithm]) -> UserHashes<'a> {
        let hash = |algorithm: &Algorithm| algorithm.hash(&[user.as_bytes(), b"a", b"new"]);
        UserHashes { user, realm: b"a", hashes: algorithms.iter().map(hash).collect() }
    }

    #[test]
    fn only_the_lines_of_the_user_change() {
        let digits = "0".repeat(32);
        let line = |user: &str, realm: &str| format!("{user}:{realm}:MD5:{digits}\n");
        let before = format!(
            "# users\n\n{}{}{}alice:a:{digits}\r\n{}",
            line("bob", "a"),
            line("alice", "b"),
            line("alice", "a").replace("MD5", "SHA-256").replace(&digits, &digits.repeat(2)),
            line("carol", "a").trim_end(),
        );
        let alice = hashes("alice", &[Algorithm::Sha256, Algorithm::Md5]);
        let after = String::from_utf8(changed(before.as_bytes(), &alice)).expect("text");
        let hex = |at: usize| String::from_utf8(alice.hashes[at].hex()).expect("digits");
        let own = format!("alice:a:SHA-256:{}\nalice:a:MD5:{}\n", hex(0), hex(1));
        let expected = format!(
            "# users\n\n{}{}{own}{}",
            line("bob", "a"),
            line("alice", "b"),
            line("carol", "a").trim_end()
        );
        assert_eq!(after, expected);
        let dave = hashes("dave", &[Algorithm::Md5]);
        let added = String::from_utf8(changed(after.as_bytes(), &dave)).expect("text");
        assert!(added.starts_with(&format!("{after}\ndave:a:MD5:")) && added.ends_with('\n'), "{added}");
    }

    /// The file keeps its permissions, and a link stays a link. After an error nothing has changed.
    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("sarabande-change-users-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        let (config, real, link) = (folder.join("config"), folder.join("real"), folder.join("users"));
        fs::write(&config, "").expect("a file");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        let mode = || fs::metadata(&real).expect("a file").mode() & 0o777;
        let add = |user: &'static str, path: &Path| {
            change_users(path, &config, |_| Ok(hashes(user, &[Algorithm::Md5])))
        };
        for (of_config, expected) in [(0o664, 0o600), (0o660, 0o640)] {
            fs::set_permissions(&config, Permissions::from_mode(of_config)).expect("an own file");
            let _ = fs::remove_file(&real);
            add("alice", &real).expect("a new file");
            assert_eq!(mode(), expected);
        }
        fs::set_permissions(&real, Permissions::from_mode(0o600)).expect("an own file");
        add("bob", &link).expect("a change");
        assert!(mode() == 0o600 && link.is_symlink());
        assert_eq!(UserFile::read(&real).expect("users").len(), 2);
        let error = change_users(&link, &config, |users| Err(format!("{} users", users.len())));
        assert!(error.expect_err("refused").to_string().ends_with(": 2 users"));
        fs::write(&real, "bad").expect("a file");
        assert!(add("carol", &link).expect_err("a fault").to_string().contains(":1: "));
        assert_eq!(fs::read(&real).expect("a file"), b"bad");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 3, "no draft is left");
        fs::remove_dir_all(folder).expect("an own folder");
    }
}

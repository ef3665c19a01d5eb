//! Where a process keeps state that has to outlive it: keys, bindings, the socket for a
//! successor.

use std::env;
use std::path::{Path, PathBuf};

/// The variable that systemd sets where a unit has `StateDirectory` (systemd.exec(5)): directories, a colon between
/// two.
const VARIABLE: &str = "STATE_DIRECTORY";

/// The directory of the unit that comes with this program, for commands that are run by hand.
const USUAL: &str = "/var/lib/sarabande";

/// Where the file with this extension is kept of the configuration at `path`: in the state directory of the service
/// if it has one and there is no such file beside the configuration already, else beside that. `sarabande.toml` has
/// `sarabande.token-key`.
pub fn place(path: &Path, extension: &str) -> PathBuf {
    let beside = path.with_extension(extension);
    match directory() {
        Some(directory) if !beside.exists() => within(&directory, &beside),
        _ => beside,
    }
}

/// Where a process of this configuration may listen, the usual place first: in the state directory, or beside the
/// configuration.
pub fn places(path: &Path, extension: &str) -> Vec<PathBuf> {
    let beside = path.with_extension(extension);
    directory().map(|directory| within(&directory, &beside)).into_iter().chain([beside]).collect()
}

/// Where a file is found that a server of this configuration has made, by somebody who is not started by systemd.
pub fn find(path: &Path, extension: &str) -> PathBuf {
    let beside = path.with_extension(extension);
    let usual = within(Path::new(USUAL), &beside);
    if directory().is_none() && !beside.exists() && usual.exists() { usual } else { place(path, extension) }
}

fn directory() -> Option<PathBuf> {
    first(env::var_os(VARIABLE)?.to_str()?)
}

fn first(directories: &str) -> Option<PathBuf> {
    directories.split(':').find(|directory| !directory.is_empty()).map(PathBuf::from)
}

fn within(directory: &Path, file: &Path) -> PathBuf {
    directory.join(file.file_name().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_the_first_of_its_directories() {
        assert_eq!(first("/var/lib/a:/var/lib/b"), Some(PathBuf::from("/var/lib/a")));
        assert_eq!(first(""), None);
        let file = within(Path::new("/var/lib/a"), Path::new("/etc/sarabande/edge.key"));
        assert_eq!(file, Path::new("/var/lib/a/edge.key"));
    }
}

//! Places of state that outlives a process: keys, bindings, the socket for a successor.

use std::env;
use std::path::{Path, PathBuf};

/// Environment variable that systemd sets for units with `StateDirectory` (systemd.exec(5)): directories separated by
/// colons.
const VARIABLE: &str = "STATE_DIRECTORY";

/// State directory of the packaged unit, for commands that are run by hand.
const USUAL: &str = "/var/lib/sarabande";

/// Returns the path of the state file with this extension for the configuration at `path`: `sarabande.token-key` for
/// `sarabande.toml`. It is in the state directory of the service if there is one and no such file exists beside the
/// configuration. Otherwise it is beside the configuration.
pub fn place(path: &Path, extension: &str) -> PathBuf {
    let beside = path.with_extension(extension);
    match directory() {
        Some(directory) if !beside.exists() => within(&directory, &beside),
        _ => beside,
    }
}

/// Returns the places where a process of this configuration may listen, the usual place first: in the state directory,
/// or beside the configuration.
pub fn places(path: &Path, extension: &str) -> Vec<PathBuf> {
    let beside = path.with_extension(extension);
    directory().map(|directory| within(&directory, &beside)).into_iter().chain([beside]).collect()
}

/// Returns the place of a state file of a server, for a command that systemd has not started.
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

//! File descriptors of this process: their limit, and the share for connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shards::proc;

/// Descriptors reserved for other uses than SIP connections: 32 for the admin interface, the others for stores, name
/// servers, files and a successor.
const RESERVE: u64 = 128;

/// Raises the soft limit of descriptors to the hard limit. The soft limit is low for the sake of programs that use
/// select(2).
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "cannot raise the limit of file descriptors; it stays at {}", current.unwrap_or(u64::MAX));
    }
}

/// Returns the limit of connections: `most`, or fewer if there are not enough descriptors. `links` is the number of
/// connections that this process may open to members and next hops.
pub(crate) fn most_connections(most: usize, links: usize) -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return most };
    let taken = (proc::open_files().unwrap_or(0) + links) as u64;
    let bound = bounded(most, limit, taken);
    if bound < most {
        tracing::warn!(
            most = bound,
            "the limit of {limit} file descriptors allows fewer connections at a time than the {most} of \
             [connections] most. Raise `LimitNOFILE` of the service (`ulimit -Hn`), or lower [connections] most"
        );
    }
    bound
}

/// The limit is at least 1. With fewer descriptors nothing else would work either.
fn bounded(most: usize, limit: u64, taken: u64) -> usize {
    most.min(limit.saturating_sub(taken + RESERVE).max(1) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_reserved_before_connections() {
        assert_eq!(bounded(100_000, 1_024, 96), 800);
        assert_eq!(bounded(500, 1_024, 96), 500);
        assert_eq!(bounded(100_000, 64, 40), 1);
    }
}

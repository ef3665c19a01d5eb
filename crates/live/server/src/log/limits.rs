//! Start and end of the limits that are found from the answers of members.

use crate::Handle;
use balance::MemberRoom;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(2);

/// Logs when such a limit starts and ends, until the server has ended.
pub(crate) async fn report(handle: Handle) {
    let (mut ticks, mut limited) = (tokio::time::interval(PERIOD), BTreeSet::new());
    loop {
        ticks.tick().await;
        let Ok(rooms) = handle.rooms().await else { return };
        let members = rooms.into_iter().map(|(member, room)| (member.to_string(), room.and_then(limit)));
        for line in changes(&mut limited, members) {
            tracing::info!("{line}");
        }
    }
}

/// Returns the text about the limit of a member, if one is in force.
fn limit(room: MemberRoom) -> Option<String> {
    let (limit, law) = (room.limit?, room.law?.name());
    let pace = room.pace.unwrap_or(0.0);
    Some(format!("{law} allows {limit} unanswered new requests; the member answers {pace:.0} a second"))
}

/// Brings the set of limited members up to date, and returns a line for each change.
fn changes(
    limited: &mut BTreeSet<String>,
    members: impl Iterator<Item = (String, Option<String>)>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut still = BTreeSet::new();
    for (member, limit) in members {
        let was_limited = limited.remove(&member);
        match limit {
            Some(limit) => {
                if !was_limited {
                    lines.push(format!("member {member} is overloaded: {limit}"));
                }
                still.insert(member);
            }
            None if was_limited => lines.push(format!("member {member} is no longer limited")),
            None => {}
        }
    }
    *limited = still;
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_of_each_start_and_end() {
        let mut limited = BTreeSet::new();
        let mut look = |members: &[(&str, bool)]| {
            let limit = |is_limited: bool| is_limited.then(|| "at most 8".to_owned());
            changes(
                &mut limited,
                members.iter().map(|(name, is_limited)| ((*name).to_owned(), limit(*is_limited))),
            )
        };
        assert_eq!(look(&[("a", true), ("b", false)]), ["member a is overloaded: at most 8"]);
        assert!(look(&[("a", true), ("b", false)]).is_empty());
        let lines = ["member a is no longer limited", "member b is overloaded: at most 8"];
        assert_eq!(look(&[("a", false), ("b", true)]), lines);
        // A member that was removed says nothing.
        assert!(look(&[("a", false)]).is_empty());
    }
}

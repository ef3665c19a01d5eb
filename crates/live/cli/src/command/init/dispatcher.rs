//! Servers of Kamailio's `dispatcher.list`: a line `SET URI FLAGS PRIORITY ATTRIBUTES` for each destination.

use super::text::{Member, Pool, Set};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Flag of a destination that the administrator has disabled.
const DISABLED: u32 = 4;
/// Flag of a destination that gets no OPTIONS.
const NO_PING: u32 = 32;

/// A destination.
struct Destination {
    uri: String,
    flags: u32,
    priority: u32,
    attributes: BTreeMap<String, String>,
}

/// Reads a list. Each set becomes a pool, or a pool for each of its priorities. Attributes without an equivalent are
/// reported in `notes`.
///
/// # Errors
/// The line that is no destination.
pub(super) fn read(text: &str, notes: &mut Vec<String>) -> Result<Vec<Set>, String> {
    let mut sets = BTreeMap::<u32, BTreeMap<Reverse<u32>, Vec<Destination>>>::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let expected = || format!("line {number}: expected SET URI FLAGS PRIORITY ATTRIBUTES: {line}");
        let (set, destination) = destination(line).ok_or_else(expected)?;
        // The highest priority comes first.
        let priorities = sets.entry(set).or_default();
        priorities.entry(Reverse(destination.priority)).or_default().push(destination);
    }
    Ok(sets.into_iter().map(|(id, priorities)| set(id, priorities, notes)).collect())
}

fn destination(line: &str) -> Option<(u32, Destination)> {
    let mut fields = line.split_whitespace();
    let set = fields.next()?.parse().ok()?;
    let uri = fields.next()?.to_owned();
    let flags = fields.next().map_or(Some(0), |text| text.parse().ok())?;
    let priority = fields.next().map_or(Some(0), |text| text.parse().ok())?;
    let attributes = fields.next().unwrap_or_default().trim_matches('"');
    let attributes = attributes.split(';').filter_map(|attribute| attribute.split_once('='));
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Some((set, Destination { uri, flags, priority, attributes }))
}

fn set(id: u32, priorities: BTreeMap<Reverse<u32>, Vec<Destination>>, notes: &mut Vec<String>) -> Set {
    if priorities.len() > 1 {
        notes.push(format!(
            "set {id} has several priorities: servers of a lower one get calls only if no other works, as with \
             algorithm 8 of Kamailio; for another algorithm put all members into one pool"
        ));
    }
    let pools = (1..).zip(priorities.into_values()).map(|(place, destinations)| {
        let name = if place == 1 { format!("set{id}") } else { format!("set{id}-{place}") };
        pool(name, &destinations, notes)
    });
    pools.collect()
}

fn pool(name: String, destinations: &[Destination], notes: &mut Vec<String>) -> Pool {
    let is_probed = !destinations.iter().all(|destination| destination.flags & NO_PING != 0);
    let number = |destination: &Destination, name: &str| -> Option<u32> {
        destination.attributes.get(name)?.parse().ok().filter(|number| *number > 0)
    };
    let weight =
        |destination: &Destination| number(destination, "weight").or_else(|| number(destination, "rweight"));
    let largest = destinations.iter().filter_map(weight).max();
    let mut members = Vec::<Member>::new();
    for destination in destinations {
        let Destination { uri, flags, attributes, .. } = destination;
        let mut member = Member::of(address(uri));
        if members.iter().any(|other| other.address == member.address) {
            notes.push(format!("pool {name}: {uri} is in the list twice; the first line counts"));
            continue;
        }
        if flags & DISABLED != 0 {
            member.unused = Some("disabled in dispatcher.list".to_owned());
        }
        let share = weight(destination).zip(largest);
        let share = share.map(|(own, largest)| (f64::from(own) / f64::from(largest) * 1e3).round() / 1e3);
        member.capacity = share.filter(|share| *share < 1.0);
        member.max_calls = number(destination, "maxload");
        let known = ["weight", "rweight", "maxload", "duid", "latency"];
        // Without calls by weight, but with calls by any other algorithm.
        let is_zero = |name: &str, value: &str| name.ends_with("weight") && value == "0";
        let others =
            attributes.iter().filter(|(name, value)| !known.contains(&&***name) || is_zero(name, value));
        notes.extend(others.map(|(name, value)| format!("{uri}: `{name}={value}` has no equivalent")));
        members.push(member);
    }
    Pool { name, members, is_probed }
}

/// Address of a member in the notation of the configuration.
fn address(uri: &str) -> String {
    let (is_secure, rest) = match uri.split_once(':') {
        Some(("sip", rest)) => (false, rest),
        Some(("sips", rest)) => (true, rest),
        _ => (false, uri),
    };
    let mut parts = rest.split(';');
    let host = parts.next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let named = parts.find_map(|part| part.strip_prefix("transport=")).unwrap_or_default();
    match &*named.to_ascii_lowercase() {
        _ if is_secure => format!("{host};transport=tls"),
        "" | "udp" => host.to_owned(),
        other => format!("{host};transport={other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    const LIST: &str = "# setid destination flags priority attributes\n\
        1 sip:10.0.0.1:5080 0 0 weight=50;duid=a;socket=udp:10.0.0.9:5060\n\
        1 sip:10.0.0.2 8 0 weight=25;maxload=30  # second\n\
        1 sip:10.0.0.2 8 0\n\
        1 sip:10.0.0.3:5060;transport=tcp 4 0\n\
        2 sip:10.0.1.1 0 0\n\
        2 sip:gw@backup.example.com:5070 32 10\n\
        2 sips:10.0.1.2 0\n";

    #[test]
    fn sets_become_pools() {
        let mut notes = Vec::new();
        let sets = read(LIST, &mut notes).expect("a list");
        let text = text::write("10.9.9.9:5060", &sets, &notes);
        let expected = "# Made by `sarabande init`. `sarabande check --reference` describes all keys.\n\
            # Note: sip:10.0.0.1:5080: `socket=udp:10.0.0.9:5060` has no equivalent\n\
            # Note: pool set1: sip:10.0.0.2 is in the list twice; the first line counts\n\
            # Note: set 2 has several priorities: servers of a lower one get calls only if no other works, as with \
            algorithm 8 of Kamailio; for another algorithm put all members into one pool\n\n\
            [listen]\nudp = [\"10.9.9.9:5060\"]\n\n\
            [pool.set1]\nmembers = [\n    \"10.0.0.1:5080\",\n    \
            { address = \"10.0.0.2\", capacity = 0.5, max_calls = 30 },\n    \
            # \"10.0.0.3:5060;transport=tcp\",  # disabled in dispatcher.list\n]\n\n\
            [pool.set2]\nprobe = { enabled = false }\nmembers = [\n    \"backup.example.com:5070\",\n]\n\n\
            [pool.set2-2]\nmembers = [\n    \"10.0.1.1\",\n    \
            # \"10.0.1.2;transport=tls\",  # TLS needs a certificate: [tls]\n]\n\n\
            # Calls to set2: give their condition, and remove the marks.\n\
            # [[route]]\n# user = { prefix = \"2\" }\n# pool = [\"set2\", \"set2-2\"]\n\n\
            # All other calls.\n[[route]]\npool = \"set1\"\n";
        assert_eq!(text, expected);
        config::parse(&text, "init").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    }

    #[test]
    fn a_line_that_is_no_destination_is_named() {
        for line in ["sip:10.0.0.1", "1", "1 sip:10.0.0.1 x", "1 sip:10.0.0.1 0 high"] {
            let error = read(&format!("\n{line}\n"), &mut Vec::new()).err();
            assert!(error.is_some_and(|error| error.starts_with("line 2: expected SET URI")), "{line}");
        }
    }
}

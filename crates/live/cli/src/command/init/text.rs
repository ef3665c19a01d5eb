//! The file that `init` writes.

use base::Transport;
use config::member_address;
use control::Address;
use std::fmt::Write as _;

/// Pools that share the same calls, the first choice first.
pub(super) type Set = Vec<Pool>;

pub(super) struct Pool {
    pub(super) name: String,
    pub(super) members: Vec<Member>,
    pub(super) is_probed: bool,
}

pub(super) struct Member {
    /// Address in the notation of the configuration.
    pub(super) address: String,
    pub(super) capacity: Option<f64>,
    pub(super) max_calls: Option<u32>,
    /// Why the file has this member only as a comment; `None` for a member that is used.
    pub(super) unused: Option<String>,
}

impl Member {
    pub(super) fn of(address: String) -> Self {
        let transport = match member_address(&address) {
            Ok(Address::Socket(peer)) => Ok(peer.transport),
            Ok(Address::Host { transport, .. }) => Ok(transport),
            Ok(Address::Srv(_)) => Ok(Transport::Udp),
            Err(problem) => Err(problem),
        };
        let unused = match transport {
            Ok(Transport::Udp | Transport::Tcp) => None,
            Ok(_) => Some("TLS needs a certificate: [tls]".to_owned()),
            Err(problem) => Some(problem.lines().collect::<Vec<_>>().join(" ")),
        };
        Self { address, capacity: None, max_calls: None, unused }
    }

    fn line(&self) -> String {
        let Self { address, capacity, max_calls, unused } = self;
        let mut keys = vec![format!("address = {address:?}")];
        keys.extend(capacity.map(|capacity| format!("capacity = {capacity}")));
        keys.extend(max_calls.map(|most| format!("max_calls = {most}")));
        let value =
            if keys.len() == 1 { format!("{address:?}") } else { format!("{{ {} }}", keys.join(", ")) };
        match unused {
            None => format!("    {value},\n"),
            Some(why) => format!("    # {value},  # {why}\n"),
        }
    }
}

impl Pool {
    pub(super) fn is_used(&self) -> bool {
        self.members.iter().any(|member| member.unused.is_none())
    }
}

/// Returns the text of a configuration with these pools, of which each has a member to use. The first set gets all
/// calls.
pub(super) fn write(listen: &str, sets: &[Set], notes: &[String]) -> String {
    let mut text =
        "# Made by `sarabande init`. `sarabande check --reference` describes all keys.\n".to_owned();
    for note in notes {
        let _ = writeln!(text, "# Note: {note}");
    }
    let mut members = sets.iter().flatten().flat_map(|pool| &pool.members);
    let is_tcp = |member: &Member| member.unused.is_none() && member.address.ends_with(";transport=tcp");
    let tcp = if members.any(is_tcp) { format!("tcp = [{listen:?}]\n") } else { String::new() };
    let _ = write!(text, "\n[listen]\nudp = [{listen:?}]\n{tcp}");
    for Pool { name, members, is_probed } in sets.iter().flatten() {
        let probe = if *is_probed { "" } else { "probe = { enabled = false }\n" };
        let lines: String = members.iter().map(Member::line).collect();
        let _ = write!(text, "\n[pool.{name}]\n{probe}members = [\n{lines}]\n");
    }
    let names = |set: &Set| {
        let names: Vec<_> = set.iter().map(|pool| format!("{:?}", pool.name)).collect();
        if names.len() == 1 { names.concat() } else { format!("[{}]", names.join(", ")) }
    };
    let [first, others @ ..] = sets else { return text };
    for (number, set) in (2..).zip(others) {
        let _ = write!(
            text,
            "\n# Calls to {}: give their condition, and remove the marks.\n# [[route]]\n\
             # user = {{ prefix = \"{number}\" }}\n# pool = {}\n",
            set[0].name,
            names(set)
        );
    }
    if !others.is_empty() || first.len() > 1 {
        let other = if others.is_empty() { "" } else { "other " };
        let _ = write!(text, "\n# All {other}calls.\n[[route]]\npool = {}\n", names(first));
    }
    text
}

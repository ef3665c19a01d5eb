//! From raw to typed: compares values that depend on each other, and makes the types of `plan`.
//!
//! Each value has already been read by its kind, so one mistake does not hide another.

use std::collections::BTreeMap;

use super::raw::{Part, RawNode, RawPath, RawTopology};
use crate::kind::NodeName;
use crate::nearest::nearest;
use crate::report::Report;
use crate::setting::{Listed, Setting};
use crate::structure::{in_order, join};
use plan::{PlanNode, Routing, Topology, TopologyError, TopologyLink, Visit};

/// Largest error of shares that should add up to 1, as in `plan`.
const SHARE_ERROR: f64 = 0.0015;

/// The tables of the file: name, path of the key, and content.
type Tables<'r, T> = Vec<(&'r str, String, &'r T)>;

/// Returns the typed topology; `None` if something was reported.
pub(super) fn check(raw: &RawTopology, report: &mut Report<'_>) -> Option<Topology> {
    if raw.node.is_empty() {
        report.missing(
            "node",
            "expected at least one proxy: [node.edge] with stateful = 4700 and stateless = 5700",
        );
    }
    let routing = raw.network.routing.value();
    let authentication = raw.network.authentication.value();
    let tables = in_order("node", &raw.node, report);
    let names: Vec<&str> = tables.iter().map(|(name, ..)| *name).collect();
    let nodes: Vec<_> =
        tables.iter().map(|(name, path, raw)| node(name, path, raw, authentication, report)).collect();
    let visits = if raw.path.is_empty() {
        let visits = tables.iter().enumerate();
        let visits = visits.map(|(at, (_, path, raw))| visit(at, path, raw, &names, routing, report));
        let mut visits: Vec<_> = visits.collect();
        entries(&tables, &mut visits, report);
        visits.into_iter().collect::<Option<Vec<_>>>()
    } else {
        for (_, path, raw) in &tables {
            refuse_ways(path, raw, report);
        }
        paths(&in_order("path", &raw.path, report), &names, report)
    };
    if !report.is_clean() {
        return None;
    }
    let nodes = nodes.into_iter().collect::<Option<Vec<_>>>()?;
    match Topology::new(nodes, visits?, routing?) {
        Ok(topology) => Some(if authentication? { topology.authenticated() } else { topology }),
        Err(error) => {
            whole(&error, &tables, report);
            None
        }
    }
}

/// Reports errors of the network as a whole.
fn whole(error: &TopologyError, tables: &Tables<'_, RawNode>, report: &mut Report<'_>) {
    match error {
        TopologyError::Circle(visit) => report.key_problem(
            &join(&tables[*visit].1, "next"),
            "expected no loop of nodes; if nodes call each other, list the paths of calls as [path.<name>] with \
             nodes = [...]",
        ),
        // All other errors have been found where their keys are known.
        other => report.key_problem("node", other.to_string()),
    }
}

/// Reads the rates of a node. Its ways are read elsewhere, since paths may replace them.
fn node(
    name: &str,
    path: &str,
    raw: &RawNode,
    authentication: Option<bool>,
    report: &mut Report<'_>,
) -> Option<PlanNode> {
    let stateless = raw.stateless.as_ref().map(Setting::value);
    if stateless.is_none() {
        let remedy = "expected calls a second that it carries without state: stateless = 5700";
        report.missing(&join(path, "stateless"), remedy);
    }
    let stateless = stateless.flatten();
    let mut lesser = |setting: &Option<Setting<_>>| {
        let Some(setting) = setting else { return Some(None) };
        let rate = setting.value()?;
        if let Some(most) = stateless.filter(|most| rate > *most) {
            let remedy = format!(
                "expected at most `stateless`, {most}: a call with state or authentication cannot cost less"
            );
            report.conflict(setting, remedy);
        }
        Some(Some(rate))
    };
    let stateful = lesser(&raw.stateful);
    let authenticating = lesser(&raw.authenticating);
    if let (Some(setting), Some(false)) = (&raw.authenticating, authentication) {
        report
            .conflict(setting, "this key needs `network.authentication = true`; set it, or remove this key");
    }
    Some(PlanNode {
        name: name.to_owned(),
        stateless: stateless?,
        stateful: stateful?,
        authenticating: authenticating?,
    })
}

/// Index of the node that `setting` names; an unknown name is reported.
fn find(setting: &Setting<NodeName>, names: &[&str], report: &mut Report<'_>) -> Option<usize> {
    let name = setting.value()?;
    let index = names.iter().position(|known| *known == name);
    if index.is_none() {
        report.conflict(setting, unknown(&name, names));
    }
    index
}

/// Text for an unknown name of a node.
fn unknown(name: &str, names: &[&str]) -> String {
    let meant = nearest(name, names.iter().copied()).map(|name| format!("; did you mean {name:?}?"));
    let remedy = format!("there is no [{}]; the file has {}", join("node", name), names.join(", "));
    remedy + &meant.unwrap_or_default()
}

/// The single visit of a node, without its entry.
fn visit(
    node: usize,
    path: &str,
    raw: &RawNode,
    names: &[&str],
    routing: Option<Routing>,
    report: &mut Report<'_>,
) -> Option<Visit> {
    let exit = raw.exit.as_ref().map(Setting::value);
    if let (Some(setting), Some(Routing::Free)) = (&raw.exit, routing) {
        report.conflict(setting, "expected no `exit` with free routing: calls leave at nodes without `next`");
    }
    let equal = |found: Vec<Option<usize>>| {
        let share = (1.0 - exit.flatten().unwrap_or(0.0)) / found.len() as f64;
        found.into_iter().map(|to| Some(TopologyLink { to: to?, share })).collect::<Option<Vec<_>>>()
    };
    let next = match &raw.next {
        None => {
            if let (Some(setting), Some(Some(share))) = (&raw.exit, exit)
                && share < 1.0
            {
                report.conflict(setting, "expected `next` for the calls that do not leave at this node");
            }
            Some(Vec::new())
        }
        Some(Listed::One(name)) => equal(vec![find(name, names, report)]),
        Some(Listed::Many(list)) => {
            if list.is_empty() {
                report.key_problem(
                    &join(path, "next"),
                    "expected at least one node: next = [\"core\"]; or no `next`",
                );
            }
            equal(list.iter().map(|name| find(name, names, report)).collect())
        }
        Some(Listed::Table(shares)) => {
            if routing == Some(Routing::Free) {
                let listed: Vec<_> = shares.keys().map(|name| format!("{name:?}")).collect();
                let remedy = format!(
                    "expected names without shares with free routing: next = [{}]",
                    listed.join(", ")
                );
                report.key_problem(&join(path, "next"), remedy);
            }
            with_shares(path, shares, exit.flatten().unwrap_or(0.0), names, report)
        }
    };
    Some(Visit { node, entry: 0.0, next: next? })
}

/// Ways with their shares, corrected for rounding in the file.
fn with_shares(
    path: &str,
    shares: &BTreeMap<String, Setting<Part>>,
    exit: f64,
    names: &[&str],
    report: &mut Report<'_>,
) -> Option<Vec<TopologyLink>> {
    let path = join(path, "next");
    let mut ways = Vec::new();
    for (name, setting) in shares {
        let share = setting.value();
        let to = names.iter().position(|known| known == name);
        if to.is_none() {
            report.key_problem(&join(&path, name), unknown(name, names));
        }
        ways.push(to.zip(share).map(|(to, share)| TopologyLink { to, share }));
    }
    let mut ways = ways.into_iter().collect::<Option<Vec<_>>>()?;
    let of_ways = ways.iter().map(|way| way.share).sum::<f64>();
    let sum = of_ways + exit;
    if (sum - 1.0).abs() > SHARE_ERROR {
        let left = if sum < 1.0 && exit == 0.0 {
            format!("; if the rest leaves the network here, set exit = {}", round(1.0 - sum))
        } else {
            String::new()
        };
        report.key_problem(
            &path,
            format!("expected shares that add up to 1 with `exit`, not {}{left}", round(sum)),
        );
    } else if of_ways > 0.0 && (sum - 1.0).abs() > 1e-9 {
        for way in &mut ways {
            way.share *= (1.0 - exit) / of_ways;
        }
    }
    Some(ways)
}

/// Sets where calls enter: as in the file, or else at each node that gets no calls from another.
fn entries(tables: &Tables<'_, RawNode>, visits: &mut [Option<Visit>], report: &mut Report<'_>) {
    let given: Vec<_> = tables.iter().map(|(_, _, raw)| raw.entry.as_ref().map(Setting::value)).collect();
    let sent_to = |node| visits.iter().flatten().flat_map(|visit| &visit.next).any(|way| way.to == node);
    let firsts: Vec<usize> = (0..visits.len()).filter(|node| !sent_to(*node)).collect();
    let set: Vec<usize> = (0..given.len()).filter(|node| given[*node].is_some()).collect();
    if set.is_empty() {
        for first in &firsts {
            if let Some(visit) = &mut visits[*first] {
                visit.entry = 1.0 / firsts.len() as f64;
            }
        }
        // Without a first node calls go in a circle, which is reported later.
        if firsts.is_empty()
            && let Some(Some(visit)) = visits.first_mut()
        {
            visit.entry = 1.0;
        }
        return;
    }
    let mut sum = 0.0;
    // A wrong share has been reported: NaN causes no further problem.
    for node in &set {
        let share = given[*node].flatten();
        sum += share.unwrap_or(f64::NAN);
        if let (Some(visit), Some(share)) = (&mut visits[*node], share) {
            visit.entry = share;
        }
    }
    if (sum - 1.0).abs() > SHARE_ERROR {
        let path = join(&tables[set[0]].1, "entry");
        report
            .key_problem(&path, format!("expected shares of all nodes that add up to 1, not {}", round(sum)));
    }
    // If entries are given, a forgotten node would have no calls, and look idle in every plan.
    for lost in firsts.iter().filter(|node| given[**node].is_none_or(|share| share == Some(0.0))) {
        let remedy = "no call reaches this node: expected an `entry` above 0, or another node with this node in its \
                     `next`";
        report.key_problem(&tables[*lost].1, remedy);
    }
}

/// Reports ways of single nodes beside paths.
fn refuse_ways(path: &str, raw: &RawNode, report: &mut Report<'_>) {
    let set = [("entry", raw.entry.is_some()), ("next", raw.next.is_some()), ("exit", raw.exit.is_some())];
    for (key, _) in set.iter().filter(|(_, set)| *set) {
        report.key_problem(
            &join(path, key),
            "expected either this key or [path.<name>]; remove one of the two",
        );
    }
}

/// Each path has visits of its own.
fn paths(tables: &Tables<'_, RawPath>, names: &[&str], report: &mut Report<'_>) -> Option<Vec<Visit>> {
    let mut visits = Vec::new();
    let (mut given, mut sum, mut good) = (0, 0.0, true);
    for (_, path, raw) in tables {
        let share = raw.share.as_ref().map(Setting::value);
        given += usize::from(share.is_some());
        let share = share.unwrap_or(Some(1.0 / tables.len() as f64));
        sum += share.unwrap_or(f64::NAN);
        if raw.nodes.is_empty() {
            report.missing(
                &join(path, "nodes"),
                "expected the nodes on the path: nodes = [\"edge\", \"core\"]",
            );
        }
        let last = visits.len() + raw.nodes.len();
        for (place, setting) in raw.nodes.iter().enumerate() {
            let to = visits.len() + 1;
            let next = if to < last { vec![TopologyLink { to, share: 1.0 }] } else { Vec::new() };
            let entry = if place == 0 { share.unwrap_or(0.0) } else { 0.0 };
            let node = find(setting, names, report);
            good &= node.is_some();
            // A wrong name has been reported; its visit stays, so that the others keep their places.
            visits.push(Visit { node: node.unwrap_or(0), entry, next });
        }
    }
    // A node on no path would look idle in every plan.
    for (node, name) in names.iter().enumerate() {
        if good && !visits.iter().any(|visit| visit.node == node) {
            let remedy = "no call reaches this node: expected a path with this node in its `nodes`";
            report.key_problem(&join("node", name), remedy);
        }
    }
    if (sum - 1.0).abs() > SHARE_ERROR {
        let some = if given < tables.len() { "; paths without a share count as equal parts" } else { "" };
        let remedy = format!("expected shares of all paths that add up to 1, not {}{some}", round(sum));
        report.key_problem(&join(&tables[0].1, "share"), remedy);
    }
    good.then_some(visits)
}

/// Rounds to three digits after the point.
fn round(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

//! `sarabande plan`: how many calls' state each node of a network of proxies should keep.

use super::load::table::table;
use crate::admin::Exit;
use crate::print;
use anyhow::{Context as _, Result, anyhow, bail};
use config::{scenario, topology};
use plan::{PathPlan, Plan, PlanError, StateRule, Topology, solve, solve_with};
use serde::Serialize;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The topology file. docs/topology.md lists its keys, and `sarabande check` finds its errors.
    topology: PathBuf,
    /// Report whether the network carries this load, in calls a second, and how to divide its state.
    #[arg(long, value_name = "CALLS/S")]
    load: Option<f64>,
    /// Print all results as JSON.
    #[arg(long)]
    json: bool,
}

/// All results for a topology. Rates are in calls a second.
#[derive(Serialize)]
struct Answer {
    /// The largest load by each rule; `None` if some calls would pass no node that can keep their state or authenticate
    /// them.
    carried: Vec<Carried>,
    /// The largest load if nodes decided by the whole path of a call; `None` with too many paths.
    with_paths_known: Option<f64>,
    /// Answer to `--load`.
    is_carried: Option<bool>,
    /// Work of each node, at the load of `--load`, or else at the largest.
    plan: Plan,
    /// Shares along each path; `None` with too many paths.
    paths: Option<Vec<PathPlan>>,
}

#[derive(Serialize)]
struct Carried {
    rule: &'static str,
    load: Option<f64>,
}

/// Name of the row of the optimum.
const OPTIMUM: &str = "each node its share";

const RULES: [(StateRule, &str); 5] = [
    (StateRule::All, "every node for every call"),
    (StateRule::First, "the node where a call enters"),
    (StateRule::Last, "the node where a call leaves"),
    (StateRule::Optimum, OPTIMUM),
    (StateRule::ForwardOnly, "no node"),
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let file = arguments.topology.display();
    if arguments.load.is_some_and(|load| !load.is_finite() || load <= 0.0) {
        bail!("--load: expected calls a second above 0");
    }
    if scenario::is_scenario(&arguments.topology) {
        bail!("{file} is a scenario of the simulator: `sarabande sim run {file}` runs it");
    }
    if scenario::is_configuration(&arguments.topology) {
        bail!("{file} is a configuration of the server: `sarabande run {file}` runs it");
    }
    let topology =
        topology::load(&arguments.topology).map_err(|errors| anyhow!("{file} has errors:\n{errors}"))?;
    let answer = answer(&topology, arguments.load).with_context(|| format!("{file} has no plan"))?;
    if arguments.json {
        print::line(serde_json::to_string_pretty(&answer)?)?;
    } else {
        show(&topology, &answer, arguments.load)?;
    }
    match arguments.load {
        Some(load) if answer.is_carried == Some(false) => {
            Err(Exit::no(format!("{} calls/s are not carried", rate(load))))
        }
        _ => Ok(()),
    }
}

fn answer(topology: &Topology, load: Option<f64>) -> Result<Answer> {
    let most = solve(topology)?;
    let carried = RULES.map(|(rule, name)| {
        let load = match rule {
            StateRule::Optimum => Some(most.load),
            rule => by_hand(topology, rule)?,
        };
        Ok(Carried { rule: name, load })
    });
    let whole = topology.by_path().map(|whole| solve(&whole)).transpose()?;
    // Compares the figures as they are shown, so that a printed load can be asked for.
    let shown = |load: f64| (load * 100.0).round();
    let is_carried = load.map(|load| shown(load) <= shown(most.load));
    // If the load is too high, the plan is for the largest load.
    let plan = load.map_or_else(|| most.clone(), |load| most.at(load.min(most.load)));
    Ok(Answer {
        carried: carried.into_iter().collect::<Result<_>>()?,
        with_paths_known: whole.map(|whole| whole.load),
        is_carried,
        paths: plan.paths(topology),
        plan,
    })
}

/// The largest load by a rule; `None` if by this rule some calls have no node that keeps their state or authenticates
/// them.
fn by_hand(topology: &Topology, rule: StateRule) -> Result<Option<f64>> {
    match solve_with(topology, rule) {
        Ok(plan) => Ok(Some(plan.load)),
        Err(PlanError::MissingFunction(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn show(topology: &Topology, answer: &Answer, load: Option<f64>) -> Result<()> {
    let mut carried = table(&["nodes that keep state", "calls/s"]);
    for Carried { rule, load } in &answer.carried {
        carried.add_row([(*rule).to_owned(), load.map_or_else(|| "-".to_owned(), rate)]);
    }
    print::line(carried)?;
    let most = answer.carried.iter().find(|carried| carried.rule == OPTIMUM).and_then(|carried| carried.load);
    if let (Some(whole), Some(most)) = (answer.with_paths_known, most)
        && whole > most * 1.001
    {
        print_line!(
            "\nIf nodes knew the whole path of each call and not only its next node: {} calls/s.",
            rate(whole)
        )?;
    }
    match (load, answer.is_carried) {
        (Some(load), Some(true)) => {
            print_line!("\n{} calls/s are carried, with this division of state:\n", rate(load))?;
        }
        (Some(load), _) => {
            let most = rate(answer.plan.load);
            print_line!(
                "\n{} calls/s are not carried; at most {most} are, with this division of state:\n",
                rate(load)
            )?;
        }
        _ => print_line!("\nThe highest load is carried with this division of state:\n")?,
    }
    print::line(nodes(&answer.plan))?;
    if answer.plan.nodes.iter().any(|node| node.keep.is_none()) {
        print_line!(
            "\nper hop: the node keeps a different share for each next hop, and `keep` of [distribution] is a single \
             share; use law = \"level\" at this node, which finds a share for each next hop."
        )?;
    }
    match &answer.paths {
        Some(paths) if paths.len() > 1 => {
            print_line!("\nShare of the calls of each path with state at each node:\n")?;
            print::line(paths_table(topology, paths))
        }
        Some(_) => Ok(()),
        None => print_line!("\nThe paths are not listed: there are more than {}.", plan::PATHS_MAX),
    }
}

fn nodes(plan: &Plan) -> comfy_table::Table {
    let authenticates = plan.nodes.iter().any(|node| node.authenticated > 0.0);
    let mut header = vec!["node", "calls/s", "with state", "without", "state of"];
    header.extend(authenticates.then_some("authenticated"));
    header.extend(["keep", "utilisation", ""]);
    let mut shown = table(&header);
    for node in &plan.nodes {
        let share = if node.calls > 0.0 { node.kept / node.calls } else { 0.0 };
        let mut row =
            vec![node.name.clone(), rate(node.calls), rate(node.kept), rate(node.forwarded), percent(share)];
        row.extend(authenticates.then(|| rate(node.authenticated)));
        row.push(node.keep.map_or_else(|| "per hop".to_owned(), |keep| format!("{keep:.4}")));
        row.extend([percent(node.utilisation), if node.bottleneck { "bottleneck" } else { "" }.to_owned()]);
        shown.add_row(row);
    }
    shown
}

fn paths_table(topology: &Topology, paths: &[PathPlan]) -> comfy_table::Table {
    let mut shown = table(&["path", "calls/s"]);
    for path in paths {
        let nodes = path.nodes.iter().zip(&path.kept);
        let nodes = nodes.map(|(node, kept)| format!("{} {}", topology.nodes()[*node].name, percent(*kept)));
        shown.add_row([nodes.collect::<Vec<_>>().join(", "), rate(path.calls)]);
    }
    shown
}

fn rate(rate: f64) -> String {
    // No minus sign before a zero that is due to rounding.
    format!("{:.2}", rate.max(0.0))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share.max(0.0) * 100.0)
}

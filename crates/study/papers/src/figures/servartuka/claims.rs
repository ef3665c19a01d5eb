//! The paper's statements about its figures, and the expectations of our own law.

use super::capacity::{BY_HAND, CORTES, EVERY, HALVES, JUMP, LEVEL, PAPER, Row, UNMARKED};
use super::costs::{Cost, OURS, THEIRS, of};
use super::goodput;
use super::network::{STATEFUL, STATELESS};
use super::order::Pair;
use super::stairs::{CARRIED, Step, capacity, capacity_with_state};
use crate::report::Statement;

/// Relative difference of a capacity from the paper's that counts as agreement: two or three steps of the load.
const NEAR: f64 = 0.03;
/// Percent of the optimum from which a capacity is "close to optimal".
const CLOSE: f64 = 95.0;
/// Maximum of a capacity in percent of the optimum; a higher one would mean a wrong model or measurement. A load counts
/// as carried with 99 % of its calls answered, which allows 1.01 % more than the capacity. A buffer of 1000 messages
/// absorbs 167 more calls in the 10 s of a step, 0.3 % of the load.
const HIGHEST: f64 = 101.4;
/// Maximum distance of a utilisation from a straight line through the origin: two percentage points.
const STRAIGHT: f64 = 0.02;
/// Relative difference in parsing between two modes that take "almost the same resources".
const ALMOST: f64 = 0.1;
/// Relative drop of the goodput below the offered load from which it is "significant".
const DROP: f64 = 0.05;
/// Maximum share of calls without state if marks or an order preserve it.
const LOST: f64 = 0.02;
/// The network of figure 3 whose servers have no strict order.
const WITHOUT_ORDER: &str = "edges";

fn near(measured: f64, stated: f64) -> bool {
    (measured / stated - 1.0).abs() <= NEAR
}

/// Relative difference between a ratio of costs and the paper's, which is read from bars.
const LIKE: f64 = 0.2;
/// Maximum cost of a call relative to Kamailio's cost.
const QUARTER: f64 = 0.25;

/// Cost of a mode relative to the mode without state and look-up.
fn times(costs: &[&Cost], mode: &str) -> Option<f64> {
    let cost = costs.iter().find(|cost| cost.mode == mode)?;
    Some(cost.total() / costs.first()?.total())
}

pub(super) fn of_costs(parts: &[&str], costs: &[Cost]) -> Vec<Statement> {
    let programs = [(OURS, "Sarabande"), (THEIRS, "Kamailio")];
    let mut claims = Vec::new();
    for (plot, (program, name)) in programs.into_iter().enumerate() {
        let own = of_paper(&of(costs, program));
        claims.extend(
            ratios(name, &own).into_iter().chain(bands(name, parts, &own)).map(|claim| claim.about(plot)),
        );
    }
    claims.push(against(costs));
    claims
}

/// Returns the paper's modes of a program. A further mode replaces the most expensive one if that is missing.
fn of_paper<'a>(costs: &[&'a Cost]) -> Vec<&'a Cost> {
    const DEAREST: &str = "dialog, authentication";
    const IN_ITS_PLACE: &str = "transaction, authentication";
    let has_all = costs.iter().any(|cost| cost.mode == DEAREST);
    costs.iter().copied().filter(|cost| !has_all || cost.mode != IN_ITS_PLACE).collect()
}

fn ratios(name: &str, costs: &[&Cost]) -> Vec<Statement> {
    const CAUSE: &str =
        "The figure counts instructions. The paper counts cycles, which include waits for memory.";
    let near = |measured: f64, stated: f64| (measured / stated - 1.0).abs() <= LIKE;
    let all = costs.iter().map(|cost| format!("{} {:.2}", cost.mode, cost.total() / costs[0].total()));
    let mut claims = vec![Statement::check(
        "section 2.1",
        format!("{name}: each mode costs more than the one before."),
        format!("In multiples of the first: {}.", all.collect::<Vec<_>>().join(", ")),
        costs.is_sorted_by(|one, next| one.total() < next.total()),
    )];
    let dearest = costs.last().map_or("", |cost| cost.mode);
    let stated = [("transaction, look-up", 1.75), ("dialog, look-up", 2.0), (dearest, 3.0)];
    // A program may lack a mode.
    for (mode, stated, measured) in
        stated.into_iter().filter_map(|(mode, stated)| Some((mode, stated, times(costs, mode)?)))
    {
        let claim = Statement::check(
            "section 2.1",
            format!("{name}: the mode \"{mode}\" costs about {stated} times as much as stateless."),
            format!("{measured:.2} times."),
            near(measured, stated),
        );
        claims.push(claim.differs_by(CAUSE));
    }
    claims
}

fn bands(name: &str, parts: &[&str], costs: &[&Cost]) -> Vec<Statement> {
    let band = |part: &str| {
        let index = parts.iter().position(|name| *name == part).expect("a part of this name");
        costs.iter().map(|cost| cost.parts[index]).collect::<Vec<_>>()
    };
    let share = band("look-up").iter().zip(costs).map(|(part, cost)| part / cost.total()).fold(0.0, f64::max);
    let growing = ["parsing", "memory", "state"].map(|part| (part, band(part)));
    let growth = growing.iter().map(|(part, band)| {
        format!("{part} from {:.1} to {:.1}", band[0], band.last().copied().unwrap_or_default())
    });
    let parsing = band("parsing");
    claims! {
        "section 2.1", format!("{name}: parsing costs almost the same in the first two modes."),
            ["Thousand instructions: {:.1} and {:.1}, {:+.0} %.", parsing[0], parsing[1],
             100.0 * (parsing[1] / parsing[0] - 1.0)],
            (parsing[1] / parsing[0] - 1.0).abs() <= ALMOST;
        "section 2.1", format!("{name}: the look-up is a small part of any mode's cost."),
            ["At most {:.1} %.", 100.0 * share],
            share < 0.1;
        "section 2.1", format!("{name}: parsing, memory and state grow significantly with the mode."),
            ["Thousand instructions: {}.", growth.collect::<Vec<_>>().join(", ")],
            growing.iter().all(|(_, band)| band.last().is_some_and(|last| *last > 1.2 * band[0]));
    }
}

/// Compares the same call in both programs.
fn against(costs: &[Cost]) -> Statement {
    let theirs = of(costs, THEIRS);
    let pair = |ours: &&Cost| {
        let other = theirs.iter().find(|cost| cost.mode == ours.mode)?;
        Some((ours.mode, ours.total() / other.total()))
    };
    let pairs: Vec<_> = of(costs, OURS).iter().filter_map(pair).collect();
    let each = pairs.iter().map(|(mode, part)| format!("{mode} {part:.2}"));
    Statement::check(
        "docs/evidence/performance.md",
        "A call costs Sarabande at most a quarter of Kamailio's cost, in each mode.",
        format!("Ratio to Kamailio: {}.", each.collect::<Vec<_>>().join(", ")),
        !pairs.is_empty() && pairs.iter().all(|(_, part)| *part <= QUARTER),
    )
    .differs_by(
        "Two fifths of Sarabande's cost are parsing. The rest is spread over many functions, none of which takes a \
         tenth.",
    )
    .about(1)
}

pub(super) fn of_utilisation(climbed: &[Vec<Step>], [stateful, stateless]: [f64; 2]) -> Vec<Statement> {
    let pairs = || climbed[0].iter().zip(&climbed[1]).filter(|(with, _)| with.load < STATEFUL);
    let least = pairs().map(|(with, without)| with.utilisation / without.utilisation);
    let least = least.fold(f64::INFINITY, f64::min);
    let bends = [(0, STATEFUL), (1, STATELESS)].map(|(mode, capacity)| bend(&climbed[mode], capacity));
    let with = Saturation::of(&climbed[0], STATEFUL);
    claims! {
        "section 2.2, input check", "The stateful server saturates at about 4700 calls/s, the stateless one at 5700 \
         (inputs of the model).",
            ["All calls are answered up to {stateful:.0} and {stateless:.0} calls/s."],
            near(stateful, STATEFUL) && near(stateless, STATELESS);
        "section 2.2", "The utilisation of the stateful server increases faster.",
            ["At least {least:.2} times that of the stateless server at the same load."],
            least > 1.1;
        "section 2.2, figure 2", "Utilisation is proportional to the load in both modes, up to saturation.",
            ["Up to {:.1} and {:.1} points from a line through the origin.", 100.0 * bends[0],
             100.0 * bends[1]],
            bends.iter().all(|bend| *bend <= STRAIGHT);
        "section 2.2", "At saturation utilisation is 100 %, and the throughput no longer increases with the load.",
            ["Stateful, a tenth above: utilisation {:.0} %, {:.0} calls/s; maximum at any load {:.0}.",
             100.0 * with.after.utilisation, with.after.goodput, with.most],
            with.after.utilisation >= 0.99 && with.most <= STATEFUL * (1.0 + NEAR);
        "section 2.2", "At the saturation point retransmissions increase sharply.",
            ["Stateful: {:.1} per call a tenth above, {:.3} a tenth below.", with.after.resends / with.after.load,
             with.before.resends / with.before.load],
            with.after.resends > 10.0 * with.before.resends.max(1.0);
        "section 2.2", "At the saturation point 500 Server Busy increases sharply.",
            ["Stateful: {:.0} per second.", with.after.refused],
            with.after.refused > 10.0 * with.before.refused.max(1.0),
            differs_by("Without overload control a server of the model refuses nothing; a full buffer drops \
             messages.");
    }
}

/// Maximum distance of the utilisation from a straight line through the origin, below a capacity.
fn bend(steps: &[Step], capacity: f64) -> f64 {
    let below = || steps.iter().filter(|step| step.load < 0.97 * capacity);
    let (sum, squares) = below().fold((0.0, 0.0), |(sum, squares), step| {
        (sum + step.load * step.utilisation, squares + step.load * step.load)
    });
    below().map(|step| (step.utilisation - sum / squares * step.load).abs()).fold(0.0, f64::max)
}

/// A server around its saturation.
struct Saturation<'a> {
    /// The steps a tenth below and a tenth above the capacity.
    before: &'a Step,
    after: &'a Step,
    /// Highest goodput at any load, in calls per second.
    most: f64,
}

impl<'a> Saturation<'a> {
    fn of(steps: &'a [Step], capacity: f64) -> Self {
        let [before, after] = [0.9, 1.1].map(|part| at_load(steps, part * capacity));
        Self { before, after, most: peak(steps) }
    }
}

/// Returns the step with the nearest load.
fn at_load(steps: &[Step], load: f64) -> &Step {
    let distance = |step: &&Step| (step.load - load).abs();
    steps.iter().min_by(|one, other| distance(one).total_cmp(&distance(other))).expect("there are steps")
}

fn row<'a>(rows: &'a [Row], name: &str) -> &'a Row {
    rows.iter().find(|row| row.network.name == name).expect("it is simulated")
}

pub(super) fn of_capacity(rows: &[Row]) -> Vec<Statement> {
    let mut claims = by_hand(rows);
    claims.extend(by_law(rows));
    claims.push(jump(rows));
    claims
}

fn by_hand(rows: &[Row]) -> Vec<Statement> {
    let two = row(rows, "series 2");
    claims! {
        "section 2.3.1", "Two in series, one or both stateful, carry at most about 4700 calls/s.",
            ["{:.0} and {:.0} calls/s.", two.carried[EVERY], two.carried[BY_HAND]],
            near(two.carried[EVERY], STATEFUL) && near(two.carried[BY_HAND], STATEFUL);
        "section 2.3.1, figure 3(b)", "With state for half of the calls at each, two carry 5200 calls/s.",
            ["{:.0} calls/s; linear program {:.2}.", two.carried[HALVES], two.optimum],
            near(two.carried[HALVES], two.optimum) && near(two.optimum, 5200.0);
        "section 2.3, input check", "The linear program has 5151.92, 5322.52 and 5412.12 calls/s for 2, 3 and 4 in \
         series.",
            ["{}.", rows.iter().take(3).map(|row| format!("{:.2}", row.optimum)).collect::<Vec<_>>().join(", ")],
            [5151.92, 5322.52, 5412.12].iter().zip(rows).all(|(stated, row)| (row.optimum - stated).abs() < 0.01);
        "section 2.3", format!("No simulation carries more than the optimum of the linear program (at most {HIGHEST} \
         %)."),
            ["At most {:.1} %, because a load counts as carried with 99 % of its calls answered, and buffers hold \
             some.",
             most(rows)],
            most(rows) <= HIGHEST;
    }
}

fn by_law(rows: &[Row]) -> Vec<Statement> {
    let [two, six, edges] = ["series 2", "series 6", WITHOUT_ORDER].map(|name| row(rows, name));
    let each = |mode: usize, rows: &[&Row]| {
        let each = |row: &&Row| format!("{} {:.0} %", row.network.name, row.percent(mode));
        rows.iter().map(each).collect::<Vec<_>>().join(", ") + "."
    };
    let all: Vec<&Row> = rows.iter().collect();
    let ordered: Vec<&Row> = rows.iter().filter(|row| row.network.name != WITHOUT_ORDER).collect();
    let gain = |row: &Row, mode: usize| 100.0 * (row.carried[mode] / row.carried[BY_HAND] - 1.0);
    let is_close = |row: &&Row, mode: usize| (CLOSE..=HIGHEST).contains(&row.percent(mode));
    let close = |mode: usize, rows: &[&Row]| rows.iter().all(|row| is_close(row, mode));
    let lost = |mode: usize, rows: &[&Row]| {
        let each = |row: &&Row| format!("{} {:.1} %", row.network.name, 100.0 * row.without_state[mode]);
        rows.iter().map(each).collect::<Vec<_>>().join(", ") + "."
    };
    claims! {
        "section 3",
        format!("The paper's algorithm comes close to the optimum ({CLOSE} to {HIGHEST} % of it) with two in \
         series."),
            ["{}", each(PAPER, &[two])],
            close(PAPER, &[two]);
        "section 3", "The paper's algorithm also comes close wherever servers have a strict order.",
            ["{}", each(PAPER, &ordered)],
            close(PAPER, &ordered),
            differs_by("A server stops delegating state as soon as all servers behind it are at U_high, whatever its \
             own load.");
        "section 1", "With many proxies the benefits are much higher than with two.",
            ["Over the best static choice the paper's law gains {:.1} % with two in series and {:.1} % with six, ours \
             {:.1} and {:.1} %; the optimum is at most {:.1} % above.", gain(two, PAPER),
             gain(six, PAPER), gain(two, LEVEL), gain(six, LEVEL), 100.0 * (STATELESS / STATEFUL - 1.0)],
            gain(six, PAPER) > 1.5 * gain(two, PAPER),
            differs_by("The linear program gives six in series 1.8 times the gain of two. The paper's law does not \
             find these shares.");
        "section 5", format!("Without marks in calls, the algorithm works in a strict order (at most {:.0} % of the \
         calls have no state anywhere), but not for core and edge servers.", 100.0 * LOST),
            ["Calls without state anywhere at {:.0} % of the optimum: {}", 100.0 * JUMP[1], lost(UNMARKED, &all)],
            ordered.iter().all(|row| row.without_state[UNMARKED] <= LOST) && edges.without_state[UNMARKED] > LOST;
        "section 5", "The algorithm does not work for core and edge servers, which have no strict order.",
            ["With marks: {}", each(PAPER, &[edges])],
            edges.carried[PAPER] <= edges.carried[BY_HAND],
            differs_by("Marks in calls and notices per neighbour (docs/chain.md) need no order.");
        "section 6", "The rule of Cortes et al., which considers one server, carries fewer calls with state than the \
         distributed algorithm.",
            ["{} With the paper's law: {} No state anywhere at {:.0} % of the optimum: {}", each(CORTES, &all),
             each(PAPER, &all), 100.0 * JUMP[1], lost(CORTES, &all)],
            all.iter().all(|row| row.carried[CORTES] < row.carried[PAPER]);
        "docs/evidence/chain.md",
        "Our law comes close to the optimum in every network.",
            ["{}", each(LEVEL, &all)],
            close(LEVEL, &all);
    }
}

fn jump(rows: &[Row]) -> Statement {
    let [from, to] = JUMP.map(|part| 100.0 * part);
    let each = |law: usize| {
        let each = |row: &Row| format!("{} {:.0} %", row.network.name, 100.0 * row.jumped[law]);
        rows.iter().map(each).collect::<Vec<_>>().join(", ")
    };
    let all = |law: usize| rows.iter().all(|row| row.jumped[law] >= CARRIED);
    Statement::check(
        "docs/evidence/chain.md",
        format!(
            "Our law follows a jump from {from:.0} to {to:.0} % of the optimum; the paper's law, which delegates \
             deltaC per period, does not everywhere."
        ),
        format!("Calls answered. Law level: {}. Law paper: {}.", each(1), each(0)),
        all(1) && !all(0),
    )
    .about(1)
}

/// Highest capacity of any mode, in percent of its network's optimum.
fn most(rows: &[Row]) -> f64 {
    let each = rows.iter().flat_map(|row| (0..row.carried.len()).map(|mode| row.percent(mode)));
    each.fold(0.0, f64::max)
}

/// Highest goodput at any load, in calls per second.
fn peak(steps: &[Step]) -> f64 {
    steps.iter().map(|step| step.goodput).fold(0.0, f64::max)
}

pub(super) fn of_goodput(without: &[Vec<Step>], with: &[Vec<Step>], optimum: f64) -> Vec<Statement> {
    let [both, paper, level] = [goodput::BOTH, goodput::PAPER, goodput::LEVEL];
    let carried = |lines: &[Vec<Step>], mode: usize| capacity(&lines[mode]);
    let percent = |mode: usize| 100.0 * carried(without, mode) / optimum;
    let mut claims = claims! {
        "section 2.3.1", "Both stateful carry about 4700 calls/s, the shares of the linear program 5200.",
            ["Up to {:.0} and, with halves, {:.0} calls/s; linear program {optimum:.2}.", carried(without, both),
             carried(without, goodput::HALVES)],
            near(carried(without, both), STATEFUL) && near(carried(without, goodput::HALVES), optimum);
        "section 3", format!("The dynamic algorithm comes close to the optimum ({CLOSE} to {HIGHEST} %)."),
            ["Law paper {:.0} calls/s, {:.1} %; law level {:.0}, {:.1} %. Loads are 100 calls/s apart with --quick.",
             carried(without, paper), percent(paper), carried(without, level), percent(level)],
            [paper, level].iter().all(|&mode| (CLOSE..=HIGHEST).contains(&percent(mode)));
        "section 6", "The rule of Cortes et al. carries fewer calls with state than two stateful servers.",
            ["Up to {:.0} calls/s with state; at 4700 offered {:.0} % of the calls have none. Both stateful: {:.0}.",
             capacity_with_state(&without[goodput::CORTES]),
             100.0 * at_load(&without[goodput::CORTES], STATEFUL).share_without_state(), carried(without, both)],
            capacity_with_state(&without[goodput::CORTES]) < carried(without, both);
    };
    claims.extend(as_measured(with));
    claims
}

/// Claims about the paper's measurements, which include the 100 Trying.
fn as_measured(with: &[Vec<Step>]) -> Vec<Statement> {
    const UNKNOWN: &str = "The paper does not know the reason for the drop (section 4); the model has none.";
    let [both, paper, level] = [goodput::BOTH, goodput::PAPER, goodput::LEVEL];
    let carried = |mode: usize| capacity(&with[mode]);
    let gain = |mode: usize| 100.0 * (carried(mode) / carried(both) - 1.0);
    let lost = |mode: usize, load: f64| {
        let step = at_load(&with[mode], load);
        1.0 - step.goodput / step.load
    };
    let falls = |mode: usize| with[mode].last().map_or(0.0, |step| step.goodput) / peak(&with[mode]);
    claims! {
        "section 4", "The static configuration carries 4000 calls/s, less than a single stateful server (4700).",
            ["{:.0} calls/s. The paper gives no reason. Here the first server also processes the 100 of the second; \
             without it two carry as much as one, and {:.0} with state at the first alone.",
             carried(both), carried(goodput::FIRST)],
            near(carried(both), 4000.0), about(1);
        "section 4", "SERvartuka carries 15 % more than the static configuration.",
            ["Law paper {:.0} % more; law level {:.0} % more.", gain(paper), gain(level)],
            (10.0..=20.0).contains(&gain(paper)), about(1);
        "section 4", format!("SERvartuka carries 4600 calls/s (within {:.0} %).", 100.0 * NEAR),
            ["Law paper {:.0} calls/s; law level {:.0}.", carried(paper), carried(level)],
            near(carried(paper), 4600.0), about(1),
            differs_by("The model has the costs of figure 2. The paper does not mention further costs of two in \
             series.");
        "section 4", "The throughput of the static configuration drops significantly at 3500 calls/s.",
            ["{:.1} % of the offered calls are missing at 3500 calls/s.", 100.0 * lost(both, 3500.0)],
            lost(both, 3500.0) > DROP, about(1), differs_by(UNKNOWN);
        "section 4", "The throughput of SERvartuka drops similarly at 4500 calls/s.",
            ["{:.1} % of the offered calls are missing at 4500 calls/s.", 100.0 * lost(paper, 4500.0)],
            lost(paper, 4500.0) > DROP, about(1), differs_by(UNKNOWN);
        "docs/chain.md", "Beyond saturation goodput collapses without overload control, static or \
         distributed.",
            ["At 6000 calls/s goodput is {:.0} % of its maximum with both stateful, {:.0} % with the paper's law.",
             100.0 * falls(both), 100.0 * falls(paper)],
            falls(both) < 0.5 && falls(paper) < 0.5, about(1);
    }
}

/// Relative difference from which two set-up times differ.
const DIFFERS: f64 = 0.05;

pub(super) fn of_order(pairs: &[Pair]) -> Vec<Statement> {
    let each = pairs.iter().map(|pair| format!("{} {:.2}", pair.name, pair.ratio()));
    let each = each.collect::<Vec<_>>().join(", ");
    claims! {
        "section 3", format!("An order of delegation reduces set-up times: one end of the series is better at each \
         load, by at least {:.0} %.", 100.0 * DIFFERS),
            ["Mean with state at the last, relative to state at the first: {each}."],
            pairs.iter().all(|pair| pair.ratio() > 1.0 + DIFFERS)
                || pairs.iter().all(|pair| pair.ratio() < 1.0 - DIFFERS),
            differs_by("Set-up time is waiting in queues, and a call is the same work in either order.");
    }
}

//! Costs of routes and pools for a call: instructions counted by `valgrind`, with one and with many of them.

use anyhow::{Context, Result};
use clap::Args;
use sarabande_bench::callgrind;
use sarabande_bench::hot::Length;
use sarabande_bench::hot::routes::{Case, Condition};
use sarabande_bench::report::name;

/// Counts the instructions of a call (INVITE, 180, 200, ACK, BYE, 200) through a shard of the balancer.
///
/// Compares 1 route with many, of which each call uses another one, and 1 pool with 20 pools.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of routes in the cases with many.
    #[arg(long, default_value_t = 200)]
    many: u16,
    /// Does only the work of this case, to be counted from outside, and prints the number of calls.
    #[arg(long, requires_all = ["routes", "pools", "members"])]
    length: Option<Length>,
    #[arg(long, hide = true)]
    condition: Option<Condition>,
    #[arg(long, hide = true)]
    routes: Option<u16>,
    #[arg(long, hide = true)]
    pools: Option<u16>,
    #[arg(long, hide = true)]
    members: Option<u16>,
}

/// Returns the instructions for each call.
fn measure(case: Case) -> Result<i64> {
    let Case { condition, routes, pools, members } = case;
    let numbers = [("--routes", routes), ("--pools", pools), ("--members", members)];
    let numbers = numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number.to_string()]);
    let mut arguments: Vec<String> = ["routes".to_owned()].into_iter().chain(numbers).collect();
    if let Some(condition) = condition {
        arguments.extend(["--condition".to_owned(), name(&condition)]);
    }
    callgrind::measure(&arguments)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(length) = arguments.length {
        let number = |given: Option<u16>| given.context("a case needs all three numbers");
        let case = Case {
            condition: arguments.condition,
            routes: number(arguments.routes)?,
            pools: number(arguments.pools)?,
            members: number(arguments.members)?,
        };
        println!("{}", case.run(length)?);
        return Ok(());
    }
    let many = arguments.many;
    let print = |label: &str, count: i64, against: i64| {
        let percent = 100.0 * (count - against) as f64 / against as f64;
        println!("{label:44} {count:>8} instructions a call, {percent:+5.1} %");
    };
    let none = Case { condition: None, routes: 0, pools: 1, members: 4 };
    let without = measure(none)?;
    print("no route", without, without);
    for (condition, label) in [
        (Condition::Prefix, "prefix of the user"),
        (Condition::Host, "host"),
        (Condition::Header, "header field"),
        (Condition::Headers, "header field, another for each"),
        (Condition::Regex, "expression with a fixed prefix"),
        (Condition::RegexWithin, "expression without a fixed prefix"),
    ] {
        let case = |routes| Case { condition: Some(condition), routes, ..none };
        let one = measure(case(1))?;
        print(&format!("1 route by {label}"), one, without);
        print(&format!("{many} routes by {label}, compared with 1"), measure(case(many))?, one);
    }
    let by_prefix =
        |pools, members| measure(Case { condition: Some(Condition::Prefix), routes: many, pools, members });
    let one = by_prefix(1, 4)?;
    print(&format!("{many} routes, 1 pool of 4"), one, one);
    print("20 pools of 4, compared with 1 pool of 4", by_prefix(20, 4)?, one);
    print("1 pool of 80, compared with 1 pool of 4", by_prefix(1, 80)?, one);
    Ok(())
}

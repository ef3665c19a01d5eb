//! `[distribution]`

use super::access::networks;
use crate::raw::RawConfig;
use crate::report::Report;
use crate::typed::PoolConfig;
use distribute::Settings;
use node::Distribution;
use route::Forward;

/// With whom the state of calls is shared out, if with anybody; nobody does so alone. `None` as well where something is wrong.
pub(super) fn check(raw: &RawConfig, pools: &[PoolConfig], report: &mut Report<'_>) -> Option<Distribution> {
    let sharer = pools.iter().find(|pool| pool.forward == Forward::Distributed);
    let Some(table) = &raw.distribution else {
        if let Some(pool) = sharer {
            let remedy = format!(
                "`{}` has forward = \"distributed\": expected the proxies that it shares out with, a table [distribution] with \
                 neighbours = [\"10.0.0.2\"]",
                pool.name
            );
            report.missing("distribution", remedy);
        }
        return None;
    };
    let neighbours = networks(&table.neighbours, report);
    if table.neighbours.is_empty() {
        let remedy =
            "expected the proxies before and behind that share out as well: neighbours = [\"10.0.0.2\"]";
        report.missing("distribution.neighbours", remedy);
    }
    let law = report.read(&table.law);
    let (high, low) = (report.read(&table.high), report.read(&table.low));
    let state_cost = report.read(&table.state_cost);
    let (high, low) = (high?, low?);
    if low > high {
        let setting = if table.low.is_set() { &table.low } else { &table.high };
        report.conflict(setting, "expected `low` to be at most `high`");
    }
    let settings =
        Settings { law: law?, high, low, state_cost: state_cost?, ..Distribution::default().settings };
    Some(Distribution { neighbours, settings })
}

//! How many requests may be tried again.

use crate::routes::Routes;
use route::{Budget, BudgetSettings, Failover, Target};

/// How many requests may be tried again, by rule; last, for those without one.
pub(crate) struct Budgets(Vec<Budget>);

impl Default for Budgets {
    fn default() -> Self {
        Self(vec![Budget::new(BudgetSettings::default())])
    }
}

impl Budgets {
    /// Takes over those of the rules; `shards` share them.
    pub(crate) fn configure(&mut self, routes: &Routes, shards: usize) {
        let of_rule = |rule: &route::Rule| match &rule.target {
            Target::Pools(pools) => pools.failover.budget,
            Target::RequestUri | Target::Location | Target::Answer(_) | Target::Silence => {
                BudgetSettings::default()
            }
        };
        let rules = routes.table.rules().iter().map(of_rule);
        let all = rules.chain([Failover::default().budget]).map(|budget| budget.share(shards));
        let mut kept = core::mem::take(&mut self.0).into_iter();
        self.0 = all
            .map(|settings| match kept.next() {
                Some(mut budget) => {
                    budget.configure(settings);
                    budget
                }
                None => Budget::new(settings),
            })
            .collect();
    }

    pub(crate) fn of(&mut self, rule: Option<usize>) -> &mut Budget {
        let last = self.0.len() - 1;
        &mut self.0[rule.map_or(last, |rule| rule.min(last))]
    }
}

//! How many requests may be tried again.

use crate::routes::Routes;
use route::{Budget, BudgetSettings, Failover, Rule, Target};
use std::sync::Arc;

/// The retry budgets of the rules.
pub(crate) struct Budgets {
    routes: Arc<Routes>,
    /// In the order of the rules.
    rules: Vec<Budget>,
    /// That of requests without a rule, and of requests whose rule is gone since a reload.
    rest: Budget,
}

impl Default for Budgets {
    fn default() -> Self {
        let rest = Budget::new(Failover::default().budget);
        Self { routes: Arc::default(), rules: Vec::new(), rest }
    }
}

impl Budgets {
    /// Takes over the rules; `shards` share their budgets. A rule that was there before keeps what it has counted.
    pub(crate) fn configure(&mut self, routes: &Arc<Routes>, shards: usize) {
        let new = |rule: &Rule| match &rule.target {
            Target::Pools(pools) => Budget::new(pools.failover.budget.share(shards)),
            Target::RequestUri | Target::Location | Target::Answer(_) | Target::Silence => {
                Budget::new(BudgetSettings::default().share(shards))
            }
        };
        let mut rules: Vec<_> = routes.table.rules().iter().map(new).collect();
        for (index, mut budget) in core::mem::take(&mut self.rules).into_iter().enumerate() {
            if let Some(index) = routes.successor(&self.routes, index) {
                budget.configure(rules[index].settings());
                rules[index] = budget;
            }
        }
        self.rest.configure(Failover::default().budget.share(shards));
        (self.routes, self.rules) = (Arc::clone(routes), rules);
    }

    /// The budget of a request that goes by this rule of the table that was in force when it came.
    pub(crate) fn of(&mut self, rule: Option<&(Arc<Routes>, usize)>) -> &mut Budget {
        let index = rule.and_then(|(routes, index)| {
            if Arc::ptr_eq(routes, &self.routes) {
                Some(*index)
            } else {
                self.routes.successor(routes, *index)
            }
        });
        index.and_then(|index| self.rules.get_mut(index)).unwrap_or(&mut self.rest)
    }
}

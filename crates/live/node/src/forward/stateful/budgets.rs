//! How many requests may be tried again.

use super::targets::RequestRule;
use crate::site::routes::Routes;
use route::{Budget, BudgetSettings};
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
        let rest = Budget::new(BudgetSettings::default());
        Self { routes: Arc::default(), rules: Vec::new(), rest }
    }
}

impl Budgets {
    /// Takes over the rules; `shards` share their budgets. A rule that was there before keeps what it has counted.
    pub(crate) fn configure(&mut self, routes: &Arc<Routes>, shards: usize) {
        let settings = |index| match routes.pools(index) {
            Some(pools) => pools.failover.budget.share(shards),
            None => BudgetSettings::default().share(shards),
        };
        let rules = 0..routes.table.rules().len();
        let mut rules: Vec<_> = rules.map(|index| Budget::new(settings(index))).collect();
        for (index, mut budget) in core::mem::take(&mut self.rules).into_iter().enumerate() {
            if let Some(index) = routes.successor(&self.routes, index) {
                budget.configure(rules[index].settings());
                rules[index] = budget;
            }
        }
        self.rest.configure(BudgetSettings::default().share(shards));
        (self.routes, self.rules) = (Arc::clone(routes), rules);
    }

    /// The budget of a request that goes by this rule of the table that was in force when it came.
    pub(super) fn of(&mut self, rule: Option<&RequestRule>) -> &mut Budget {
        let index = rule.and_then(|RequestRule { routes, index }| {
            let is_present = Arc::ptr_eq(routes, &self.routes);
            if is_present { Some(*index) } else { self.routes.successor(routes, *index) }
        });
        index.and_then(|index| self.rules.get_mut(index)).unwrap_or(&mut self.rest)
    }
}

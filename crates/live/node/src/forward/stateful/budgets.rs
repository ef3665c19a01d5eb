//! Budgets for retries of requests.

use super::targets::RequestRule;
use crate::site::routes::Routes;
use route::{Budget, BudgetSettings};
use std::sync::Arc;

pub(crate) struct Budgets {
    routes: Arc<Routes>,
    /// Budgets in the order of the rules.
    rules: Vec<Budget>,
    /// Budget of requests without a rule, or whose rule was removed by a reload.
    rest: Budget,
}

impl Default for Budgets {
    fn default() -> Self {
        let rest = Budget::new(BudgetSettings::default());
        Self { routes: Arc::default(), rules: Vec::new(), rest }
    }
}

impl Budgets {
    /// Sets the rules; `shards` share their budgets. A rule that existed before keeps its counts.
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

    /// Returns the budget of a request with this rule, from the table that was valid when the request came.
    pub(super) fn of(&mut self, rule: Option<&RequestRule>) -> &mut Budget {
        let index = rule.and_then(|RequestRule { routes, index }| {
            let is_present = Arc::ptr_eq(routes, &self.routes);
            if is_present { Some(*index) } else { self.routes.successor(routes, *index) }
        });
        index.and_then(|index| self.rules.get_mut(index)).unwrap_or(&mut self.rest)
    }
}

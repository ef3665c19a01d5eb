//! Routing rules for requests outside dialogs, and the responses of rules and access lists that refuse a request.

use crate::outcome::counters::Drop;
use crate::outcome::rejection::{OwnResponse, Refused, Refuser, Rejection, refuse, refused};
use route::{Access, AccessRefusal, Pools, Rule, Table, Target};

/// Rules for requests that no dialog directs. All shards share them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Routes {
    /// The table of rules. Without rules, requests go to the first pool, and requests of members go to the target that
    /// they name.
    pub table: Table,
    /// Access lists of the listeners, by index. A listener with a higher index accepts all sources.
    pub access: Vec<Access>,
}

/// Response to a request that no rule matches (RFC 3261 §21.4.5).
const NO_ROUTE: Refused = refused(404, "No Route");

impl Routes {
    /// Returns the rule with this index in the table.
    pub(crate) fn rule(&self, index: usize) -> &Rule {
        &self.table.rules()[index]
    }

    /// Returns the rule that corresponds to rule `index` of another table, before or after a reload. The corresponding
    /// rule has the same name, or if it has no name, the same conditions.
    pub(crate) fn successor(&self, before: &Self, index: usize) -> Option<usize> {
        let rule = before.table.rules().get(index)?;
        let name = rule.given_name(index);
        let is_it = |(index, other): (usize, &Rule)| {
            name == other.given_name(index) && (name.is_some() || other.conditions == rule.conditions)
        };
        self.table.rules().iter().enumerate().position(is_it)
    }

    /// Returns the pools of a rule, if it sends requests to pools.
    pub(crate) fn pools(&self, index: usize) -> Option<&Pools> {
        match &self.rule(index).target {
            Target::Pools(pools) => Some(pools),
            Target::RequestUri | Target::Location | Target::Answer(_) | Target::Silence => None,
        }
    }

    /// Returns whether a rule sends requests to the contacts of a user.
    pub(crate) fn is_located(&self, index: usize) -> bool {
        self.rule(index).target == Target::Location
    }

    /// Returns the response to a request that an access list or a rule refuses. `Err` if the request is dropped.
    pub(crate) fn answer(&self, refuser: Refuser) -> Result<OwnResponse<'_>, Drop> {
        let refusal = match refuser {
            Refuser::Listener(index) => {
                self.access.get(usize::from(index)).map_or(AccessRefusal::Silence, |list| list.refusal)
            }
            Refuser::Rule(index) => self.rule(index).access.refusal,
            Refuser::Relay(_) => AccessRefusal::Forbidden,
            Refuser::Silence(_) => AccessRefusal::Silence,
            Refuser::NoRule => return Ok(OwnResponse::Refused(NO_ROUTE)),
            Refuser::Answer(index) => {
                return match &self.rule(index).target {
                    Target::Answer(answer) => Ok(OwnResponse::ByRule(answer)),
                    Target::RequestUri | Target::Location | Target::Pools(_) | Target::Silence => {
                        Err(Drop::Silenced)
                    }
                };
            }
        };
        match refuse(refusal) {
            Rejection::Answered(own) => Ok(own),
            Rejection::By(_) | Rejection::Overloaded(_) | Rejection::Dropped(_) => Err(Drop::Silenced),
        }
    }
}

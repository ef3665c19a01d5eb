//! The routing rules for requests outside dialogs, and the answers of rules and access lists that refuse.

use crate::outcome::counters::Drop;
use crate::outcome::rejection::{OwnResponse, Refused, Refuser, Rejection, refuse, refused};
use route::{Access, Pools, Refusal, Rule, Table, Target};

/// What is asked about requests that no dialog has led here. The same for all shards.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Routes {
    /// Without rules, all goes to the first pool, and what members send goes where it says.
    pub table: Table,
    /// Who may send requests to a listener, by its index; beyond the end everyone.
    pub access: Vec<Access>,
}

/// What a request gets that no rule is for (RFC 3261 §21.4.5).
const NO_ROUTE: Refused = refused(404, "No Route");

impl Routes {
    /// The rule of this index, as the table has them.
    pub(crate) fn rule(&self, index: usize) -> &Rule {
        &self.table.rules()[index]
    }

    /// The rule here that is the same as that one of another table, before or after a reload: the rule of its name,
    /// or where it has none the rule with its conditions.
    pub(crate) fn successor(&self, before: &Self, index: usize) -> Option<usize> {
        let rule = before.table.rules().get(index)?;
        let name = rule.given_name(index);
        let is_it = |(index, other): (usize, &Rule)| {
            name == other.given_name(index) && (name.is_some() || other.conditions == rule.conditions)
        };
        self.table.rules().iter().enumerate().position(is_it)
    }

    /// The pools of a rule, if it leads to some.
    pub(crate) fn pools(&self, index: usize) -> Option<&Pools> {
        match &self.rule(index).target {
            Target::Pools(pools) => Some(pools),
            Target::RequestUri | Target::Location | Target::Answer(_) | Target::Silence => None,
        }
    }

    /// Whether a rule leads to where a user has registered.
    pub(crate) fn is_located(&self, index: usize) -> bool {
        self.rule(index).target == Target::Location
    }

    /// What a request gets that a list or rule refuses: an answer, or nothing.
    pub(crate) fn answer(&self, refuser: Refuser) -> Result<OwnResponse<'_>, Drop> {
        let refusal = match refuser {
            Refuser::Listener(index) => {
                self.access.get(usize::from(index)).map_or(Refusal::Silence, |list| list.refusal)
            }
            Refuser::Rule(index) => self.rule(index).access.refusal,
            Refuser::Relay(_) => Refusal::Forbidden,
            Refuser::Silence(_) => Refusal::Silence,
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

//! Whole calls through a shard of the balancer with routes, each call for the next route.

use super::Length;
use super::datagrams::Notes;
use crate::bed::{Bed, balancer_of, request, shard};
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use node::{Routes, Shard};
use route::{Conditions, Field, Part, Pattern, Pools, Regex, Rule, Table, Target, UriPlace};
use std::sync::Arc;

/// At least one call for each route.
const WARM_UP: u64 = 200;
const CALLS: u64 = 400;

/// Condition of the routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Condition {
    /// Prefix of the user in the Request-URI.
    Prefix,
    /// The host of the Request-URI.
    Host,
    /// The value of one header field.
    Header,
    /// Value of a header field, a different field for each route.
    Headers,
    /// Regular expression for the user that begins with digits.
    Regex,
    /// Regular expression for the user without a fixed beginning.
    RegexWithin,
}

/// Routes and pools of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// Condition of the routes; `None`: there are no routes.
    pub condition: Option<Condition>,
    /// Number of routes.
    pub routes: u16,
    /// Number of pools.
    pub pools: u16,
    /// Members of each pool.
    pub members: u16,
}

impl Condition {
    fn pattern(self, route: u16) -> Result<(Field, Pattern)> {
        let field = |part| Field::Uri(UriPlace::RequestUri, part);
        let regex =
            |source: &str| Regex::new(source, false).map(Pattern::Regex).map_err(|error| anyhow!(error));
        Ok(match self {
            Self::Prefix => (field(Part::User), Pattern::Prefix(number(route).into_bytes())),
            Self::Host => (field(Part::Host), Pattern::Exact(host(route).into_bytes())),
            Self::Header => {
                (Field::Header("X-Account".to_owned()), Pattern::Exact(account(route).into_bytes()))
            }
            Self::Headers => {
                (Field::Header(format!("X-Account-{route}")), Pattern::Exact(account(route).into_bytes()))
            }
            Self::Regex => {
                (field(Part::User), regex(&format!("^[+]?{}[0-9]{{2,10}}$", &number(route)[1..]))?)
            }
            Self::RegexWithin => {
                (field(Part::User), regex(&format!("{}[0-9]{{2,10}}$", &number(route)[1..]))?)
            }
        })
    }

    /// Makes an INVITE that this route matches.
    fn invite(self, call: u64, route: u16) -> Vec<u8> {
        let text = String::from_utf8_lossy(&request(call, "INVITE", 1, None)).into_owned();
        let name = if self == Self::Headers { format!("X-Account-{route}") } else { "X-Account".to_owned() };
        let header = format!("\r\n{name}: {}\r\nContent-Length", account(route));
        let uri = format!("sip:{}60123@{}", number(route), host(route));
        text.replacen("sip:bob@127.0.0.1:5060", &uri, 1)
            .replacen("\r\nContent-Length", &header, 1)
            .into_bytes()
    }
}

fn number(route: u16) -> String {
    format!("+44{:03}", 100 + route)
}

fn host(route: u16) -> String {
    format!("customer-{route:03}.sip.example.com")
}

fn account(route: u16) -> String {
    format!("account-{route:03}")
}

impl Case {
    fn shard(self) -> Result<Shard> {
        let mut setup = balancer_of(self.pools, self.members);
        let Some(condition) = self.condition else { return Ok(shard(setup)) };
        let rule = |route: u16| {
            let (field, pattern) = condition.pattern(route)?;
            let conditions = Conditions { texts: vec![(field, vec![pattern])], ..Conditions::default() };
            let target = Target::Pools(Pools::one(route % self.pools));
            Ok(Rule { conditions, target, ..Rule::default() })
        };
        let rules = (0..self.routes).map(rule).collect::<Result<Vec<_>>>()?;
        setup.settings.routes = Arc::new(Routes { table: Table::new(rules, &[]), access: Vec::new() });
        Ok(shard(setup))
    }

    /// Runs the calls of this length. Returns their number.
    pub fn run(self, length: Length) -> Result<u64> {
        let mut bed = Bed::<Notes>::noting(self.shard()?);
        let mut short = 0;
        for call in 0..WARM_UP + CALLS {
            if call == WARM_UP {
                short = bed.noted();
            }
            let invite = match self.condition {
                // All have the same size, whatever the condition.
                None => Condition::Header.invite(call, 0),
                Some(condition) => condition.invite(call, (call % u64::from(self.routes)) as u16),
            };
            let route = bed.establish_with(call, &invite)?;
            bed.transaction(call, "BYE", 2, &route)?;
        }
        bed.replay(self.shard()?, short, length)?;
        Ok(length.pick(WARM_UP, WARM_UP + CALLS))
    }
}

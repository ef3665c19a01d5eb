//! What the configuration of a site says to its control plane.

use super::{EPOCH_UNIX, SILENCE, TOKEN_LIFETIME, tokens};
use crate::plan::{
    BalancerPlan, DOMAIN, HomePlan, MixedPlan, PoolPlan, ProxyPlan, RoutePlan, SITES, SiteRole, When,
    user_behind,
};
use ::node::{
    AuthenticationSettings, DialogSettings, Distribution, HomeSettings, Orphans, PoolMode, ProxyLimits,
    Routes,
};
use balance::{HealthSettings, PolicyKind, PoolId, SessionSettings};
use control::{Address, ControlSettings, MemberSettings, PoolSettings, ProbeSettings};
use core::time::Duration;
use dialog::CallSettings;
use digest::{BanSettings, Limit, NonceScope, NonceSettings};
use distribute::Law;
use route::{
    Choice, Conditions, Failover, Field, Forward, Network, Origin, Part, Pattern, Place, Pools, RateSettings,
    Rule, Table, Target,
};
use std::sync::Arc;

/// All callers have one address, and some guess: nobody is kept out for that, so that every guess is judged.
const GUESSES: Limit = Limit { failures: 32_000, every: Duration::from_secs(1), at_once: 60_000 };

/// Minutes, as usual.
const NONCE_LIFETIME: Duration = Duration::from_mins(5);

pub(super) fn settings(role: &SiteRole, site: u16, key: u8) -> ControlSettings {
    match role {
        SiteRole::Balancer(plan) => of_balancer(plan, key),
        SiteRole::Proxy(plan) => of_proxy(plan, site, key),
        SiteRole::Mixed(plan) => of_mixed(plan, site, key),
        SiteRole::Home(plan) => of_home(plan, key),
    }
}

/// What `[registrar]` alone makes: a route to users, for users only where they have passwords.
fn of_home(plan: &HomePlan, key: u8) -> ControlSettings {
    let rule = Rule {
        name: "users".to_owned(),
        conditions: Conditions { origin: Origin::Anyone, ..Conditions::default() },
        authenticate: plan.authenticates,
        target: Target::Location,
        ..Rule::default()
    };
    let registrar = location::Settings {
        domains: vec![DOMAIN.as_bytes().into()],
        // Plans last for minutes.
        expires_min: 1,
        ..location::Settings::default()
    };
    let authentication = plan.authenticates.then(|| AuthenticationSettings {
        digest: digest::Settings::new(DOMAIN.as_bytes()),
        nonces: NonceSettings { lifetime: NONCE_LIFETIME, scope: NonceScope::Source },
        bans: BanSettings { pair: GUESSES, source: GUESSES, network: GUESSES, user: GUESSES, known: GUESSES },
    });
    ControlSettings {
        routes: Arc::new(Routes { table: Table::new(vec![rule], &[]), access: Vec::new() }),
        home: Some(Arc::new(HomeSettings {
            registrar,
            authentication,
            forward: Forward::Transaction,
            trusted: Box::default(),
        })),
        ..common(key)
    }
}

/// One pool needs no routes; to several, one leads.
fn routes(pools: u16) -> Routes {
    let choice = |pool| Choice { pool, priority: 1, weight: 1.0 };
    let pools = Pools { choices: (0..pools).map(choice).collect(), failover: Failover::default() };
    let rule = Rule { name: "spread".to_owned(), target: Target::Pools(pools.clone()), ..Rule::default() };
    let rules = if pools.choices.len() > 1 { vec![rule] } else { Vec::new() };
    Routes { table: Table::new(rules, &[]), access: Vec::new() }
}

fn of_balancer(plan: &BalancerPlan, key: u8) -> ControlSettings {
    let member = |(index, member): (usize, &crate::PlannedMember)| MemberSettings {
        address: Address::Socket(member.destination.address()),
        capacity: member.capacity,
        max_calls: 0,
        pool: PoolId(index as u16 % plan.pools),
    };
    let mode = PoolMode { forward: plan.forward, ..PoolMode::default() };
    let pool = |number: u16| PoolSettings {
        name: format!("pool-{number}"),
        mode,
        policy: plan.policy,
        health: plan.health,
        probes: plan.probes,
        queue: plan.queue.clone(),
    };
    // Each shard keeps as many sessions as the plan says.
    let max_sessions = plan.sessions.max_sessions.saturating_mul(plan.shards.into());
    ControlSettings {
        pools: (0..plan.pools).map(pool).collect(),
        members: plan.members.iter().enumerate().map(member).collect(),
        sessions: SessionSettings { max_sessions, ..plan.sessions.clone() },
        routes: Arc::new(routes(plan.pools)),
        ..common(key)
    }
}

/// One pool of next hops, as `[proxy]` makes it.
fn of_proxy(plan: &ProxyPlan, site: u16, key: u8) -> ControlSettings {
    let member = |destination: &crate::Destination| MemberSettings {
        address: Address::Socket(destination.address()),
        capacity: 1.0,
        max_calls: 0,
        pool: PoolId::default(),
    };
    let forward = match plan.shares {
        Some(_) => Forward::Distributed,
        None if plan.keeps_calls => Forward::Dialog,
        None => Forward::Transaction,
    };
    let calls = CallSettings { silence: SILENCE, ..CallSettings::default() };
    let pool = |name: String| PoolSettings {
        name,
        mode: PoolMode { forward, fork: plan.fork.0, ring_time: plan.fork.1, ..PoolMode::HOPS },
        policy: PolicyKind::Hash,
        health: HealthSettings::default(),
        probes: ProbeSettings::default(),
        queue: None,
    };
    let ways = (1..).zip(&plan.ways);
    let members = ways.clone().flat_map(|(number, (_, hops))| {
        hops.iter().map(move |hop| MemberSettings { pool: PoolId(number), ..member(hop) })
    });
    let rules = ways.clone().map(|(number, (when, _))| way(*when, number));
    let rules = if plan.ways.is_empty() {
        Vec::new()
    } else {
        rules.chain([Rule { name: "others".to_owned(), target: to(0), ..Rule::default() }]).collect()
    };
    ControlSettings {
        pools: (0..=plan.ways.len()).map(|number| pool(format!("hops-{number}"))).collect(),
        members: plan.hops.iter().map(member).chain(members).collect(),
        routes: Arc::new(Routes { table: Table::new(rules, &[]), access: Vec::new() }),
        // Proxies that share out state share no keys: who has another's would take its answers for its own.
        tokens: Arc::new(tokens(key, plan.shares.map_or(0, |_| site + 1))),
        orphans: Orphans::Balance,
        limits: plan.limits,
        dialogs: plan.keeps_calls.then(|| Arc::new(DialogSettings { calls, ..DialogSettings::default() })),
        distribution: plan.shares.map(distribution),
        ..common(key)
    }
}

/// `[pool.<name>]`s and `[[route]]`s.
fn of_mixed(plan: &MixedPlan, site: u16, key: u8) -> ControlSettings {
    let member = |pool: PoolId, max_calls: u32, member: &crate::PlannedMember| MemberSettings {
        address: Address::Socket(member.destination.address()),
        capacity: member.capacity,
        max_calls,
        pool,
    };
    let members = (0..).map(PoolId).zip(&plan.pools).flat_map(|(number, pool)| {
        pool.members.iter().map(move |one| member(number, pool.max_calls, one))
    });
    let pool = |pool: &PoolPlan| PoolSettings {
        name: pool.name.clone(),
        mode: pool.mode,
        policy: pool.policy,
        health: pool.health,
        probes: pool.probes,
        queue: pool.queue.clone(),
    };
    let rule = |route: &RoutePlan| {
        let in_turn = |(priority, name): (u16, &String)| {
            plan.pool(name).map(|(pool, _)| Choice { pool, priority, weight: 1.0 })
        };
        let choices = (1..).zip(&route.pools).filter_map(in_turn).collect();
        let pools = Pools { choices, failover: Failover::default() };
        let name = format!("of {:?}", route.user);
        let conditions = route.user.map_or_else(Conditions::default, of_user);
        Rule { name, conditions, target: Target::Pools(pools), ..Rule::default() }
    };
    let max_sessions = plan.sessions.max_sessions.saturating_mul(plan.shards.into());
    let dialogs = || {
        let pools = plan.pools.iter().map(|pool| pool.name.clone()).collect();
        Arc::new(DialogSettings { calls: plan.calls.clone(), pools, ..DialogSettings::default() })
    };
    ControlSettings {
        pools: plan.pools.iter().map(pool).collect(),
        members: members.collect(),
        sessions: SessionSettings { max_sessions, ..plan.sessions.clone() },
        routes: Arc::new(Routes {
            table: Table::new(plan.routes.iter().map(rule).collect(), &[]),
            access: Vec::new(),
        }),
        tokens: Arc::new(tokens(key, site + 1)),
        dialogs: plan.forwards(Forward::Dialog).then(dialogs),
        distribution: plan.forwards(Forward::Distributed).then(|| distribution(plan.law)),
        ..common(key)
    }
}

fn distribution(law: Law) -> Distribution {
    let settings = distribute::Settings { law, ..Distribution::default().settings };
    Distribution { neighbours: vec![sites()], settings }
}

/// Where the other sites are.
fn sites() -> Network {
    let [a, b, c, d] = SITES;
    format!("{a}.{b}.{c}.{d}/32").parse().expect("a network")
}

fn to(pool: u16) -> Target {
    Target::Pools(Pools::one(pool))
}

/// The rule for what goes to the pool of this number.
fn way(when: When, pool: u16) -> Rule {
    let conditions = match when {
        When::FromSite => Conditions { sources: vec![sites()], ..Conditions::default() },
        When::Behind(site) => of_user(site),
    };
    let conditions = Conditions { origin: Origin::Anyone, ..conditions };
    Rule { name: format!("{when:?}"), conditions, target: to(pool), ..Rule::default() }
}

/// Requests for the user of this number.
fn of_user(number: u16) -> Conditions {
    let user = Field::Uri(Place::RequestUri, Part::User);
    let is = Pattern::Exact(user_behind(number).into_bytes());
    Conditions { texts: vec![(user, vec![is])], ..Conditions::default() }
}

fn common(key: u8) -> ControlSettings {
    ControlSettings {
        pools: Vec::new(),
        members: Vec::new(),
        sessions: SessionSettings::default(),
        routes: Arc::new(routes(1)),
        rates: RateSettings::default(),
        home: None,
        orphans: Orphans::Reject,
        limits: ProxyLimits::default(),
        distribution: None,
        dialogs: None,
        own_names: Vec::new(),
        tokens: Arc::new(tokens(key, 0)),
        token_lifetime: TOKEN_LIFETIME,
        epoch_unix: EPOCH_UNIX,
        tell_failures: false,
        // Everybody in here is known by address.
        refresh: Duration::MAX,
        stop_wait: Duration::MAX,
    }
}

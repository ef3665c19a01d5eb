//! Settings of a site's control plane, from its plan.

use super::{EPOCH_UNIX, TOKEN_LIFETIME, tokens};
use crate::plan::{
    DOMAIN, FeedbackPlan, FilePlan, HomePlan, OverloadPlan, PoolPlan, RoutePlan, SITES, SiteRole, When,
    user_behind,
};
use ::node::{
    AuthenticationSettings, DialogSettings, Distribution, OverloadControl, RegistrarSettings, Routes,
    ShardSettings,
};
use ::overload::hop::ReceiverLaw;
use ::overload::local::occupancy::OccupancySettings;
use ::overload::{FeedbackLaw, OverloadSettings, Scope};
use balance::{PoolId, SessionSettings};
use base::{Peer, Transport};
use control::{Address, ControlSettings, MemberSettings};
use core::time::Duration;
use digest_auth::{AttemptLimit, BanSettings, NonceScope, NonceSettings};
use route::{
    Conditions, Failover, Field, Forward, Network, Origin, Part, Pattern, Pools, Rule, Table, Target,
    TargetPool, UriPlace,
};
use std::sync::Arc;

/// Limit on wrong passwords. High enough to refuse no caller, because all callers share one address and some have a
/// wrong password.
const GUESSES: AttemptLimit =
    AttemptLimit { failures: 32_000, every: Duration::from_secs(1), at_once: 60_000 };

/// As in the default configuration.
const NONCE_LIFETIME: Duration = Duration::from_mins(5);

/// Extra cost of a call whose credentials are verified.
const AUTHENTICATION_COST: f64 = 1.0;

pub(super) fn settings(role: &SiteRole, site: u16, key: u8, transport: Transport) -> ControlSettings {
    // Proxies that share out only call state have keys of their own, as an operator may configure it. Proxies that
    // share out authentication must trust each other's marks, so they share keys: group 0.
    let of_its_own = site + 1;
    match role {
        SiteRole::Proxy(file) if file.forwards(Forward::Distributed) => {
            let group = if file.users.is_some() { 0 } else { of_its_own };
            of_file((file, transport), group, key)
        }
        SiteRole::Balancer(file) | SiteRole::Proxy(file) => of_file((file, transport), 0, key),
        SiteRole::Mixed(file) => of_file((file, transport), of_its_own, key),
        SiteRole::Home(plan) => of_home(plan, key),
    }
}

/// Settings that `[registrar]` alone makes: a route to users, which requires authentication if users have passwords.
fn of_home(plan: &HomePlan, key: u8) -> ControlSettings {
    let rule = Rule {
        name: "users".to_owned(),
        conditions: Conditions { origin: Origin::Anyone, ..Conditions::default() },
        authenticate: plan.authenticates,
        target: Target::Location,
        ..Rule::default()
    };
    let trusted = Box::default();
    common(ShardSettings {
        routes: Arc::new(Routes { table: Table::new(vec![rule], &[]), access: Vec::new() }),
        registrar: Some(home(plan.authenticates, Forward::Transaction, trusted)),
        ..shards(key, 0)
    })
}

/// `[registrar]`.
fn home(authenticates: bool, forward: Forward, trusted: Box<[Network]>) -> Arc<RegistrarSettings> {
    let registrar = location::RegistrationSettings {
        domains: vec![DOMAIN.as_bytes().into()],
        // Plans last for minutes, so bindings must be able to expire soon.
        expires_min: 1,
        ..location::RegistrationSettings::default()
    };
    let authentication = authenticates.then(|| AuthenticationSettings {
        digest: digest_auth::AuthSettings::new(DOMAIN.as_bytes()),
        nonces: NonceSettings { lifetime: NONCE_LIFETIME, scope: NonceScope::Source },
        bans: BanSettings { pair: GUESSES, source: GUESSES, network: GUESSES, user: GUESSES, known: GUESSES },
    });
    Arc::new(RegistrarSettings { registrar, authentication, forward, trusted })
}

/// Settings from pools, next hops and `[[route]]`s.
fn of_file((file, transport): (&FilePlan, Transport), group: u16, key: u8) -> ControlSettings {
    let member = |(number, pool): (PoolId, &PoolPlan), member: &crate::PlannedMember| MemberSettings {
        address: Address::Socket(Peer::new(transport, member.destination.address())),
        name: None,
        capacity: member.capacity,
        max_calls: pool.max_calls,
        max_rate: pool.max_rate,
        pool: number,
    };
    let members = (0..)
        .map(PoolId)
        .zip(&file.pools)
        .flat_map(|(number, pool)| pool.members.iter().map(move |one| member((number, pool), one)));
    // The plan's limit is for each shard.
    let max_sessions = file.sessions.max_sessions.saturating_mul(file.shards.into());
    let dialogs = || {
        let pools = file.pools.iter().map(|pool| pool.settings.name.clone()).collect();
        Arc::new(DialogSettings { calls: file.calls.clone(), pools, ..DialogSettings::default() })
    };
    let distribution = || Distribution {
        neighbours: vec![sites()],
        dialogs: file.shares_dialogs,
        authentication: file.users.map(|_| AUTHENTICATION_COST),
        settings: distribute::DistributionSettings { law: file.law, ..Distribution::default().settings },
    };
    let rules = file.routes.iter().map(|route| rule(file, route)).collect();
    let shards = ShardSettings {
        sessions: SessionSettings { max_sessions, ..file.sessions.clone() },
        routes: Arc::new(Routes { table: Table::new(rules, &[]), access: Vec::new() }),
        limits: file.limits,
        dialogs: file.keeps_dialogs().then(dialogs),
        distribution: file.forwards(Forward::Distributed).then(distribution),
        registrar: file.users.map(|_| home(true, Forward::Distributed, [sites()].into())),
        overload: overload(&file.overload),
        ..shards(key, group)
    };
    let pools = file.pools.iter().map(|pool| pool.settings.clone()).collect();
    ControlSettings { pools, members: members.collect(), ..common(shards) }
}

/// Settings from `[overload]`.
fn overload(plan: &OverloadPlan) -> OverloadControl {
    let usual = OverloadControl::default();
    // On the wire a limit counts all requests.
    let with = |law| OverloadControl {
        laws: OverloadSettings { feedback: FeedbackLaw::Hop(law), scope: Scope::AllRequests, ..usual.laws },
        neighbours: [sites()].into(),
    };
    match plan.feedback {
        FeedbackPlan::None => usual,
        FeedbackPlan::Loss => with(ReceiverLaw::Loss(OccupancySettings::default())),
        FeedbackPlan::Rate => with(ReceiverLaw::Rate),
    }
}

fn rule(file: &FilePlan, route: &RoutePlan) -> Rule {
    let choice = |(place, name): (u16, &String)| {
        let priority = if route.spreads { 1 } else { place };
        file.pool(name).map(|(pool, _)| TargetPool { pool, priority, weight: 1.0 })
    };
    let choices = (1..).zip(&route.pools).filter_map(choice).collect();
    let conditions = match route.when {
        None => Conditions::default(),
        Some(When::FromSite) => {
            Conditions { origin: Origin::Anyone, sources: vec![sites()], ..Conditions::default() }
        }
        Some(When::Behind(number)) => {
            let user = Field::Uri(UriPlace::RequestUri, Part::User);
            let is = Pattern::Exact(user_behind(number).into_bytes());
            let texts = vec![(user, vec![is])];
            Conditions { origin: Origin::Anyone, texts, ..Conditions::default() }
        }
    };
    let target = Target::Pools(Pools { choices, failover: Failover::default() });
    let authenticate = file.users.is_some();
    Rule { name: format!("{:?}", route.when), conditions, authenticate, target, ..Rule::default() }
}

/// The network of all sites.
fn sites() -> Network {
    let [a, b, c, d] = SITES;
    format!("{a}.{b}.{c}.{d}/32").parse().expect("a network")
}

fn shards(key: u8, group: u16) -> ShardSettings {
    ShardSettings::new(tokens(key, group), EPOCH_UNIX)
}

fn common(shards: ShardSettings) -> ControlSettings {
    ControlSettings {
        pools: Vec::new(),
        members: Vec::new(),
        shards,
        own_names: Vec::new(),
        token_lifetime: TOKEN_LIFETIME,
        // All hosts are known by address.
        refresh: Duration::MAX,
        stop_wait: Duration::MAX,
    }
}

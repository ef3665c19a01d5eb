//! Right files and their typed values.

use crate::keys;
use std::path::Path;

use balance::{HealthSettings, PolicyKind, SessionSettings, Weights};
use base::Rate;
use config::{Config, PoolConfig, PoolOrigin, load, parse};
use control::ProbeSettings;
use node::ProxySettings;
use route::{Access, Conditions, Failover, Network, Pools, Service, SourceLimit, Target};
use wire::Method;

#[test]
fn six_lines_are_enough_and_the_rest_has_defaults() {
    let config = load(Path::new("tests/right/minimal.toml")).expect("a valid file");
    insta::assert_debug_snapshot!("minimal", config);
}

#[test]
fn every_key_is_read() {
    let config = load(Path::new("tests/right/complete.toml")).expect("a valid file");
    assert_eq!(config.token.key, Some(*b"0123456789abcdef"));
    assert_eq!(config.token.previous_keys, [*b"0123456789abcdef"]);
    insta::assert_debug_snapshot!("complete", config);
}

/// Listeners are sorted by transport, and the access to each has the same index.
#[test]
fn every_key_of_transports_is_read() {
    let config = load(Path::new("tests/right/transports.toml")).expect("a valid file");
    let conditions = &config.routes[0].conditions;
    let members: Vec<_> = config.members().iter().map(|member| member.address.to_string()).collect();
    insta::assert_debug_snapshot!(
        "transports",
        (&config.listen, &config.access, &config.connections, &config.tls, members, conditions)
    );
}

#[test]
fn a_listener_of_any_transport_is_enough() {
    let users = "[registrar]\ndomains = [\"example.com\"]\n";
    let certificates = "[tls]\ncertificates = [{ chain = \"a.pem\", key = \"a.key\" }]\n";
    for (key, transport) in
        ["udp", "tcp", "tls", "ws", "wss"].into_iter().zip(["UDP", "TCP", "TLS", "WS", "WSS"])
    {
        let text = format!("[listen]\n{key} = [\"10.0.0.9:5060\"]\n{users}{certificates}");
        let config = parse(&text, "some.toml").expect("a valid file");
        assert_eq!(config.listen.listeners.len(), 1);
        assert_eq!(config.listen.listeners[0].transport.name(), transport);
    }
}

#[test]
fn a_proxy_replaces_a_pool() {
    let config = load(Path::new("tests/right/proxy.toml")).expect("a valid file");
    insta::assert_debug_snapshot!("proxy", (config.transactions, &config.pools[0]));
    let sharing = config.distribution.as_ref().map(|distribution| distribution.settings);
    assert_eq!(sharing.map(|settings| settings.period), Some(std::time::Duration::from_millis(2_500)));
    assert_eq!(config.summary(), "proxy, 2 next hops");
    assert!(config.members().is_empty());
}

#[test]
fn every_key_of_routes_is_read() {
    let config = load(Path::new("tests/right/routes.toml")).expect("a valid file");
    let names: Vec<_> = config
        .pools
        .iter()
        .map(|pool| (&pool.settings.name[..], pool.origin, pool.settings.service))
        .collect();
    insta::assert_debug_snapshot!("routes", (&config.routes, names, &config.access, &config.rates));
    assert_eq!(config.summary(), "11 routes, 4 pools");
}

#[test]
fn every_key_of_the_registrar_is_read() {
    let config = load(Path::new("tests/right/registrar.toml")).expect("a valid file");
    let registrar = config.registrar.as_ref().expect("the table is present");
    insta::assert_debug_snapshot!("registrar", (registrar, &config.routes, &config.distribution));
    assert_eq!(config.summary(), "users of 3 domains, 2 routes, 1 pool");
}

/// Rules of a file without routes: calls to users, from users and members.
#[test]
fn every_key_of_calls_is_read() {
    let config = load(Path::new("tests/right/calls.toml")).expect("a valid file");
    insta::assert_debug_snapshot!(
        "calls",
        (&config.calls, config.registrar.map(|users| users.settings.forward))
    );
}

#[test]
fn every_key_of_scaling_is_read() {
    let config = load(Path::new("tests/right/scale.toml")).expect("a valid file");
    let scales: Vec<_> = config.pools.iter().map(|pool| (&pool.settings.name, &pool.scale)).collect();
    insta::assert_debug_snapshot!("scale", scales);
}

/// Missing keys have the defaults of the scaler's crate.
#[test]
fn an_empty_scale_table_has_the_defaults_of_its_crate() {
    let pool = pool("scale = { driver = \"none\" }");
    let settings = pool.scale.expect("the table is present").settings;
    assert_eq!(settings, elastic::scale::ScaleSettings::default());
}

#[test]
fn without_routes_a_registrar_has_its_own() {
    let config = load(Path::new("../../../examples/registrar.toml")).expect("a valid file");
    let [rule] = &config.routes[..] else { panic!("{:?}", config.routes) };
    assert_eq!((rule.authenticate, &rule.target), (true, &Target::Location));
    assert_eq!(rule.conditions.origin, route::Origin::Anyone);
    assert_eq!(config.summary(), "users of example.com");
    let open =
        parse("[listen]\nudp = [\"10.0.0.9:5060\"]\n[registrar]\ndomains = [\"[::1]:5070\"]\n", "open.toml");
    let open = open.expect("a valid file");
    assert!(!open.routes[0].authenticate);
    let hosts = &open.routes[0].conditions.texts[0].1;
    assert_eq!(hosts, &[route::Pattern::Exact(b"[::1]".to_vec())]);
}

#[test]
fn the_examples_of_routes_are_valid() {
    for (file, pools, routes) in
        [("several-sites", 2, 4), ("media-cluster", 2, 4), ("carrier-failover", 3, 3)]
    {
        let config = load(&Path::new("../../../examples").join(file).with_extension("toml"));
        let config = config.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!((config.pools.len(), config.routes.len()), (pools, routes), "{file}");
    }
}

/// A name may stand for several members or for none, so the file does not have their number.
#[test]
fn the_summary_distinguishes_names_and_members() {
    let summary = |members: &str| {
        let text = format!(
            "[listen]\nudp = [\"0.0.0.0:5060\"]\n[pool.a]\npolicy = \"cjsq\"\nmembers = [{members}]\n"
        );
        parse(&text, "summary.toml").expect("a valid file").summary()
    };
    assert_eq!(summary("\"10.0.0.1\""), "1 member, policy cjsq");
    assert_eq!(summary("\"10.0.0.1\", \"10.0.0.2\""), "2 members, policy cjsq");
    let mixed = summary("\"10.0.0.1\", \"sip.example.com\", \"_sip._udp.example.com\"");
    assert_eq!(mixed, "1 member and members by 2 names, policy cjsq");
    assert_eq!(summary("\"sip.example.com\""), "members by 1 name, policy cjsq");
}

/// The complete files name each key of the schema.
#[test]
fn the_complete_file_has_every_key_of_the_schema() {
    assert_eq!(
        keys::absent(
            &config::schema(),
            &["complete", "transports", "proxy", "routes", "registrar", "calls", "scale"]
                .map(|name| format!("tests/right/{name}.toml"))
        ),
        Vec::<String>::new()
    );
}

fn config(lines: &str) -> Config {
    parse(&format!("[listen]\nudp = [\"0.0.0.0:5060\"]\n{lines}"), "some.toml").expect("a valid file")
}

fn pool(lines: &str) -> PoolConfig {
    config(&format!("[pool.a]\nmembers = [\"10.0.0.1\"]\n{lines}")).pool().expect("a pool").clone()
}

#[test]
fn each_spelling_of_tlwl_sets_its_weights() {
    let weights = |lines| pool(lines).sessions.weights;
    assert_eq!(weights(""), Weights::invite(1.75));
    assert_eq!(weights("policy = \"tlwl\""), Weights::invite(1.75));
    assert_eq!(weights("policy = \"tlwl-1.75\""), Weights::invite(1.75));
    assert_eq!(weights("policy = \"tlwl-2\""), Weights::invite(2.0));
    let mut own = Weights::invite(1.75);
    own.set(Method::Bye, 1.5);
    assert_eq!(weights("weights.BYE = 1.5"), own);
}

#[test]
fn each_policy_is_chosen_by_its_name() {
    for kind in PolicyKind::ALL {
        assert_eq!(pool(&format!("policy = {:?}", kind.name())).settings.policy, kind);
    }
    assert_eq!(config::policy("tlwl-2"), Some((PolicyKind::Tlwl, Weights::invite(2.0))));
    assert_eq!(config::policy("tlwl-3"), None);
}

#[test]
fn an_empty_file_has_the_defaults_of_the_crates() {
    let pool = pool("");
    assert_eq!(pool.settings.policy, PolicyKind::default());
    assert_eq!(
        (pool.settings.health, pool.settings.probes),
        (HealthSettings::default(), ProbeSettings::default())
    );
    let max_sessions = SessionSettings::MAX_SESSIONS;
    assert_eq!(pool.sessions, SessionSettings { max_sessions, ..SessionSettings::default() });
    let config = config("[proxy]\nnext = [\"10.0.0.1\"]");
    assert_eq!(config.transactions, ProxySettings::default());
}

/// Senders that may send as much as many callers are exempt. Rates in the file replace the default.
#[test]
fn each_source_has_a_limit_by_default() {
    let rest = "[pool.a]\nmembers = [\"10.0.0.1\"]\n[[route]]\nsource = \"198.51.100.0/24\"\npool = \"a\"\n\
                [overload]\nneighbours = [\"10.0.0.0/24\"]\n";
    let rates = |access: &str| config(&format!("{rest}{access}")).rates;
    let rate = |per_second| Rate { per_second, burst: 5 * per_second };
    let limit = |per_second| Some(SourceLimit { v4: 32, v6: 64, rate: rate(per_second) });
    let networks = |all: &[&str]| all.iter().map(|one| one.parse().unwrap()).collect::<Vec<Network>>();
    let (default, set) = (rates(""), rates("[access.rate]\nper_address = 20\n"));
    assert_eq!((default.address, default.counts_copies), (limit(1_000), true));
    assert_eq!(default.exempt, networks(&["10.0.0.0/24", "198.51.100.0/24", "127.0.0.0/8", "::1"]));
    assert_eq!((set.address, set.counts_copies), (limit(20), false));
    assert_eq!(set.exempt, networks(&["10.0.0.0/24"]));
    assert_eq!(rates("[access.rate]\nper_network = 200\n").address, None);
    assert_eq!(rates("[access.rate]\nper_address = 0\n").address, None);
}

#[test]
fn an_empty_route_has_the_defaults_of_its_crate() {
    let lines = "[pool.a]\nmembers = [\"10.0.0.1\"]\n[pool.b]\nmembers = [\"10.0.0.2\"]\n[[route]]\npool = [\"b\", \"a\"]";
    let config = config(lines);
    let Target::Pools(pools) = &config.routes[0].target else { panic!("{:?}", config.routes) };
    assert_eq!(pools.failover, Failover::default());
    assert_eq!(
        pools.choices.iter().map(|choice| (choice.pool, choice.priority)).collect::<Vec<_>>(),
        [(1, 1), (0, 2)]
    );
    assert_eq!(config.routes[0].conditions, Conditions::default());
    assert_eq!(config.access, [Access::default()]);
    assert_eq!(config.pools[0].settings.service, Service::BalanceTransactions);
}

/// The settings of transactions apply to a pool, even without next hops of a proxy.
#[test]
fn a_pool_forwards_with_transactions_by_default() {
    let config = config("[pool.a]\nmembers = [\"10.0.0.1\"]\n[proxy]\ntimer_c = \"5m\"");
    assert_eq!(config.pool().map(|pool| pool.settings.service), Some(Service::BalanceTransactions));
    assert_eq!((config.pools.len(), config.transactions.timers.c), (1, std::time::Duration::from_mins(5)));
}

/// Next hops are pools, whose members are checked like all others.
#[test]
fn next_hops_are_a_pool() {
    let both = config(
        "[proxy]\nnext = [\"10.0.0.1\"]\n[[route]]\nuser = \"1\"\nnext = \"sip:sbc.example.net\"\n[[route]]\npool = \"proxy\"",
    );
    let pools: Vec<_> = both
        .pools
        .iter()
        .map(|pool| (&pool.settings.name[..], pool.members[0].address.to_string(), pool.settings.policy))
        .collect();
    assert_eq!(
        pools,
        [
            ("proxy", "10.0.0.1:5060".to_owned(), PolicyKind::Hash),
            ("route.route-1", "sbc.example.net".to_owned(), PolicyKind::Hash),
        ]
    );
    let target = |index: usize| both.routes[index].target.clone();
    assert_eq!((target(0), target(1)), (Target::Pools(Pools::one(1)), Target::Pools(Pools::one(0))));
    let alone = config("[proxy]\nnext = [\"10.0.0.1\"]");
    assert_eq!((alone.pools.len(), alone.pools[0].origin, alone.pool()), (1, PoolOrigin::Proxy, None));
}

#[test]
fn t1_changes_all_times_that_depend_on_it() {
    let t1 = std::time::Duration::from_millis(200);
    let pool = pool("[timers]\nt1 = \"200ms\"");
    assert_eq!(pool.settings.probes.t1, t1);
    assert_eq!((pool.sessions.transaction_timeout, pool.sessions.linger), (64 * t1, 64 * t1));
    let config = config("[proxy]\nnext = [\"10.0.0.1\"]\n[timers]\nt1 = \"200ms\"");
    assert_eq!(config.transactions.timers.transaction.t1, t1);
}

#[test]
fn a_key_in_the_file_is_read_and_kept_out_of_logs() {
    let text = "[listen]\nudp = [\"0.0.0.0:5060\"]\n[pool.a]\nmembers = [\"10.0.0.1\"]\n\
                [token]\nkey = \"30313233343536373839616263646566\"";
    let token = parse(text, "key.toml").expect("a valid file").token;
    assert_eq!(token.key, Some(*b"0123456789abcdef"));
    let shown = format!("{token:?}");
    assert!(shown.contains("secret") && !shown.contains("48"), "{shown}");
}

/// Warnings of a chain about neighbours in very large networks, and about a next hop that is no neighbour.
#[test]
fn unknown_and_wide_neighbours_cause_a_warning() {
    let warnings = |neighbours: &str| {
        let text = format!(
            "[listen]\nudp = [\"0.0.0.0:5060\"]\n[proxy]\nnext = [\"10.0.0.1\"]\nforward = \"distributed\"\n\
             [distribution]\nneighbours = [{neighbours}]\n"
        );
        parse(&text, "chain.toml").expect("a valid file").warnings()
    };
    assert_eq!(warnings("\"10.0.0.0/8\", \"fc00::/7\""), [""; 0]);
    let wide = warnings("\"0.0.0.0/0\", \"::/0\", \"10.0.0.1\"");
    assert_eq!(wide.len(), 2, "{wide:?}");
    assert!(wide.iter().all(|warning| warning.contains("more than your proxies")), "{wide:?}");
    let stranger = warnings("\"10.0.0.2\"");
    assert!(
        matches!(&stranger[..], [one] if one.contains("10.0.0.1:5060, a next hop of `proxy`")),
        "{stranger:?}"
    );
}

/// A message that is lost between a connection and a stateless pool is never retransmitted.
#[test]
fn stateless_forwarding_beside_connections_causes_a_warning() {
    let warnings = |listen: &str, member: &str, forward: &str| {
        let text = format!(
            "[listen]\nudp = [\"0.0.0.0:5060\"]\n{listen}\n[pool.a]\nmembers = [\"{member}\"]\n{forward}\n"
        );
        parse(&text, "file.toml").expect("a valid file").warnings()
    };
    let (tcp, stateless) = ("tcp = [\"0.0.0.0:5060\"]", "forward = \"stateless\"");
    assert_eq!(warnings("", "10.0.0.1", stateless), [""; 0]);
    for (member, forward) in [("10.0.0.1", ""), ("10.0.0.1;transport=tcp", "forward = \"transaction\"")] {
        assert_eq!(warnings(tcp, member, forward), [""; 0]);
    }
    for member in ["10.0.0.1", "10.0.0.1;transport=tcp"] {
        let warnings = warnings(tcp, member, stateless);
        assert!(
            matches!(&warnings[..], [one] if one.starts_with("pool.a.forward = \"stateless\"") && one.contains("set forward = \"transaction\"")),
            "{warnings:?}"
        );
    }
}

/// One key for all is warned of, and so is a member without a key if others have one.
#[test]
fn shared_and_missing_keys_of_monitors_cause_a_warning() {
    let warnings = |keys: &str| {
        let lines = "[pool.a]\nmembers = [\"10.0.0.1\", \"10.0.0.2\", \"sip.example.com\"]\nqueue = { source = \"monitor\" }\n\
                     [capacity]\nlisten = \"10.0.0.9:8061\"\n";
        config(&format!("{lines}{keys}")).warnings()
    };
    let (one, other) = ("404142434445464748494a4b4c4d4e4f", "505152535455565758595a5b5c5d5e5f");
    // An address that no member has may belong to the name.
    for third in ["sip.example.com", "10.0.0.3"] {
        let all = format!(
            "keys = {{ \"10.0.0.1\" = \"{one}\", \"10.0.0.2\" = \"{other}\", \"{third}\" = \"606162636465666768696a6b6c6d6e6f\" }}"
        );
        assert_eq!(warnings(&all), [""; 0], "{third}");
    }
    let first = warnings(&format!("keys = {{ \"10.0.0.1\" = \"{one}\" }}"));
    assert!(
        matches!(&first[..], [address, name] if address.contains("10.0.0.2:5060, a member of pool.a, has no key")
            && name.contains("sip.example.com, a member")),
        "{first:?}"
    );
    for shared in [
        format!("keys.\"*\" = \"{one}\""),
        format!("keys = {{ \"*\" = \"{one}\", \"10.0.0.1\" = \"{other}\" }}"),
    ] {
        let warnings = warnings(&shared);
        assert!(
            matches!(&warnings[..], [warning] if warning.starts_with("capacity.keys.\"*\": ")),
            "{warnings:?}"
        );
    }
}

#[test]
fn the_keys_of_monitors_are_kept_out_of_logs() {
    let config = load(Path::new("tests/right/complete.toml")).expect("a valid file");
    let capacity = config.capacity.expect("the table is present");
    assert_eq!((capacity.keys.own.len(), capacity.keys.shared.is_some()), (3, true));
    let shown = format!("{capacity:?}");
    assert!(shown.contains("Key(..)") && !shown.contains("48") && !shown.contains("64, 65"), "{shown}");
}

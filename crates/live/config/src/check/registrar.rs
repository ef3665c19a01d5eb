//! `[registrar]`, and its rules for a file without routes.

use std::net::IpAddr;
use std::time::Duration;

use super::site::Site;
use crate::kind::{Place, PlaceText};
use crate::raw::RawRegistrar;
use crate::report::Report;
use crate::setting::Setting;
use crate::typed::{Listen, RegistrarConfig, StorePlace, UsersPlace};
use digest_auth::{Algorithm, BanSettings, NonceScope, NonceSettings, Offer, UriRule};
use node::{AuthenticationSettings, RegistrarSettings};
use route::{Conditions, Field, Forward, Origin, Part, Pattern, Rule, Target, UriPlace};

/// URL schemes that the client of the store supports.
const REDIS: [&str; 7] = ["redis", "valkey", "rediss", "valkeys", "redis+unix", "valkey+unix", "unix"];

/// Reads the table.
pub(super) fn check(
    raw: &RawRegistrar,
    listen: &Listen,
    site: &Site<'_>,
    report: &mut Report<'_>,
) -> Option<RegistrarConfig> {
    let domains = domains(raw, report);
    let users = raw.users.as_ref().map(|setting| users(setting, site, report));
    let store = raw.store.as_ref().map(|setting| store(setting, site, report));
    let realm = raw.realm.as_ref().map(Setting::value);
    let bindings = bindings(raw, report);
    let offer = offer(raw, report);
    let forward = raw.forward.value();
    let trusted = super::access::networks(&raw.trusted).into();
    let realm = realm.unwrap_or_else(|| domains.first().cloned())?;
    let registrar = location::RegistrationSettings {
        domains: domains.iter().map(|domain| domain.as_bytes().into()).collect(),
        // All domains share one realm: a user has an address of this name in each of them.
        shared_realm: Some(realm.as_bytes().into()),
        ..bindings?
    };
    let uri = UriRule::Hosts(hosts(&domains, listen));
    let algorithms = offer?;
    let offer = algorithms.clone().unwrap_or_else(|| Offer::of(Algorithm::Md5));
    let digest = digest_auth::AuthSettings { offer, uri, ..digest_auth::AuthSettings::new(realm.as_bytes()) };
    let nonces = NonceSettings { lifetime: raw.nonce_lifetime.value()?, scope: NonceScope::Source };
    let authentication = AuthenticationSettings { digest, nonces, bans: BanSettings::default() };
    let users = users.map_or(Some(None), |users| users.map(Some))?;
    let store = store.map_or(Some(None), |store| store.map(Some))?;
    let authentication = users.is_some().then_some(authentication);
    Some(RegistrarConfig {
        settings: RegistrarSettings { registrar, authentication, forward: forward?, trusted },
        algorithms,
        users,
        store,
    })
}

/// Hosts that clients write into the `uri` of their credentials: their domain, or the address of this process.
fn hosts(domains: &[String], listen: &Listen) -> Vec<Box<[u8]>> {
    let own = listen.listeners.iter().map(|listener| listener.advertise.unwrap_or(listener.bind).ip());
    let own = own.filter(|ip| !ip.is_unspecified()).map(|ip| match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    });
    let domains = domains.iter().map(|domain| bare(domain).to_owned());
    domains.chain(own).map(|host| host.into_bytes().into()).collect()
}

/// A domain without its port, which is after the last colon, unless that is part of an address.
fn bare(domain: &str) -> &str {
    domain.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(domain, |(host, _)| host)
}

fn domains(raw: &RawRegistrar, report: &mut Report<'_>) -> Vec<String> {
    if raw.domains.is_empty() {
        report.missing("registrar.domains", "expected at least one domain: domains = [\"example.com\"]");
    }
    let mut domains: Vec<String> = Vec::new();
    for setting in &raw.domains {
        let Some(domain) = setting.value() else { continue };
        if domains.contains(&domain) {
            report.conflict(setting, "expected each domain once; remove this one");
        }
        domains.push(domain);
    }
    domains
}

/// Limits of registrations, without the domains.
fn bindings(raw: &RawRegistrar, report: &mut Report<'_>) -> Option<location::RegistrationSettings> {
    let shortest = raw.expires_min.value();
    let longest = raw.expires_max.value();
    let usual = raw.expires_default.value();
    let (shortest, usual, longest) = (shortest?, usual?, longest?);
    if !(shortest..=longest).contains(&usual) {
        let remedy = "expected a time from `expires_min` to `expires_max`; change one of the three";
        report.conflict(&raw.expires_default, remedy);
    }
    Some(location::RegistrationSettings {
        expires_min: secs(shortest),
        expires_default: secs(usual),
        expires_max: secs(longest),
        contacts_max: raw.max_contacts.value()? as usize,
        reach: raw.reach.value()?,
        path: raw.path.value()?,
        ..location::RegistrationSettings::default()
    })
}

/// The algorithms of the file, if it has any.
#[expect(clippy::option_option, reason = "outer `None`: a value is wrong and has been reported")]
fn offer(raw: &RawRegistrar, report: &mut Report<'_>) -> Option<Option<Offer>> {
    if !raw.algorithms.iter().any(Setting::is_set) {
        return Some(None);
    }
    let algorithms: Vec<_> = raw.algorithms.iter().map(Setting::value).collect();
    match Offer::new(algorithms.into_iter().collect::<Option<_>>()?) {
        Ok(offer) => Some(Some(offer)),
        Err(error) => {
            report.key_problem("registrar.algorithms", error.to_string());
            None
        }
    }
}

fn users(setting: &Setting<Place>, site: &Site<'_>, report: &mut Report<'_>) -> Option<UsersPlace> {
    match setting.value()? {
        PlaceText::Path(path) => Some(UsersPlace::File(site.directory.join(path))),
        PlaceText::Url { scheme, url } if ["postgres", "postgresql"].contains(&&*scheme) => {
            Some(UsersPlace::Database(site.server(url)))
        }
        PlaceText::Url { .. } => {
            report.secret_conflict(
                setting,
                "expected a file, or a database: \"postgres://user@host/database\"",
            );
            None
        }
    }
}

fn store(setting: &Setting<Place>, site: &Site<'_>, report: &mut Report<'_>) -> Option<StorePlace> {
    match setting.value()? {
        PlaceText::Path(path) if path == "memory" => Some(StorePlace::Memory),
        PlaceText::Path(path) => Some(StorePlace::File(site.directory.join(path))),
        PlaceText::Url { scheme, url } if REDIS.contains(&&*scheme) => {
            Some(StorePlace::Redis(site.server(url)))
        }
        PlaceText::Url { .. } => {
            report
                .secret_conflict(setting, "expected \"memory\", a file, or a server: \"redis://host:6379\"");
            None
        }
    }
}

/// Credentials are valid for one request: a retransmission must match the transaction of the first, not be challenged
/// again.
pub(super) fn report_stateless_targets(rules: &[Rule], registrar: &RegistrarConfig, report: &mut Report<'_>) {
    let is_asked = |rule: &Rule| rule.authenticate && rule.target == Target::Location;
    if registrar.settings.forward == Forward::Stateless && rules.iter().any(is_asked) {
        let remedy = "callers must authenticate, and without transactions a retransmission looks like a reused \
                      password; set forward = \"transaction\", or a route with `location` and authenticate = false";
        report.key_problem("registrar.forward", remedy);
    }
}

/// Rules without routes: requests to users of the domains, from users and members of pools only.
pub(super) fn usual_rules(registrar: &RegistrarConfig) -> Vec<Rule> {
    let host = |domain: &[u8]| Pattern::Exact(bare(&String::from_utf8_lossy(domain)).as_bytes().to_vec());
    let hosts = registrar.settings.registrar.domains.iter().map(|domain| host(domain)).collect();
    vec![Rule {
        name: "users".to_owned(),
        conditions: Conditions {
            origin: Origin::Anyone,
            texts: vec![(Field::Uri(UriPlace::RequestUri, Part::Host), hosts)],
            ..Conditions::default()
        },
        authenticate: registrar.users.is_some(),
        target: Target::Location,
        ..Rule::default()
    }]
}

fn secs(time: Duration) -> u32 {
    time.as_secs() as u32
}

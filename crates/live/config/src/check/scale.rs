//! `[pool.<name>.scale]`

use crate::kind::Text;
use crate::raw::RawScale;
use crate::report::Report;
use crate::setting::{Setting, Several, given};
use crate::structure::join;
use crate::typed::{
    ApiServer, CA_FILE, CommandLine, DriverConfig, DriverName, KubernetesConfig, PLACEHOLDERS, PoolConfig,
    ScaleConfig, TOKEN_FILE, Workload,
};
use control::{Address, MemberSettings, PoolSettings};
use elastic::scale::{ForecastSettings, ScaleSettings, StartSettings};
use route::Fork;

/// Most servers of a Deployment by default, as in the scaler.
const MOST_PODS: usize = 10;

/// Reads how the servers of the pool at `pool` are started and stopped.
pub(super) fn check(
    pool: &str,
    raw: &RawScale,
    (members, texts): (&[MemberSettings], Vec<String>),
    report: &mut Report<'_>,
) -> Option<ScaleConfig> {
    let path = join(pool, "scale");
    let name = raw.driver.as_ref().and_then(Setting::value);
    if raw.driver.is_none() {
        report.missing(
            &join(&path, "driver"),
            "expected the driver that starts and stops servers: driver = \
                                               \"command\"",
        );
    }
    let driver = name.and_then(|name| driver(&path, name, raw, report));
    if let (Some(DriverConfig::Kubernetes(kubernetes)), false) = (&driver, members.is_empty()) {
        report_members_not_of_workload(pool, &kubernetes.workload, members, report);
    }
    let settings = settings(raw, servers_most(driver.as_ref(), members), report);
    let settings =
        settings.map(|known| ScaleSettings { choices: choices(driver.as_ref(), members), ..known });
    Some(ScaleConfig { texts, settings: settings?, driver: driver? })
}

/// Largest possible number of servers; `None`: any number.
fn servers_most(driver: Option<&DriverConfig>, members: &[MemberSettings]) -> Option<usize> {
    match driver {
        Some(DriverConfig::None) => None,
        Some(DriverConfig::Kubernetes(kubernetes))
            if matches!(kubernetes.workload, Workload::Deployment(_)) =>
        {
            None
        }
        _ => Some(members.len()),
    }
}

/// Number of servers that the scaler may choose from; `None`: the first free one is as good as any. Pods of a
/// `StatefulSet` are started in turn, and pods of a Deployment are interchangeable.
fn choices(driver: Option<&DriverConfig>, members: &[MemberSettings]) -> Option<u32> {
    match driver? {
        DriverConfig::Command { .. } => u32::try_from(members.len()).ok(),
        DriverConfig::None | DriverConfig::Kubernetes(_) => None,
    }
}

fn settings(raw: &RawScale, there: Option<usize>, report: &mut Report<'_>) -> Option<ScaleSettings> {
    let least = raw.least.value();
    let most = raw.most.as_ref().map(Setting::value);
    let high = raw.high.value();
    let low = raw.low.value();
    let most = most.map_or(Some(there.unwrap_or(MOST_PODS)), |most| most.map(|most| most as usize));
    let least = least.map(|least| least as usize);
    if let (Some(setting), Some(most), Some(there)) = (&raw.most, most, there)
        && most > there
    {
        report.conflict(setting, format!("expected at most {there}, the number of members"));
    }
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        let remedy = "expected at most `most`, by default the number of members";
        report.conflict(&raw.least, remedy);
    }
    if low.zip(high).is_some_and(|(low, high)| low > high) {
        let remedy = "expected `low` to be at most `high`";
        if raw.low.is_set() {
            report.conflict(&raw.low, remedy);
        } else {
            report.conflict(&raw.high, remedy);
        }
    }
    let settings = ScaleSettings {
        least: least?,
        most: most?,
        spare: raw.spare.value()? as usize,
        capacity: raw.capacity.value()?,
        high: high?,
        low: low?,
        idle: raw.idle.value()?,
        start: StartSettings::of(raw.start_time.value()?),
        forecast: raw.forecast.value()?.then(ForecastSettings::default),
        ..ScaleSettings::default()
    };
    Some(settings.with_calm(raw.calm.value()?))
}

fn driver(path: &str, name: DriverName, raw: &RawScale, report: &mut Report<'_>) -> Option<DriverConfig> {
    report_keys_of_other_drivers(path, name, report);
    let line = |key: &str, line: Option<&Several<Text>>, report: &mut Report<'_>| {
        if let Some(line) = line {
            return command_line(path, key, line, report);
        }
        let remedy = format!("expected a program and its arguments: {key} = [\"PROGRAM\", \"{{server}}\"]");
        report.missing(&join(path, key), remedy);
        None
    };
    match name {
        DriverName::None => Some(DriverConfig::None),
        DriverName::Command => {
            let start = line("start", raw.start.as_ref(), report);
            let stop = line("stop", raw.stop.as_ref(), report);
            let list = raw.list.as_ref().map(|list| line("list", Some(list), report));
            let list = list.map_or(Some(None), |list| list.map(Some));
            Some(DriverConfig::Command { start: start?, stop: stop?, list: list? })
        }
        DriverName::Kubernetes => kubernetes(path, raw, report).map(DriverConfig::Kubernetes),
    }
}

/// Reports keys of another driver.
fn report_keys_of_other_drivers(path: &str, name: DriverName, report: &mut Report<'_>) {
    let kubernetes = ["workload", "namespace", "api_server"];
    let programs = ["start", "stop", "list"];
    let programs = programs.iter().filter(|_| name != DriverName::Command);
    let kubernetes = kubernetes.iter().filter(|_| name != DriverName::Kubernetes);
    for key in programs.chain(kubernetes) {
        let key = join(path, key);
        if report.has(&key) {
            report
                .key_problem(&key, "the driver does not use this key; remove it, or choose another `driver`");
        }
    }
}

fn command_line(path: &str, key: &str, line: &Several<Text>, report: &mut Report<'_>) -> Option<CommandLine> {
    let words: &[Setting<Text>] = match line {
        Several::One(program) => std::slice::from_ref(program),
        Several::Many(words) => words,
    };
    let mut read = Vec::new();
    for word in words {
        let text = word.value();
        if let Some(unknown) = text.as_deref().and_then(unknown_placeholder) {
            let remedy =
                format!("{unknown} is not a placeholder; expected one of {}", PLACEHOLDERS.join(", "));
            report.conflict(word, remedy);
        }
        read.push(text);
    }
    let mut words = read.into_iter().collect::<Option<Vec<_>>>()?.into_iter();
    let Some(program) = words.next() else {
        report.key_problem(&join(path, key), "expected a program at least");
        return None;
    };
    Some(CommandLine { program, arguments: words.collect() })
}

/// A lower-case word in braces that is no placeholder, which is a mistake. Other braces are left to the program.
fn unknown_placeholder(text: &str) -> Option<String> {
    text.split('{').skip(1).find_map(|rest| {
        let (word, _) = rest.split_once('}')?;
        let placeholder = format!("{{{word}}}");
        let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
        (is_word && !PLACEHOLDERS.contains(&&*placeholder)).then_some(placeholder)
    })
}

fn kubernetes(path: &str, raw: &RawScale, report: &mut Report<'_>) -> Option<KubernetesConfig> {
    if raw.workload.is_none() {
        let remedy = "expected the workload of the servers: workload = \"statefulset/NAME\"";
        report.missing(&join(path, "workload"), remedy);
    }
    let api_server = raw.api_server.as_ref().map(|setting| url(setting, report));
    let (api_server, token_file) = match api_server.map_or(Some(None), |url| url.map(Some))? {
        Some((Scheme::Http, authority)) => (ApiServer::Plain { authority }, None),
        url => {
            let authority = url.map(|(_, authority)| authority);
            (ApiServer::Tls { authority, ca_file: CA_FILE.into() }, Some(TOKEN_FILE.into()))
        }
    };
    let namespace = given(raw.namespace.as_ref())?;
    Some(KubernetesConfig { workload: raw.workload.as_ref()?.value()?, namespace, api_server, token_file })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// Scheme and HOST:PORT of a URL.
fn url(setting: &Setting<Text>, report: &mut Report<'_>) -> Option<(Scheme, String)> {
    let url = setting.value()?;
    let schemes = [("https://", Scheme::Https, 443), ("http://", Scheme::Http, 80)];
    let read = schemes.into_iter().find_map(|(begin, scheme, port)| {
        let authority = url.strip_prefix(begin)?.trim_end_matches('/');
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
        let (host, port) = authority.rsplit_once(':')?;
        let is_bare = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        let is_right = !host.is_empty() && !is_bare && !authority.contains(['/', '@', '?', '#']);
        (is_right && port.parse::<u16>().is_ok()).then_some((scheme, authority))
    });
    if read.is_none() {
        report.conflict(
            setting,
            "expected a URL without a path, such as \"https://10.96.0.1:443\", or \"http://127.0.0.1:8001\" for `kubectl proxy`",
        );
    }
    read
}

/// Reports members that do not fit the workload.
fn report_members_not_of_workload(
    pool: &str,
    workload: &Workload,
    members: &[MemberSettings],
    report: &mut Report<'_>,
) {
    let is_name = |member: &MemberSettings| !matches!(member.address, Address::Socket(_));
    let remedy = match workload {
        Workload::Deployment(_) if members.len() != 1 || !members.iter().all(is_name) => {
            "the addresses of pods change: expected one member, the name of a headless service that resolves to all \
            pods"
        }
        Workload::StatefulSet(_) if !members.iter().all(is_name) => {
            "the addresses of pods change: expected their names, such as \"pbx-0.pbx.voice.svc.cluster.local\""
        }
        _ => return,
    };
    report.key_problem(&join(pool, "members"), remedy);
}

/// A server is stopped when it has no calls, so calls must be counted.
pub(super) fn report_uncounted_calls(path: &str, pool: &PoolConfig, report: &mut Report<'_>) {
    let has_limit = pool.members.iter().any(|member| member.max_calls > 0 || member.max_rate > 0);
    let PoolSettings { service, policy, .. } = &pool.settings;
    let is_uncounted =
        service.fork().0 != Fork::None || (service.has_hops() && policy.is_by_call() && !has_limit);
    if pool.scale.is_some() && !service.records_route() {
        let remedy = "with record_route = false the BYE of a call does not pass this process, so it is not known \
                      when a server has no calls; remove `record_route`, or `scale`";
        report.key_problem(&join(path, "scale"), remedy);
    }
    if pool.scale.is_some() && is_uncounted {
        let remedy = "the calls of this pool are not counted, so it is not known when a server has no calls; choose \
                      another `policy`, no `fork`, or remove `scale`";
        report.key_problem(&join(path, "scale"), remedy);
    }
}

/// Without `list`, a server runs if it answers probes, so probes must be enabled.
pub(super) fn report_unknown_state(path: &str, pool: &PoolConfig, report: &mut Report<'_>) {
    let is_listed = match pool.scale.as_ref().map(|scale| &scale.driver) {
        Some(DriverConfig::Command { list, .. }) => list.is_some(),
        _ => true,
    };
    if !is_listed && !pool.settings.probes.periodic {
        let remedy = "neither a program nor probes report the running servers: set `list`, or enable `probe`";
        report.key_problem(&join(path, "scale"), remedy);
    }
}

/// Reports members of a scaled pool that are in another pool: the scaler must know all calls of a server.
pub(super) fn report_shared_members(pools: &[PoolConfig], report: &mut Report<'_>) {
    for pool in pools.iter().filter(|pool| pool.scale.is_some()) {
        let has = |other: &&PoolConfig| {
            let is_member =
                |member: &MemberSettings| pool.members.iter().any(|own| own.address == member.address);
            other.settings.name != pool.settings.name && other.members.iter().any(is_member)
        };
        if let Some(other) = pools.iter().find(has) {
            let remedy = format!(
                "`{}` has the same members: a server that is started and stopped belongs to one pool",
                other.settings.name
            );
            report.key_problem(&join(&join("pool", &pool.settings.name), "scale"), remedy);
        }
    }
}

//! `[pool.<name>.scale]`

use std::path::{Path, PathBuf};

use crate::kind::Text;
use crate::raw::RawScale;
use crate::report::Report;
use crate::setting::{Setting, Several, given};
use crate::structure::join;
use crate::typed::{
    ApiServer, CA_FILE, CommandLine, DriverConfig, DriverName, KubernetesConfig, PLACEHOLDERS, PoolConfig,
    ScaleConfig, TOKEN_FILE, Workload,
};
use control::{Address, MemberSettings};
use elastic::scale::{ForecastSettings, ScaleSettings, StartSettings};
use route::{Dialogs, Fork};

/// Most servers of a Deployment, where the file says nothing: the scaler's own.
const MOST_PODS: usize = 10;

/// Who starts and stops the servers of the pool at `pool`.
pub(super) fn check(
    pool: &str,
    raw: &RawScale,
    (members, texts): (&[MemberSettings], Vec<String>),
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<ScaleConfig> {
    let path = join(pool, "scale");
    let name = raw.driver.as_ref().and_then(Setting::value);
    if raw.driver.is_none() {
        report.missing(&join(&path, "driver"), "expected who starts and stops servers: driver = \"command\"");
    }
    let driver = name.and_then(|name| driver(&path, name, raw, directory, report));
    if let (Some(DriverConfig::Kubernetes(kubernetes)), false) = (&driver, members.is_empty()) {
        tell_members(pool, &kubernetes.workload, members, report);
    }
    let settings = settings(raw, servers_most(driver.as_ref(), members), report);
    let settings =
        settings.map(|known| ScaleSettings { choices: choices(driver.as_ref(), members), ..known });
    Some(ScaleConfig {
        texts,
        settings: settings?,
        step: raw.step.value()?,
        timeout: raw.timeout.value()?,
        driver: driver?,
    })
}

/// How many servers there may be at most; `None`: any number.
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

/// How many servers there are to choose from. Those of a `StatefulSet` are started in turn, and of a Deployment each
/// is like another.
fn choices(driver: Option<&DriverConfig>, members: &[MemberSettings]) -> Option<u32> {
    match driver? {
        DriverConfig::Command { .. } | DriverConfig::Local { .. } => u32::try_from(members.len()).ok(),
        DriverConfig::None | DriverConfig::Kubernetes(_) => None,
    }
}

fn settings(raw: &RawScale, there: Option<usize>, report: &mut Report<'_>) -> Option<ScaleSettings> {
    let least = raw.least.value();
    let most = raw.most.as_ref().map(Setting::value);
    let high = raw.high.value();
    let low = raw.low.value();
    let time = raw.start_time.value();
    let time_max = raw.start_time_max.value();
    let most = most.map_or(Some(there.unwrap_or(MOST_PODS)), |most| most.map(|most| most as usize));
    let least = least.map(|least| least as usize);
    if let (Some(setting), Some(most), Some(there)) = (&raw.most, most, there)
        && most > there
    {
        report.conflict(setting, format!("expected at most {there}, since there are so many members"));
    }
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        let remedy = "expected at most `most`, which is the number of members unless it is set";
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
    if time.zip(time_max).is_some_and(|(time, most)| time > most) {
        let remedy = "expected `start_time` to be at most `start_time_max`";
        if raw.start_time.is_set() {
            report.conflict(&raw.start_time, remedy);
        } else {
            report.conflict(&raw.start_time_max, remedy);
        }
    }
    let start = StartSettings {
        time: time?,
        time_max: time_max?,
        back_off: raw.back_off.value()?,
        back_off_max: raw.back_off_max.value()?,
    };
    Some(ScaleSettings {
        least: least?,
        most: most?,
        spare: raw.spare.value()? as usize,
        capacity: raw.capacity.value()?,
        high: high?,
        low: low?,
        smoothing: raw.smoothing.value()?,
        calm: raw.calm.value()?,
        drain_gap: raw.drain_gap.value()?,
        idle: raw.idle.value()?,
        start,
        forecast: raw.forecast.value()?.then(ForecastSettings::default),
        ..ScaleSettings::default()
    })
}

fn driver(
    path: &str,
    name: DriverName,
    raw: &RawScale,
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<DriverConfig> {
    tell_foreign(path, name, report);
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
        DriverName::Local => Some(DriverConfig::Local { start: line("start", raw.start.as_ref(), report)? }),
        DriverName::Command => {
            let start = line("start", raw.start.as_ref(), report);
            let stop = line("stop", raw.stop.as_ref(), report);
            let list = raw.list.as_ref().map(|list| line("list", Some(list), report));
            let list = list.map_or(Some(None), |list| list.map(Some));
            Some(DriverConfig::Command { start: start?, stop: stop?, list: list? })
        }
        DriverName::Kubernetes => kubernetes(path, raw, directory, report).map(DriverConfig::Kubernetes),
    }
}

/// Keys that only another driver has.
fn tell_foreign(path: &str, name: DriverName, report: &mut Report<'_>) {
    let kubernetes = ["stateful_set", "deployment", "namespace", "api_server", "ca_file", "token_file"];
    let foreign: &[&str] = match name {
        DriverName::None => &["start", "stop", "list"],
        DriverName::Command | DriverName::Kubernetes => &[],
        DriverName::Local => &["stop", "list"],
    };
    let programs: &[&str] = if name == DriverName::Kubernetes { &["start", "stop", "list"] } else { foreign };
    let kubernetes = kubernetes.iter().filter(|_| name != DriverName::Kubernetes);
    for key in programs.iter().chain(kubernetes) {
        let key = join(path, key);
        if report.has(&key) {
            report.key_problem(&key, "the driver has no use for it; remove it, or choose another `driver`");
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
            let remedy = format!("{unknown} stands for nothing; expected one of {}", PLACEHOLDERS.join(", "));
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

/// A lower-case word in braces that stands for nothing: a slip. Other braces are the program's.
fn unknown_placeholder(text: &str) -> Option<String> {
    text.split('{').skip(1).find_map(|rest| {
        let (word, _) = rest.split_once('}')?;
        let placeholder = format!("{{{word}}}");
        let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
        (is_word && !PLACEHOLDERS.contains(&&*placeholder)).then_some(placeholder)
    })
}

fn kubernetes(
    path: &str,
    raw: &RawScale,
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<KubernetesConfig> {
    let read = |setting: &Option<Setting<Text>>, report: &mut Report<'_>| {
        setting.as_ref().map_or(Some(None), |setting| {
            let text = setting.value()?;
            // Names of objects and namespaces (RFC 1123): they become part of a path.
            let legal =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
            if text.bytes().all(legal) {
                return Some(Some(text));
            }
            report.conflict(setting, "expected lower-case letters, digits, - and .");
            None
        })
    };
    let (set, deployment) = (read(&raw.stateful_set, report), read(&raw.deployment, report));
    let namespace = read(&raw.namespace, report);
    let (api_server, token_file) = access(raw, directory, report).unzip();
    let workload = match (set?, deployment?, &raw.deployment) {
        (Some(name), None, _) => Workload::StatefulSet(name),
        (None, Some(name), _) => Workload::Deployment(name),
        (Some(_), Some(_), Some(setting)) => {
            report.conflict(setting, "expected either `stateful_set` or `deployment`; remove one");
            return None;
        }
        _ => {
            let remedy = "expected whose replicas the servers are: stateful_set = \"NAME\"";
            report.missing(&join(path, "stateful_set"), remedy);
            return None;
        }
    };
    Some(KubernetesConfig {
        workload,
        namespace: namespace?,
        api_server: api_server?,
        token_file: token_file?,
    })
}

/// Where the API is answered, and which token is shown there.
fn access(raw: &RawScale, directory: &Path, report: &mut Report<'_>) -> Option<(ApiServer, Option<PathBuf>)> {
    let url = raw.api_server.as_ref().map(|setting| url(setting, report));
    let ca_file = raw.ca_file.as_ref().map(Setting::value);
    let token_file = given(raw.token_file.as_ref());
    let (url, ca_file) =
        (url.map_or(Some(None), |url| url.map(Some))?, ca_file.unwrap_or_else(|| Some(CA_FILE.into()))?);
    let token_file = token_file?.map(|path| directory.join(path));
    let Some((Scheme::Http, authority)) = url else {
        let authority = url.map(|(_, authority)| authority);
        let api_server = ApiServer::Tls { authority, ca_file: directory.join(ca_file) };
        return Some((api_server, Some(token_file.unwrap_or_else(|| TOKEN_FILE.into()))));
    };
    if let Some(setting) = &raw.ca_file {
        report.conflict(
            setting,
            "`api_server` is asked without TLS; remove this, or let it begin with https://",
        );
    }
    if let (Some(setting), false) = (&raw.token_file, is_here(&authority)) {
        let remedy = "nothing is encrypted on the way, so a token is shown to this host alone; let `api_server` begin with https://";
        report.conflict(setting, remedy);
    }
    Some((ApiServer::Plain { authority }, token_file))
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

/// Whether this is an address of the host itself.
fn is_here(authority: &str) -> bool {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// The members have to be such as the workload has.
fn tell_members(pool: &str, workload: &Workload, members: &[MemberSettings], report: &mut Report<'_>) {
    let is_name = |member: &MemberSettings| !matches!(member.address, Address::Socket(_));
    let remedy = match workload {
        Workload::Deployment(_) if members.len() != 1 || !members.iter().all(is_name) => {
            "the addresses of pods change: expected one member, the name of a headless service, which stands for all of them"
        }
        Workload::StatefulSet(_) if !members.iter().all(is_name) => {
            "the addresses of pods change: expected their names, such as \"pbx-0.pbx.voice.svc.cluster.local\""
        }
        _ => return,
    };
    report.key_problem(&join(pool, "members"), remedy);
}

/// A server is stopped when it has no calls, so they have to be counted.
pub(super) fn tell_uncounted(path: &str, pool: &PoolConfig, report: &mut Report<'_>) {
    let has_limit = pool.members.iter().any(|member| member.max_calls > 0 || member.max_rate > 0);
    let is_uncounted =
        pool.fork != Fork::None || (pool.dialogs == Dialogs::Route && pool.policy.is_by_call() && !has_limit);
    if pool.scale.is_some() && !pool.record_route {
        let remedy = "with record_route = false the BYE of a call does not come by here, so nobody knows when a server has no calls; \
                      remove that, or this";
        report.key_problem(&join(path, "scale"), remedy);
    }
    if pool.scale.is_some() && is_uncounted {
        let remedy = "nothing is counted of the calls of this pool, so nobody knows when a server has none; choose another \
                      `policy`, no `fork`, or remove this";
        report.key_problem(&join(path, "scale"), remedy);
    }
}

/// Without a list of what runs, a server runs that answers probes.
pub(super) fn tell_unknown(path: &str, pool: &PoolConfig, report: &mut Report<'_>) {
    let is_listed = match pool.scale.as_ref().map(|scale| &scale.driver) {
        Some(DriverConfig::Command { list, .. }) => list.is_some(),
        _ => true,
    };
    if !is_listed && !pool.probes.periodic {
        let remedy = "nothing tells which servers run: set `list`, or let `probe` be enabled";
        report.key_problem(&join(path, "scale"), remedy);
    }
}

/// Whoever starts and stops a server has to know all that it does.
pub(super) fn tell_shared(pools: &[PoolConfig], report: &mut Report<'_>) {
    for pool in pools.iter().filter(|pool| pool.scale.is_some()) {
        let has = |other: &&PoolConfig| {
            let is_member =
                |member: &MemberSettings| pool.members.iter().any(|own| own.address == member.address);
            other.name != pool.name && other.members.iter().any(is_member)
        };
        if let Some(other) = pools.iter().find(has) {
            let remedy = format!(
                "`{}` has the same members: a server that is started and stopped belongs to one pool",
                other.name
            );
            report.key_problem(&join(&join("pool", &pool.name), "scale"), remedy);
        }
    }
}

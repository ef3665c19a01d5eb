//! `sarabande status`: the load of a running server.

mod capacity;
mod connections;
pub(super) mod registrar;
mod scale;
mod watch;

use super::load::table::{milliseconds, table};
use super::text::{plural, span, word_column};
use super::trace::{FAILURES, summary};
use crate::admin::{Exit, Target, escape};
use crate::print;
use anyhow::Result;
use comfy_table::ColumnConstraint;
use serde_json::{Value, json};
use server::figures::{
    CallsView, CapacityView, ConnectionsView, DistributionView, FailuresView, HealthView, MemberView,
    MembersView, NameView, NeighbourView, NextHop, OverloadView, PoolHealth, ProxyView, QueueMemberView,
    RegistrarView, Sessions,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Print the answers of the server as JSON.
    #[arg(long)]
    json: bool,
    /// Print the status every second, until interrupted (Ctrl-C).
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Members that are listed. Without a selection, a pool of more than [`MANY`] members is summed up in one line.
#[derive(clap::Args, Default)]
struct Selection {
    /// List all members of this pool. Without it a pool of more than 20 members is summed up.
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// List only members that are not up.
    #[arg(long)]
    down: bool,
}

impl Selection {
    /// Returns the path of the members.
    fn path(&self) -> String {
        let down = if self.down { "&problems=true" } else { "" };
        let pool = self.pool.as_ref().map(|pool| format!("&pool={}", escape(pool)));
        format!("{MEMBERS}{down}{}", pool.unwrap_or_default())
    }

    fn is_all(&self) -> bool {
        self.pool.is_none() && !self.down
    }
}

/// Most members of a pool that are listed without a selection, and most names in a line.
const MANY: usize = 20;

const MIB: usize = 1 << 20;

/// Paths that exist if the server has a registrar, listeners for connections, or a listener for monitors.
pub(super) const REGISTRAR: &str = "/api/registrar";
const CONNECTIONS: &str = "/api/connections";
const CAPACITY: &str = "/api/capacity";
/// Path of the members, with the age of each member's oldest call.
pub(super) const MEMBERS: &str = "/api/members?oldest=true";

/// Prints the members. Exits with 4 if no new calls are taken.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { target, selection, .. } = arguments;
    if arguments.watch {
        return watch::run(|| Ok(ask(target, selection)?.1));
    }
    let health = if arguments.json {
        let (health, all) = ask_for_json(target, selection)?;
        print_line!("{all:#}")?;
        health
    } else {
        let (health, text) = ask(target, selection)?;
        print::line(text)?;
        health
    };
    if health.healthy { Ok(()) } else { Err(Exit::no(health.reasons.join("; "))) }
}

/// Returns the health, and all answers of the server as JSON.
fn ask_for_json(target: &Target, selection: &Selection) -> Result<(HealthView, Value)> {
    let health = target.health()?;
    let mut all = json!({
        "health": &health,
        "registrar": target.find::<RegistrarView>(REGISTRAR)?,
        "connections": target.find::<ConnectionsView>(CONNECTIONS)?,
        "capacity": target.find::<CapacityView>(CAPACITY)?,
        "failures": last_failures(target)?.failures,
    });
    if health.role == "proxy" {
        all["proxy"] = target.get("/api/proxy")?;
    } else {
        let mut members: Value = target.get(&selection.path())?;
        all["sessions"] = target.get("/api/sessions")?;
        all["members"] = members["members"].take();
        all["names"] = members["names"].take();
        all["scale"] = json!(scale::ask(target)?);
    }
    Ok((health, all))
}

/// Returns the health, and all answers of the server as text.
fn ask(target: &Target, selection: &Selection) -> Result<(HealthView, String)> {
    let health = target.health()?;
    let mut all = if health.role == "proxy" {
        proxy_text(&health, &target.get("/api/proxy")?)
    } else {
        let MembersView { members, names } = target.get(&selection.path())?;
        let shown = Shown::new(members, selection);
        text(&health, &target.get("/api/sessions")?, &shown, &names)
    };
    all += &target.find(REGISTRAR)?.as_ref().map(registrar::text).unwrap_or_default();
    all += &target.find(CONNECTIONS)?.as_ref().map(connections::text).unwrap_or_default();
    all += &target.find(CAPACITY)?.map(|it| capacity::text(&it, &health.pools)).unwrap_or_default();
    all += &scale::text(&scale::ask(target)?);
    all += &failures(&last_failures(target)?);
    Ok((health, all))
}

/// Returns the last failed requests.
fn last_failures(target: &Target) -> Result<FailuresView> {
    target.get(&format!("{FAILURES}?limit={FAILURES_MAX}"))
}

/// Number of failed requests that are shown.
const FAILURES_MAX: usize = 5;

/// Text about the last failed requests, the last failure at the end.
fn failures(FailuresView { failures }: &FailuresView) -> String {
    let head = if failures.is_empty() { "" } else { "\nlast failures (`sarabande trace` shows more):" };
    failures.iter().fold(head.to_owned(), |all, failure| all + "\n  " + &summary(failure))
}

/// Members of a status.
#[derive(Default)]
struct Shown {
    /// Members with a row of their own.
    listed: Vec<MemberView>,
    /// Members of the pools that are summed up, by pool.
    summed: BTreeMap<String, Vec<MemberView>>,
}

impl Shown {
    fn new(members: Vec<MemberView>, selection: &Selection) -> Self {
        let mut counts = BTreeMap::<_, usize>::new();
        for pool in members.iter().flat_map(|member| &member.pools) {
            *counts.entry(pool.clone()).or_default() += 1;
        }
        let is_large = |pool: &&String| selection.is_all() && counts[*pool] > MANY;
        let mut shown = Self::default();
        for member in members {
            let pool = member.pools.iter().find(is_large).cloned();
            pool.map_or(&mut shown.listed, |pool| shown.summed.entry(pool).or_default()).push(member);
        }
        shown
    }
}

/// Text about the states of members that have no row.
fn states((pool, members): (&String, &Vec<MemberView>)) -> Option<String> {
    let mut states = BTreeMap::<_, usize>::new();
    for member in members.iter().filter(|member| member.state != "up") {
        *states.entry(&*member.state).or_default() += 1;
    }
    let states: Vec<_> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let states = (!states.is_empty()).then(|| states.join(", "))?;
    Some(format!("\n{pool}: {states} (`sarabande status --pool {pool} --down` lists them)"))
}

/// Joins names, at most [`MANY`].
fn joined<'n>(mut names: impl Iterator<Item = &'n str>) -> String {
    let first = names.by_ref().take(MANY).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn text(health: &HealthView, sessions: &Sessions, shown: &Shown, names: &[NameView]) -> String {
    let members = &shown.listed;
    let HealthView { version, .. } = health;
    let (policy, new_calls) = (policies(health), new_calls(health));
    let up = span(health.uptime_seconds);
    let down = members.iter().filter(|member| member.state == "down").map(|member| {
        let since = span(member.since_change_seconds);
        let probe = member.last_probe.as_deref().unwrap_or("none yet");
        let calls = match member.calls {
            0 => String::new(),
            calls => format!("; {} on it", plural(calls.into(), "call")),
        };
        format!("\n{} is down for {since}; last probe: {probe}{calls}", label(member))
    });
    let is_deaf =
        |member: &MemberView| member.member && member.state != "down" && member.answers_probes == Some(false);
    let deaf = members.iter().filter(|member| is_deaf(member)).map(|member| {
        format!("\n{} answers calls but no OPTIONS: unanswered calls show when it is dead", label(member))
    });
    format!(
        "sarabande {version}, up {up}, {policy}, {new_calls}\n\n{}\n\n\
         sessions: {} active, {} ended and kept{}{}{}{}{}{}",
        rows(shown, health.pools.len() > 1),
        sessions.active,
        sessions.expired,
        before(health, "session"),
        health.overload.as_ref().map(admission).unwrap_or_default() + &refusals(health),
        members.iter().filter_map(limits).chain(health.pools.iter().filter_map(refused)).collect::<String>()
            + &health.pools.iter().filter_map(queue).chain(pools_in_trouble(health)).collect::<String>(),
        down.chain(shown.summed.iter().filter_map(states)).collect::<String>(),
        deaf.collect::<String>(),
        names.iter().filter_map(trouble).collect::<String>() + &unsaved(health)
    )
}

/// Text about changes of members that are not in the file.
fn unsaved(health: &HealthView) -> String {
    if health.unsaved.is_empty() {
        return String::new();
    }
    let head = "\nmembers differ from the file, and a reload or restart ends these changes:";
    let changes = health.unsaved.iter().take(MANY).map(|change| format!("\n  {change}"));
    let more = health.unsaved.len().saturating_sub(MANY);
    let more = (more > 0).then(|| format!("\n  and {more} more"));
    head.to_owned() + &changes.chain(more).collect::<String>()
}

/// Text about the policy, or the policy of each pool.
fn policies(health: &HealthView) -> String {
    match &health.pools[..] {
        [] => format!("policy {}", health.policy),
        [pool] => pool.orders.clone(),
        pools => {
            let each = pools.iter().map(|pool| format!("{}: {}", pool.name, pool.orders));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Text about overload control.
fn admission(overload: &OverloadView) -> String {
    let OverloadView { law, acceptance, wait_seconds, recently_refused, .. } = overload;
    let (offered, refused) =
        (overload.offered + overload.priority_offered, overload.refused + overload.priority_refused);
    let now = match (*recently_refused * 100.0, *acceptance * 100.0) {
        (0.0, _) => String::new(),
        (share, takes) => format!(
            "; {share:.0} % of the last seconds, now messages wait {:.0} ms and the law accepts {takes:.0} % of new \
            requests",
            wait_seconds * 1_000.0
        ),
    };
    let neighbours: String = overload.neighbours.iter().map(neighbour).collect();
    let unread = (overload.read_share < 1.0).then_some(100.0 * (1.0 - overload.read_share));
    let unread = unread.map(|share| format!("; {share:.0} % more are dropped unread")).unwrap_or_default();
    format!(
        "\noverload control: {law}, {refused} of {} refused{now}{unread}{neighbours}",
        plural(offered, "new request")
    )
}

/// Number of reasons that are shown.
const REASONS_MAX: usize = 5;

/// Text about requests that the process itself refused, with the most frequent reasons.
fn refusals(health: &HealthView) -> String {
    let mut all: Vec<_> = health.refused.iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    all.truncate(REASONS_MAX);
    let lines = all
        .into_iter()
        .map(|(reason, count)| format!("\nrefused here: {} with {reason}", plural(*count, "request")));
    lines.collect()
}

/// Text about the limit that a neighbour asks for.
pub(super) fn asks(view: &NeighbourView) -> String {
    match (view.limited, view.rate) {
        _ if view.silent => "answers nothing, gets one request at a time".to_owned(),
        (true, Some(rate)) => format!("takes {rate:.0} requests a second"),
        (true, None) => format!("takes {:.0} % of requests", view.acceptance * 100.0),
        (false, _) if view.ignores_offer => "does not support RFC 7339".to_owned(),
        (false, _) => "asks for no limit".to_owned(),
    }
}

/// Text about the feedback of a neighbour.
fn neighbour(view: &NeighbourView) -> String {
    let asks = asks(view);
    let (offered, received) = (plural(view.offered, "request"), plural(view.received, "request"));
    format!(
        "\nneighbour {}: {asks}, {} of {offered} held back; {received} from it",
        view.address, view.refused
    )
}

/// Text about the limits of a member; `None` if it has none.
fn limits(member: &MemberView) -> Option<String> {
    let MemberView { limit_law, limit, unanswered, max_rate, offered_total, held_back, .. } = member;
    let sum: u64 = held_back.values().sum();
    let found = limit_law.as_ref().and_then(|law| match (limit, unanswered) {
        (Some(limit), open) => {
            let time = member.limited_seconds.map(|time| format!(" for {time:.0} s")).unwrap_or_default();
            let pace = member.answers_per_second;
            let pace = pace.map(|pace| format!(", answers {pace:.0} requests a second")).unwrap_or_default();
            Some(format!("at most {limit} unanswered ({law}){time}, now {}{pace}", open.unwrap_or_default()))
        }
        (None, _) if sum == 0 && *max_rate == 0 => None,
        (None, _) => Some(format!("none now ({law})")),
    });
    let set = (*max_rate > 0).then(|| format!("{max_rate} calls a second"));
    let limits: Vec<_> = found.into_iter().chain(set).collect();
    if limits.is_empty() {
        return None;
    }
    let why = held_back.iter().filter(|(_, count)| **count > 0 && **count < sum);
    let why: Vec<_> = why.map(|(by, count)| format!("{count} {by}")).collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(", ")) };
    Some(format!(
        "\nlimits of {}: {}; {sum} of {} held back{why}",
        label(member),
        limits.join(", "),
        plural(*offered_total, "new request")
    ))
}

/// Text about the new requests that a pool refused because its members were at their limits; `None` if there were none.
fn refused(pool: &PoolHealth) -> Option<String> {
    let sum: u64 = pool.refused.values().sum();
    (sum > 0).then(|| {
        format!("\n{} of {} refused: every member was at its limit", plural(sum, "new request"), pool.name)
    })
}

/// Text about the queue of a pool; `None` without a queue.
fn queue(pool: &PoolHealth) -> Option<String> {
    let queue = pool.queue.as_ref()?;
    let refused = queue.refused + queue.expired;
    // The sum of an empty list of floats is -0.0.
    let most = queue.members.iter().map(|member| member.calls_per_second).sum::<f64>() + 0.0;
    let silent = queue.members.iter().filter(|member| member.silent).count();
    let is_full = |member: &&QueueMemberView| member.unanswered as f64 >= member.unanswered_most;
    let full = joined(queue.members.iter().filter(is_full).map(|member| &*member.address));
    let full = if full.is_empty() { full } else { format!("; at their limits of unanswered calls: {full}") };
    let silent = if silent > 0 { format!("; {silent} without updates") } else { String::new() };
    Some(format!(
        "\nqueue of {}: {} waiting, {} delivered, {refused} refused; members take {most:.0} calls/s{silent}{full}",
        pool.name,
        plural(queue.waiting as u64, "call"),
        queue.delivered,
    ))
}

/// Texts about pools without a member that takes new calls, if other pools do.
fn pools_in_trouble(health: &HealthView) -> impl Iterator<Item = String> {
    let are_others = health.pools.len() > 1 || health.healthy;
    health.pools.iter().filter(move |pool| are_others && pool.accepting == 0).map(|pool| {
        match pool.last_resort {
            0 => format!("\nno member of {} takes new calls", pool.name),
            tried => format!(
                "\nno member of {} is known to take new calls: they are tried at {tried} of {}",
                pool.name,
                plural(pool.members as u64, "member")
            ),
        }
    })
}

/// Text about whether new calls are taken.
fn new_calls(health: &HealthView) -> String {
    let members = plural(health.members as u64, "member");
    if health.stopping {
        "stopping: no new calls are taken".to_owned()
    } else if health.last_resort > 0 {
        let tried = health.last_resort;
        format!("no member is known to take new calls: they are tried at {tried} of {members}")
    } else {
        format!("new calls go to {} of {members}", health.accepting)
    }
}

/// Text about the calls that are left in the process that this one took over from.
fn before(health: &HealthView, noun: &str) -> String {
    let left = |left| format!("\nthe previous process still runs, with {}", plural(left as u64, noun));
    health.predecessor_calls.map(left).unwrap_or_default()
}

/// Text about a DNS name with an error or without addresses.
fn trouble(NameView { name, addresses, error }: &NameView) -> Option<String> {
    Some(match (addresses, error) {
        (0, None) => format!("\n{name} is being looked up"),
        (0, Some(error)) => format!("\n{name} is not resolved, so it has no members: {error}"),
        (_, Some(error)) => format!("\n{name} was not resolved again, its last addresses stay: {error}"),
        (_, None) => return None,
    })
}

/// Text about whether a proxy takes new calls.
fn proxy_takes(health: &HealthView) -> String {
    if health.stopping {
        "stopping: no new calls are taken".to_owned()
    } else if health.last_resort > 0 {
        let hops = plural(health.members as u64, "next hop");
        format!("no next hop is known to take new calls:\nthey are tried at {} of {hops}", health.last_resort)
    } else if !health.healthy {
        "no new calls are taken".to_owned()
    } else if health.degraded.is_empty() {
        "new calls are taken".to_owned()
    } else {
        "new calls are taken, with problems".to_owned()
    }
}

fn proxy_text(health: &HealthView, proxy: &ProxyView) -> String {
    let (up, new_calls) = (span(health.uptime_seconds), proxy_takes(health));
    let gap = if proxy.next.is_empty() { "" } else { "\n" };
    let hops = proxy.next.iter().map(|hop| format!("\nnext hop {} {}", hop.address, hop_state(hop)));
    format!(
        "sarabande {}, up {up}, proxy, {new_calls}\n{}{gap}\n\
         {} of at most {} transactions, {} of at most {} MiB, {} unanswered{}\n\
         since the start: {} forwarded, {} of them again to another next hop,\n  {} without a transaction, {} relayed, {} refused{}{}{}{}{}",
        health.version,
        hops.collect::<String>(),
        proxy.transactions,
        proxy.max_transactions,
        proxy.memory_bytes.div_ceil(MIB),
        proxy.max_memory_bytes / MIB,
        plural(proxy.unanswered as u64, "request"),
        before(health, "request"),
        proxy.forwarded_total,
        proxy.retried_total,
        proxy.stateless_total,
        plural(proxy.relayed_total, "response"),
        proxy.refused_total,
        health.overload.as_ref().map(admission).unwrap_or_default() + &refusals(health),
        pools_in_trouble(health).collect::<String>(),
        forks(proxy),
        proxy.distribution.as_ref().map(distribution).unwrap_or_default(),
        proxy.calls.as_ref().map(calls).unwrap_or_default(),
    )
}

/// Text about whether a next hop gets requests.
fn hop_state(hop: &NextHop) -> &'static str {
    if hop.resting { "failed, unused while others work" } else { "in use" }
}

/// Text about the division of state in a chain of proxies.
fn distribution(shared: &DistributionView) -> String {
    let DistributionView { kept_total: kept, passed_open_total: open, passed_kept_total: before, .. } =
        shared;
    let refused = if shared.taken < 1.0 {
        format!(", {:.0} % of new requests refused now", 100.0 * (1.0 - shared.taken))
    } else {
        String::new()
    };
    let DistributionView {
        verified_total: here,
        left_unverified_total: left,
        verified_before_total: done,
        ..
    } = shared;
    let credentials = if here + left + done > 0 {
        format!(
            "\n  credentials: {here} verified here, {left} left to a later proxy, {done} verified earlier"
        )
    } else {
        String::new()
    };
    format!(
        "\ndivision of state: {kept} kept here, {} forwarded ({open} open, {before} kept earlier){credentials}\n  \
        {:.0} % busy, {} throttled{refused}",
        open + before,
        100.0 * shared.utilisation,
        plural(shared.throttled_neighbours as u64, "neighbour"),
    )
}

/// Text about calls with dialog state, and about their records.
fn calls(calls: &CallsView) -> String {
    let CallsView { ringing, answered, watched, records_total, records_waiting_bytes: waiting, .. } = calls;
    let mut text = format!("\ncalls: {ringing} ringing, {answered} answered");
    if *watched > 0 {
        let _ = write!(text, ", {watched} with an unconfirmed end");
    }
    let _ = write!(text, "; {}", plural(*records_total, "record"));
    if let Some(trouble) = &calls.records_trouble {
        let waiting = if *waiting > 0 { format!("{waiting} bytes wait: ") } else { String::new() };
        let _ = write!(text, "\nrecords are not in their store: {waiting}{trouble}");
    }
    text
}

/// Text about forked requests; empty if there were none.
fn forks(proxy: &ProxyView) -> String {
    if proxy.forked_total + proxy.cancelled_total == 0 {
        return String::new();
    }
    let ProxyView { forked_total, rung_out_total, cancelled_total, .. } = proxy;
    format!(
        "\nforks: {}, {} rung out, {}",
        plural(*forked_total, "further branch"),
        plural(*rung_out_total, "group"),
        plural(*cancelled_total, "CANCEL"),
    )
}

/// Table of the members. `is_by_pool`: with a column of their pools.
fn rows(Shown { listed, summed }: &Shown, is_by_pool: bool) -> String {
    let mut table = table(&[
        "member",
        "pool",
        "state",
        "calls",
        "trans-\nactions",
        "work",
        "assigned",
        "INVITE\np50 ms",
        "INVITE\np99 ms",
        "oldest\ncall",
    ]);
    word_column(&mut table, 1);
    word_column(&mut table, 2);
    // The sum of an empty list of floats is -0.0.
    let work = |work: f64| format!("{:.2}", work + 0.0);
    let time = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| milliseconds((ms * 1e3) as u64));
    let age = |age: Option<f64>| age.map_or("-".to_owned(), span);
    for member in listed {
        table.add_row([
            label(member),
            pools(member),
            state(member),
            member.calls.to_string(),
            member.transactions.to_string(),
            work(member.work),
            member.assigned_total.to_string(),
            time(member.invite_ms.p50),
            time(member.invite_ms.p99),
            age(member.oldest_call_seconds),
        ]);
    }
    // Percentiles cannot be added up.
    let sum = |name: String, pool: &str, state: String, members: &[&MemberView]| {
        let ages = members.iter().filter_map(|member| member.oldest_call_seconds);
        [
            name,
            pool.to_owned(),
            state,
            members.iter().map(|member| u64::from(member.calls)).sum::<u64>().to_string(),
            members.iter().map(|member| u64::from(member.transactions)).sum::<u64>().to_string(),
            work(members.iter().map(|member| member.work).sum()),
            members.iter().map(|member| member.assigned_total).sum::<u64>().to_string(),
            String::new(),
            String::new(),
            age(ages.reduce(f64::max)),
        ]
    };
    for (pool, members) in summed {
        let up = members.iter().filter(|member| member.state == "up").count();
        let name = format!("{pool}: {}", plural(members.len() as u64, "member"));
        table.add_row(sum(name, pool, format!("{up} up"), &members.iter().collect::<Vec<_>>()));
    }
    let all: Vec<_> = listed.iter().chain(summed.values().flatten()).collect();
    table.add_row(sum("total".to_owned(), "", String::new(), &all));
    if !is_by_pool && let Some(column) = table.column_mut(1) {
        column.set_constraint(ColumnConstraint::Hidden);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// The pools of a member.
fn pools(member: &MemberView) -> String {
    if member.pools.is_empty() { "-".to_owned() } else { member.pools.join(",") }
}

/// The address, with the name before it if it says more.
pub(super) fn label(member: &MemberView) -> String {
    let address = member.address.to_string();
    if member.name == address || member.name == member.address.0.address.ip().to_string() {
        address
    } else {
        format!("{} {address}", member.name)
    }
}

/// The state, with its figure.
fn state(member: &MemberView) -> String {
    let figure = match member.state.as_str() {
        "slow-start" => format!("{:.0} %", 100.0 * member.capacity_now / member.capacity),
        "ejected" => span(member.ejected_seconds),
        "paused" => span(member.paused_seconds),
        "full" => format!("of {}", member.max_calls),
        "limit" => return "at its limit".to_owned(),
        "max_rate" => return "at its max_rate".to_owned(),
        state => return state.to_owned(),
    };
    format!("{} {figure}", member.state)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Health of a server that takes calls.
    pub(super) fn health(role: &str) -> HealthView {
        HealthView {
            role: role.to_owned(),
            healthy: true,
            reasons: Vec::new(),
            degraded: Vec::new(),
            members: 0,
            unresolved: Vec::new(),
            accepting: 0,
            last_resort: 0,
            policy: if role == "pool" { "tlwl" } else { "none" }.to_owned(),
            pools: Vec::new(),
            stopping: false,
            stop_seconds: None,
            predecessor_calls: None,
            unsaved: Vec::new(),
            refused: BTreeMap::new(),
            overload: None,
            process: 1,
            uptime_seconds: 5.0,
            version: "1.2.3".to_owned(),
            ready: true,
        }
    }

    pub(crate) fn member(address: &str, state: &str, more: &Value) -> MemberView {
        let times = json!({ "count": 0, "p50": null, "p90": null, "p99": null, "max": null });
        let mut value = json!({
            "name": address, "address": address, "pools": ["servers"], "state": state, "member": true, "reachable": true,
            "answers_probes": true, "accepting": true, "draining": false, "drained_by_scaler": false, "paused_seconds": 0.0, "ejected_seconds": 0.0, "ejections_total": 0, "capacity": 2.0, "capacity_now": 2.0,
            "max_calls": 0, "max_rate": 0, "limit_law": null, "unanswered": null, "limit": null, "held_back": { "limit": 0, "max_rate": 0 },
            "offered_total": 0, "calls": 0, "transactions": 0, "work": 0.0, "assigned_total": 0,
            "transactions_total": 0, "ended": {}, "responses": {}, "invite_ms": times, "bye_ms": times, "occupancy": times,
            "oldest_call_seconds": null, "last_probe": null, "since_change_seconds": 0.0
        });
        let more = more.as_object().unwrap().clone();
        value.as_object_mut().unwrap().extend(more);
        value["occupancy"]["mean"] = Value::Null;
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_table_shows_members_and_their_sum() {
        let times = json!({ "count": 7, "p50": 1.5, "p90": 20.0, "p99": 31.4, "max": 40.0 });
        let busy = json!({
            "calls": 3, "transactions": 2, "work": 2.75, "assigned_total": 1200,
            "invite_ms": times, "oldest_call_seconds": 61.2
        });
        let slow =
            json!({ "name": "sip.example", "capacity_now": 0.5, "calls": 1, "oldest_call_seconds": 5.0 });
        let members = [member("10.0.0.1:5060", "up", &busy), member("10.0.0.2:5060", "slow-start", &slow)];
        let table = rows(&Shown { listed: members.into(), ..Shown::default() }, false);
        let cells: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(cells[3], ["10.0.0.1:5060", "up", "3", "2", "2.75", "1200", "1.50", "31.4", "1m 1s"]);
        assert_eq!(
            cells[4],
            ["sip.example 10.0.0.2:5060", "slow-start 25 %", "1", "0", "0.00", "0", "-", "-", "5s"]
        );
        assert_eq!(cells.last().unwrap(), &["total", "4", "2", "2.75", "1200", "1m 1s"]);
    }

    /// Three pools, the second of which has no members.
    pub(crate) fn several_pools() -> Vec<PoolHealth> {
        let pool = |name: &str, policy: &str, accepting, last_resort| PoolHealth {
            name: name.to_owned(),
            policy: policy.to_owned(),
            orders: format!("policy {policy}"),
            members: 2,
            accepting,
            last_resort,
            at_limit: 0,
            refused: BTreeMap::default(),
            queue: None,
        };
        vec![pool("core", "tlwl", 2, 0), pool("spare", "hash", 0, 0), pool("out", "cjsq", 0, 1)]
    }

    #[test]
    fn a_queue_is_shown_with_its_counts() {
        let mut pool = several_pools().remove(0);
        assert_eq!(queue(&pool), None);
        let member = |address: &str, calls_per_second, silent| {
            json!({
                "address": address, "calls_per_second": calls_per_second, "silent": silent, "by": "responses",
                "unanswered": if silent { 3 } else { 2 }, "unanswered_most": 2.5
            })
        };
        let shown = json!({
            "waiting": 1, "offered": 20, "delivered": 12, "refused": 3, "expired": 2, "cancelled": 1, "copies": 5,
            "mean_wait_ms": 12.5,
            "members": [member("10.0.0.1:5060", 100.0, false), member("10.0.0.2:5060", 20.0, true)],
        });
        pool.queue = Some(serde_json::from_value(shown).expect("a queue"));
        let line = "\nqueue of core: 1 call waiting, 12 delivered, 5 refused; members take 120 calls/s; 1 without \
                    updates; at their limits of unanswered calls: 10.0.0.2:5060";
        assert_eq!(queue(&pool).as_deref(), Some(line));
    }

    #[test]
    fn several_pools_have_a_column_and_policies_of_their_own() {
        let both = member("10.0.0.1:5060", "up", &json!({ "pools": ["core", "spare"] }));
        let former = member("10.0.0.2:5060", "removed", &json!({ "pools": [] }));
        let health = HealthView { members: 6, accepting: 2, pools: several_pools(), ..health("pool") };
        let shown = Shown::new(vec![both, former], &Selection::default());
        let sessions = Sessions { active: 5, expired: 6, transactions: 7, shards: Vec::new() };
        let text = text(&health, &sessions, &shown, &[]);
        let head = "sarabande 1.2.3, up 5s, core: policy tlwl; spare: policy hash; out: policy cjsq, new calls go to 2 of 6 members\n";
        assert!(text.starts_with(head), "{text}");
        let words = |part: &str| {
            let line = text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{text}"));
            line.split_whitespace().take(3).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words("10.0.0.1"), ["10.0.0.1:5060", "core,spare", "up"]);
        assert_eq!(words("10.0.0.2"), ["10.0.0.2:5060", "-", "removed"]);
        assert!(text.contains("\nno member of spare takes new calls\n"), "{text}");
        let tried = "\nno member of out is known to take new calls: they are tried at 1 of 2 members";
        assert!(text.ends_with(tried), "{text}");
        assert!(!rows(&shown, false).contains("core,spare"), "a single pool has no column");
    }

    #[test]
    fn a_large_pool_is_summed_up_unless_it_is_selected() {
        let small = member("10.0.1.1:5060", "up", &json!({ "pools": ["spare"] }));
        let large = |each: usize| {
            let state = if each < 3 { "down" } else { "up" };
            member(&format!("10.0.0.{each}:5060"), state, &json!({ "pools": ["core"], "calls": 2 }))
        };
        let health = HealthView { members: 22, accepting: 19, pools: several_pools(), ..health("pool") };
        let sessions = Sessions { active: 5, expired: 6, transactions: 7, shards: Vec::new() };
        let shown = |many: usize, selection: &Selection| {
            let members = (21 - many..21).map(large).chain([small.clone()]).collect();
            text(&health, &sessions, &Shown::new(members, selection), &[])
        };
        let text = shown(21, &Selection::default());
        let words: Vec<_> = text.split_whitespace().collect();
        let has = |line: &str| words.windows(line.split(' ').count()).any(|words| words.join(" ") == line);
        assert!(has("core: 21 members core 18 up 42") && has("10.0.1.1:5060 spare up 0"), "{text}");
        assert!(has("core: 3 down (`sarabande status --pool core --down` lists them)"), "{text}");
        assert!(!text.contains("10.0.0."), "{text}");
        assert!(shown(20, &Selection::default()).contains("10.0.0.20:5060"), "20 members are listed");
        let selection = Selection { pool: Some("core".to_owned()), down: true };
        assert_eq!(selection.path(), format!("{MEMBERS}&problems=true&pool=core"));
        assert!(shown(21, &selection).contains("10.0.0.20:5060"), "a selection is listed");
    }

    #[test]
    fn without_members_all_sums_are_zero() {
        let table = rows(&Shown::default(), false);
        let cells: Vec<_> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(cells, ["total", "0", "0", "0.00", "0", "-"]);
    }

    #[test]
    fn states_are_shown_with_their_figures() {
        let shown = |name, more| state(&member("10.0.0.1:5060", name, &more));
        assert_eq!(shown("ejected", json!({ "ejected_seconds": 12.3 })), "ejected 12s");
        assert_eq!(shown("paused", json!({ "paused_seconds": 12.3 })), "paused 12s");
        assert_eq!(shown("full", json!({ "max_calls": 100 })), "full of 100");
        assert_eq!(shown("up", json!({ "unanswered": 9, "limit": 12 })), "up");
        assert_eq!(shown("limit", json!({ "unanswered": 12, "limit": 12 })), "at its limit");
        assert_eq!(shown("max_rate", json!({ "max_rate": 12 })), "at its max_rate");
        assert_eq!(shown("down", json!({})), "down");
    }

    #[test]
    fn limits_of_members_are_shown_with_requests_held_back() {
        let shown = |more| limits(&member("10.0.0.1:5060", "up", &more));
        assert_eq!(shown(json!({})), None, "it has none");
        assert_eq!(shown(json!({ "limit_law": "gradient" })), None, "none is in force, or was");
        let found = json!({
            "limit_law": "gradient", "limit": 8, "unanswered": 9, "limited_seconds": 12.3, "answers_per_second": 190.2,
            "offered_total": 50, "held_back": { "limit": 20, "max_rate": 0 }
        });
        let line = "\nlimits of 10.0.0.1:5060: at most 8 unanswered (gradient) for 12 s, now 9, answers 190 requests a \
                   second; 20 of 50 new requests held back";
        assert_eq!(shown(found).as_deref(), Some(line));
        let both = json!({
            "limit_law": "aimd", "unanswered": 3, "max_rate": 40, "offered_total": 50, "held_back": { "limit": 2, "max_rate": 3 }
        });
        let line = "\nlimits of 10.0.0.1:5060: none now (aimd), 40 calls a second; 5 of 50 new requests held back (2 limit, 3 max_rate)";
        assert_eq!(shown(both).as_deref(), Some(line));
        let mut pool = several_pools().remove(0);
        assert_eq!(refused(&pool), None);
        pool.refused = [("limit".to_owned(), 7), ("max_rate".to_owned(), 1)].into();
        let line = "\n8 new requests of core refused: every member was at its limit";
        assert_eq!(refused(&pool).as_deref(), Some(line));
    }

    #[test]
    fn a_member_that_is_down_is_explained() {
        let dead = json!({ "last_probe": "no answer in time", "since_change_seconds": 130.0 });
        let unresolved = vec!["typo.invalid".to_owned()];
        let health = HealthView {
            predecessor_calls: Some(4),
            healthy: false,
            members: 1,
            unresolved,
            uptime_seconds: 90_000.0,
            unsaved: vec!["servers: 10.0.0.4:5060 added".to_owned()],
            refused: (1..=6).map(|each| (format!("48{each} No"), each * 100)).collect(),
            ..health("pool")
        };
        let sessions = Sessions { active: 5, expired: 6, transactions: 7, shards: Vec::new() };
        let name = |name: &str, addresses, error: &str| {
            let error = (!error.is_empty()).then(|| error.to_owned());
            NameView { name: name.to_owned(), addresses, error }
        };
        let names = vec![
            name("fine.example", 2, ""),
            name("typo.invalid", 0, "no name"),
            name("old.example", 1, "late"),
        ];
        let shown = Shown { listed: vec![member("10.0.0.1:5060", "down", &dead)], ..Shown::default() };
        let text = text(&health, &sessions, &shown, &names);
        assert!(
            text.starts_with("sarabande 1.2.3, up 1d 1h, policy tlwl, new calls go to 0 of 1 member\n"),
            "{text}"
        );
        let sessions = "\nsessions: 5 active, 6 ended and kept\nthe previous process still runs, with 4 sessions\n\
                        refused here: 600 requests with 486 No\n";
        assert!(text.contains(sessions) && !text.contains("481 No"), "{text}");
        assert!(
            text.ends_with(
                "\n10.0.0.1:5060 is down for 2m 10s; last probe: no answer in time\n\
                 typo.invalid is not resolved, so it has no members: no name\n\
                 old.example was not resolved again, its last addresses stay: late\n\
                 members differ from the file, and a reload or restart ends these changes:\n  \
                 servers: 10.0.0.4:5060 added"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_proxy_shows_its_next_hops_and_transactions() {
        let proxy: ProxyView = serde_json::from_value(json!({
            "next": [
                { "address": "10.0.0.1:5060", "resting": true },
                { "address": "10.0.0.2:5060", "resting": false }
            ],
            "transactions": 12, "max_transactions": 1000, "memory_bytes": 5_000_000, "max_memory_bytes": 268_435_456, "unanswered": 3, "forwarded_total": 40,
            "retried_total": 2, "stateless_total": 20, "relayed_total": 1, "forked_total": 4, "rung_out_total": 1, "cancelled_total": 3,
            "refused_total": 1, "stray_total": 0,
            "distribution": {
                "kept_total": 40, "passed_open_total": 20, "passed_kept_total": 5, "verified_total": 9, "left_unverified_total": 2,
                "verified_before_total": 1, "utilisation": 0.456, "throttled_neighbours": 1, "taken": 0.8
            },
            "calls": {
                "ringing": 2, "answered": 7, "watched": 1, "memory_bytes": 9_000, "refused_total": 0, "found_again_total": 1,
                "time_limit_total": 0, "session_expired_total": 0, "lost_total": 0, "reopened_total": 0, "records_total": 1,
                "records_lost_total": 0, "records_refused_total": 0, "records_waiting_bytes": 512, "records_trouble": "No space left on device"
            }
        }))
        .unwrap();
        assert_eq!(
            proxy_text(&HealthView { predecessor_calls: Some(1), ..health("proxy") }, &proxy),
            "sarabande 1.2.3, up 5s, proxy, new calls are taken\n\nnext hop 10.0.0.1:5060 failed, unused while others work\n\
             next hop 10.0.0.2:5060 in use\n\n12 of at most 1000 transactions, 5 of at most 256 MiB, 3 requests unanswered\n\
             the previous process still runs, with 1 request\n\
             since the start: 40 forwarded, 2 of them again to another next hop,\n  20 without a transaction, 1 response relayed, 1 refused\n\
             forks: 4 further branches, 1 group rung out, 3 CANCELs\n\
             division of state: 40 kept here, 25 forwarded (20 open, 5 kept earlier)\n  credentials: 9 verified here, 2 left to a later proxy, 1 verified earlier\n  46 % busy, 1 neighbour throttled, 20 % of new requests refused now\n\
             calls: 2 ringing, 7 answered, 1 with an unconfirmed end; 1 record\n\
             records are not in their store: 512 bytes wait: No space left on device"
        );
    }

    #[test]
    fn a_proxy_without_next_hops_that_take_calls_is_shown() {
        let head = |health: HealthView| proxy_takes(&health);
        assert_eq!(head(health("proxy")), "new calls are taken");
        let reasons = vec!["no next hop takes new calls: 10.0.0.1:5060 is down".to_owned()];
        let failed = HealthView { healthy: false, reasons, members: 1, ..health("proxy") };
        assert_eq!(head(failed.clone()), "no new calls are taken");
        let silent = HealthView { last_resort: 1, ..failed };
        assert_eq!(
            head(silent),
            "no next hop is known to take new calls:\nthey are tried at 1 of 1 next hop"
        );
        let degraded = vec!["registrations and calls to users fail: ...".to_owned()];
        assert_eq!(head(HealthView { degraded, ..health("proxy") }), "new calls are taken, with problems");
    }
}

//! What `status --watch` shows: the last answer of the server, rates since the one before, and what has happened.

use super::{label, new_calls, plural, pools, state};
use super::{registrar, scale};
use crate::admin::Target;
use crate::picture::{Key, Line, Rate, Tracks};
use anyhow::Result;
use server::figures::{HealthView, MemberView, MembersView, ProxyView, RegistrarView, ScaleView, Sessions};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Most events that are kept.
const NEWS_MAX: usize = 50;

/// What the server says at one time.
pub(super) struct Answer {
    pub(super) health: HealthView,
    pub(super) role: Role,
    pub(super) registrar: Option<RegistrarView>,
    pub(super) scales: Vec<ScaleView>,
}

pub(super) enum Role {
    Pool { sessions: Sessions, members: MembersView },
    Proxy(Box<ProxyView>),
}

impl Answer {
    pub(super) fn ask(target: &Target) -> Result<Self> {
        // 503 is the answer of a server that takes no new calls.
        let health: HealthView = target.send("GET", "/api/health", b"")?.json(&[200, 503])?;
        let role = if health.role == "proxy" {
            Role::Proxy(Box::new(target.get("/api/proxy")?))
        } else {
            // Without the oldest calls: they cost the server a walk through its table.
            Role::Pool { sessions: target.get("/api/sessions")?, members: target.get("/api/members")? }
        };
        Ok(Self { health, role, registrar: registrar::ask(target)?, scales: scale::ask(target)? })
    }
}

/// What is shown.
pub(super) struct Scene {
    pub(super) target: String,
    /// The last good one.
    pub(super) answer: Answer,
    /// Why there is none now, and since when.
    pub(super) silence: Option<(Instant, String)>,
    pub(super) lines: Vec<Line>,
    /// Events a second, by name.
    pub(super) rates: BTreeMap<String, f64>,
    /// What happened, the newest first.
    pub(super) news: VecDeque<(Instant, String)>,
    /// Members that are scrolled past.
    pub(super) skipped: usize,
    start: Instant,
    tracks: Tracks,
    counters: BTreeMap<String, Rate>,
}

impl Scene {
    pub(super) fn new(target: String, now: Instant, answer: Answer) -> Self {
        let mut scene = Self {
            target,
            answer,
            silence: None,
            lines: Vec::new(),
            rates: BTreeMap::new(),
            news: VecDeque::new(),
            skipped: 0,
            start: now,
            tracks: Tracks::default(),
            counters: BTreeMap::new(),
        };
        scene.measure(now);
        scene
    }

    pub(super) fn take(&mut self, now: Instant, answer: Result<Answer, String>) {
        match answer {
            Ok(answer) => {
                if self.silence.take().is_some() {
                    self.tell(now, "the server answers again".to_owned());
                }
                let of = |answer: &Answer| (answer.health.process, answer.health.uptime_seconds);
                let (before, after) = (of(&self.answer), of(&answer));
                // A container may give the same number again.
                if after.0 != before.0 || after.1 < before.1 {
                    self.tell(now, "the server was started anew".to_owned());
                }
                for news in changes(members(&self.answer), members(&answer)) {
                    self.tell(now, news);
                }
                let before = std::mem::take(&mut self.answer.health.degraded);
                let after = &answer.health.degraded;
                for news in after.iter().filter(|news| !before.contains(news)) {
                    self.tell(now, news.clone());
                }
                // A text that says more of the same, such as for how long, is no end.
                let subject = |text: &str| text.split(": ").take(2).map(str::to_owned).collect::<Vec<_>>();
                let is_over = |old: &&String| !after.iter().any(|new| subject(new) == subject(old));
                for over in before.iter().filter(is_over) {
                    self.tell(now, format!("no longer: {over}"));
                }
                self.answer = answer;
                self.measure(now);
            }
            Err(why) => {
                let since = self.silence.take().map_or(now, |(since, _)| since);
                self.silence = Some((since, why));
            }
        }
    }

    fn tell(&mut self, now: Instant, news: String) {
        self.news.push_front((now, news));
        self.news.truncate(NEWS_MAX);
    }

    fn measure(&mut self, now: Instant) {
        let seconds = (now - self.start).as_secs_f64();
        let members = members(&self.answer);
        let pasts = self.tracks.sample(seconds, members);
        let is_by_pool = self.answer.health.pools.len() > 1;
        let line = |(member, past): (&MemberView, _)| {
            let pools = if is_by_pool { pools(member) } else { String::new() };
            Line { pools, ..Line::new(label(member), 0.0, state(member), member, past) }
        };
        self.lines = members.iter().zip(pasts).map(line).collect();
        self.skipped = self.skipped.min(self.lines.len().saturating_sub(1));
        let mut counted = counts(&self.answer);
        counted.extend(self.answer.registrar.iter().flat_map(registrar::counts));
        self.counters.retain(|name, _| counted.contains_key(name));
        for (name, count) in counted {
            let rate = self.counters.entry(name.clone()).or_default().sample(seconds, count);
            self.rates.insert(name, rate);
        }
    }

    pub(super) fn rate(&self, name: &str) -> f64 {
        self.rates.get(name).copied().unwrap_or(0.0)
    }

    pub(super) fn scroll(&mut self, key: Key) {
        match key {
            Key::Up => self.skipped = self.skipped.saturating_sub(1),
            Key::Down => self.skipped = (self.skipped + 1).min(self.lines.len().saturating_sub(1)),
            Key::Quit => {}
        }
    }

    /// For where there is no terminal.
    pub(super) fn text(&self) -> String {
        if let Some((_, why)) = &self.silence {
            return why.replace('\n', " ");
        }
        let HealthView { reasons, .. } = &self.answer.health;
        match &self.answer.role {
            Role::Proxy(proxy) => format!(
                "{} unanswered, {:.0} forwarded/s, {:.0} refused/s{}",
                plural(proxy.unanswered as u64, "request"),
                self.rate("forwarded"),
                self.rate("refused"),
                reasons.iter().flat_map(|reason| ["; ", reason]).collect::<String>()
            ),
            Role::Pool { members: all, .. } => {
                let calls: u64 = all.members.iter().map(|member| u64::from(member.calls)).sum();
                let new: f64 = self.lines.iter().map(|line| line.past.calls_per_second).sum();
                let before = if reasons.is_empty() { "" } else { "; " };
                let reasons = reasons.join("; ");
                let new_calls = new_calls(&self.answer.health);
                let calls = plural(calls, "call");
                format!("{new_calls}: {calls} in progress, {new:.0} new/s{before}{reasons}")
            }
        }
    }
}

fn members(answer: &Answer) -> &[MemberView] {
    match &answer.role {
        Role::Pool { members, .. } => &members.members,
        Role::Proxy(_) => &[],
    }
}

/// What is counted since the start of the server.
fn counts(answer: &Answer) -> BTreeMap<String, u64> {
    match &answer.role {
        Role::Pool { members, .. } => {
            let mut ended = BTreeMap::new();
            for (outcome, count) in members.members.iter().flat_map(|member| &member.ended) {
                *ended.entry(outcome.clone()).or_default() += count;
            }
            ended
        }
        Role::Proxy(proxy) => [
            ("forwarded", proxy.forwarded_total),
            ("stateless", proxy.stateless_total),
            ("relayed", proxy.relayed_total),
            ("retried", proxy.retried_total),
            ("refused", proxy.refused_total),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into(),
    }
}

/// What is another with the members than before.
fn changes(before: &[MemberView], now: &[MemberView]) -> Vec<String> {
    let find = |all: &[MemberView], member: &MemberView| {
        all.iter().find(|other| other.address == member.address).map(|other| other.state.clone())
    };
    let mut news = Vec::new();
    for member in now {
        let address = member.address;
        let probe = match (member.state.as_str(), &member.last_probe) {
            ("down", Some(probe)) => format!(": {probe}"),
            _ => String::new(),
        };
        match find(before, member) {
            None => news.push(format!("{address} has joined: {}", member.state)),
            Some(was) if was != member.state => {
                news.push(format!("{address} is {}, was {was}{probe}", member.state));
            }
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|member| find(now, member).is_none());
    news.extend(gone.map(|member| format!("{} is forgotten", member.address)));
    news
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::{health, member};
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    /// What a pool of these members says.
    pub(in crate::command::status) fn pool(uptime: f64, members: Vec<MemberView>) -> Answer {
        let accepting = members.iter().filter(|member| member.accepting).count();
        let health = HealthView {
            uptime_seconds: uptime,
            accepting,
            members: members.len(),
            healthy: accepting > 0,
            reasons: if accepting > 0 { Vec::new() } else { vec!["no member takes new calls".to_owned()] },
            ..health("pool")
        };
        let sessions = Sessions { active: 12, expired: 30, transactions: 2, shards: Vec::new() };
        let members = MembersView { members, names: Vec::new() };
        Answer { health, role: Role::Pool { sessions, members }, registrar: None, scales: Vec::new() }
    }

    #[test]
    fn what_changes_is_told_once() {
        let now = Instant::now();
        let up = |address| member(address, "up", &json!({}));
        let down = member("10.0.0.2:5060", "down", &json!({ "last_probe": "no answer in time" }));
        let (one, two, three) = (up("10.0.0.1:5060"), up("10.0.0.2:5060"), up("10.0.0.3:5060"));
        let mut scene = Scene::new("x".to_owned(), now, pool(5.0, vec![one.clone(), two]));
        scene.take(now, Ok(pool(6.0, vec![one.clone(), down.clone()])));
        scene.take(now, Ok(pool(7.0, vec![one.clone(), down])));
        scene.take(now, Err("nothing listens".to_owned()));
        assert_eq!(scene.silence.as_ref().map(|(_, why)| &**why), Some("nothing listens"));
        scene.take(now, Ok(pool(1.0, vec![one, three])));
        let told: Vec<_> = scene.news.iter().rev().map(|(_, news)| &**news).collect();
        assert_eq!(
            told,
            [
                "10.0.0.2:5060 is down, was up: no answer in time",
                "the server answers again",
                "the server was started anew",
                "10.0.0.3:5060 has joined: up",
                "10.0.0.2:5060 is forgotten",
            ]
        );
        assert!(scene.silence.is_none());
    }

    #[test]
    fn outcomes_of_all_members_become_rates() {
        let start = Instant::now();
        let with = |count: u64| member("10.0.0.1:5060", "up", &json!({ "ended": { "success": count } }));
        let mut scene = Scene::new("x".to_owned(), start, pool(5.0, vec![with(100)]));
        scene.take(start + Duration::from_secs(2), Ok(pool(7.0, vec![with(150)])));
        assert!((scene.rate("success") - 25.0).abs() < 1e-6);
        assert!(scene.text().starts_with("new calls go to 1 of 1 member: 0 calls"), "{}", scene.text());
    }
}

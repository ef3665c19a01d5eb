//! The picture of a running server, made of the demo's parts.

use super::scene::{Role, Scene};
use super::{hop_state, new_calls, policies, queue, scale, span, trouble};
use crate::picture::{ACCENT, Columns, DIM, Top, area, block, draw_keys, draw_members};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Paragraph, Wrap};
use server::figures::ProxyView;
use std::fmt::Display;
use std::time::Instant;

const MEMBERS: Columns = Columns {
    title: "members, as the balancer sees them",
    name: "member",
    number: None,
    // As many BYEs as nobody has to be afraid of.
    top: Top::AtLeast(10.0),
};

/// Rows of the head and of the traffic, frames included, and of the keys.
const FIXED: [u16; 3] = [4, 4, 1];
/// Most lines about queues, and servers that are started and stopped.
const ELASTIC_MAX: usize = 6;
/// Fewest rows for the members, frame and header included: one of them shows.
const MEMBERS_MIN: u16 = 4;

pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene, now: Instant) {
    let area = area(frame);
    let elastic = elastic(scene);
    let more = u16::from(scene.answer.registrar.is_some()) + elastic.len() as u16;
    let left = area.height.saturating_sub(FIXED.iter().sum::<u16>() + more);
    let wanted = match &scene.answer.role {
        Role::Pool { .. } => scene.lines.len() as u16 + 3,
        Role::Proxy(proxy) => proxy.next.len() as u16 + 2,
    };
    let middle = wanted.min(left).max(MEMBERS_MIN);
    let rows = [FIXED[0], middle, FIXED[1] + more, left.saturating_sub(middle), FIXED[2]];
    let [head, servers, traffic, below, foot] = Layout::vertical(Constraint::from_lengths(rows)).areas(area);
    draw_head(frame, head, scene, now);
    match &scene.answer.role {
        Role::Pool { .. } => draw_members(frame, servers, &MEMBERS, &scene.lines[scene.skipped..]),
        Role::Proxy(proxy) => draw_hops(frame, servers, proxy),
    }
    draw_traffic(frame, traffic, scene, elastic);
    draw_news(frame, below, scene, now);
    let keys = if wanted > middle { " ↑ ↓ other members  q quits " } else { " q quits " };
    draw_keys(frame, foot, keys);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, scene: &Scene, now: Instant) {
    let health = &scene.answer.health;
    let word = |word: &'static str| Span::from(word).style(DIM);
    let mut first = vec![
        Span::from(scene.target.clone()).bold(),
        word("  version "),
        Span::from(health.version.clone()),
        word("  up "),
        Span::from(span(health.uptime_seconds)),
    ];
    if let Role::Pool { .. } = &scene.answer.role {
        // The policies of several would be cut off.
        let policy = match health.pools.len() {
            0 | 1 => policies(health),
            several => format!("{several} pools"),
        };
        first.extend([word("  "), Span::from(policy).fg(Color::Yellow).bold()]);
    } else {
        first.push(Span::from("  proxy").fg(Color::Yellow).bold());
    }
    let (text, colour) = match &scene.silence {
        Some((since, why)) => {
            let why = why.lines().next().unwrap_or_default();
            (format!("no answer for {}: {why}", span((now - *since).as_secs_f64())), Color::Red)
        }
        None if !health.healthy => (health.reasons.join("; "), Color::Red),
        None if !health.degraded.is_empty() => {
            ("new calls are taken, but not all works: see below".to_owned(), Color::Yellow)
        }
        None if matches!(scene.answer.role, Role::Proxy(_)) => {
            ("new calls are taken".to_owned(), Color::Green)
        }
        None => {
            let all = health.accepting == health.members;
            let colour = if all { Color::Green } else { Color::Yellow };
            (new_calls(health), colour)
        }
    };
    let text = vec![Text::from(first), Text::from(text).fg(colour)];
    frame.render_widget(Paragraph::new(text).block(block("Sarabande")), area);
}

fn draw_hops(frame: &mut Frame<'_>, area: Rect, proxy: &ProxyView) {
    let hop = |hop: &server::figures::NextHop| {
        let (state, colour) = (hop_state(hop), if hop.resting { Color::Red } else { Color::Green });
        Text::from(vec![
            Span::from(format!("{:<48}", hop.address.to_string())).bold(),
            Span::from(format!("● {state}")).fg(colour),
        ])
    };
    let text: Vec<_> = proxy.next.iter().map(hop).collect();
    frame.render_widget(Paragraph::new(text).block(block("next hops")), area);
}

/// A number and what it counts.
fn count(number: impl Display, what: &str) -> [Span<'static>; 2] {
    [Span::from(format!("{number}")).bold(), Span::from(format!(" {what}  ")).style(DIM)]
}

/// How queues do, and servers that are started and stopped, a line each.
fn elastic(scene: &Scene) -> Vec<String> {
    let queues = scene.answer.health.pools.iter().filter_map(queue);
    let lines = queues.chain(scene.answer.scales.iter().map(|pool| scale::text(std::slice::from_ref(pool))));
    // What goes wrong is among the news.
    let first = |text: String| text.trim_start().lines().next().unwrap_or_default().to_owned();
    lines.map(first).take(ELASTIC_MAX).collect()
}

fn draw_traffic(frame: &mut Frame<'_>, area: Rect, scene: &Scene, elastic: Vec<String>) {
    let rate = |name, what: &str| count(format!("{:.0}", scene.rate(name)), what);
    let mut lines = Vec::from(match &scene.answer.role {
        Role::Pool { sessions, members } => {
            let calls: u64 = members.members.iter().map(|member| u64::from(member.calls)).sum();
            let new: f64 = scene.lines.iter().map(|line| line.past.calls_per_second).sum();
            let now = [
                count(format!("{new:.0}"), "new calls/s"),
                count(calls, "calls in progress"),
                count(sessions.transactions, "requests open"),
            ];
            // Those that seldom happen are shown when they do.
            let always =
                [rate("success", "2xx"), rate("failure", "3xx to 6xx"), rate("timed_out", "timed out")];
            let seldom = [("moved", "moved"), ("node_died", "lost with a member")];
            let seldom = seldom.into_iter().filter(|(name, _)| scene.rate(name) > 0.0);
            let seldom = seldom.map(|(name, what)| rate(name, what));
            let ended = always.into_iter().chain(seldom).collect::<Vec<_>>();
            [now.concat(), [vec![Span::from("answers/s  ").fg(ACCENT)], ended.concat()].concat()]
        }
        Role::Proxy(proxy) => [
            [
                count(format!("{:.0}", scene.rate("forwarded")), "requests/s"),
                count(proxy.unanswered, "unanswered"),
                count(format!("{} of {}", proxy.transactions, proxy.max_transactions), "transactions"),
            ]
            .concat(),
            [
                rate("stateless", "stateless/s"),
                rate("relayed", "responses/s"),
                rate("retried", "retried/s"),
                rate("refused", "refused/s"),
            ]
            .concat(),
        ],
    });
    if scene.answer.registrar.is_some() {
        let of_users = [
            rate("registrations", "registrations/s"),
            rate("log-ins", "log-ins/s"),
            rate("wrong", "wrong passwords/s"),
            rate("look-ups", "look-ups/s"),
        ];
        lines.push(of_users.concat());
    }
    let elastic = elastic.into_iter().map(Text::from);
    let text: Vec<_> = lines.into_iter().map(Text::from).chain(elastic).collect();
    frame.render_widget(Paragraph::new(text).block(block("traffic")), area);
}

/// Names that are no members and what does not work, then what has happened, the newest first.
fn draw_news(frame: &mut Frame<'_>, area: Rect, scene: &Scene, now: Instant) {
    let names = match &scene.answer.role {
        Role::Pool { members, .. } => &members.names[..],
        Role::Proxy(_) => &[],
    };
    let degraded = scene.answer.health.degraded.iter().cloned();
    let trouble = names.iter().filter_map(trouble).chain(degraded);
    let names = trouble.map(|text| Text::from(text.trim().to_owned()).fg(Color::Red));
    let news = scene.news.iter().map(|(at, news)| {
        let ago = format!("{:>7} ago  ", span((now - *at).as_secs_f64()));
        Text::from(vec![Span::from(ago).style(DIM), Span::from(news.as_str())])
    });
    let mut text: Vec<_> = names.chain(news).collect();
    if text.is_empty() {
        text.push(Text::from("nothing since the watch began").style(DIM));
    }
    let text = Paragraph::new(text).wrap(Wrap { trim: false });
    frame.render_widget(text.block(block("what happens")), area);
}

#[cfg(test)]
mod tests {
    use super::super::scene::tests::pool;
    use super::super::scene::{Answer, Scene};
    use super::super::tests::{health, member};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;
    use server::figures::{HealthView, MemberView, ScaleView};
    use std::time::Duration;

    /// What a terminal of this size shows, row by row.
    fn shown(scene: &Scene, (columns, rows): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, scene, Instant::now())).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..rows).map(row).collect()
    }

    fn members(count: u8) -> Vec<MemberView> {
        let times = json!({ "count": 9, "p50": 3.5, "p90": 9.0, "p99": 21.0, "max": 40.0 });
        let one = |last: u8| {
            let address = format!("10.0.0.{last}:5060");
            let more = json!({ "calls": 40 + last, "work": 2.75, "transactions": 2, "invite_ms": times });
            member(&address, if last == 2 { "draining" } else { "up" }, &more)
        };
        (1..=count).map(one).collect()
    }

    fn find<'a>(rows: &'a [String], what: &str) -> &'a str {
        rows.iter().find(|row| row.contains(what)).unwrap_or_else(|| panic!("{what:?} in {rows:#?}"))
    }

    #[test]
    fn all_that_matters_fits_in_80_columns() {
        let start = Instant::now();
        let mut scene = Scene::new("127.0.0.1:8060".to_owned(), start, pool(60.0, members(4)));
        scene.take(start + Duration::from_secs(1), Ok(pool(61.0, members(4))));
        let rows = shown(&scene, (80, 24));
        find(&rows, "127.0.0.1:8060  version 1.2.3  up 1m 1s  policy tlwl");
        find(&rows, "new calls go to 4 of 4 members");
        let header = find(&rows, "p99 ms");
        assert!(
            ["member", "state", "calls", "open", "work", "calls/s", "p50 ms"]
                .iter()
                .all(|c| header.contains(c))
        );
        let row = find(&rows, "10.0.0.2:5060");
        for cell in ["● draining", " 42 ", "2.8", "3.50", "21.0"] {
            assert!(row.contains(cell), "{cell:?} in {row:?}");
        }
        find(&rows, "170 calls in progress");
        find(&rows, "nothing since the watch began");
        assert!(rows.last().unwrap().ends_with(" q quits "), "{rows:#?}");
    }

    #[test]
    fn the_pool_of_each_member_is_seen_where_there_are_several() {
        let mut answer = pool(60.0, members(4));
        answer.health.pools = super::super::tests::several_pools();
        answer.health.degraded = vec!["no member of spare takes new calls: there is none".to_owned()];
        if let Role::Pool { members, .. } = &mut answer.role {
            members.members[1].pools = vec!["core".to_owned(), "spare".to_owned()];
        }
        let rows = shown(&Scene::new("127.0.0.1:8060".to_owned(), Instant::now(), answer), (80, 24));
        find(&rows, "3 pools");
        assert!(find(&rows, "p99 ms").contains(" pool "), "{rows:#?}");
        assert!(find(&rows, "10.0.0.2:5060").contains(" cor… "), "{rows:#?}");
        assert!(find(&rows, "10.0.0.3:5060").contains(" ser… "), "{rows:#?}");
        find(&rows, "no member of spare takes new calls");
        let one = shown(&Scene::new("x".to_owned(), Instant::now(), pool(60.0, members(4))), (80, 24));
        assert!(!one.iter().any(|row| row.contains("servers")), "one pool needs no column");
    }

    #[test]
    fn queues_and_servers_that_come_and_go_have_a_line_each() {
        let mut answer = pool(60.0, members(4));
        answer.health.pools = super::super::tests::several_pools();
        let queue = json!({
            "waiting": 7, "offered": 20, "delivered": 12, "refused": 3, "expired": 2, "cancelled": 1, "moved": 0, "copies": 5,
            "mean_wait_ms": 12.5, "members": [{
                "address": "10.0.0.1:5060", "calls_per_second": 100.0, "silent": false, "by": "monitor", "unanswered": 0,
                "unanswered_most": 2.0
            }],
        });
        answer.health.pools[0].queue = Some(serde_json::from_value(queue).expect("a queue"));
        let name = answer.health.pools[0].name.clone();
        answer.scales = vec![ScaleView {
            pool: name.clone(),
            driver: "local".to_owned(),
            wanted: 3,
            ..ScaleView::default()
        }];
        let scene = Scene::new("x".to_owned(), Instant::now(), answer);
        let rows = shown(&scene, (80, 24));
        find(&rows, &format!("queue of {name}: 7 calls waiting, 12 delivered, 5 refused"));
        find(&rows, &format!("servers of {name} (local): none known; 3 wanted"));
        assert!(rows.last().unwrap().ends_with(" q quits "), "{rows:#?}");
        // However small it is, nothing breaks.
        shown(&scene, (20, 5));
    }

    #[test]
    fn more_members_than_rows_are_scrolled_through() {
        let mut scene = Scene::new("x".to_owned(), Instant::now(), pool(60.0, members(40)));
        let rows = shown(&scene, (80, 24));
        find(&rows, "10.0.0.12:5060");
        assert!(!rows.iter().any(|row| row.contains("10.0.0.40:5060")));
        find(&rows, "↑ ↓ other members");
        scene.skipped = 39;
        find(&shown(&scene, (80, 24)), "10.0.0.40:5060");
        // However small it is, nothing breaks.
        for size in [(1, 1), (20, 5), (200, 60)] {
            shown(&scene, size);
        }
        // Members leave while one is far below.
        for left in [3, 0] {
            scene.take(Instant::now(), Ok(pool(61.0, members(left))));
            let rows = shown(&scene, (80, 24));
            let is_last = |row: &&String| row.contains("10.0.0.3:5060") && row.contains("● up");
            assert_eq!(rows.iter().filter(is_last).count(), usize::from(left == 3), "{rows:#?}");
        }
    }

    #[test]
    fn a_server_that_is_gone_and_one_without_members_are_seen() {
        let down = vec![member("10.0.0.1:5060", "down", &json!({ "accepting": false }))];
        let mut scene = Scene::new("x".to_owned(), Instant::now(), pool(60.0, down));
        find(&shown(&scene, (80, 24)), "no member takes new calls");
        scene.take(Instant::now(), Err("nothing listens on 127.0.0.1:8060.\nIs it running?".to_owned()));
        find(&shown(&scene, (80, 24)), "no answer for 0s: nothing listens on 127.0.0.1:8060.");
    }

    #[test]
    fn a_proxy_shows_its_next_hops() {
        let proxy = serde_json::from_value(json!({
            "next": [{ "address": "10.0.0.1:5060", "resting": true }],
            "transactions": 12, "max_transactions": 1000, "memory_bytes": 9000, "max_memory_bytes": 20_000_000,
            "unanswered": 3, "forwarded_total": 40,
            "retried_total": 2, "stateless_total": 20, "relayed_total": 90, "forked_total": 0, "rung_out_total": 0,
            "cancelled_total": 0, "refused_total": 1, "stray_total": 0
        }));
        let why = "Redis at 192.0.2.1:6379: Connection refused (os error 111)";
        let down = vec![format!("the store of registrations (redis) is down: {why}")];
        let health = HealthView { degraded: down, ..health("proxy") };
        let registrar = Some(super::super::registrar::tests::registrar());
        let answer = Answer { health, role: Role::Proxy(proxy.unwrap()), registrar, scales: Vec::new() };
        let rows = shown(&Scene::new("x".to_owned(), Instant::now(), answer), (80, 24));
        find(&rows, "0 registrations/s  0 log-ins/s  0 wrong passwords/s  0 look-ups/s");
        find(&rows, "the store of registrations (redis) is down: Redis at 192.0.2.1:6379:");
        find(&rows, "(os error 111)");
        assert!(find(&rows, "10.0.0.1:5060").contains("● failed, gets none while"));
        find(&rows, "12 of 1000 transactions");
        find(&rows, "new calls are taken, but not all works: see below");
    }
}

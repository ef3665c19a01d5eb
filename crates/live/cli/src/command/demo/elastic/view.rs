//! The live view: each server with its capacity and load, curves of all servers, and events.

use super::cluster::THRESHOLD;
use super::scene::{Line, STOPPED, Sample, Scene, shortened};
use super::story::PHASES;
use crate::command::demo::view::{alarm, bar, count, draw_head, draw_news, draw_rows, draw_text, right};
use crate::command::load::table::milliseconds;
use crate::picture::{ACCENT, DIM, area, draw_keys};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Row};

/// Widths of the columns; the bar gets the remaining width.
const WIDTHS: [u16; 8] = [6, 10, 0, 7, 4, 5, 7, 9];
const BAR: usize = 2;
/// Calls a second of a full bar: a little more than a server carries.
const BAR_FULL: f64 = 80.0;
/// Cells before a curve.
const CURVE_FROM: u16 = 28;

pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>) {
    let area = area(frame);
    let fixed = [4, scene.lines.len() as u16 + 3, 6, 1];
    let below = area.height.saturating_sub(fixed.iter().sum());
    let rows = Constraint::from_lengths([fixed[0], fixed[1], fixed[2], below, fixed[3]]);
    let [head, servers, all, below, foot] = Layout::vertical(rows).areas(area);
    draw_head(frame, head, now(scene), (scene.seconds, scene.story.total));
    draw_servers(frame, servers, scene);
    draw_all(frame, all, scene);
    draw_news(frame, below, scene.news);
    draw_keys(frame, foot, &format!("{}   q quits ", shortened(&scene.story.pace)));
}

fn now<'a>(scene: &Scene<'a>) -> Vec<Span<'a>> {
    let phase = scene.phase();
    vec![
        Span::from(format!("phase {}/{}  ", scene.index + 1, PHASES.len())),
        Span::from(phase.name).fg(Color::Yellow).bold(),
        Span::from(format!("  {}", phase.shows)).style(DIM),
    ]
}

fn draw_servers(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let mut widths = WIDTHS;
    // Frame and padding are 4 cells, and one cell separates columns.
    let others = widths.iter().sum::<u16>() + widths.len() as u16 - 1 + 4;
    widths[BAR] = area.width.saturating_sub(others);
    let header = ["server", "state", "gets █, capacity ░", "calls/s", "of", "calls", "p95 ms", ""];
    let rows = scene.lines.iter().map(|line| row(line, widths[BAR].into()));
    draw_rows(frame, area, "servers, with capacity by response time", (header, 3..=6, widths), rows);
}

fn row(line: &Line, bar_cells: usize) -> Row<'static> {
    let state = match &*line.state {
        "ready" => Style::new().fg(Color::Green),
        "starting" => Style::new().fg(Color::Yellow),
        STOPPED => DIM,
        _ => Style::new().fg(Color::Blue),
    };
    if line.state == STOPPED {
        return Row::new([Cell::from(line.name.clone()), Cell::from(Span::from("○ stopped"))]).style(DIM);
    }
    let late = line.p95_us.is_some_and(|micros| u128::from(micros) > THRESHOLD.as_micros());
    let p95 = right(&line.p95_us.map_or("-".to_owned(), milliseconds));
    let neighbour = if line.has_neighbour { Span::from("neighbour").fg(Color::Red) } else { Span::from("") };
    Row::new([
        Cell::from(line.name.clone()).bold(),
        Cell::from(Span::from(format!("● {}", line.state)).style(state)),
        Cell::from(load_bar(line, bar_cells)),
        right(&format!("{:.0}", line.calls_per_second)),
        right(&line.capacity.map_or("-".to_owned(), |capacity| format!("{capacity:.0}"))),
        right(&line.calls),
        if late { p95.fg(Color::Red) } else { p95 },
        Cell::from(neighbour),
    ])
}

/// Bar of the calls that a server gets, and of its remaining capacity.
fn load_bar(line: &Line, cells: usize) -> Text<'static> {
    let length = |rate: f64| ((rate / BAR_FULL).clamp(0.0, 1.0) * cells as f64).round() as usize;
    let full = length(line.calls_per_second);
    let open = length(line.capacity.unwrap_or(0.0)).saturating_sub(full);
    bar(full, open, ACCENT)
}

fn draw_all(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let (calls, now) = (scene.calls, scene.now());
    let made = [
        count(&calls.calls_started, " calls  "),
        count(&calls.calls_in_progress, " in progress  "),
        count(&scene.waiting, " waiting  "),
        alarm(calls.calls_failed(), " lost  "),
        count(&format!("{:.0}", scene.usage.server_seconds), " server-seconds"),
    ];
    let cells = usize::from(area.width.saturating_sub(CURVE_FROM + 4));
    let most = scene.samples.iter().map(|sample| sample.offered.max(sample.capacity)).fold(1.0, f64::max);
    let curve = |label: String, of: fn(&Sample) -> f64, top: f64, color: Color| {
        let mut spans = vec![Span::from(format!("{label:<width$}", width = usize::from(CURVE_FROM)))];
        spans.push(Span::from(curve(scene, cells, of, top)).fg(color));
        Text::from(spans)
    };
    let servers = scene.lines.len().max(1) as f64;
    let there = format!("{} wanted, {} ready", scene.wanted, scene.ready);
    let text = vec![
        Text::from(made.concat()),
        curve(
            format!("offered   {:>4.0} calls/s", now.offered),
            |sample| sample.offered,
            most,
            Color::Yellow,
        ),
        curve(
            format!("capacity  {:>4.0} calls/s", now.capacity),
            |sample| sample.capacity,
            most,
            Color::Green,
        ),
        curve(format!("servers   {there}"), |sample| sample.running as f64, servers, ACCENT),
    ];
    draw_text(frame, area, "calls and servers, over the time of the demo", text);
}

/// Curve of a figure. Its length grows to `cells` at the end of the story.
fn curve(scene: &Scene<'_>, cells: usize, of: fn(&Sample) -> f64, top: f64) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut text = String::new();
    for cell in 0..cells {
        let at = scene.story.total * cell as f64 / cells.max(1) as f64;
        if at > scene.seconds {
            break;
        }
        let place = scene.samples.partition_point(|sample| sample.seconds <= at).saturating_sub(1);
        let height = scene.samples.get(place).map_or(0.0, |sample| of(sample) / top).clamp(0.0, 1.0);
        text.push(STEPS[(height * (STEPS.len() - 1) as f64).round() as usize]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::cluster::{COUNT, name};
    use super::super::scene::Usage;
    use super::super::story::Story;
    use super::*;
    use crate::command::demo::view::{assert_shown, rows};
    use load::CallResults;

    fn line(index: usize, state: &str) -> Line {
        let is_ready = state == "ready";
        Line {
            name: name(index),
            state: state.to_owned(),
            capacity: is_ready.then_some(61.2),
            calls_per_second: if is_ready { 44.8 } else { 0.0 },
            calls: if state == STOPPED { 0 } else { 123 },
            p95_us: is_ready.then_some(1_234_567),
            has_neighbour: index == 0,
        }
    }

    #[test]
    fn the_picture_fits_in_80_columns_and_24_rows() {
        let states = ["ready", "ready", "draining", "stopping", "starting", STOPPED];
        let lines: Vec<_> = states.iter().enumerate().map(|(index, state)| line(index, state)).collect();
        assert_eq!(lines.len(), COUNT);
        let sample = |second: u32| Sample {
            seconds: second.into(),
            offered: f64::from(second) * 2.0,
            capacity: 180.0,
            running: 5,
        };
        let samples: Vec<_> = (0..=60).map(sample).collect();
        let news = ["the first", "the second", "the third"].map(str::to_owned);
        let scene = Scene {
            story: &Story::of(120.0),
            index: 2,
            seconds: 60.0,
            lines: &lines,
            samples: &samples,
            wanted: 5,
            ready: 4,
            waiting: 17,
            calls: &CallResults { calls_started: 12_345, calls_in_progress: 321, ..CallResults::default() },
            usage: Usage { server_seconds: 412.3, most: 6, seconds: 60.0 },
            news: &news,
        };
        let shown = [
            "phase 3/5  busy neighbour  pbx-1 gets fewer calls",
            "pbx-1  ● ready    ████████████░░░░  ",
            "     45   61   123    1235 neighbour",
            "pbx-3  ● draining",
            "pbx-6  ○ stopped",
            "12345 calls  321 in progress  17 waiting  0 lost  412 server-seconds",
            "offered    120 calls/s      ▁",
            "servers   5 wanted, 4 ready ▇▇▇",
            "the third",
            "stop after 3 s   q quits ",
            "gets █, capacity ░",
        ];
        let rows = rows(|frame| draw(frame, &scene));
        assert_shown(&rows, &shown);
        assert!(rows.iter().all(|row| !row.contains("the first")), "only the last two lines fit: {rows:#?}");
        for phase in PHASES {
            let before = format!("phase 1/5  {}  ", phase.name);
            assert!(before.len() + phase.shows.len() <= 76, "{}", phase.shows);
        }
    }
}

//! The report of a small figure with every kind of element.

use papers::report::{
    Axis, Figure, Plot, PlotSeries, Point, ReportTable, Statement, StatementVerdict, Style, write,
};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns a figure with intervals, a gap and a capacity; bars by name; a long step series with a mark, logarithmic.
fn figure() -> Figure {
    let mut curves =
        Plot::new("Goodput <of> \"all\"", Axis::linear("load (calls/s)"), Axis::linear("goodput (calls/s)"));
    let mut measured = PlotSeries::new(
        "hop-by-hop, loss",
        Style::Line,
        [(50.0, 50.0), (150.0, f64::NAN), (200.0, 0.1 + 0.2)],
    );
    measured.points[0].half_width = Some(2.5);
    curves.series(measured);
    curves.series(PlotSeries::new(
        "none",
        Style::Line,
        [(50.0, 50.0), (150.0, 140.0), (250.0, 10.0), (300.0, 4.0)],
    ));
    curves
        .series(PlotSeries::new("ideal", Style::Law, [(0.0, 0.0), (140.0, 140.0), (300.0, 140.0)]).colour(7));
    curves.level("capacity", 140.0);

    let mut bars = Plot::new("Peak", Axis::names("policy", ["tlwl", "round-robin"]), Axis::linear("calls/s"));
    bars.series(PlotSeries::new("8 servers", Style::Line, [(0.0, 2370.0), (1.0, 1950.0)]));
    let mut unequal = PlotSeries::new("2 servers, $1 < $2", Style::Line, [(0.0, 440.0), (1.0, 300.0)]);
    unequal.points[1].half_width = Some(30.0);
    bars.series(unequal);

    let mut steps = Plot::new("Queue", Axis::linear("time (s)").from_to(0.0, 100.0), Axis::log("messages"));
    let points = (0..120).map(|t| {
        let y = if t % 40 == 0 { 0.0 } else { f64::from(t * t) };
        Point { x: f64::from(t), y, half_width: Some(5.0 * f64::from(t)) }
    });
    steps.series(PlotSeries { points: points.collect(), ..PlotSeries::new("edge", Style::Step, []) });
    steps.mark("burst ends", 60.0);

    let claims = vec![
        Statement::check("section V-B", "Goodput collapses & stays low.", "4 calls/s at 300", true)
            .differs_by("not shown where it holds"),
        Statement::check("section V-C", "It recovers <b>at once</b>.", "after 12 s", false)
            .about(1)
            .differs_by("the <queue> is long"),
        Statement::check("section VII", "Both are alike.", "0.1 ± 0.3 ms", StatementVerdict::Open).about(1),
        Statement::out_of_reach("table II", "A call costs 3 ms.", "2.1 ms", "no such machine").about(2),
    ];
    let mut table = ReportTable::new(["name", "calls/s"]);
    table.rows.push(vec!["<main>".into(), "1.5 ± 0.1".into()]);
    Figure {
        command: "sarabande sim figure overload-0 --out DIR --seed 42 --quick".into(),
        name: "overload-0".into(),
        title: "One of <everything>".into(),
        source: "Overload paper, figure 0".into(),
        tables: vec![table],
        plots: vec![curves, bars, steps],
        claims,
        assumptions: vec!["The queue is \"long\" & patient.".into()],
        notes: vec!["<script>alert('none')</script>".into()],
        seed: 42,
        quick: true,
    }
}

fn written(folder: &str, figures: &[Figure]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    if dir.exists() {
        fs::remove_dir_all(&dir).expect("what an earlier run left can go");
    }
    let page = write(&dir, figures).expect("the folder can be written");
    assert_eq!(page, dir.join("report.html"));
    dir
}

fn text(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).expect("it was written")
}

/// Returns the page without pictures and style sheet.
fn structure(page: &str) -> String {
    let without = |page: &str, from: &str, to: &str| {
        let mut parts = page.split(from);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |page, part| page + from + to + part.split_once(to).expect("it ends").1)
    };
    without(&without(page, "<svg", "</svg>"), "<style>", "</style>")
}

#[test]
fn tables_hold_every_number_as_it_was() {
    let dir = written("tables", &[figure()]);
    insta::assert_snapshot!("curves", text(&dir, "overload-0a.csv"));
    insta::assert_snapshot!("bars", text(&dir, "overload-0b.csv"));
    let row = text(&dir, "overload-0a.csv").lines().find(|row| row.contains(",200,")).unwrap().to_owned();
    let number: f64 = row.split(',').nth_back(2).unwrap().parse().unwrap();
    assert_eq!(number.to_bits(), (0.1_f64 + 0.2).to_bits());
}

#[test]
fn the_page_puts_each_plot_beside_its_statements() {
    let page = text(&written("page", &[figure()]), "report.html");
    insta::assert_snapshot!("page", structure(&page));
    assert_eq!(page.matches("<svg").count(), 3);
}

#[test]
fn text_is_never_markup_and_nothing_refers_to_another_server() {
    let dir = written("markup", &[figure()]);
    for name in ["report.html", "overload-0a.svg", "overload-0b.svg", "overload-0c.svg"] {
        let text = text(&dir, name).replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        let markup = ["<script", "<b>", "<of>", "<everything>", "& "];
        let references = ["http:", "https:", "url(//", "src=", "@import", "<link"];
        for wrong in markup.into_iter().chain(references) {
            assert!(!text.contains(wrong), "{name} has {wrong}");
        }
    }
    // A dollar sign does not start a formula.
    assert!(text(&dir, "overload-0b.svg").contains("2 servers, $1 &lt; $2"));
}

#[test]
fn pictures_are_complete() {
    let dir = written("pictures", &[figure()]);
    for stem in ["overload-0a", "overload-0b", "overload-0c"] {
        let svg = text(&dir, &format!("{stem}.svg"));
        assert!(svg.starts_with("<svg viewBox=\"0 0 760 400\" xmlns=") && svg.ends_with("</svg>"), "{stem}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{stem} draws what is no number");
    }
    let curves = text(&dir, "overload-0a.svg");
    for label in ["capacity", "ideal", "load (calls/s)", "Goodput &lt;of&gt; &quot;all&quot;"] {
        assert!(curves.contains(&format!(">{label}</text>")), "{label}");
    }
}

#[test]
fn statements_without_a_plot_are_shown_too() {
    let plain = Figure { name: "plain".into(), plots: Vec::new(), ..figure() };
    assert_eq!(plain.stem(0), "plain");
    let page = text(&written("plain", &[plain]), "report.html");
    assert_eq!(page.matches("<article").count(), 4);
}

#[test]
fn a_page_without_statements_promises_none() {
    let scenario = Figure { claims: Vec::new(), ..figure() };
    let page = structure(&text(&written("scenario", &[scenario]), "report.html"));
    assert!(page.contains("<h1>Simulated scenario</h1>") && page.contains("stands below them"), "{page}");
    for promise in ["what its source states", "statement", "confidence", "<nav>"] {
        assert!(!page.contains(promise), "{promise}");
    }
    // Pictures, tables and assumptions are still there.
    assert!(page.contains("overload-0c.csv") && page.contains("<h3>Assumptions</h3>"));
}

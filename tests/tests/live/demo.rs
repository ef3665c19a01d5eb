//! The demonstration of the README.

use sarabande_tests::{TestSite, Tool};

/// `sarabande demo --quick` plays all acts and exits with success. Its last screen has a verdict of each act with what
/// was measured, and the next steps. The features serve more calls than the plain alternatives.
#[test]
fn the_demo_plays_five_acts_and_says_what_was_measured() {
    let field = TestSite::new("demo");
    let (status, output) = Tool::run(&field, &["demo", "--quick"]);
    assert!(status.success(), "{status}\n{output}");
    let (_, summary) = output.split_once("measured in this run").expect(&output);
    let words = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    // All numbers of the sentence that starts so.
    let numbers = |start: &str| {
        let (_, rest) = words.split_once(start).unwrap_or_else(|| panic!("{start}: {summary}"));
        let sentence = rest.split(". ").next().unwrap_or_default();
        let words = sentence.split(' ').map(|word| word.trim_matches(['.', ',', ':', ';', '(', ')']));
        words.filter_map(|word| word.parse().ok()).collect::<Vec<f64>>()
    };
    assert_eq!(numbers("99 % of the calls were answered").len(), 2, "round-robin and tlwl: {summary}");
    let [plain, _, with, started, ..] = numbers("A server died:")[..] else { panic!("{summary}") };
    assert!(plain > 0.0 && with < 1.0 && started > 500.0, "{summary}");
    let [_, _, _, with, _, before, _] = numbers("A server lost")[..] else { panic!("{summary}") };
    assert!(with < before, "share of the slow server: {summary}");
    let [.., plain, _, with] = numbers("A server for")[..] else { panic!("{summary}") };
    assert!(with > plain, "calls/s answered in time: {summary}");
    let [_, plain, _, with, _] = numbers("The balancer was restarted")[..] else { panic!("{summary}") };
    assert!(plain > 0.0 && with < 1.0, "{summary}");
    assert!(words.contains("Next, for your own servers, write a file pool.toml: "), "{summary}");
}

/// `sarabande demo proxy --quick` runs to its end and exits with success. Call state moves from the first proxy to the
/// second under load, and back. It uses modelled costs, since real ones depend on the machine's other work.
#[test]
fn state_moves_between_the_proxies_of_the_demo() {
    let field = TestSite::new("demo-proxy");
    let (status, output) = Tool::run(&field, &["demo", "proxy", "--quick"]);
    assert!(status.success(), "{status}\n{output}");
    let (_, summary) = output.split_once("At the end of each phase:").expect(&output);
    // Percentages of the calls whose state edge and core keep.
    let keeps = |phase: &str| {
        let row = summary.lines().find_map(|line| line.trim().strip_prefix(phase)?.strip_prefix("  "));
        let row = row.unwrap_or_else(|| panic!("{phase}: {summary}"));
        let figures: Vec<u32> = row.split_whitespace().filter_map(|cell| cell.parse().ok()).collect();
        [figures[2], figures[4]]
    };
    for quiet in ["quiet", "quiet again"] {
        assert_eq!(keeps(quiet), [100, 0], "{summary}");
    }
    let [edge, core] = keeps("busier");
    assert!(edge < 100 && core > 0, "{summary}");
    assert!(summary.contains(" calls, 0 lost;"), "{summary}");
    assert!(summary.contains("\n2 phones registered, "), "{summary}");
}

/// `sarabande demo elastic --quick` runs to its end and exits with success. No call is lost, servers come and go with
/// the calls, and the one with a busy neighbour gets fewer calls during that time.
#[test]
fn servers_of_the_demo_are_started_and_stopped_and_one_is_disturbed() {
    let field = TestSite::new("demo-elastic");
    let (status, output) = Tool::run(&field, &["demo", "elastic", "--quick"]);
    assert!(status.success(), "{status}\n{output}");
    let (story, summary) = output.split_once("In the second half of each phase").expect(&output);
    let count = |text: &str| story.lines().filter(|line| line.contains(text)).count();
    assert!(count(" is started") >= 4, "for the first calls, and for those that came: {story}");
    assert!(count(" is drained: ") >= 1 && count(" is stopped: ") >= 1, "{story}");
    for line in ["a neighbour takes 85 % of pbx-1's processor", "the neighbour of pbx-1 is gone"] {
        assert_eq!(count(line), 1, "{line}: {story}");
    }
    // Number of servers, and the first one's percentage of the calls.
    let figures = |phase: &str| {
        let row = summary.lines().find_map(|line| line.trim().strip_prefix(phase)?.strip_prefix("  "));
        let row = row.unwrap_or_else(|| panic!("{phase}: {summary}"));
        let figures: Vec<f64> = row.split_whitespace().filter_map(|cell| cell.parse().ok()).collect();
        (figures[2], figures[4])
    };
    let [few, busy, last] = ["few callers", "callers come", "callers go"].map(|phase| figures(phase).0);
    assert!(few < busy && last < busy, "servers: {summary}");
    let [before, disturbed, after] =
        ["callers come", "busy neighbour", "neighbour gone"].map(|phase| figures(phase).1);
    assert!(disturbed < 0.75 * before && disturbed < 0.75 * after, "share: {summary}");
    assert!(summary.contains(" calls, 0 lost;"), "{summary}");
}

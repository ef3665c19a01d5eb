//! The demonstration of the README.

use sarabande_tests::{TestSite, Tool};

/// `sarabande demo --quick` runs to its end and exits with success. Its summary has a row for each policy and a report
/// of the crash.
#[test]
fn the_quick_demo_plays_to_its_end() {
    let field = TestSite::new("demo");
    let (status, output) = Tool::run(&field, &["demo", "--quick"]);
    assert!(status.success(), "{status}\n{output}");
    let (_, summary) = output.split_once("calls/s to four servers of unequal speed").expect(&output);
    let row = |policy: &str| {
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let rows = summary.lines().map(|line| cells(line.trim_matches(['|', ' '])));
        let mut rows =
            rows.map(|row| row.into_iter().filter(|cell| cell != "|" && cell != "┆").collect::<Vec<_>>());
        rows.find(|row| row.first().is_some_and(|cell| cell == policy))
            .unwrap_or_else(|| panic!("{policy}: {summary}"))
    };
    for policy in ["round-robin", "tlwl"] {
        let row = row(policy);
        let calls: u64 = row[1].parse().unwrap_or_else(|_| panic!("{row:?}"));
        assert!(calls > 100, "{row:?}");
        assert_eq!(row[2], "0", "calls lost: {row:?}");
        assert_eq!(row.len(), 8, "{row:?}");
    }
    for line in ["  0 new calls lost", " answered calls ended by the crash", "  0 messages at a wrong server"]
    {
        assert!(summary.contains(line), "{line:?}: {summary}");
    }
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

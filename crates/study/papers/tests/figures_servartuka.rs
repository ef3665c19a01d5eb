//! The SERvartuka paper's figures of runs of seconds, compared with those in the repository: a change of behaviour is
//! a diff to read.

mod tables;

const FIGURES: [&str; 5] =
    ["servartuka-1", "servartuka-2", "servartuka-3", "servartuka-4", "servartuka-order"];

/// Verdicts of runs as short as these mean nothing; that they are what they were does.
#[test]
fn the_figures_of_short_runs_are_those_in_the_repository() {
    insta::assert_snapshot!(tables::tables(&FIGURES));
}

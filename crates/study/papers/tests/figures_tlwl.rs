//! The figures about policies of runs of seconds, compared with those in the repository: a change of behaviour is a
//! diff to read.

mod tables;

const FIGURES: [&str; 7] =
    ["tlwl-2", "tlwl-3", "tlwl-4", "tlwl-5", "tlwl-occupancy", "tlwl-unequal", "policy-failing"];

/// Verdicts of runs as short as these mean nothing; that they are what they were does.
#[test]
fn the_figures_of_short_runs_are_those_in_the_repository() {
    insta::assert_snapshot!(tables::tables(&FIGURES));
}

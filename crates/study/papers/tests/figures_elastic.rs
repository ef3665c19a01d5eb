//! The figures about servers in a cloud of runs of seconds, compared with those in the repository: a change of
//! behaviour is a diff to read.

mod tables;

const FIGURES: [&str; 10] = [
    "smace-3",
    "smace-5",
    "smace-6",
    "smace-7",
    "smace-8",
    "smace-database",
    "smace-card",
    "scale-day",
    "scale-flash",
    "queue-pauses",
];

/// Verdicts of runs as short as these mean nothing; that they are what they were does.
#[test]
fn the_figures_of_short_runs_are_those_in_the_repository() {
    insta::assert_snapshot!(tables::tables(&FIGURES));
}

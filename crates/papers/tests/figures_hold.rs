//! Figures whose short runs take seconds and are enough to judge by: all that their sources state must hold.

use core::num::NonZero;
use papers::figures::{Effort, Options, find};
use papers::report::ClaimVerdict;

fn assert_holds(name: &str) {
    let options =
        Options { seed: 1, effort: Effort::Quick, threads: NonZero::new(2).expect("two is not zero") };
    let figure = (find(name).expect("it is listed").run)(&options, &|_| {});
    assert!(!figure.claims.is_empty(), "{name} states something");
    for claim in &figure.claims {
        let (statement, measured) = (&claim.statement, &claim.measured);
        assert_eq!(claim.verdict, ClaimVerdict::Holds, "{name}: {statement} Measured: {measured}");
    }
}

#[test]
fn queues_follow_their_laws() {
    assert_holds("mm1");
}

#[test]
fn one_server_collapses_and_does_not_recover() {
    assert_holds("overload-7");
}

//! Table of `docs/evidence/overload-members.md`, made by the harness; `UPDATE_DOCS=1` rewrites it.

use super::harness::*;
use overload::member::MemberLaw;

/// Scenario: its name, members, load from a time on, and the seconds that are evaluated.
struct Scenario {
    name: &'static str,
    members: Vec<Member>,
    shards: usize,
    load: Vec<(f64, f64)>,
    judged: (usize, usize),
    /// Capacity of the members in these seconds, in calls a second.
    capacity: f64,
    is_below_capacity: bool,
    /// Least goodput of the default law, in percent.
    least_good: f64,
}

const LAWS: [Option<MemberLaw>; 4] =
    [None, Some(MemberLaw::Aimd), Some(MemberLaw::Vegas), Some(MemberLaw::Gradient)];

fn of(name: &'static str, members: Vec<Member>, load: &[(f64, f64)], judged: (usize, usize)) -> Scenario {
    let capacity = members.iter().map(Member::capacity).sum();
    Scenario {
        name,
        members,
        shards: 1,
        load: load.to_vec(),
        judged,
        capacity,
        is_below_capacity: false,
        least_good: 95.0,
    }
}

fn below_at(name: &'static str, members: Vec<Member>, load: &[(f64, f64)]) -> Scenario {
    Scenario { is_below_capacity: true, least_good: 97.0, ..of(name, members, load, (0, 60)) }
}

fn below(name: &'static str, member: Member) -> Scenario {
    below_at(name, vec![member], &[(0.0, 160.0)])
}

/// Loads below the capacity at which a limit would do harm.
fn below_capacity() -> Vec<Scenario> {
    let one = Member::default;
    let paused = |name, period, length, load| {
        let member = Member { pauses: Some((period, length)), ..Member::of(2_000.0) };
        Scenario { least_good: 90.0, ..below_at(name, vec![member], &[(0.0, load)]) }
    };
    let quick = || Member::of(500.0);
    let ten: Vec<_> = (0..10).map(|at| if at == 0 { Member::of(20.0) } else { Member::of(100.0) }).collect();
    vec![
        below("0.8x", one()),
        below("0.8x, rings 0.2 to 5 s and sends no 100", Member { rings: (0.2, 5.0), ..one() }),
        below("0.8x, 16 workers", Member { price: 0.08, workers: 16, ..one() }),
        below_at("0.95x, 500 calls/s", vec![quick()], &[(0.0, 475.0)]),
        below_at(
            "0.95x, answers after 50 ms",
            vec![Member { rings: (0.05, 0.051), ..quick() }],
            &[(0.0, 475.0)],
        ),
        below_at("0.95x, 100 ms away", vec![Member { away: 0.1, ..quick() }], &[(0.0, 475.0)]),
        below_at("2 calls/s", vec![Member::of(10.0)], &[(0.0, 2.0)]),
        below_at(
            "200 calls after silence",
            vec![quick()],
            &[(0.0, 0.0), (20.0, 4_000.0), (20.05, 0.0), (40.0, 4_000.0), (40.05, 0.0)],
        ),
        below_at("0.8x, ten members, one at a fifth of the speed", ten, &[(0.0, 730.0)]),
        paused("0.9x, stops for 19 of 20 ms", 0.02, 0.019, 90.0),
        paused("0.9x, stops for 80 of 100 ms", 0.1, 0.08, 360.0),
        paused("0.95x, stops for 50 of 100 ms", 0.1, 0.05, 950.0),
        paused("0.8x, stops for 300 ms every 5 s", 5.0, 0.3, 1_500.0),
        paused("0.5x, stops for 1 s every 45 s", 45.0, 1.0, 970.0),
        paused("0.8x, stops for 200 ms every second", 1.0, 0.2, 1_280.0),
    ]
}

fn scenarios() -> Vec<Scenario> {
    let one = Member::default;
    let step = |load| [(0.0, 100.0), (10.0, load)];
    let after = |member| Member { stall: Some((30.0, 32.0)), ..member };
    let stalls = || after(one());
    let fails = || Member { fails: 0.05, ..one() };
    let after_stall = |scenario| Scenario { least_good: 90.0, ..scenario };
    let half = Member { speeds: vec![(0.0, 1.0), (30.0, 0.5)], ..one() };
    let half = of("0.8x, half the CPU from 30 s on, 2 s later", vec![half], &[(0.0, 160.0)], (32, 60));
    let unequal = [50.0, 100.0, 200.0].map(Member::of).to_vec();
    let above = vec![
        Scenario {
            least_good: 90.0,
            ..of(
                "1.5x after 0.95x, first 10 s",
                vec![Member::of(2_000.0)],
                &[(0.0, 1_900.0), (20.0, 3_000.0)],
                (20, 30),
            )
        },
        of("2x", vec![one()], &step(400.0), (20, 60)),
        of("10x", vec![one()], &step(2_000.0), (20, 60)),
        of("10x, the first 10 s of it", vec![one()], &step(2_000.0), (10, 20)),
        of("10x from the start", vec![one()], &[(0.0, 2_000.0)], (5, 60)),
        of("10x, 2,000 calls/s", vec![Member::of(2_000.0)], &[(0.0, 1_000.0), (10.0, 20_000.0)], (20, 40)),
        of(
            "10x, 1 INVITE of 20 is never answered",
            vec![Member { swallows: 0.05, ..one() }],
            &step(2_000.0),
            (20, 60),
        ),
        of("2x, room for 64 messages", vec![Member { buffer: 64, ..one() }], &step(400.0), (20, 60)),
        of("10x, room for 64 messages", vec![Member { buffer: 64, ..one() }], &step(2_000.0), (20, 60)),
        Scenario {
            least_good: 85.0,
            ..of(
                "10x, 503 at once beyond 50 waiting",
                vec![Member { refuses: 50, ..one() }],
                &step(2_000.0),
                (20, 60),
            )
        },
        Scenario { capacity: 100.0, ..half },
        after_stall(of("0.8x, after a stall of 2 s", vec![stalls()], &[(0.0, 160.0)], (32, 60))),
        after_stall(of(
            "0.6x, two members, one stalls for 2 s",
            vec![stalls(), one()],
            &[(0.0, 240.0)],
            (30, 60),
        )),
        of("3x, members of 1:2:4", unequal, &step(1_050.0), (20, 60)),
        Scenario { shards: 4, ..of("10x, 4 threads", vec![one()], &step(2_000.0), (60, 180)) },
        Scenario { capacity: 195.0, ..of("10x, 5 % of 503", vec![fails()], &step(2_000.0), (20, 60)) },
        Scenario {
            is_below_capacity: true,
            ..of("0.5x, 5 % of 503, after a stall of 2 s", vec![after(fails())], &[(0.0, 100.0)], (45, 120))
        },
        of("2x for 20 s, then 0.5x", vec![one()], &[(0.0, 100.0), (10.0, 400.0), (30.0, 100.0)], (31, 60)),
    ];
    below_capacity().into_iter().chain(above).collect()
}

/// Returns the goodput in percent of the capacity, or of the offered load if that is less; the set-up delay that 99 %
/// of the admitted calls do not exceed; and the percentage of refused calls.
fn figures(scenario: &Scenario, law: Option<MemberLaw>) -> (f64, f64, f64) {
    let (from, to) = scenario.judged;
    let Scenario { members, shards, load, .. } = scenario;
    let plan = Plan {
        law,
        members: members.clone(),
        shards: vec![Clock::default(); *shards],
        load: load.clone(),
        seconds: to as f64,
    };
    let seconds = run(plan, 7);
    let judged = &seconds[from..to];
    let offered = f64::from(judged.iter().map(|second| second.offered).sum::<u32>());
    let answered = 1.0 - members[0].fails;
    let possible = scenario.capacity.min(answered * offered / judged.len() as f64);
    (100.0 * goodput(judged) / possible, 1_000.0 * p99(judged), 100.0 * f64::from(refused(judged)) / offered)
}

fn table() -> String {
    let mut text =
        String::from("| scenario | none | aimd | vegas | gradient |\n| --- | --- | --- | --- | --- |\n");
    for scenario in scenarios() {
        let cells = LAWS.map(|law| {
            let (good, delay, refused) = figures(&scenario, law);
            let delay = if delay.is_finite() { format!("{delay:.0}") } else { "never".to_owned() };
            format!("{good:.0}, {delay}, {refused:.0}")
        });
        text += &["| ", scenario.name, " | ", &cells.join(" | "), " |\n"].concat();
    }
    text
}

#[test]
fn the_table_in_the_documentation_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/evidence/overload-members.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, rest) = page.split_once("<!-- measured -->\n").unwrap();
    let (_, tail) = rest.split_once("<!-- end -->").unwrap();
    let right = format!("{head}<!-- measured -->\n{}<!-- end -->{tail}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &right).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == right, "run UPDATE_DOCS=1 cargo test -p overload");
}

#[test]
fn the_default_law_keeps_goodput_and_delay_and_refuses_nothing_below_capacity() {
    for scenario in scenarios() {
        let (good, delay, refused) = figures(&scenario, Some(MemberLaw::default()));
        let name = scenario.name;
        assert!(good >= scenario.least_good, "{name}: {good} %");
        if scenario.is_below_capacity {
            assert!(refused < 1.0, "{name}: {refused} % refused");
        } else {
            assert!(delay <= 500.0, "{name}: {delay} ms");
        }
    }
}

//! All telephones register after an outage, beside calls: a registrar that is held to a part of a processor.

use anyhow::Result;
use papers::report::ReportTable;

use super::callers::DOMAIN;
use super::cluster::{Cluster, pool};
use super::load::{Level, LoadGenerator, OfferedLoad};
use super::log::CallLog;
use super::result::{Course, PartResult};
use super::{CALLERS, OverloadBench, address};

/// The registrar's number.
const REGISTRAR: u8 = 93;
/// Telephones that register, in calls that it can take a second, and when: from and to, in seconds.
const TELEPHONES: f64 = 20.0;
const BURST: [f64; 2] = [4.0, 9.0];
/// Calls beside, in capacities, and how long they last, in seconds.
const CALLS: (f64, f64) = (0.3, 30.0);
const WAYS: [(&str, &str); 2] =
    [("none", "local = \"none\"\ntriage = false"), ("delay", "local = \"delay\"")];

fn start<'a>(bench: &'a OverloadBench, generator: &LoadGenerator, keys: &str) -> Result<Cluster<'a>> {
    let mut cluster = Cluster::new(bench)?;
    let tables = format!(
        "{}\n[registrar]\ndomains = [\"{DOMAIN}\"]\n\n[[route]]\nhost = \"{DOMAIN}\"\nlocation = true\n\n\
         [[route]]\npool = \"servers\"\n\n[overload]\n{keys}\n",
        pool(&generator.answerers(), "")
    );
    let command = cluster.sarabande(address(REGISTRAR), &tables)?;
    cluster.start_limited("sarabande", &command)?;
    Ok(cluster)
}

/// Measures with overload control and without.
///
/// # Errors
/// What could not be started.
pub fn run(bench: &OverloadBench, say: &dyn Fn(&str)) -> Result<PartResult> {
    let target = [address(REGISTRAR)];
    let mut generator = LoadGenerator::new(CALLERS, 1)?;
    let capacity = {
        let _cluster = start(bench, &generator, WAYS[0].1)?;
        bench.capacity(&mut generator, &target)?
    };
    say(&format!("registrations: the registrar takes {capacity:.0} calls/s"));
    let telephones = (TELEPHONES * capacity) as usize;
    let [from, to] = BURST;
    let due: Vec<f64> =
        (0..telephones).map(|number| from + (to - from) * number as f64 / telephones as f64).collect();
    let mut course = Course::new("calls", "Calls beside telephones that register");
    course.marks = vec![("telephones register".to_owned(), from), ("all have tried".to_owned(), to)];
    let mut table = ReportTable::new([
        "telephones",
        "all",
        "registered",
        "refused at first",
        "half registered after, s",
        "99 % registered after, s",
    ]);
    for (name, keys) in WAYS {
        say(&format!("registrations: {name}"));
        let _cluster = start(bench, &generator, keys)?;
        generator.await_calls(&target)?;
        let (load, seconds) = CALLS;
        let calls = OfferedLoad::Open(vec![Level { rate: load * capacity, seconds }]);
        let log = generator.play_with(&target, calls, &due)?;
        course.add(name, &log.of(false), capacity);
        table.rows.push(registered(name, &log.of(true)));
    }
    Ok(PartResult {
        name: "registrations",
        title: "Telephones that register after an outage, beside calls",
        capacity,
        curves: Vec::new(),
        courses: vec![course],
        others: vec![table],
    })
}

/// How many telephones have registered, and after how long from their first try.
fn registered(name: &str, log: &CallLog) -> Vec<String> {
    let mut delays: Vec<u64> = log.calls.iter().filter_map(|telephone| telephone.set_up_ns).collect();
    delays.sort_unstable();
    let all = log.calls.len();
    // Of all telephones: who has not registered at the end never did.
    let after = |percent: usize| {
        let at = (all * percent).div_ceil(100).saturating_sub(1);
        delays.get(at).map_or_else(|| "-".to_owned(), |delay| format!("{:.1}", *delay as f64 / 1e9))
    };
    let refused = log.calls.iter().filter(|telephone| telephone.refused_ns.is_some()).count();
    let counts = [all, delays.len(), refused].map(|count| count.to_string());
    [name.to_owned()].into_iter().chain(counts).chain([after(50), after(99)]).collect()
}

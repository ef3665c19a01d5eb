//! How many typed messages a second one core simulates on topology 3.
use config::scenario::*;
use std::time::Duration;
fn main() {
    let rate: f64 = std::env::args().nth(1).map_or(200.0, |a| a.parse().unwrap());
    let scenario = Scenario {
        title: "topology 3".into(),
        run: Run { duration: Duration::from_secs(1000), warm_up: Duration::from_secs(200), ..Run::default() },
        costs: Costs::default(),
        timers: Timers::default(),
        groups: vec![Group::proxies("edge", 8, 160.0), Group::proxies("core", 2, 160.0)],
        streams: vec![Stream::of_paper("calls", vec![0, 1, 0], rate)],
        links: vec![],
        faults: vec![],
    };
    let begin = std::time::Instant::now();
    let results = sim::model::run(&scenario, 1);
    let took = begin.elapsed().as_secs_f64();
    let (offered, goodput) = results.rates(
        base::Instant::ZERO + Duration::from_secs(300),
        base::Instant::ZERO + Duration::from_secs(1000),
    );
    println!(
        "{} messages in {took:.2} s: {:.2} million/s; offered {offered:.1} goodput {goodput:.1} {:?} setup {:?} left {} {}",
        results.messages,
        results.messages as f64 / took / 1e6,
        results.streams[0].outcomes,
        results.streams[0].setup_delay.mean(),
        results.calls_left,
        results.transactions_left
    );
    for host in &results.hosts {
        println!(
            "{} {:.3} queue {:?}",
            host.name,
            host.utilisation.iter().skip(20).map(|u| u.1).sum::<f64>() / (host.utilisation.len() - 20) as f64,
            host.queue.last()
        );
    }
}

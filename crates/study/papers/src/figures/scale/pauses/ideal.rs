//! Set-up delay behind a front that knows of every pause of its servers as it begins: what could be hoped for.

use base::{Instant, Rng};
use load::Arrivals;
use rand_distr::{Distribution, Exp1};
use sim::cloud::CloudPlan;
use sim::engine::{EventQueue, Stalls};
use sim::stats::Delays;
use std::collections::VecDeque;
use std::time::Duration;

/// The INVITE of a call that came then, or a BYE, with the work that it is yet.
#[derive(Clone, Copy)]
struct Job {
    came: Option<Instant>,
    left: Duration,
}

#[derive(Default)]
struct Server {
    pauses: bool,
    byes: VecDeque<Job>,
    /// What it has in work, and since when.
    job: Option<(Job, Instant)>,
    /// Which of its jobs that is.
    turn: u64,
}

#[derive(Clone, Copy)]
enum Event {
    Arrival,
    Bye(usize),
    Finish(usize, u64),
    Pause(usize),
    Go(usize),
}

/// Set-up delays in a cluster of `servers` as in `plan`, whose front has all INVITEs wait, gives them to servers that
/// are awake, takes them back from one that pauses, in the state that they are in and at no cost, and gives them to
/// the next. BYEs stay with the server of their call, which does them before anything new, as it does where they come
/// in between.
pub(super) fn set_up(plan: &CloudPlan, servers: usize, seed: u64) -> Delays {
    let rng = Rng::from_seed(seed);
    let mut arrivals = Arrivals::new(plan.arrivals.clone(), Instant::ZERO, rng.fork("arrivals"));
    let mut random = rng.fork("ideal");
    let mut exponential = |mean: Duration| {
        let factor: f64 = Exp1.sample(&mut random);
        mean.mul_f64(factor)
    };
    let [invite, .., bye, _] = plan.host.work.map(|part| Duration::from_secs_f64(part / plan.host.rate));
    let config = plan.host.pauses.as_ref().expect("its servers pause");
    let mut pauses: Vec<_> =
        (0..servers).map(|server| Stalls::new(config.clone(), rng.fork(&format!("host {server}")))).collect();
    let mut cluster: Vec<_> = (0..servers).map(|_| Server::default()).collect();
    let (mut events, mut waiting, mut delays) = (EventQueue::default(), VecDeque::new(), Delays::default());
    for (server, pauses) in pauses.iter_mut().enumerate() {
        events.at(pauses.next(Instant::ZERO).0, Event::Pause(server));
    }
    if let Some(at) = arrivals.next() {
        events.at(at, Event::Arrival);
    }
    while let Some((now, event)) = events.pop_until(Instant::ZERO + plan.to) {
        match event {
            Event::Arrival => {
                waiting.push_back(Job { came: Some(now), left: exponential(invite) });
                if let Some(at) = arrivals.next() {
                    events.at(at, Event::Arrival);
                }
            }
            Event::Bye(server) => {
                cluster[server].byes.push_back(Job { came: None, left: exponential(bye) });
            }
            Event::Finish(server, turn) if cluster[server].turn == turn => {
                let done = cluster[server].job.take().and_then(|(job, _)| job.came);
                if let Some(came) = done {
                    if now >= Instant::ZERO + plan.from {
                        delays.add(now - came);
                    }
                    let call = exponential(plan.calls.ringing) + exponential(plan.calls.talking);
                    events.after(call, Event::Bye(server));
                }
            }
            Event::Finish(..) => {}
            Event::Pause(server) => {
                // As the simulated hosts: this pause's length, and the time of the next.
                let (next, length) = pauses[server].next(now);
                events.after(length, Event::Go(server));
                events.at(next + length, Event::Pause(server));
                let at = &mut cluster[server];
                at.pauses = true;
                at.turn += 1;
                if let Some((job, since)) = at.job.take() {
                    let job = Job { left: job.left.saturating_sub(now - since), ..job };
                    let back = if job.came.is_some() { &mut waiting } else { &mut at.byes };
                    back.push_front(job);
                }
            }
            Event::Go(server) => cluster[server].pauses = false,
        }
        for (server, at) in cluster.iter_mut().enumerate() {
            if !at.pauses
                && at.job.is_none()
                && let Some(job) = at.byes.pop_front().or_else(|| waiting.pop_front())
            {
                at.turn += 1;
                at.job = Some((job, now));
                events.after(job.left, Event::Finish(server, at.turn));
            }
        }
    }
    delays
}

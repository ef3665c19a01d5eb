//! A queue with Poisson arrivals of several classes: the smallest model that the engine can run.
use base::{Instant, Rng};
use rand_distr::{Distribution, Exp1};
use sim::engine::{Cpu, CpuConfig, EnqueueOutcome, EventQueue, Finish, Priority, Ticket, TimeSpread};
use sim::stats::Moments;
use std::time::Duration;

/// The unit of time.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Jobs of one priority.
#[derive(Clone, Copy)]
pub(crate) struct Class {
    /// Arrivals a second.
    pub(crate) rate: f64,
    /// Mean service time.
    pub(crate) mean: Duration,
}

/// A queue to be simulated.
pub(crate) struct Queue {
    /// Classes in the order of priority, highest first.
    pub(crate) classes: Vec<Class>,
    pub(crate) spread: TimeSpread,
    pub(crate) workers: usize,
    /// Number of measured jobs; half as many jobs before them are warm-up.
    pub(crate) jobs: usize,
}

/// Results of a run after its warm-up.
pub(crate) struct Outcome {
    /// Waits of each class in seconds.
    pub(crate) wait: Vec<Moments>,
    /// Waits of all jobs, one by one.
    pub(crate) waits: Vec<f64>,
    pub(crate) utilisation: f64,
}

#[derive(Clone, Copy)]
enum Event {
    Arrival(usize),
    End(Ticket),
}

impl Queue {
    pub(crate) fn run(&self, seed: u64) -> Outcome {
        let root = Rng::from_seed(seed);
        let mut arrivals: Vec<Rng> =
            (0..self.classes.len()).map(|class| root.fork(&format!("arrivals {class}"))).collect();
        let config = CpuConfig {
            workers: self.workers,
            buffer: usize::MAX,
            spread: self.spread.clone(),
            ..CpuConfig::default()
        };
        let mut cpu = Cpu::new(config, root.fork("service"));
        let mut queue = EventQueue::default();
        for class in 0..self.classes.len() {
            let wait = self.interval(class, &mut arrivals);
            queue.after(wait, Event::Arrival(class));
        }
        let mut outcome = Outcome {
            wait: vec![Moments::default(); self.classes.len()],
            waits: Vec::with_capacity(self.jobs),
            utilisation: 0.0,
        };
        let (mut served, mut mark) = (0, cpu.mark(Instant::ZERO));
        while served < self.jobs * 3 / 2 {
            let (now, event) = queue.pop().expect("arrivals never end");
            match event {
                Event::Arrival(class) => {
                    let admission = cpu.enqueue(now, Priority::ALL[class], class);
                    assert_eq!(admission, EnqueueOutcome::Queued);
                    let wait = self.interval(class, &mut arrivals);
                    queue.after(wait, Event::Arrival(class));
                }
                Event::End(ticket) => {
                    let Finish::Done(job) = cpu.finish(now, ticket) else { panic!("nothing stalls") };
                    served += 1;
                    if served == self.jobs / 2 {
                        outcome.wait.fill(Moments::default());
                        mark = cpu.mark(now);
                    } else if served > self.jobs / 2 {
                        outcome.waits.push((job.started - job.queued).as_secs_f64());
                    }
                }
            }
            while let Some(due) = cpu.start(now, |&mut class| self.classes[class].mean) {
                outcome.wait[due.class as usize].add(due.wait.as_secs_f64());
                queue.at(due.at, Event::End(due.ticket));
            }
        }
        outcome.utilisation = cpu.utilisation(mark, queue.now());
        outcome
    }

    /// Time to the next arrival of a class.
    fn interval(&self, class: usize, rngs: &mut [Rng]) -> Duration {
        let unit: f64 = Exp1.sample(&mut rngs[class]);
        Duration::from_secs_f64(unit / self.classes[class].rate)
    }
}

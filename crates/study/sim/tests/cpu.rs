//! The processor and its buffer, step by step.
use base::{Instant, Rng};
use sim::engine::{
    BegunService, Cpu, CpuConfig, EnqueueOutcome, Finish, Plain, Priority, QueueTriage, StallConfig, Stalls,
};
use sim::engine::{QuantileTable, QuotaConfig, TimeSpread};
use std::time::Duration;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn cpu<T: QueueTriage<u32>>(config: CpuConfig, triage: T) -> Cpu<u32, T> {
    Cpu::with_triage(config, triage, Rng::from_seed(1))
}

/// Starts a service of 10 ms on the base server.
fn start<T: QueueTriage<u32>>(cpu: &mut Cpu<u32, T>, now: Instant) -> Option<BegunService> {
    cpu.start(now, |_| ms(10))
}

/// Runs a service to its end and returns its job.
fn serve<T: QueueTriage<u32>>(cpu: &mut Cpu<u32, T>, now: Instant) -> Option<u32> {
    let due = start(cpu, now)?;
    match cpu.finish(due.at, due.ticket) {
        Finish::Done(served) => Some(served.job),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lowest_number_goes_first_but_nothing_is_interrupted() {
    let mut cpu = cpu(CpuConfig::default(), Plain);
    cpu.enqueue(at(0), Priority::P3, 30);
    let due = start(&mut cpu, at(0)).unwrap();
    for (class, job) in [(Priority::P4, 40), (Priority::P2, 20), (Priority::P1, 10), (Priority::P2, 21)] {
        cpu.enqueue(at(1), class, job);
    }
    assert_eq!(start(&mut cpu, at(1)), None);
    let Finish::Done(first) = cpu.finish(due.at, due.ticket) else { panic!("nothing stalls") };
    assert_eq!((first.job, first.class, first.queued, first.started), (30, Priority::P3, at(0), at(0)));
    let order: Vec<_> = core::iter::from_fn(|| serve(&mut cpu, at(10))).collect();
    assert_eq!(order, [10, 20, 21, 40]);
}

#[test]
fn a_full_buffer_drops_messages_and_keeps_timers() {
    let mut cpu = cpu(CpuConfig { buffer: 2, ..CpuConfig::default() }, Plain);
    cpu.enqueue(at(0), Priority::P2, 0);
    start(&mut cpu, at(0)).unwrap();
    // The job in service does not count, and all bounded priorities share the space.
    assert_eq!(cpu.enqueue(at(0), Priority::P2, 1), EnqueueOutcome::Queued);
    assert_eq!(cpu.enqueue(at(0), Priority::P3, 2), EnqueueOutcome::Queued);
    assert_eq!(cpu.enqueue(at(0), Priority::P2, 3), EnqueueOutcome::Dropped);
    assert_eq!(cpu.enqueue(at(0), Priority::P1, 4), EnqueueOutcome::Queued);
    assert_eq!(cpu.occupied(), 2);
}

/// Jobs from 100 on wait without a limit.
struct Apart;

impl QueueTriage<u32> for Apart {
    fn is_bounded(&self, _: Priority, job: &u32) -> bool {
        *job < 100
    }
}

#[test]
fn jobs_without_a_limit_find_room_in_a_full_buffer_and_take_none() {
    let mut cpu = cpu(CpuConfig { buffer: 1, ..CpuConfig::default() }, Apart);
    for job in [100, 101, 102] {
        assert_eq!(cpu.enqueue(at(0), Priority::P2, job), EnqueueOutcome::Queued);
    }
    assert_eq!(cpu.enqueue(at(0), Priority::P3, 1), EnqueueOutcome::Queued);
    assert_eq!(cpu.enqueue(at(0), Priority::P3, 2), EnqueueOutcome::Dropped);
    assert_eq!((cpu.enqueue(at(0), Priority::P2, 103), cpu.occupied()), (EnqueueOutcome::Queued, 1));
    let order: Vec<_> = core::iter::from_fn(|| serve(&mut cpu, at(10))).collect();
    assert_eq!((order, cpu.occupied()), (vec![100, 101, 102, 103, 1], 0));
}

#[test]
fn capacity_and_background_scale_the_time() {
    for (capacity, background, expected) in [(1.0, 0.0, 10), (2.0, 0.0, 5), (1.0, 0.5, 20), (4.0, 0.75, 10)] {
        let mut cpu = cpu(CpuConfig { capacity, background, ..CpuConfig::default() }, Plain);
        cpu.enqueue(at(0), Priority::P2, 1);
        assert_eq!(start(&mut cpu, at(0)).unwrap().at, at(expected));
    }
    let mut cpu = cpu(CpuConfig::default(), Plain);
    cpu.set_background(0.9);
    cpu.enqueue(at(0), Priority::P2, 1);
    assert_eq!(start(&mut cpu, at(0)).unwrap().at, at(100));
}

#[test]
fn a_stall_stops_all_workers_and_is_not_busy_time() {
    let mut cpu = cpu(CpuConfig { workers: 3, ..CpuConfig::default() }, Plain);
    for job in 0..3 {
        cpu.enqueue(at(0), Priority::P2, job);
    }
    let mark = cpu.mark(at(0));
    let due = [start(&mut cpu, at(0)).unwrap(), start(&mut cpu, at(0)).unwrap()];
    assert_eq!(cpu.stall(at(4), ms(50)), at(54));
    // A stall within the first adds nothing; a stall beyond its end adds the difference.
    assert_eq!(cpu.stall(at(10), ms(20)), at(54));
    assert_eq!(cpu.stall(at(20), ms(40)), at(60));
    assert_eq!(start(&mut cpu, at(30)), None);
    // 2 of 3 workers were busy for 4 of 40 ms.
    assert!((cpu.utilisation(mark, at(40)) - 2.0 * 4.0 / (3.0 * 40.0)).abs() < 1e-9);
    for due in due {
        assert_eq!(cpu.finish(due.at, due.ticket), Finish::Later(at(66)));
        assert!(matches!(cpu.finish(at(66), due.ticket), Finish::Done(_)));
    }
    assert!((cpu.utilisation(mark, at(66)) - 2.0 * 10.0 / (3.0 * 66.0)).abs() < 1e-9);
    assert_eq!(start(&mut cpu, at(66)).unwrap().at, at(76));
}

#[test]
fn a_quota_leaves_the_mean_speed_as_it_is() {
    let quota = QuotaConfig { period: ms(10), processor: 10.0 };
    let mut cpu = cpu(CpuConfig { quota: Some(quota), background: 0.5, ..CpuConfig::default() }, Plain);
    let (mark, mut now) = (cpu.mark(at(0)), at(0));
    for job in 0..100 {
        cpu.enqueue(now, Priority::P2, job);
        let due = start(&mut cpu, now).unwrap();
        if job % 10 == 0 {
            cpu.stall(now, ms(7));
        }
        now = due.at;
        while let Finish::Later(later) = cpu.finish(now, due.ticket) {
            now = later;
        }
    }
    // 100 times 10 ms at half speed because of a background job, and ten stalls.
    let took = (now - at(0)).as_secs_f64();
    assert!((took - 2.07).abs() < 0.02, "{took}");
    assert!((cpu.utilisation(mark, now) - 2.0 / 2.07).abs() < 0.01, "{}", cpu.utilisation(mark, now));
    // In the middle of a service, half of it counts as busy time.
    cpu.enqueue(at(9_000), Priority::P2, 1);
    let (mark, due) = (cpu.mark(at(9_000)), start(&mut cpu, at(9_000)).unwrap());
    let middle = at(9_000) + (due.at - at(9_000)) / 2;
    assert!((cpu.busy(middle) + ms(10)).abs_diff(cpu.busy(due.at)) < ms(1));
    assert!(cpu.utilisation(mark, due.at) >= 1.0);
}

#[test]
fn a_quota_follows_the_background_and_drops_lost_work() {
    let quota = QuotaConfig { period: ms(10), processor: 10.0 };
    let mut cpu = cpu(CpuConfig { quota: Some(quota), ..CpuConfig::default() }, Plain);
    cpu.enqueue(at(0), Priority::P2, 1);
    cpu.start(at(0), |_| Duration::from_hours(1)).unwrap();
    cpu.fail(at(100), |_| ());
    cpu.restart();
    cpu.enqueue(at(200), Priority::P2, 2);
    assert_eq!(serve(&mut cpu, at(200)), Some(2));
    // 0.5 ms of the base server are 50 us of this one. Services may use 1 ms of a period, and 0.1 ms with a background
    // job that takes nine tenths.
    for (background, number, since) in [(0.0, 20, 1_000), (0.9, 2, 2_000)] {
        cpu.set_background(background);
        let (mut now, mut at_once) = (at(since), 0);
        for job in 0..40 {
            cpu.enqueue(now, Priority::P2, job);
            let due = cpu.start(now, |_| Duration::from_micros(500)).unwrap();
            at_once += u32::from(due.at - now == Duration::from_micros(50));
            now = due.at;
            assert!(matches!(cpu.finish(now, due.ticket), Finish::Done(_)));
        }
        let most = 40 - 40 / number;
        assert!((most - 2..=most + 2).contains(&at_once), "{background}: {at_once}");
    }
}

#[test]
fn a_failure_loses_everything_and_voids_its_tickets() {
    let mut cpu = cpu(CpuConfig::default(), Plain);
    let mark = cpu.mark(at(0));
    cpu.enqueue(at(0), Priority::P2, 1);
    let due = start(&mut cpu, at(0)).unwrap();
    cpu.enqueue(at(0), Priority::P3, 2);
    cpu.enqueue(at(0), Priority::P1, 3);
    let mut lost = Vec::new();
    cpu.fail(at(6), |job| lost.push(job));
    assert_eq!(lost, [1, 3, 2]);
    assert_eq!(cpu.enqueue(at(7), Priority::P1, 4), EnqueueOutcome::Lost);
    assert!(!cpu.is_up() && start(&mut cpu, at(7)).is_none());
    cpu.restart();
    cpu.enqueue(at(8), Priority::P2, 5);
    let again = start(&mut cpu, at(8)).unwrap();
    // The first service's event happens during the second service.
    assert_eq!(cpu.finish(due.at, due.ticket), Finish::Void);
    assert!(matches!(cpu.finish(again.at, again.ticket), Finish::Done(served) if served.job == 5));
    assert_eq!(cpu.finish(again.at, again.ticket), Finish::Void);
    // 6 ms before the failure and 10 after.
    assert!((cpu.utilisation(mark, at(20)) - 16.0 / 20.0).abs() < 1e-9);
}

/// Jobs with the same tens digit have the same key; jobs are stale after 100 ms.
struct Rules;

impl QueueTriage<u32> for Rules {
    fn key(&self, job: &u32) -> Option<u64> {
        (*job >= 10).then(|| u64::from(*job / 10))
    }

    fn is_stale(&mut self, now: Instant, since: Instant, _: &u32) -> bool {
        now - since >= ms(100)
    }
}

#[test]
fn triage_coalesces_waiting_jobs_and_drops_stale_jobs() {
    let mut cpu = cpu(CpuConfig::default(), Rules);
    assert_eq!(cpu.enqueue(at(0), Priority::P2, 11), EnqueueOutcome::Queued);
    assert_eq!(cpu.enqueue(at(0), Priority::P3, 12), EnqueueOutcome::Coalesced);
    assert_eq!(cpu.enqueue(at(0), Priority::P2, 1), EnqueueOutcome::Queued);
    assert_eq!(cpu.enqueue(at(50), Priority::P2, 1), EnqueueOutcome::Queued);
    assert_eq!(serve(&mut cpu, at(0)), Some(11));
    // A job that no longer waits has no duplicates.
    assert_eq!(cpu.enqueue(at(60), Priority::P2, 13), EnqueueOutcome::Queued);
    assert_eq!(serve(&mut cpu, at(149)), Some(1));
    // The job queued at 50 ms is stale.
    assert_eq!([serve(&mut cpu, at(151)), serve(&mut cpu, at(151))], [Some(13), None]);
}

#[test]
fn a_duplicate_that_found_no_room_leaves_no_key() {
    let mut cpu = cpu(CpuConfig { buffer: 1, ..CpuConfig::default() }, Rules);
    cpu.enqueue(at(0), Priority::P2, 11);
    assert_eq!(cpu.enqueue(at(0), Priority::P2, 21), EnqueueOutcome::Dropped);
    assert_eq!(serve(&mut cpu, at(0)), Some(11));
    assert_eq!(cpu.enqueue(at(10), Priority::P2, 21), EnqueueOutcome::Queued);
}

#[test]
fn pauses_follow_their_laws() {
    let config = StallConfig {
        spacing: ms(1_000),
        length: ms(40),
        length_spread: TimeSpread::Measured(QuantileTable::new(&[1.0, 3.0])),
    };
    let mut stalls = Stalls::new(config, Rng::from_seed(3));
    let (mut end, mut stalled) = (Instant::ZERO, Duration::ZERO);
    for _ in 0..20_000 {
        let (start, length) = stalls.next(end);
        assert!((ms(20)..=ms(60)).contains(&length));
        stalled += length;
        end = start + length;
    }
    // The standard deviation of the spacing equals its mean: the mean of 20,000 is within 3 % (4 sigma).
    assert!((end.as_secs_f64() / 20_000.0 - 1.04).abs() < 0.03, "{end}");
    assert!((stalled.as_secs_f64() / 20_000.0 - 0.04).abs() < 0.0005, "{stalled:?}");
}

//! Threads and queue, with a server that behaves as the test says.

use super::*;
use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};

type Answer = Result<u32, String>;

struct Question {
    number: u32,
    sender: Sender<Answer>,
}

/// Behaviour of the test's server.
#[derive(Clone, Default)]
struct Switches {
    is_gone: Arc<AtomicBool>,
    /// Answers nothing and accepts no connection while it is set.
    hangs: Arc<AtomicBool>,
    is_impatient: Arc<AtomicBool>,
}

impl Switches {
    fn hang(&self) {
        while self.hangs.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stands(&self) -> Result<(), String> {
        self.hang();
        if self.is_gone.load(SeqCst) { Err("the server is gone".to_owned()) } else { Ok(()) }
    }
}

impl Server for Switches {
    type Connection = ();
    type Job = Question;

    const THREAD: &'static str = "test";
    const BATCH_MAX: usize = 2;

    fn patience(&self) -> Duration {
        if self.is_impatient.load(SeqCst) { Duration::ZERO } else { Duration::from_secs(30) }
    }

    fn connect(&self) -> Result<(), String> {
        self.stands()
    }

    fn check(&self, (): &mut ()) -> Result<(), String> {
        self.stands()
    }

    fn serve(&self, (): &mut (), jobs: Vec<Question>) -> Served {
        assert!((1..=Self::BATCH_MAX).contains(&jobs.len()));
        let lost = self.stands().err();
        let failed = if lost.is_some() { jobs.len() as u64 } else { 0 };
        for job in jobs {
            assert_ne!(job.number, 666, "a panic that the test causes");
            drop(job.sender.send(lost.clone().map_or(Ok(job.number), Err)));
        }
        Served { failed, lost }
    }

    fn refuse(job: Question, why: &str) {
        drop(job.sender.send(Err(why.to_owned())));
    }
}

fn start(threads: usize) -> (Remote<Switches>, Switches) {
    let switches = Switches::default();
    (Remote::start(switches.clone(), threads, 3).expect("threads"), switches)
}

fn ask(remote: &Remote<Switches>, number: u32) -> Receiver<Answer> {
    let (sender, answer) = channel();
    remote.submit(Question { number, sender });
    answer
}

fn answer(answer: &Receiver<Answer>) -> Answer {
    answer.recv_timeout(Duration::from_secs(30)).expect("an answer")
}

fn until(condition: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("timed out: {condition}");
}

#[test]
fn jobs_before_the_first_connection_wait_for_it() {
    let switches = Switches::default();
    switches.hangs.store(true, SeqCst);
    let remote = Remote::start(switches.clone(), 1, 3).expect("a thread");
    let answers = [1, 2, 3].map(|number| ask(&remote, number));
    assert_eq!(remote.status().waiting, 3);
    let refused = answer(&ask(&remote, 4)).expect_err("the queue is full");
    assert!(refused.contains("3 requests wait"), "{refused}");
    switches.hangs.store(false, SeqCst);
    assert_eq!(answers.map(|it| answer(&it)), [Ok(1), Ok(2), Ok(3)]);
    assert!(remote.status().is_up());
}

#[test]
fn jobs_are_refused_without_a_server_and_served_after_its_return() {
    for threads in [1, 3] {
        let (remote, switches) = start(threads);
        until("all are connected", || remote.status().connections == threads);
        assert_eq!(answer(&ask(&remote, 1)), Ok(1));
        switches.is_gone.store(true, SeqCst);
        until("no thread is connected", || {
            drop(answer(&ask(&remote, 2)));
            !remote.status().is_up()
        });
        // No thread handles it: the answer is there when the call returns.
        assert_eq!(ask(&remote, 3).try_recv(), Ok(Err("the server is gone".to_owned())));
        let status = remote.status();
        assert_eq!(
            (status.lost_total, status.last_error.as_deref()),
            (threads as u64, Some("the server is gone"))
        );
        assert!(status.failed_total >= 2, "{status:?}");
        switches.is_gone.store(false, SeqCst);
        until("all are connected", || remote.status().connections == threads);
        assert_eq!(answer(&ask(&remote, 4)), Ok(4));
    }
}

#[test]
fn the_loss_of_an_idle_server_is_noticed() {
    let (remote, switches) = start(1);
    until("the server is connected", || remote.status().is_up());
    switches.is_gone.store(true, SeqCst);
    until("the loss is noticed", || !remote.status().is_up());
    assert_eq!(remote.status().failed_total, 0);
    // However often the connection is tried meanwhile: from 50 ms on, and twice as long each time.
    let mut gone = remote.status().unchanged;
    until("the server has been gone for a while", || {
        let before = core::mem::replace(&mut gone, remote.status().unchanged);
        assert!(gone >= before, "{gone:?} after {before:?}");
        gone > Duration::from_millis(300)
    });
}

#[test]
fn jobs_of_a_hung_server_are_refused_once_it_is_known() {
    let (remote, switches) = start(1);
    until("the server is connected", || remote.status().is_up());
    switches.hangs.store(true, SeqCst);
    let answers = [1, 2, 3].map(|number| ask(&remote, number));
    switches.is_gone.store(true, SeqCst);
    switches.hangs.store(false, SeqCst);
    for it in &answers {
        assert_eq!(answer(it), Err("the server is gone".to_owned()));
    }
}

/// A server that answers too slowly makes no job wait for the whole queue.
#[test]
fn jobs_that_waited_too_long_are_refused() {
    let (remote, switches) = start(1);
    until("the server is connected", || remote.status().is_up());
    switches.is_impatient.store(true, SeqCst);
    let refused = answer(&ask(&remote, 1)).expect_err("the job has waited too long");
    assert!(refused.contains("it is too slow"), "{refused}");
    assert_eq!((remote.status().failed_total, remote.status().lost_total), (1, 0));
    switches.is_impatient.store(false, SeqCst);
    assert_eq!(answer(&ask(&remote, 2)), Ok(2));
}

#[test]
fn threads_end_with_the_last_handle_after_all_answers() {
    let (remote, switches) = start(2);
    switches.hangs.store(true, SeqCst);
    let other = remote.clone();
    let answers = [1, 2, 3].map(|number| ask(&remote, number));
    drop(remote);
    let shared = Arc::downgrade(&other.shared);
    drop(other);
    switches.hangs.store(false, SeqCst);
    assert_eq!(answers.map(|it| answer(&it)), [Ok(1), Ok(2), Ok(3)]);
    until("the threads have ended", || shared.strong_count() == 0);
    // Pausing threads end, too.
    let (remote, switches) = start(2);
    switches.is_gone.store(true, SeqCst);
    until("the server is gone", || remote.status().last_error.is_some());
    let shared = Arc::downgrade(&remote.shared);
    drop(remote);
    until("the threads have ended", || shared.strong_count() == 0);
}

/// A callback must not panic; if one does, no job waits for ever.
#[test]
fn a_thread_that_panics_leaves_no_job_unanswered() {
    let (remote, _) = start(1);
    let lost = ask(&remote, 666);
    assert!(lost.recv_timeout(Duration::from_secs(30)).is_err(), "the job is dropped without an answer");
    until("the thread is gone", || answer(&ask(&remote, 1)) == Err("its threads have ended".to_owned()));
    assert!(!remote.status().is_up());
}

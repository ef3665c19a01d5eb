//! The embedded store fulfils the contract, and loses no acknowledged record, even if it is killed.

use base::UnixTime;
use invariants::store as contract;
use location::{Aor, BindingsRecord, MemoryLimits, Replaced, Store};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use storage::Embedded;

const CHILD: &str = "SARABANDE_STORE_OF_THE_CHILD";
const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("sarabande-{name}-{}", std::process::id()));
    drop(std::fs::remove_file(&path));
    path
}

fn open(path: &Path) -> Embedded {
    open_at(path, NOW)
}

fn open_at(path: &Path, now: UnixTime) -> Embedded {
    // The thread of a store that was just closed may still hold the file.
    for _ in 0..100 {
        if let Ok(store) = Embedded::open(path, MemoryLimits::default(), now) {
            return store;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{} cannot be opened", path.display());
}

fn key(n: usize) -> Aor {
    Aor::of(format!("sip:{n}@example.com").as_bytes()).expect("a URI")
}

fn record(n: usize) -> BindingsRecord {
    BindingsRecord::of(&[contract::binding(NOW, &format!("sip:{n}@192.0.2.1"))]).expect("a binding")
}

#[test]
fn the_contract_holds_and_records_survive_reopening() {
    let path = file("contract");
    let mut store = open(&path);
    contract::check(&mut store, NOW);
    contract::check_pair(&mut store.clone(), &mut store, NOW);
    assert_eq!(store.replace(NOW, &key(1), None, Some(&record(1))), Ok(Replaced::Done));
    drop(store);
    assert_eq!(open(&path).get(&key(1)), Some(record(1)));
    std::fs::remove_file(path).expect("the file exists");
}

#[test]
fn records_that_expired_while_the_file_was_closed_are_removed() {
    let path = file("expired");
    let mut store = open(&path);
    assert_eq!(store.replace(NOW, &key(1), None, Some(&record(1))), Ok(Replaced::Done));
    drop(store);
    drop(open_at(&path, record(1).expires_at()));
    assert_eq!(open(&path).get(&key(1)), None, "an expired record stays removed if the clock goes back");
    std::fs::remove_file(path).expect("the file exists");
}

/// Replacements of several threads share commits. Of several that expect the same record, one succeeds.
#[test]
fn concurrent_replacements_are_stored_or_refused() {
    let path = file("many");
    let store = open(&path);
    let of_thread = |thread: usize| {
        let mut store = store.clone();
        move || {
            let mut won = 0;
            for round in 0..20 {
                let own = key(1_000 * (thread + 1) + round);
                assert_eq!(store.replace(NOW, &own, None, Some(&record(round))), Ok(Replaced::Done));
                let common = store.replace(NOW, &key(round), None, Some(&record(thread)));
                won += usize::from(common == Ok(Replaced::Done));
            }
            won
        }
    };
    let threads: Vec<_> = (0..8).map(|thread| std::thread::spawn(of_thread(thread))).collect();
    let won: usize =
        threads.into_iter().map(|thread| thread.join().expect("the thread does not panic")).sum();
    assert_eq!(won, 20);
    drop(store);
    let store = open(&path);
    for thread in 0..8 {
        assert!((0..20).all(|round| store.get(&key(1_000 * (thread + 1) + round)) == Some(record(round))));
    }
    std::fs::remove_file(path).expect("the file exists");
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let path = file("text");
    std::fs::write(&path, "not a store").expect("a file");
    let Err(error) = Embedded::open(&path, MemoryLimits::default(), NOW) else {
        panic!("the file was opened")
    };
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    std::fs::remove_file(path).expect("the file exists");
}

/// After a full disk, or an incomplete copy: `redb` panics on some of these files.
#[test]
fn a_truncated_file_is_refused_with_a_remedy() {
    let path = file("cut");
    let mut store = open(&path);
    for n in 0..300 {
        assert_eq!(store.replace(NOW, &key(n), None, Some(&record(n))), Ok(Replaced::Done));
    }
    drop(store);
    drop(open(&path));
    let whole = std::fs::read(&path).expect("the file exists");
    let cut = file("cut-off");
    let mut damaged = 0;
    for length in (1..whole.len()).step_by(whole.len() / 40) {
        std::fs::write(&cut, &whole[..length]).expect("written");
        let Err(error) = Embedded::open(&cut, MemoryLimits::default(), NOW) else {
            panic!("a file with {length} of {} bytes is accepted", whole.len());
        };
        damaged += usize::from(error.to_string().contains("move it away"));
    }
    assert!(damaged > 0);
    for path in [path, cut] {
        std::fs::remove_file(path).expect("the file exists");
    }
}

/// The process that is killed: stores records and reports each.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let mut store = open(Path::new(&path));
    for n in 0..1_000_000 {
        assert_eq!(store.replace(NOW, &key(n), None, Some(&record(n))), Ok(Replaced::Done));
        println!("\nstored {n}");
    }
}

#[test]
fn a_killed_process_loses_no_acknowledged_record() {
    let path = file("kill");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "embedded::child", "--nocapture"])
        .env(CHILD, &path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let stored = |line: std::io::Result<String>| line.ok()?.strip_prefix("stored ")?.parse::<usize>().ok();
    let mut last = lines.by_ref().filter_map(stored).nth(200).expect("200 records are stored");
    child.kill().expect("the child runs");
    child.wait().expect("the child ends");
    // Acknowledgements from before the kill count too.
    last = lines.filter_map(stored).last().unwrap_or(last);
    let store = open(&path);
    for n in 0..=last {
        assert_eq!(store.get(&key(n)), Some(record(n)), "{n} of {last}");
    }
    assert_eq!(store.get(&key(last + 2)), None, "only one record may have been in progress");
    std::fs::remove_file(path).expect("the file exists");
}

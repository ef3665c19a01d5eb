//! Records on a disk that is full again and again, while two writers use one file. The disk is a memory file system
//! that the test mounts in its own namespace.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use storage::RecordFile;

const FOLDER: &str = "SARABANDE_TEST_SMALL_DISK";
const FILLINGS: usize = 40;
const LINES: usize = 4_000;

/// Added to the failures of a writer that has written everything.
const DONE: usize = 1 << 40;

/// Runs the test below in a small file system.
#[test]
fn a_full_disk_tears_no_line_of_two_writers() {
    let folder = std::env::temp_dir().join(format!("sarabande-small-disk-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let program = std::env::current_exe().expect("this one");
    let script = "mount -t tmpfs -o size=8m tmpfs \"$1\" && exec \"$2\" --exact --ignored two_writers";
    let run = |kind: &str| {
        Command::new("unshare")
            .args([kind, "sh", "-c", script, "sh"])
            .args([&folder, &program])
            .env(FOLDER, &folder)
            .output()
            .expect("unshare, of util-linux")
    };
    // As root, or as a user who may create namespaces.
    let outcome = [run("-m"), run("-rm")].into_iter().find(|outcome| !outcome.stdout.is_empty());
    let outcome =
        outcome.expect("a namespace with a mount of its own: the kernel allows root or users to make them");
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
    fs::remove_dir(&folder).expect("the folder is empty");
}

#[test]
#[ignore = "needs a small file system, which the test above makes"]
fn two_writers() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("the calling test sets the folder"));
    let path = folder.join("calls.jsonl");
    // Files whose deletion makes room for a while.
    let ballast: Vec<_> = (0..FILLINGS).map(|number| folder.join(format!("ballast{number}"))).collect();
    for path in &ballast {
        fs::write(path, vec![0; 128 << 10]).expect("there is room");
    }
    let rest = folder.join("rest");
    let mut size = 1 << 20;
    while size > 512 {
        let before = fs::read(&rest).unwrap_or_default();
        let grown = [&before[..], &vec![0; size]].concat();
        if fs::write(&rest, grown).is_err() {
            fs::write(&rest, before).expect("the file can be written");
            size /= 2;
        }
    }
    let failures = [AtomicUsize::new(0), AtomicUsize::new(0)];
    thread::scope(|scope| {
        let writers = [0, 1].map(|writer| {
            let (path, failures) = (&path, &failures[writer]);
            scope.spawn(move || write(path, writer, failures))
        });
        scope.spawn(|| {
            for path in ballast {
                let before = [0, 1].map(|writer| failures[writer].load(Ordering::Relaxed));
                // A finished writer no longer fails.
                let is_full = |writer: usize| {
                    let failed = failures[writer].load(Ordering::Relaxed);
                    failed > before[writer] || failed >= DONE
                };
                while !(is_full(0) && is_full(1)) {
                    thread::sleep(Duration::from_micros(100));
                }
                fs::remove_file(path).expect("the file exists");
            }
        });
        for writer in writers {
            writer.join().expect("no panic");
        }
    });
    let failed = failures.map(AtomicUsize::into_inner);
    assert!(failed.iter().all(|&failed| failed > DONE + 10), "the disk was full: {failed:?}");
    let text = fs::read_to_string(&path).expect("text");
    let written: Vec<_> = text.lines().collect();
    let wanted: BTreeSet<_> =
        (0..2).flat_map(|writer| (0..LINES).map(move |number| line(writer, number))).collect();
    let torn: Vec<_> = written.iter().filter(|line| !wanted.contains(**line)).collect();
    assert!(torn.is_empty(), "{} of {} are torn, as {}", torn.len(), written.len(), torn[0]);
    assert_eq!(written.len(), wanted.len(), "each line is there once");
}

/// Lines of many lengths.
fn line(writer: usize, number: usize) -> String {
    format!("{{{writer}:{number}:{}}}", "x".repeat(200 + number * 7 % 500))
}

fn write(path: &Path, writer: usize, failures: &AtomicUsize) {
    let mut file = RecordFile::open(path, (1 << 30, 1)).expect("open");
    let mut waiting = Vec::new();
    for number in 0..LINES {
        waiting.extend_from_slice(line(writer, number).as_bytes());
        waiting.push(b'\n');
        if file.add(&mut waiting).is_err() {
            failures.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
    }
    while file.add(&mut waiting).is_err() {
        failures.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_micros(100));
    }
    failures.fetch_add(DONE, Ordering::Relaxed);
}

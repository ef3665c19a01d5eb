//! The shared store with a real server: the contract, two proxies, and a server that dies, hangs, is full, or holds
//! other data.

use base::UnixTime;
use invariants::store as contract;
use location::{Aor, BindingsRecord, Replaced, Store, StoreError, StoreReply, StoreRequest};
use sarabande_tests::{Authority, RedisServer, TestSite, until, within};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};
use storage::{Redis, RedisSettings};

/// Keys expire by the server's clock.
fn now() -> UnixTime {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970");
    UnixTime::from_millis(since.as_millis() as u64)
}

/// Key of a user on the server.
const ALICE: &str = "sarabande:aor:sip:alice@example.com";

fn alice() -> Aor {
    Aor::of(b"sip:alice@example.com").expect("a URI")
}

fn key(n: usize) -> Aor {
    Aor::of(format!("sip:{n}@example.com").as_bytes()).expect("a URI")
}

fn record(n: usize) -> BindingsRecord {
    BindingsRecord::of(&[contract::binding(now(), &format!("sip:{n}@192.0.2.1"))]).expect("a binding")
}

/// Long timeouts, since a machine that runs tests may be slow.
fn settings(url: &str) -> RedisSettings {
    RedisSettings { timeout: Duration::from_secs(10), ..RedisSettings::new(url) }
}

/// A connected store.
fn connect(server: &RedisServer) -> Redis {
    start(&settings(&server.url()))
}

fn start(settings: &RedisSettings) -> Redis {
    let store = Redis::start(settings).expect("a store");
    until("the store is connected", || store.status().is_up().then_some(()));
    store
}

fn unavailable<T: core::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Unavailable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_store_fulfils_the_contract() {
    let site = TestSite::new("redis-contract");
    let server = RedisServer::start(&site, 1);
    let mut store = connect(&server);
    contract::check(&mut store, now());
    contract::check_pair(&mut connect(&server), &mut store, now());
    assert_eq!(store.status().failed_total, 0);
    assert_eq!(store.status().waiting, 0);
}

#[test]
fn other_databases_are_other_stores() {
    let site = TestSite::new("redis-database");
    let server = RedisServer::start(&site, 1);
    let mut store = connect(&server);
    let mut other = start(&settings(&format!("{}/3", server.url())));
    assert_eq!(other.replace(now(), &alice(), None, Some(&record(1))), Ok(Replaced::Done));
    assert_eq!(store.read(&alice()), Ok(None));
}

#[test]
fn the_server_deletes_expired_records() {
    let site = TestSite::new("redis-expiry");
    let server = RedisServer::start(&site, 1);
    let mut store = connect(&server);
    let new = record(1);
    assert_eq!(store.replace(now(), &alice(), None, Some(&new)), Ok(Replaced::Done));
    let left = || -> i64 {
        let answer = server.command(&format!("PTTL {ALICE}"));
        answer.strip_prefix(':').and_then(|left| left.parse().ok()).expect("a number")
    };
    // The hour of the binding, and one more by which clocks may differ.
    let before = left();
    assert!(before > 7_000_000 && before <= 7_200_000, "{before}");
    let mut longer = contract::binding(now(), "sip:2@192.0.2.1");
    longer.expires = 7200;
    let longer =
        BindingsRecord::of(&[contract::binding(now(), "sip:1@192.0.2.1"), longer]).expect("bindings");
    assert_eq!(store.replace(now(), &alice(), Some(&new), Some(&longer)), Ok(Replaced::Done));
    assert!(left() > 10_600_000, "the lifetime of the last binding counts");
    // Clocks that are far off.
    for updated in [0, u64::MAX] {
        let odd = contract::binding(UnixTime::from_millis(updated), "sip:x@h");
        let odd = BindingsRecord::of(&[odd]).expect("a binding");
        assert_eq!(store.replace(now(), &key(1), None, Some(&odd)), Ok(Replaced::Done), "{updated}");
        let read = store.read(&key(1)).expect("the store answers");
        assert_eq!(store.replace(now(), &key(1), read.as_ref(), None), Ok(Replaced::Done));
    }
}

/// Several at once on one key: each success has seen the one before it.
#[test]
fn one_of_two_concurrent_changes_succeeds() {
    let site = TestSite::new("redis-race");
    let server = RedisServer::start(&site, 1);
    let stores = [connect(&server), connect(&server)];
    let add = |mut store: Redis, proxy: usize| {
        let mut conflicts = 0;
        for n in 0..50 {
            loop {
                let old = store.read(&alice()).expect("the store answers");
                let mut bindings = old.as_ref().map(BindingsRecord::bindings).unwrap_or_default();
                bindings.push(contract::binding(now(), &format!("sip:{proxy}-{n}@h")));
                let new = BindingsRecord::of(&bindings);
                match store.replace(now(), &alice(), old.as_ref(), new.as_ref()).expect("the store answers") {
                    Replaced::Done => break,
                    Replaced::Conflict => conflicts += 1,
                }
            }
        }
        conflicts
    };
    let threads: Vec<_> = (0..4)
        .map(|proxy| {
            let store = stores[proxy % 2].clone();
            std::thread::spawn(move || add(store, proxy))
        })
        .collect();
    let conflicts: usize = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    let stored =
        stores[0].clone().read(&alice()).expect("the store answers").map_or(0, |record| record.len());
    assert_eq!(stored, 200, "an update is lost, after {conflicts} conflicts");
}

/// Two proxies register all the time while the server is killed and restarted. No acknowledged record is lost, with
/// `appendfsync always`.
#[test]
fn a_killed_server_is_used_again_after_its_restart() {
    let site = TestSite::new("redis-kill");
    let mut server = RedisServer::start(&site, 1);
    let stores = [connect(&server), connect(&server)];
    let stop = AtomicBool::new(false);
    let (done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let load = |mut store: Redis, proxy: usize| {
        let mut acknowledged = BTreeMap::new();
        for n in 0.. {
            if stop.load(SeqCst) {
                break;
            }
            let (aor, new) = (key(1_000_000 * proxy + n), record(n));
            match store.replace(now(), &aor, None, Some(&new)) {
                Ok(Replaced::Done) => {
                    acknowledged.insert(aor, new);
                    done.fetch_add(1, SeqCst);
                }
                Ok(Replaced::Conflict) => panic!("no other client uses this key"),
                Err(StoreError::Unavailable(_)) => {
                    failed.fetch_add(1, SeqCst);
                    // A proxy answers 503 here, and the client retries later.
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        acknowledged
    };
    let more = |condition: &str, count: &AtomicUsize| {
        let before = count.load(SeqCst);
        until(condition, || (count.load(SeqCst) > before + 20).then_some(()));
    };
    let acknowledged: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|proxy| {
                let store = stores[proxy % 2].clone();
                let load = &load;
                scope.spawn(move || load(store, proxy))
            })
            .collect();
        for _ in 0..2 {
            more("registrations are stored", &done);
            server.kill();
            more("registrations fail", &failed);
            server.restart();
        }
        more("registrations are stored again", &done);
        stop.store(true, SeqCst);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut store = stores[0].clone();
    for (aor, record) in acknowledged.iter().flatten() {
        assert_eq!(store.read(aor).as_ref(), Ok(&Some(record.clone())), "an acknowledged record is lost");
    }
    for store in stores {
        let status = store.status();
        assert!(status.is_up() && status.lost_total == 2 && status.failed_total > 0, "{status:?}");
    }
}

#[test]
fn without_a_server_requests_are_refused_at_once() {
    let site = TestSite::new("redis-gone");
    let mut server = RedisServer::start(&site, 1);
    let mut store = connect(&server);
    assert_eq!(store.replace(now(), &alice(), None, Some(&record(1))), Ok(Replaced::Done));
    server.kill();
    until("the loss is noticed without a request", || (!store.status().is_up()).then_some(()));
    for _ in 0..1000 {
        let (sender, reply) = channel();
        store.submit(StoreRequest::Read(alice()), Box::new(move |reply| drop(sender.send(reply))));
        // The callback was called before the call returned: the job does not wait for the server.
        let Ok(StoreReply::Read(Err(StoreError::Unavailable(why)))) = reply.try_recv() else {
            panic!("no answer")
        };
        assert!(why.contains(&server.url()["redis://".len()..]), "the error names the server: {why}");
    }
    server.restart();
    until("the store is connected again", || store.status().is_up().then_some(()));
    assert!(matches!(store.read(&alice()), Ok(Some(_))));
}

/// A hung server is not waited for, and its late answer is not taken for the answer to another request.
#[test]
fn a_hung_server_times_out() {
    let site = TestSite::new("redis-hang");
    let mut server = RedisServer::start(&site, 1);
    let mut store = start(&RedisSettings { timeout: Duration::from_millis(500), ..settings(&server.url()) });
    for n in 0..10 {
        assert_eq!(store.replace(now(), &key(n), None, Some(&record(n))), Ok(Replaced::Done));
    }
    server.freeze();
    let replies: Vec<_> = (0..200)
        .map(|n| {
            let (sender, reply) = channel();
            store.submit(StoreRequest::Read(key(n)), Box::new(move |reply| drop(sender.send(reply))));
            reply
        })
        .collect();
    for reply in replies {
        let reply = reply.recv_timeout(Duration::from_secs(30)).expect("an answer");
        assert!(matches!(reply, StoreReply::Read(Err(StoreError::Unavailable(_)))), "{reply:?}");
    }
    let why = unavailable(store.read(&alice()));
    assert!(why.contains("no answer within 500ms"), "{why}");
    server.thaw();
    until("the store is connected again", || store.status().is_up().then_some(()));
    for n in 0..10 {
        let read = store.read(&key(n)).expect("the store answers").expect("the record exists");
        assert_eq!(&*read.bindings()[0].uri, format!("sip:{n}@192.0.2.1").as_bytes());
    }
}

/// A server that answers one request, when the test says so, and then hangs before the requests that have gathered
/// meanwhile.
#[test]
fn a_batch_times_out_as_a_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("the listener is bound"));
    let (go, wait) = channel();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the store connects");
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).expect("the check of the connection") > 0);
        stream.write_all(b":1\r\n").expect("the store reads");
        assert!(stream.read(&mut buffer).expect("the first request") > 0);
        wait.recv().expect("the test continues");
        stream.write_all(b"$-1\r\n").expect("the store reads");
        // Until the store gives up.
        while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
        listener
    });
    let store = start(&RedisSettings { timeout: Duration::from_secs(5), ..settings(&url) });
    let (sender, replies) = channel();
    let ask = |n| {
        let sender = sender.clone();
        store.submit(StoreRequest::Read(key(n)), Box::new(move |reply| drop(sender.send(reply))));
    };
    ask(0);
    until("the first request is sent", || (store.status().waiting == 0).then_some(()));
    (1..=100).for_each(ask);
    go.send(()).expect("the server waits");
    let patience = Duration::from_secs(30);
    assert_eq!(replies.recv_timeout(patience), Ok(StoreReply::Read(Ok(None))));
    // With a wait for each of them, the last would be answered after eight minutes.
    let mut answered = 0;
    within(patience, "all requests are answered", || {
        for reply in replies.try_iter() {
            assert!(matches!(reply, StoreReply::Read(Err(StoreError::Unavailable(_)))), "{reply:?}");
            answered += 1;
        }
        (answered == 100).then_some(())
    });
    drop(server.join().expect("no panic"));
}

/// A server that sends an endless answer uses up neither the memory nor the time of the client.
#[test]
fn an_endless_answer_is_aborted() {
    let piece = vec![b'x'; 64 << 10];
    let drops = "$100000000\r\n";
    for (head, pause, why) in [
        (drops, Duration::ZERO, "an answer of more than 1048576 bytes"),
        ("*100000000\r\n", Duration::ZERO, "Redis at"),
        (drops, Duration::from_millis(100), "no answer within 1s"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("the listener is bound"));
        let piece = if pause.is_zero() { piece.clone() } else { vec![b'x'] };
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the store connects");
            let mut buffer = [0; 4096];
            assert!(stream.read(&mut buffer).expect("the check of the connection") > 0);
            stream.write_all(b":1\r\n").expect("the store reads");
            assert!(stream.read(&mut buffer).expect("the request") > 0);
            let (mut sent, most) = (head.len(), 64 << 20);
            drop(stream.write_all(head.as_bytes()));
            while sent < most && stream.write_all(&piece).is_ok() {
                sent += piece.len();
                std::thread::sleep(pause);
            }
            // Further connections get no answer.
            sent
        });
        let mut store = start(&RedisSettings { timeout: Duration::from_secs(1), ..settings(&url) });
        let text = unavailable(store.read(&alice()));
        assert!(text.contains(why), "{text}");
        let sent = server.join().expect("no panic");
        assert!(sent < 16 << 20, "{sent} bytes were read");
    }
}

#[test]
fn a_value_that_is_no_record_is_reported() {
    let site = TestSite::new("redis-corrupt");
    let server = RedisServer::start(&site, 1);
    let mut store = connect(&server);
    assert_eq!(server.command(&format!("SET {ALICE} garbage")), "+OK");
    let Err(StoreError::Corrupt(why)) = store.read(&alice()) else { panic!("the key was read") };
    assert!(why.contains(ALICE), "{why}");
    assert_eq!(store.replace(now(), &alice(), None, Some(&record(1))), Ok(Replaced::Conflict));
    assert_eq!(server.command(&format!("DEL {ALICE}")), ":1");
    assert_eq!(server.command(&format!("LPUSH {ALICE} garbage")), ":1");
    for result in
        [store.read(&alice()).map(drop), store.replace(now(), &alice(), None, Some(&record(1))).map(drop)]
    {
        let Err(StoreError::Corrupt(why)) = result else { panic!("{result:?}") };
        assert!(why.contains(ALICE), "{why}");
    }
    // A bad key does not disturb the others.
    assert_eq!(store.replace(now(), &key(1), None, Some(&record(1))), Ok(Replaced::Done));
    assert_eq!(store.status().lost_total, 0);
}

#[test]
fn a_full_server_accepts_removals() {
    let site = TestSite::new("redis-full");
    let server = RedisServer::start(&site, 1);
    let mut store = connect(&server);
    let old = record(1);
    assert_eq!(store.replace(now(), &alice(), None, Some(&old)), Ok(Replaced::Done));
    assert_eq!(server.command("CONFIG SET maxmemory 1"), "+OK");
    assert_eq!(store.replace(now(), &key(1), None, Some(&record(1))), Err(StoreError::Full));
    assert_eq!(store.read(&alice()), Ok(Some(old.clone())));
    assert_eq!(store.replace(now(), &alice(), Some(&old), None), Ok(Replaced::Done));
    assert_eq!(server.command("CONFIG SET maxmemory 0"), "+OK");
    assert_eq!(store.replace(now(), &key(1), None, Some(&record(1))), Ok(Replaced::Done));
    assert_eq!(store.status().lost_total, 0);
}

/// A demoted server accepts no changes; one that is promoted at the same address is found.
#[test]
fn a_replica_accepts_no_changes() {
    let site = TestSite::new("redis-replica");
    let server = RedisServer::start(&site, 1);
    let mut store = connect(&server);
    assert_eq!(server.command("REPLICAOF 127.0.0.1 1"), "+OK");
    let why = unavailable(store.replace(now(), &alice(), None, Some(&record(1))));
    assert!(why.to_lowercase().contains("read only"), "{why}");
    // The address may belong to another server by now.
    until("the connection is made anew", || (store.status().lost_total > 0).then_some(()));
    assert_eq!(server.command("REPLICAOF NO ONE"), "+OK");
    until("the server accepts changes again", || {
        store.replace(now(), &alice(), None, Some(&record(1))).is_ok().then_some(())
    });
}

#[test]
fn a_required_password_is_never_shown() {
    let site = TestSite::new("redis-password");
    let server = RedisServer::start(&site, 1);
    assert_eq!(server.command("CONFIG SET requirepass s3cret"), "+OK");
    let with = |user: &str| server.url().replace("redis://", &format!("redis://{user}@"));
    for (url, why) in [(server.url(), "NOAUTH"), (with(":s3cret-not"), "")] {
        let settings = settings(&url);
        let mut store = Redis::start(&settings).expect("a store");
        let text = unavailable(store.read(&alice()));
        assert!(text.contains(why), "{text}");
        let shown = format!("{text} {settings:?} {:?}", store.status());
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(!store.status().is_up());
    }
    // As in docs/registrar.md: a user with only the rights that a store needs.
    let server = RedisServer::start(&site, 2);
    let rights = "~sarabande:* +get +set +del +eval +select";
    assert_eq!(server.command(&format!("ACL SETUSER proxy on >s3cret {rights}")), "+OK");
    let limited = server.url().replace("redis://", "redis://proxy:s3cret@");
    let first = with(":s3cret");
    for url in [first, limited.clone(), limited + "/0"] {
        let mut store = Redis::start(&settings(&url)).expect("a store");
        assert_eq!(store.read(&alice()), Ok(None));
        let new = record(1);
        assert_eq!(store.replace(now(), &alice(), None, Some(&new)), Ok(Replaced::Done));
        assert_eq!(store.replace(now(), &alice(), Some(&new), None), Ok(Replaced::Done));
    }
}

#[test]
fn invalid_settings_are_refused() {
    for (url, timeout, why) in [
        ("rediss://:s3cret@127.0.0.1/x", 500, "redis://user:password@host:6379/0"),
        ("http://s3cret@127.0.0.1", 500, "redis://user:password@host:6379/0"),
        ("redis://127.0.0.1/s3cret", 500, "redis://user:password@host:6379/0"),
        ("redis://127.0.0.1", 0, "timeout"),
    ] {
        let timeout = Duration::from_millis(timeout);
        let Err(error) = Redis::start(&RedisSettings { timeout, ..RedisSettings::new(url) }) else {
            panic!("{url} was accepted")
        };
        assert!(error.to_string().contains(why), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

/// Over TLS, records are stored only at a server that the authority vouches for.
#[test]
fn a_server_with_tls_needs_a_certificate_for_its_host() {
    let site = TestSite::new("redis-tls");
    let ours = Authority::new(&site, "ours");
    let others = Authority::new(&site, "others");
    let right = ours.issue("right", &format!("IP:{}", site.ip(1)));
    let server = RedisServer::start_with_tls(&site, 1, right);
    let trusting = |server: &RedisServer, authority: &Authority| RedisSettings {
        authorities: Some(authority.file()),
        ..settings(&server.secure_url())
    };
    let mut store = start(&trusting(&server, &ours));
    let new = record(1);
    assert_eq!(store.replace(now(), &key(1), None, Some(&new)), Ok(Replaced::Done));
    assert_eq!(store.read(&key(1)), Ok(Some(new)));

    let elsewhere = RedisServer::start_with_tls(&site, 2, ours.issue("wrong", "DNS:redis.example"));
    for (settings, why) in [
        (trusting(&server, &others), "not signed by an authority in [tls] authorities"),
        (trusting(&elsewhere, &ours), "its certificate is not for"),
    ] {
        let mut store = Redis::start(&settings).expect("a store");
        let text = unavailable(store.read(&key(1)));
        assert!(text.contains(why), "{text}");
    }
    let missing = RedisSettings { authorities: Some("/not/there.pem".into()), ..trusting(&server, &ours) };
    let text = missing.check().expect_err("there is no such file").to_string();
    assert!(text.contains("authorities") && text.contains("/not/there.pem"), "{text}");
}

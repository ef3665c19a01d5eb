//! Users in a real PostgreSQL database: Kamailio's table, the cache, and a server that dies, hangs, or is another one.

use digest_auth::{Algorithm, Needs, Secret};
use sarabande_tests::{Authority, PostgresServer, TestSite, until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::time::Duration;
use storage::{LookUpError, SubscriberSettings, Subscribers};

const REALM: &str = "example.com";

/// Connections to a database.
const CONNECTIONS: usize = 4;

/// As `kamdbctl create` creates it.
const TABLE: &str = "CREATE TABLE subscriber (id SERIAL PRIMARY KEY NOT NULL,
    username VARCHAR(64) DEFAULT '' NOT NULL, domain VARCHAR(64) DEFAULT '' NOT NULL,
    password VARCHAR(64) DEFAULT '' NOT NULL, ha1 VARCHAR(128) DEFAULT '' NOT NULL,
    ha1b VARCHAR(128) DEFAULT '' NOT NULL,
    CONSTRAINT subscriber_account_idx UNIQUE (username, domain));
    CREATE INDEX subscriber_username_idx ON subscriber (username)";

fn hash(algorithm: Algorithm, user: &str) -> String {
    let digits = algorithm.hash(&[user.as_bytes(), REALM.as_bytes(), b"secret"]).hex();
    String::from_utf8(digits).expect("digits")
}

/// A server with the table and two users: alice with her password, bob with hashes.
fn server(site: &TestSite) -> PostgresServer {
    let server = PostgresServer::start(site, 1);
    server.execute(TABLE);
    let (ha1, ha1b) = (hash(Algorithm::Md5, "bob"), hash(Algorithm::Md5, "bob@example.com"));
    server.execute(&format!(
        "INSERT INTO subscriber (username, domain, password, ha1, ha1b) VALUES
         ('alice', '{REALM}', 'secret', '', ''), ('bob', '{REALM}', '', '{ha1}', '{ha1b}')"
    ));
    server
}

fn connect(settings: &SubscriberSettings) -> Subscribers {
    let users = Subscribers::start(settings).expect("users");
    until("all connections are open", || (users.status().connections == CONNECTIONS).then_some(()));
    users
}

/// Entries are cached only for an outage. Long timeouts, since a machine that runs tests may be slow.
fn without_cache(server: &PostgresServer) -> SubscriberSettings {
    let (cache_lifetime, absent_lifetime) = (Duration::ZERO, Duration::ZERO);
    let timeout = Duration::from_secs(20);
    SubscriberSettings { cache_lifetime, absent_lifetime, timeout, ..SubscriberSettings::new(&server.url()) }
}

fn secret(users: &Subscribers, user: &str) -> Result<Option<Secret>, LookUpError> {
    let (sender, result) = channel();
    let needs = Needs { user: user.as_bytes(), realm: REALM.as_bytes(), algorithm: Algorithm::Md5 };
    users.ask(needs, Box::new(move |result| drop(sender.send(result))));
    result.recv_timeout(Duration::from_secs(30)).expect("an answer")
}

/// A password, or a hash, or `none`.
fn shown(users: &Subscribers, user: &str) -> String {
    match secret(users, user) {
        Ok(Some(Secret::Clear(password))) => String::from_utf8(password.into()).expect("text"),
        Ok(Some(Secret::Ha1(hash))) => {
            format!("{} {}", hash.algorithm().name(), String::from_utf8(hash.hex()).expect("digits"))
        }
        Ok(None) => "none".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn secrets_are_read_from_kamailios_table() {
    let site = TestSite::new("users");
    let server = server(&site);
    let users = connect(&without_cache(&server));
    assert_eq!(shown(&users, "alice"), "secret");
    assert_eq!(shown(&users, "bob"), format!("MD5 {}", hash(Algorithm::Md5, "bob")));
    let long = format!("MD5 {}", hash(Algorithm::Md5, "bob@example.com"));
    assert_eq!(shown(&users, "bob@example.com"), long);
    let odd = [
        "carol",
        "Alice",
        "alice ",
        "bob@other.example",
        "a'; DROP TABLE subscriber; --",
        "%",
        "\u{1F600}",
        "",
    ];
    for unknown in odd {
        assert_eq!(shown(&users, unknown), "none", "{unknown}");
    }
    // 64 digits.
    let sha = hash(Algorithm::Sha256, "bob");
    server.execute(&format!("UPDATE subscriber SET ha1 = '{sha}' WHERE username = 'bob'"));
    assert_eq!(shown(&users, "bob"), format!("SHA-256 {sha}"));
    assert_eq!((users.status().failed_total, users.status().lost_total), (0, 0));
}

#[test]
fn answers_are_cached_for_their_lifetime_or_until_cleared() {
    let site = TestSite::new("users-cache");
    let server = server(&site);
    let users = connect(&SubscriberSettings {
        absent_lifetime: Duration::from_hours(1),
        cache_lifetime: Duration::from_hours(1),
        ..without_cache(&server)
    });
    assert_eq!((shown(&users, "alice"), shown(&users, "carol")), ("secret".to_owned(), "none".to_owned()));
    server.execute("UPDATE subscriber SET password = 'other' WHERE username = 'alice'");
    server.execute(&format!(
        "INSERT INTO subscriber (username, domain, password) VALUES ('carol', '{REALM}', 'hers')"
    ));
    assert_eq!((shown(&users, "alice"), shown(&users, "carol")), ("secret".to_owned(), "none".to_owned()));
    users.forget();
    assert_eq!((shown(&users, "alice"), shown(&users, "carol")), ("other".to_owned(), "hers".to_owned()));
}

/// Cached users keep access, others are refused at once; after the recovery all is as before.
#[test]
fn a_killed_database_is_used_again_after_its_restart() {
    let site = TestSite::new("users-kill");
    let mut server = server(&site);
    let users = connect(&without_cache(&server));
    assert_eq!(shown(&users, "alice"), "secret");
    server.kill();
    until("the loss is noticed without a look-up", || (!users.status().is_up()).then_some(()));
    assert_eq!(shown(&users, "alice"), "secret", "cached for an outage");
    for _ in 0..100 {
        let (sender, result) = channel();
        let needs = Needs { user: b"bob", realm: REALM.as_bytes(), algorithm: Algorithm::Md5 };
        users.ask(needs, Box::new(move |result| drop(sender.send(result))));
        let Ok(Err(error)) = result.try_recv() else { panic!("the look-up was not answered at once") };
        assert!(error.to_string().starts_with("the database of users cannot be queried: "), "{error}");
    }
    assert_eq!(shown(&users, "nobody@other.example"), "none", "a name of another realm needs no database");
    let status = users.status();
    assert!(
        status.failed_total >= 100 && status.lost_total == 4 && status.last_error.is_some(),
        "{status:?}"
    );
    server.restart();
    until("the database is used again", || secret(&users, "bob").is_ok().then_some(()));
    server.execute("UPDATE subscriber SET password = 'other' WHERE username = 'alice'");
    assert_eq!(shown(&users, "alice"), "other");
}

/// A look-up that the database does not answer, here because of a locked table, ends on both sides: no connection is
/// left behind.
#[test]
fn a_look_up_that_hangs_times_out() {
    let site = TestSite::new("users-hang");
    let server = server(&site);
    let mut settings = without_cache(&server);
    settings.timeout = Duration::from_millis(200);
    let users = connect(&settings);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let locked = "BEGIN; LOCK TABLE subscriber IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)";
            // Ends with an error when the test is over.
            server.try_execute(locked).expect_err("the statement is ended");
        });
        let locks = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted";
        until("the table is locked", || (server.execute(locks) != "0").then_some(()));
        for _ in 0..10 {
            let error = secret(&users, "bob").expect_err("the table is locked").to_string();
            assert!(error.contains("no answer within") || error.contains("57014"), "{error}");
        }
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        until("no look-up waits for the table", || {
            let waiting: usize = server.execute(waiting).parse().expect("a number");
            (waiting <= CONNECTIONS).then_some(())
        });
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
        server.execute(end);
    });
    until("the database is used again", || secret(&users, "bob").is_ok().then_some(()));
}

/// The rest of a limit of connections is for other programs.
#[test]
fn the_number_of_connections_is_limited() {
    let site = TestSite::new("users-limit");
    let server = server(&site);
    let users = connect(&without_cache(&server));
    let (sender, results) = channel();
    for n in 0..1000 {
        let sender = sender.clone();
        let user = format!("user{n}");
        let needs = Needs { user: user.as_bytes(), realm: REALM.as_bytes(), algorithm: Algorithm::Md5 };
        users.ask(needs, Box::new(move |result| drop(sender.send(result))));
    }
    for _ in 0..1000 {
        let result = results.recv_timeout(Duration::from_secs(30)).expect("an answer");
        assert!(matches!(result, Ok(None)), "{result:?}");
    }
    let others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    assert_eq!(server.execute(others), CONNECTIONS.to_string());
    drop(users);
    until("all are closed", || (server.execute(others) == "0").then_some(()));
}

/// An outsider's user name must not cost connections.
#[test]
fn a_name_that_the_encoding_lacks_costs_no_connection() {
    let site = TestSite::new("users-latin");
    let server = server(&site);
    server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let settings = without_cache(&server);
    let url = settings.url.replace("/postgres", "/latin");
    server.execute_in("latin", TABLE);
    let users = connect(&SubscriberSettings { url, ..settings });
    for name in ["\u{1F600}", "\u{20AC}uro", "\0", &"x".repeat(256)] {
        assert_eq!(shown(&users, name), "none", "{name}");
    }
    assert_eq!((users.status().lost_total, users.status().failed_total), (0, 0));
}

#[test]
fn errors_do_not_show_the_password() {
    let site = TestSite::new("users-errors");
    let server = server(&site);
    let good = without_cache(&server);
    let password = SubscriberSettings { url: good.url.replace("top%20secret", "t0p-s3cret"), ..good.clone() };
    server.execute("ALTER TABLE subscriber RENAME COLUMN ha1b TO ha2");
    for (settings, why) in [(good, "\"ha1b\" does not exist"), (password, "28P01")] {
        let users = Subscribers::start(&settings).expect("users");
        let error = secret(&users, "alice").expect_err("no user can be read").to_string();
        assert!(error.contains(why), "{error}");
        let shown = format!("{error} {settings:?} {:?}", users.status());
        assert!(!shown.contains("s3cret") && !shown.contains("top"), "{shown}");
    }
}

/// Over TLS, users are looked up only at a server that the authority vouches for.
#[test]
fn a_database_with_tls_needs_a_certificate_for_its_host() {
    let site = TestSite::new("users-tls");
    let ours = Authority::new(&site, "ours");
    let others = Authority::new(&site, "others");
    let server =
        PostgresServer::start_with_tls(&site, 1, &ours.issue("right", &format!("IP:{}", site.ip(1))));
    server.execute(TABLE);
    let settings = |parameter: &str, authority: &Authority| SubscriberSettings {
        url: format!("{}{parameter}", server.url()),
        authorities: Some(authority.file()),
        ..without_cache(&server)
    };
    for parameter in ["?sslmode=verify-full", "?sslmode=require"] {
        let users = connect(&settings(parameter, &ours));
        assert_eq!(shown(&users, "nobody"), "none");
        let secure = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                      WHERE ssl AND application_name <> 'psql'";
        assert_eq!(server.execute(secure), CONNECTIONS.to_string(), "{parameter}");
    }
    let users = Subscribers::start(&settings("?sslmode=verify-full", &others)).expect("users");
    let error = secret(&users, "alice").expect_err("no user can be read").to_string();
    assert!(error.contains("not signed by an authority in [tls] authorities"), "{error}");
    let by_name =
        settings("", &ours).url.replace(&site.ip(1).to_string(), "localhost") + "?sslmode=verify-full";
    let by_name = by_name + &format!("&hostaddr={}", site.ip(1));
    let users =
        Subscribers::start(&SubscriberSettings { url: by_name, ..settings("", &ours) }).expect("users");
    let error = secret(&users, "alice").expect_err("no user can be read").to_string();
    assert!(error.contains("its certificate is not for"), "{error}");
}

/// A false server, or an eavesdropper, asks for the password in clear text.
#[test]
fn a_password_is_sent_in_clear_text_only_if_allowed() {
    for (parameter, is_sent) in [("", false), ("?require_auth=password", true)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("the listener is bound");
        let server = std::thread::spawn(move || {
            let answer = || {
                let (mut stream, _) = listener.accept().expect("the client connects");
                let mut buffer = [0; 4096];
                assert!(stream.read(&mut buffer).expect("the startup message") > 0);
                stream.write_all(b"R\0\0\0\x08\0\0\0\x03").expect("the client reads");
                let length = stream.read(&mut buffer).unwrap_or_default();
                String::from_utf8_lossy(&buffer[..length]).into_owned()
            };
            (0..CONNECTIONS).map(|_| answer()).collect::<String>()
        });
        let url = format!("postgres://owner:s3cret@{address}/postgres{parameter}");
        let users = Subscribers::start(&SubscriberSettings::new(&url)).expect("users");
        let error = secret(&users, "alice").expect_err("no user can be read").to_string();
        let got = server.join().expect("no panic");
        assert_eq!(got.contains("s3cret"), is_sent, "{got}");
        assert_eq!(error.contains("clear text"), !is_sent, "{error}");
    }
}

#[test]
fn invalid_settings_are_refused() {
    let url = "postgres://owner:s3cret@127.0.0.1/postgres";
    let change = |change: fn(&mut SubscriberSettings)| {
        let mut settings = SubscriberSettings::new(url);
        change(&mut settings);
        settings
    };
    let cases = [
        (change(|settings| settings.url = "http://s3cret".to_owned()), "postgres://user:password@host"),
        (change(|settings| settings.url = "user=owner password=s3cret".to_owned()), "names no host"),
        (change(|settings| settings.url += "?sslmode=s3cret"), "postgres://user:password@host"),
        (
            change(|settings| {
                settings.url += "?sslmode=require";
                settings.authorities = Some("/not/there.pem".into());
            }),
            "[tls] authorities: /not/there.pem",
        ),
        (change(|settings| settings.url = "postgres://%2frun/db?sslmode=require".to_owned()), "Unix socket"),
        (change(|settings| settings.url += "?host=/run/postgresql"), "Unix sockets"),
    ];
    for (settings, why) in cases {
        let Err(error) = Subscribers::start(&settings) else { panic!("accepted, without {why}") };
        assert!(error.to_string().contains(why), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

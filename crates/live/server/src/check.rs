//! Checks the files, directories and URLs that a configuration names. No server is contacted, since it may be reachable
//! only from the machine that the file is for.

use crate::admin::token;
use crate::key;
use config::{
    CallsConfig, Config, DriverConfig, PoolConfig, RecordsPlace, RegistrarConfig, StorePlace, Tls, UsersPlace,
};
use control::{Address, MemberSettings};
use shards::{redis, state, subscribers};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::time::SystemTime;
use storage::{RecordDatabase, UserFile};
use streams::tls::{TlsError, TlsSetup};

/// Faults of a configuration, each with a remedy.
#[derive(Default)]
pub struct Findings {
    /// Faults that make a start or a part of the server fail.
    pub problems: Vec<String>,
    /// Faults that a start only logs.
    pub warnings: Vec<String>,
}

/// Checks the files and URLs in the configuration at `path`, and the secrets that are stored beside it.
pub fn check(config: &Config, path: &Path) -> Findings {
    let Findings { mut problems, mut warnings } = Findings::default();
    if let Some(registrar) = &config.registrar {
        problems.extend(of_registrar(registrar).into_iter().flatten());
    }
    problems.extend(config.calls.as_ref().and_then(of_calls));
    for pool in &config.pools {
        problems.extend(of_pool(pool));
    }
    if let Some(tls) = &config.tls {
        match of_tls(tls) {
            Ok(of_certificates) => warnings.extend(of_certificates),
            Err(error) => problems.push(format!("[tls] {error}")),
        }
    }
    warnings.extend(of_listeners(config));
    problems.extend(of_secrets(config, path));
    problems.extend(collisions(config, path));
    Findings { problems, warnings }
}

/// Lists listen addresses that this host does not have. The configuration may be for another host.
fn of_listeners(config: &Config) -> impl Iterator<Item = String> {
    let all = config.listen.listeners.iter().map(|listener| listener.bind.ip());
    let all: BTreeSet<_> = all.chain(config.admin.listen.map(|address| address.ip())).collect();
    let is_absent = |ip: &IpAddr| {
        UdpSocket::bind((*ip, 0)).is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
    };
    all.into_iter()
        .filter(is_absent)
        .map(|ip| format!("{ip} is not an address of this host: a start fails here"))
}

/// Lists faults of the certificates that clients may reject. UDP and TCP work nevertheless.
///
/// # Errors
/// If a certificate, a key or the authorities cannot be used.
fn of_tls(tls: &Tls) -> Result<Vec<String>, TlsError> {
    // The check writes no key log.
    let setup = TlsSetup::read(&Tls { key_log: None, ..tls.clone() }, None)?;
    let now = SystemTime::now();
    Ok(setup.certificates.iter().flat_map(|facts| facts.warnings(now)).collect())
}

/// Returns the first unusable secret that is stored beside the configuration. A missing secret is no fault, since a
/// start makes it. A secret that cannot be read is reported by the start.
fn of_secrets(config: &Config, path: &Path) -> Option<String> {
    let key = config.token.key.is_none().then(|| key::beside(path));
    let kept = key.into_iter().chain(token::kept(&config.admin, path));
    let mut faults = kept.filter_map(|file| key::read(&file).err());
    faults.find(|error| error.kind() == ErrorKind::InvalidData).map(|error| error.to_string())
}

/// Lists files that the server writes and that the configuration also names for another purpose.
fn collisions(config: &Config, path: &Path) -> Vec<String> {
    let mut written: Vec<_> = state::places(path, "sock")
        .into_iter()
        .map(|file| ("the socket of restarts".to_owned(), file))
        .collect();
    let key = config.token.key.is_none().then(|| ("the token key".to_owned(), key::beside(path)));
    let token = token::kept(&config.admin, path).map(|file| ("the admin token".to_owned(), file));
    written.extend(key.into_iter().chain(token));
    let mut read = vec![("the configuration".to_owned(), path.to_owned())];
    if let Some(tls) = &config.tls {
        let own = tls.certificates.iter().flat_map(|files| [&files.chain, &files.key]);
        let all = own.chain(&tls.authorities).chain(&tls.client_authorities);
        read.extend(all.map(|file| ("[tls]".to_owned(), file.clone())));
        written.extend(tls.key_log.iter().map(|file| ("[tls] key_log".to_owned(), file.clone())));
    }
    if let Some(registrar) = &config.registrar {
        if let Some(UsersPlace::File(file)) = &registrar.users {
            read.push(("[registrar] users".to_owned(), file.clone()));
        }
        if let Some(StorePlace::File(file)) = &registrar.store {
            written.push(("[registrar] store".to_owned(), file.clone()));
        }
    }
    if let Some(RecordsPlace::File(file)) = config.calls.as_ref().and_then(|calls| calls.records.as_ref()) {
        written.push(("[calls] records".to_owned(), file.clone()));
    }
    let whole = |file: &Path| file.canonicalize().or_else(|_| std::path::absolute(file)).ok();
    let mut problems = Vec::new();
    for (index, (purpose, file)) in written.iter().enumerate() {
        let others = read.iter().chain(&written[..index]).filter(|(_, other)| whole(other) == whole(file));
        problems.extend(others.map(|(other, _)| {
            format!(
                "{other} and {purpose} would be one file, {}; give one of them another name",
                file.display()
            )
        }));
    }
    problems
}

/// Returns the faults of a file of users.
pub fn check_users(file: &Path) -> Option<String> {
    UserFile::read(file).err().map(|error| format!("[registrar] users: {error}"))
}

/// Lists names that can never be resolved, and programs that do not exist.
fn of_pool(pool: &PoolConfig) -> Vec<String> {
    let name = &pool.settings.name;
    let never = |member: &&MemberSettings| match &member.address {
        Address::Socket(_) => false,
        Address::Host { name, .. } | Address::Srv(name) => name.ends_with(".invalid"),
    };
    let never = pool.members.iter().filter(never).map(|member| {
        format!(
            "[pool.{name}] members: {} is never resolved: no DNS name ends with .invalid (RFC 6761)",
            member.address
        )
    });
    let lines: Vec<_> = match pool.scale.as_ref().map(|scale| &scale.driver) {
        Some(DriverConfig::Command { start, stop, list }) => [start, stop].into_iter().chain(list).collect(),
        Some(DriverConfig::None | DriverConfig::Kubernetes(_)) | None => Vec::new(),
    };
    let mut missing: Vec<_> =
        lines.iter().map(|line| &line.program).filter(|program| !is_there(program)).collect();
    missing.dedup();
    let missing = missing.into_iter().map(|program| {
        format!("[pool.{name}] scale: there is no program {program}; give its path, or the name of a program in PATH")
    });
    never.chain(missing).collect()
}

/// Returns whether a program exists, by its path or in PATH.
fn is_there(program: &str) -> bool {
    let is_file = |path: &Path| path.metadata().is_ok_and(|there| there.is_file());
    if program.contains('/') {
        return is_file(Path::new(program));
    }
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|folder| is_file(&folder.join(program))))
}

fn of_registrar(registrar: &RegistrarConfig) -> [Option<String>; 2] {
    let users = registrar.users.as_ref().and_then(|users| {
        let problem = match users {
            UsersPlace::File(file) => match UserFile::read(file) {
                Ok(users) => no_user_of_realm(&users, file, registrar),
                Err(error) => Some(error.to_string()),
            },
            UsersPlace::Database(server) => subscribers(server).check().err().map(|error| error.to_string()),
        };
        problem.map(|problem| format!("[registrar] users: {problem}"))
    });
    let store = registrar.store.as_ref().and_then(|store| {
        let problem = match store {
            StorePlace::Memory => None,
            StorePlace::File(file) => of_file(file),
            StorePlace::Redis(server) => redis(server).check().err().map(|error| error.to_string()),
        };
        problem.map(|problem| format!("[registrar] store: {problem}"))
    });
    [users, store]
}

/// Reports that no user of a file belongs to the realm.
fn no_user_of_realm(users: &UserFile, file: &Path, registrar: &RegistrarConfig) -> Option<String> {
    let realm = &registrar.settings.authentication.as_ref()?.digest.realm;
    let realms = users.realms();
    (!realms.iter().any(|of| **of == **realm)).then(|| {
        let shown = |realm: &[u8]| realm.escape_ascii().to_string();
        let there: Vec<_> = realms.iter().map(|realm| shown(realm)).collect();
        let there = if there.is_empty() {
            "it has no users".to_owned()
        } else {
            format!("its users are of {}", there.join(", "))
        };
        format!(
            "no user of {} is of the realm {}: {there}. Set `realm`, or make the hashes for that realm",
            file.display(),
            shown(realm)
        )
    })
}

fn of_calls(calls: &CallsConfig) -> Option<String> {
    let problem = match calls.records.as_ref()? {
        RecordsPlace::File(file) => of_file(file),
        RecordsPlace::Database(server) => RecordDatabase::check(&server.url, server.authorities.as_deref())
            .err()
            .map(|error| error.to_string()),
    };
    problem.map(|problem| format!("[calls] records: {problem}"))
}

/// Returns the fault of a file that the server creates: its directory does not exist. Write permission is not checked,
/// since the check may run as another user.
fn of_file(file: &Path) -> Option<String> {
    if file.is_dir() {
        return Some(format!("{} is a directory; name a file in it", file.display()));
    }
    let directory = file.parent().filter(|directory| *directory != Path::new(""))?;
    let shown = directory.display();
    match fs::metadata(directory) {
        Ok(there) if !there.is_dir() => Some(format!("{shown} is not a directory; name another file")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("there is no directory {shown}; make it, or name another file"))
        }
        // A start reports a file that cannot be examined.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the findings for a registrar with these additional keys, and for call records.
    fn said(registrar: &str, records: &str) -> Vec<String> {
        let directory = env::temp_dir();
        let text = format!(
            "[listen]\nudp = [\"127.0.0.1:5060\"]\n[token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n\
             [registrar]\ndomains = [\"example.com\"]\nforward = \"dialog\"\n{registrar}\n[calls]\nrecords = {records:?}\n"
        );
        let config = config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        check(&config, &directory.join("sarabande-check-test.toml")).problems
    }

    #[test]
    fn kept_secrets_can_be_used() {
        let file = env::temp_dir().join(format!("sarabande-secrets-test-{}.toml", std::process::id()));
        let pool = "[listen]\nudp = [\"127.0.0.1:5060\"]\n[pool.x]\nmembers = [\"127.0.0.2\"]\n";
        let configured = |more: &str| config::parse(&format!("{pool}{more}"), "test").unwrap();
        let said = |more: &str, file: &Path| of_secrets(&configured(more), file);
        assert_eq!(said("", &file), None, "a start makes the file");
        fs::write(key::beside(&file), "abc").unwrap();
        assert!(said("", &file).is_some_and(|text| text.contains("hexadecimal")));
        let other = "[token]\nkey = \"000102030405060708090a0b0c0d0e0f\"";
        assert_eq!(said(other, &file), None, "the stored secret is unused");
        let exposed = format!("{other}\n[admin]\nlisten = \"0.0.0.0:8060\"");
        fs::write(file.with_extension("admin-token"), "abc").unwrap();
        assert!(said(&exposed, &file).is_some_and(|text| text.contains(".admin-token does not hold")));
        fs::remove_file(file.with_extension("admin-token")).unwrap();
        fs::remove_file(key::beside(&file)).unwrap();
    }

    #[test]
    fn an_address_of_another_host_is_reported() {
        let text = "[listen]\nudp = [\"127.0.0.1:5060\", \"192.0.2.1:5060\"]\ntcp = [\"192.0.2.1:5060\"]\n[pool.x]\nmembers = [\"127.0.0.2\"]\n";
        let config = config::parse(text, "test").unwrap();
        let findings: Vec<_> = of_listeners(&config).collect();
        assert_eq!(findings, ["192.0.2.1 is not an address of this host: a start fails here"]);
    }

    #[test]
    fn a_file_has_one_purpose() {
        let file = env::temp_dir().join(format!("sarabande-collisions-test-{}.toml", std::process::id()));
        let said = |more: &str| {
            let text = format!(
                "[listen]\nudp = [\"127.0.0.1:5060\"]\n[registrar]\ndomains = [\"a.example\"]\nforward = \"dialog\"\n{more}"
            );
            collisions(&config::parse(&text, &file.display().to_string()).unwrap(), &file)
        };
        let name =
            |extension| file.with_extension(extension).file_name().unwrap().to_string_lossy().into_owned();
        let tls = |key: &str| format!("[tls]\ncertificates = [{{ chain = \"a.pem\", key = {key:?} }}]\n");
        assert_eq!(said(&tls(&name("key"))), [""; 0], "the file is not written by the server");
        let both = format!("store = \"x\"\n{}[calls]\nrecords = \"x\"", tls(&name("token-key")));
        let findings = said(&both);
        let start =
            ["[tls] and the token key would be one file, ", "[registrar] store and [calls] records would be"];
        assert!(
            findings.iter().zip(start).all(|(findings, start)| findings.starts_with(start))
                && findings.len() == 2,
            "{findings:?}"
        );
    }

    #[test]
    fn files_need_a_directory() {
        let here = env::temp_dir();
        let fine = format!("{}/calls.jsonl", here.display());
        assert_eq!(said("", &fine), [""; 0]);
        let store = |path: &str| format!("store = {path:?}");
        assert_eq!(said(&store(&format!("{fine}.bindings")), &fine), [""; 0]);
        let nowhere = format!("{}/sarabande-is-not-there/x", here.display());
        let findings = format!(
            "there is no directory {}/sarabande-is-not-there; make it, or name another file",
            here.display()
        );
        assert_eq!(
            said(&store(&format!("{nowhere}.bindings")), &nowhere),
            [format!("[registrar] store: {findings}"), format!("[calls] records: {findings}")]
        );
        let directory = here.display().to_string();
        assert_eq!(
            said("", &directory),
            [format!("[calls] records: {directory} is a directory; name a file in it")]
        );
        let own = env::current_exe().unwrap().display().to_string();
        assert_eq!(
            said("", &format!("{own}/x")),
            [format!("[calls] records: {own} is not a directory; name another file")]
        );
    }

    #[test]
    fn incomplete_urls_are_reported() {
        let one = |registrar: &str, records: &str, start: &str| {
            let said = said(registrar, records);
            assert!(said.len() == 1 && said[0].starts_with(start), "{said:?}");
            assert!(!said[0].contains("sesame"), "a password is never shown: {said:?}");
        };
        let fine = "postgres://bob:sesame@db.example/calls";
        assert_eq!(
            said("store = \"redis://db.example\"\nusers = \"postgres://db.example/users\"", fine),
            [""; 0]
        );
        one(
            "",
            "postgres://bob:sesame@db.example:port/calls",
            "[calls] records: the URL of the database of call records",
        );
        one(
            "",
            "postgres://bob:sesame@%2frun%2fpostgresql/calls?sslmode=verify-full",
            "[calls] records: the URL of the database of call records requires TLS on a Unix socket",
        );
        one(
            "users = \"postgres://:sesame@\"",
            fine,
            "[registrar] users: the URL of the database of users names no host",
        );
        one("store = \"redis://:sesame@h:port\"", fine, "[registrar] store: the URL of the Redis server");
        one("users = \"/sarabande/is/not/there\"", fine, "[registrar] users: ");
    }

    /// Returns the findings for a pool with these members and additional keys.
    fn said_of_pool(members: &str, more: &str) -> Vec<String> {
        let text = format!(
            "[listen]\nudp = [\"127.0.0.1:5060\"]\n[token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n\
             [pool.servers]\nmembers = [{members}]\n{more}\n"
        );
        let config = config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        check(&config, &env::temp_dir().join("sarabande-check-test.toml")).problems
    }

    #[test]
    fn an_invalid_name_is_reported() {
        assert_eq!(said_of_pool("\"a.example.com\"", ""), [""; 0]);
        let findings = said_of_pool("\"a.example.com\", \"typo.invalid\"", "");
        assert!(
            findings.len() == 1
                && findings[0].starts_with("[pool.servers] members: typo.invalid is never resolved"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_missing_program_is_reported() {
        let scale = |start: &str| {
            format!(
                "scale = {{ driver = \"command\", start = {start:?}, stop = \"true\", list = \"true\", most = 1 }}"
            )
        };
        assert_eq!(said_of_pool("\"127.0.0.1:5070\"", &scale("true")), [""; 0]);
        for program in ["sarabande-is-not-there", "/sarabande/is/not/there"] {
            let findings = said_of_pool("\"127.0.0.1:5070\"", &scale(program));
            let start = format!("[pool.servers] scale: there is no program {program};");
            assert!(findings.len() == 1 && findings[0].starts_with(&start), "{findings:?}");
        }
    }

    #[test]
    fn users_of_another_realm_are_reported() {
        let file = env::temp_dir().join(format!("sarabande-check-users-{}", std::process::id()));
        let users = |realm: &str| format!("bob:{realm}:37593d991414f52c30246c60c7798431\n");
        let fine = format!("{}/calls.jsonl", env::temp_dir().display());
        let registrar = format!("users = {:?}", file.display().to_string());
        fs::write(&file, users("example.com")).unwrap();
        assert_eq!(said(&registrar, &fine), [""; 0]);
        fs::write(&file, users("example.net")).unwrap();
        let findings = said(&registrar, &fine);
        fs::remove_file(&file).unwrap();
        let end = "is of the realm example.com: its users are of example.net. Set `realm`, or make the hashes for \
            that realm";
        assert!(findings.len() == 1 && findings[0].ends_with(end), "{findings:?}");
    }
}

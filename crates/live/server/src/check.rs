//! Files, directories and URLs that a configuration names. No server is asked: it may be one that only the
//! machine reaches that the file is for.

use crate::admin::token;
use crate::key;
use crate::stores::{redis, subscribers};
use config::{
    CallsConfig, Config, DriverConfig, PoolConfig, RecordsPlace, RegistrarConfig, StorePlace, Tls, UsersPlace,
};
use control::{Address, MemberSettings};
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;
use storage::{RecordDatabase, UserFile};
use streams::tls::{CertificateFacts, TlsSetup};

/// What a start with the configuration at `path` would say of what it names, and of the secrets that are kept beside
/// it: a text for each thing that is wrong, with what helps.
pub fn check(config: &Config, path: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(registrar) = &config.registrar {
        problems.extend(of_registrar(registrar).into_iter().flatten());
    }
    problems.extend(config.calls.as_ref().and_then(of_calls));
    for pool in &config.pools {
        problems.extend(of_pool(pool));
    }
    problems.extend(config.tls.iter().flat_map(of_tls));
    problems.extend(of_secrets(config, path));
    problems
}

/// What is wrong with certificates, keys and authorities.
fn of_tls(tls: &Tls) -> Vec<String> {
    // Nothing is written, and no secret needs to be.
    let read = TlsSetup::read(&Tls { key_log: None, ..tls.clone() }, None);
    let setup = match read {
        Ok(setup) => setup,
        Err(error) => return vec![format!("[tls] {error}")],
    };
    let now = SystemTime::now();
    let of_one = |facts: &CertificateFacts| {
        let tell = |problem| format!("[tls] certificates: {}: {problem}", facts.file.display());
        facts.problems(now).into_iter().map(tell).collect::<Vec<_>>()
    };
    setup.certificates.iter().flat_map(of_one).collect()
}

/// The secrets that are kept beside the configuration, where one cannot be used. One that is not there is made, and a
/// start says what comes of one that cannot be read.
fn of_secrets(config: &Config, path: &Path) -> Option<String> {
    let key = config.token.key.is_none().then(|| key::beside(path));
    let kept = key.into_iter().chain(token::kept(&config.admin, path));
    let mut faults = kept.filter_map(|file| key::read(&file).err());
    faults.find(|error| error.kind() == ErrorKind::InvalidData).map(|error| error.to_string())
}

/// The faults of a file of users.
pub fn check_users(file: &Path) -> Option<String> {
    UserFile::read(file).err().map(|error| format!("[registrar] users: {error}"))
}

/// Names that cannot be found, and programs that are not there.
fn of_pool(pool: &PoolConfig) -> Vec<String> {
    let name = &pool.name;
    let never = |member: &&MemberSettings| match &member.address {
        Address::Socket(_) => false,
        Address::Host { name, .. } | Address::Srv(name) => name.ends_with(".invalid"),
    };
    let never = pool.members.iter().filter(never).map(|member| {
        format!(
            "[pool.{name}] members: {} is never found: no name ends with .invalid (RFC 6761)",
            member.address
        )
    });
    let lines: Vec<_> = match pool.scale.as_ref().map(|scale| &scale.driver) {
        Some(DriverConfig::Command { start, stop, list }) => [start, stop].into_iter().chain(list).collect(),
        Some(DriverConfig::Local { start }) => vec![start],
        Some(DriverConfig::None | DriverConfig::Kubernetes(_)) | None => Vec::new(),
    };
    let mut missing: Vec<_> =
        lines.iter().map(|line| &line.program).filter(|program| !is_there(program)).collect();
    missing.dedup();
    let missing = missing.into_iter().map(|program| {
        format!("[pool.{name}] scale: there is no program {program}; name one by its path, or one that PATH leads to")
    });
    never.chain(missing).collect()
}

/// Whether a program can be started: by its path, or by PATH.
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
                Ok(users) => nobody(&users, file, registrar),
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

/// That no user of a file is of the realm.
fn nobody(users: &UserFile, file: &Path, registrar: &RegistrarConfig) -> Option<String> {
    let realm = &registrar.home.authentication.as_ref()?.digest.realm;
    let realms = users.realms();
    (!realms.iter().any(|of| **of == **realm)).then(|| {
        let shown = |realm: &[u8]| realm.escape_ascii().to_string();
        let there: Vec<_> = realms.iter().map(|realm| shown(realm)).collect();
        let there = if there.is_empty() {
            "there is no user".to_owned()
        } else {
            format!("they are of {}", there.join(", "))
        };
        format!(
            "no user of {} is of the realm {}: {there}. Set `realm`, or make the hashes for it",
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

/// What is wrong with a file that is made where there is none: its directory is not. Whether the server may write
/// there is not known to whoever runs as somebody else.
fn of_file(file: &Path) -> Option<String> {
    if file.is_dir() {
        return Some(format!("{} is a directory; name a file in it", file.display()));
    }
    let directory = file.parent().filter(|directory| *directory != Path::new(""))?;
    let shown = directory.display();
    match fs::metadata(directory) {
        Ok(there) if !there.is_dir() => Some(format!("{shown} is no directory; name another file")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("there is no directory {shown}; make it, or name another file"))
        }
        // A start says what comes of one that cannot be looked at.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reports about a registrar with more of its table, and about records.
    fn said(registrar: &str, records: &str) -> Vec<String> {
        let directory = env::temp_dir();
        let text = format!(
            "[listen]\nudp = [\"127.0.0.1:5060\"]\n[token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n\
             [registrar]\ndomains = [\"example.com\"]\nforward = \"dialog\"\n{registrar}\n[calls]\nrecords = {records:?}\n"
        );
        let config = config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        check(&config, &directory.join("sarabande-check-test.toml"))
    }

    #[test]
    fn kept_secrets_can_be_used() {
        let file = env::temp_dir().join(format!("sarabande-secrets-test-{}.toml", std::process::id()));
        let pool = "[listen]\nudp = [\"127.0.0.1:5060\"]\n[pool.x]\nmembers = [\"127.0.0.2\"]\n";
        let configured = |more: &str| config::parse(&format!("{pool}{more}"), "test").unwrap();
        let said = |more: &str, file: &Path| of_secrets(&configured(more), file);
        assert_eq!(said("", &file), None, "it will be made");
        fs::write(key::beside(&file), "abc").unwrap();
        assert!(said("", &file).is_some_and(|text| text.contains("hexadecimal")));
        let other = "[token]\nkey = \"000102030405060708090a0b0c0d0e0f\"";
        assert_eq!(said(other, &file), None, "it is not looked at");
        let exposed = format!("{other}\n[admin]\nlisten = \"0.0.0.0:8060\"");
        fs::write(file.with_extension("admin-token"), "abc").unwrap();
        assert!(said(&exposed, &file).is_some_and(|text| text.contains(".admin-token does not hold")));
        fs::remove_file(file.with_extension("admin-token")).unwrap();
        fs::remove_file(key::beside(&file)).unwrap();
    }

    #[test]
    fn files_need_a_directory() {
        let here = env::temp_dir();
        let fine = format!("{}/calls.jsonl", here.display());
        assert_eq!(said("", &fine), [""; 0]);
        let store = |path: &str| format!("store = {path:?}");
        assert_eq!(said(&store(&fine), &fine), [""; 0]);
        let nowhere = format!("{}/sarabande-is-not-there/x", here.display());
        let told = format!(
            "there is no directory {}/sarabande-is-not-there; make it, or name another file",
            here.display()
        );
        assert_eq!(
            said(&store(&nowhere), &nowhere),
            [format!("[registrar] store: {told}"), format!("[calls] records: {told}")]
        );
        let directory = here.display().to_string();
        assert_eq!(
            said("", &directory),
            [format!("[calls] records: {directory} is a directory; name a file in it")]
        );
        let own = env::current_exe().unwrap().display().to_string();
        assert_eq!(
            said("", &format!("{own}/x")),
            [format!("[calls] records: {own} is no directory; name another file")]
        );
    }

    #[test]
    fn urls_have_to_be_whole() {
        let one = |registrar: &str, records: &str, start: &str| {
            let said = said(registrar, records);
            assert!(said.len() == 1 && said[0].starts_with(start), "{said:?}");
            assert!(!said[0].contains("sesame"), "a password is nobody's business: {said:?}");
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
            "[calls] records: the URL of the database of call records wants TLS on a Unix socket",
        );
        one(
            "users = \"postgres://:sesame@\"",
            fine,
            "[registrar] users: the URL of the database of users names no host",
        );
        one("store = \"redis://:sesame@h:port\"", fine, "[registrar] store: the URL of the Redis server");
        one("users = \"/sarabande/is/not/there\"", fine, "[registrar] users: ");
    }

    /// The reports about a pool with these members and more of its table.
    fn said_of_pool(members: &str, more: &str) -> Vec<String> {
        let text = format!(
            "[listen]\nudp = [\"127.0.0.1:5060\"]\n[token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n\
             [pool.servers]\nmembers = [{members}]\n{more}\n"
        );
        let config = config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        check(&config, &env::temp_dir().join("sarabande-check-test.toml"))
    }

    #[test]
    fn a_name_that_nobody_can_have_is_told() {
        assert_eq!(said_of_pool("\"a.example.com\"", ""), [""; 0]);
        let told = said_of_pool("\"a.example.com\", \"typo.invalid\"", "");
        assert!(
            told.len() == 1 && told[0].starts_with("[pool.servers] members: typo.invalid is never found"),
            "{told:?}"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        let scale = |start: &str| {
            format!(
                "scale = {{ driver = \"command\", start = {start:?}, stop = \"true\", list = \"true\", most = 1 }}"
            )
        };
        assert_eq!(said_of_pool("\"127.0.0.1:5070\"", &scale("true")), [""; 0]);
        for program in ["sarabande-is-not-there", "/sarabande/is/not/there"] {
            let told = said_of_pool("\"127.0.0.1:5070\"", &scale(program));
            let start = format!("[pool.servers] scale: there is no program {program};");
            assert!(told.len() == 1 && told[0].starts_with(&start), "{told:?}");
        }
    }

    #[test]
    fn users_of_another_realm_are_told() {
        let file = env::temp_dir().join(format!("sarabande-check-users-{}", std::process::id()));
        let users = |realm: &str| format!("bob:{realm}:37593d991414f52c30246c60c7798431\n");
        let fine = format!("{}/calls.jsonl", env::temp_dir().display());
        let registrar = format!("users = {:?}", file.display().to_string());
        fs::write(&file, users("example.com")).unwrap();
        assert_eq!(said(&registrar, &fine), [""; 0]);
        fs::write(&file, users("example.net")).unwrap();
        let told = said(&registrar, &fine);
        fs::remove_file(&file).unwrap();
        let end =
            "is of the realm example.com: they are of example.net. Set `realm`, or make the hashes for it";
        assert!(told.len() == 1 && told[0].ends_with(end), "{told:?}");
    }
}

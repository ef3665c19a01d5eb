//! What a configuration names outside itself: files, directories and URLs. No server is asked: it may be one that only the
//! machine reaches that the file is for.

use crate::key;
use config::{CallsConfig, Config, RecordsPlace, RegistrarConfig, StorePlace, UsersPlace};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use storage::{RecordDatabase, RedisSettings, SubscriberSettings, UserFile};

/// What a start with the configuration at `path` would say of what it names, and of the secrets that are kept beside it: a text
/// for each thing that is wrong, with what helps.
pub fn check(config: &Config, path: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(registrar) = &config.registrar {
        problems.extend(of_registrar(registrar).into_iter().flatten());
    }
    problems.extend(config.calls.as_ref().and_then(of_calls));
    problems.extend(key::check(config, path).err().map(|error| error.to_string()));
    problems
}

fn of_registrar(registrar: &RegistrarConfig) -> [Option<String>; 2] {
    let users = registrar.users.as_ref().and_then(|users| {
        let problem = match users {
            UsersPlace::File(file) => UserFile::read(file).err().map(|error| error.to_string()),
            UsersPlace::Database(url) => {
                SubscriberSettings::new(url).check().err().map(|error| error.to_string())
            }
        };
        problem.map(|problem| format!("[registrar] users: {problem}"))
    });
    let store = registrar.store.as_ref().and_then(|store| {
        let problem = match store {
            StorePlace::Memory => None,
            StorePlace::File(file) => of_file(file),
            StorePlace::Redis(url) => RedisSettings::new(url).check().err().map(|error| error.to_string()),
        };
        problem.map(|problem| format!("[registrar] store: {problem}"))
    });
    [users, store]
}

fn of_calls(calls: &CallsConfig) -> Option<String> {
    let problem = match calls.records.as_ref()? {
        RecordsPlace::File(file) => of_file(file),
        RecordsPlace::Database(url) => RecordDatabase::check(url).err().map(|error| error.to_string()),
    };
    problem.map(|problem| format!("[calls] records: {problem}"))
}

/// What is wrong with a file that is made where there is none: its directory is not. Whether the server may write there is
/// not known to whoever runs as somebody else.
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

    /// What is said of a registrar with more of its table, and of records.
    fn said(registrar: &str, records: &str) -> Vec<String> {
        let directory = std::env::temp_dir();
        let text = format!(
            "[listen]\nudp = [\"127.0.0.1:5060\"]\n[token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n\
             [registrar]\ndomains = [\"example.com\"]\nforward = \"dialog\"\n{registrar}\n[calls]\nrecords = {records:?}\n"
        );
        let config = config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        check(&config, &directory.join("sarabande-check-test.toml"))
    }

    #[test]
    fn files_need_a_directory() {
        let here = std::env::temp_dir();
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
        let own = std::env::current_exe().unwrap().display().to_string();
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
            "postgres://bob:sesame@db.example/calls?sslmode=require",
            "[calls] records: the URL of the database of call records wants TLS",
        );
        one(
            "users = \"postgres://:sesame@\"",
            fine,
            "[registrar] users: the URL of the database of users names no host",
        );
        one("store = \"redis://:sesame@h:port\"", fine, "[registrar] store: the URL of the Redis server");
        one("users = \"/sarabande/is/not/there\"", fine, "[registrar] users: ");
    }
}

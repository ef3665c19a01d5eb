//! `sarabande user`: the users in the file of `[registrar] users`.

use super::run::configuration;
use super::text::plain;
use crate::admin::Target;
use crate::password;
use crate::print;
use anyhow::{Context, Result, anyhow, bail};
use config::{RegistrarConfig, UsersPlace};
use digest_auth::Algorithm;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use storage::{UserFile, UserHashes, change_users};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Adds a user. The password is asked for on the terminal, or is a line of standard input.
    Add(Named),
    /// Changes the password of a user.
    Passwd(Named),
    /// Lists the users, with their realms and algorithms.
    List(Place),
}

#[derive(clap::Args)]
struct Named {
    /// Name of the user, without domain.
    #[arg(value_parser = name)]
    user: String,
    /// Make the running server use the change at once, by a reload of its configuration.
    #[arg(long)]
    reload: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
struct Place {
    /// The server's configuration file, which names file and realm of the users.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Reads a user name that a line of the file can have.
fn name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.starts_with('#') || text.contains(|c: char| c == ':' || c.is_control()) {
        return Err("expected a name without colons and control characters, and without # at its start");
    }
    Ok(text.to_owned())
}

/// Changes the file of users, or lists it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.action {
        Action::Add(named) => set_password(named, Change::Add),
        Action::Passwd(named) => set_password(named, Change::Replace),
        Action::List(Place { config }) => list(&registrar(config)?.1),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Change {
    Add,
    Replace,
}

/// Returns the registrar of a configuration, and the file of its users.
fn registrar(file: &Path) -> Result<(RegistrarConfig, PathBuf)> {
    let shown = file.display();
    let registrar = configuration(file)?.registrar.with_context(|| format!("{shown} has no [registrar]"))?;
    let users = match &registrar.users {
        Some(UsersPlace::File(users)) => users.clone(),
        Some(UsersPlace::Database(_)) => {
            bail!("the users of {shown} are in a database: change its table `subscriber`")
        }
        None => bail!("{shown} has no users: add users = \"users\" to [registrar]"),
    };
    Ok((registrar, users))
}

fn set_password(named: &Named, change: Change) -> Result<()> {
    let Named { user, reload, place: Place { config } } = named;
    let (registrar, file) = registrar(config)?;
    let with = registrar.settings.authentication.as_ref().context("[registrar] has no users")?;
    let realm = &*with.digest.realm;
    if let Some((bare, domain)) = user.rsplit_once('@').filter(|(_, domain)| domain.as_bytes() == realm) {
        bail!("give the name without @{domain}: {bare}");
    }
    // An error comes before the question for the password.
    let before = if file.exists() { UserFile::read(&file)? } else { UserFile::default() };
    check(&before, user, realm, change).map_err(|problem| anyhow!("{}: {problem}", file.display()))?;
    let password = password::read(user)?;
    change_users(&file, config, |users| {
        let own = check(users, user, realm, change)?;
        let offered = registrar.algorithms.as_ref().map(|offer| offer.algorithms().to_vec());
        let algorithms = offered.unwrap_or(own);
        let hash = |algorithm: &Algorithm| algorithm.hash(&[user.as_bytes(), realm, password.as_bytes()]);
        Ok(UserHashes { user, realm, hashes: algorithms.iter().map(hash).collect() })
    })?;
    let done = if change == Change::Add { "was added" } else { "has a new password" };
    print_line!("{user} {done} in {}", file.display())?;
    if *reload {
        Target::of(config).post::<serde_json::Value>("/api/reload", b"")?;
        return print::line("configuration reloaded");
    }
    print_line!("`sarabande reload --config {}` makes a running server use it", config.display())
}

/// Checks whether the user is in the file. Returns the algorithms of the new hashes: those that the user had before, or
/// those that all other users have, or else MD5, which every telephone supports.
fn check(users: &UserFile, user: &str, realm: &[u8], change: Change) -> Result<Vec<Algorithm>, String> {
    let known = users.users().find(|(name, of, _)| *name == user.as_bytes() && *of == realm);
    match (known, change) {
        (Some(_), Change::Add) => Err(format!("{user} is there already; `user passwd` changes the password")),
        (None, Change::Replace) => Err(format!("there is no user {user}; `user add` adds one")),
        (Some((.., algorithms)), Change::Replace) => Ok(algorithms),
        (None, Change::Add) => Ok(Some(users.algorithms(realm))
            .filter(|algorithms| !algorithms.is_empty())
            .unwrap_or_else(|| vec![Algorithm::Md5])),
    }
}

fn list(file: &Path) -> Result<()> {
    let users = match UserFile::read(file) {
        Err(_) if file.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) => {
            bail!("{} does not exist yet; `user add` makes it", file.display())
        }
        users => users?,
    };
    for (user, realm, algorithms) in users.users() {
        let text = |bytes: &[u8]| plain(&String::from_utf8_lossy(bytes));
        let algorithms: Vec<_> = algorithms.into_iter().map(Algorithm::name).collect();
        print_line!("{}  {}  {}", text(user), text(realm), algorithms.join(", "))?;
    }
    Ok(())
}

//! `sarabande init`: writes a first configuration file.

mod dispatcher;
mod probe;
mod text;

use crate::admin::Exit;
use crate::print;
use anyhow::{Context, Result, anyhow, bail};
use config::member_address;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use text::{Member, Pool, Set};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file to write.
    #[arg(default_value = "sarabande.toml")]
    file: PathBuf,
    /// A server that gets calls, such as 10.0.0.1:5060; may be given several times. Without it, the servers are asked
    /// for on the terminal.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "from_dispatcher")]
    server: Vec<String>,
    /// Take the servers from Kamailio's dispatcher.list: a pool for each set, with weight, priority and maxload.
    #[arg(long, value_name = "FILE")]
    from_dispatcher: Option<PathBuf>,
    /// Local address and port for calls [default: 0.0.0.0:5060].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Send no OPTIONS to the servers.
    #[arg(long)]
    no_probe: bool,
    /// Replace FILE if it exists.
    #[arg(long)]
    force: bool,
}

const LISTEN: &str = "0.0.0.0:5060";

/// Asks for servers, or takes them from the arguments, probes them and writes the file.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { file, server, from_dispatcher, listen, no_probe, force } = arguments;
    if file.exists() && !force {
        bail!(exists(file));
    }
    let asks = server.is_empty() && from_dispatcher.is_none();
    let mut notes = Vec::new();
    let mut sets = if let Some(list) = from_dispatcher {
        let shown = list.display();
        let text = fs::read_to_string(list).with_context(|| shown.to_string())?;
        dispatcher::read(&text, &mut notes).map_err(|problem| anyhow!("{shown}: {problem}"))?
    } else {
        let members = if asks { ask_for_servers()? } else { server.clone() };
        let members = members.into_iter().map(Member::of).collect();
        vec![vec![Pool { name: "servers".to_owned(), members, is_probed: true }]]
    };
    let listen = match listen {
        Some(listen) => listen.clone(),
        None if asks => ask_for_address()?,
        None => LISTEN.to_owned(),
    };
    for member in sets.iter().flatten().flat_map(|pool| &pool.members) {
        if let Some(why) = &member.unused {
            print_line!("note: {} is not used: {why}", member.address)?;
        }
    }
    for note in &notes {
        print_line!("note: {note}")?;
    }
    sets.retain_mut(|set| {
        set.retain(Pool::is_used);
        !set.is_empty()
    });
    if sets.is_empty() {
        bail!("there is no server to use; nothing was written");
    }
    if !no_probe {
        probe_all(&sets)?;
    }
    let text = text::write(&listen, &sets, &notes);
    config::parse(&text, "the new file").map_err(|errors| anyhow!("nothing was written:\n{errors}"))?;
    write(file, &text, *force)?;
    let shown = file.display();
    print_line!(
        "wrote {shown}\n\nNext:\n  sarabande check {shown}   # after each change\n  sarabande run {shown}\n  \
         sarabande status   # in another terminal: do the servers take calls?\nThen send calls to this host."
    )
}

fn ask_for_servers() -> Result<Vec<String>> {
    if !io::stdin().is_terminal() {
        let advice =
            "give servers with --server ADDRESS or --from-dispatcher FILE, or start `init` on a terminal";
        return Err(Exit::wrong_arguments(advice));
    }
    ask("Servers that get the calls, such as 10.0.0.1:5060 10.0.0.2:5060", None, |answer| {
        let servers = answer.split([' ', ',']).filter(|text| !text.is_empty());
        servers.map(|text| member_address(text).map(|_| text.to_owned())).collect()
    })
}

fn ask_for_address() -> Result<String> {
    ask("Local address for calls", Some(LISTEN), |answer| {
        let address = answer.parse::<SocketAddr>();
        let expected = |_| format!("expected an IP address and port, such as {LISTEN}");
        address.map(|address| address.to_string()).map_err(expected)
    })
}

/// Asks until `read` accepts the answer. An empty answer is the default.
fn ask<T>(question: &str, default: Option<&str>, read: impl Fn(&str) -> Result<T, String>) -> Result<T> {
    loop {
        let shown = default.map(|default| format!(" [{default}]")).unwrap_or_default();
        print::text(format_args!("{question}{shown}: "))?;
        let mut answer = String::new();
        if io::stdin().read_line(&mut answer)? == 0 {
            bail!("no answer; nothing was written");
        }
        let answer = Some(answer.trim()).filter(|answer| !answer.is_empty()).or(default);
        match answer.map(&read) {
            Some(Ok(value)) => return Ok(value),
            Some(Err(problem)) => print_line!("{problem}")?,
            None => {}
        }
    }
}

/// Probes all servers that are used at the same time, and prints the results.
fn probe_all(sets: &[Set]) -> Result<()> {
    let members = sets.iter().flatten().flat_map(|pool| &pool.members);
    let used = members.filter(|member| member.unused.is_none());
    let result = |member: &Member| {
        let answer = member_address(&member.address).and_then(|address| probe::probe(&address));
        let answer = answer.map(|(status, time)| format!("answered {status} in {} ms", time.as_millis()));
        answer.unwrap_or_else(|problem| problem)
    };
    thread::scope(|scope| {
        let probes: Vec<_> = used.map(|member| (member, scope.spawn(move || result(member)))).collect();
        for (member, probe) in probes {
            print_line!("{}  {}", member.address, probe.join().expect("a probe has no panic"))?;
        }
        Ok(())
    })
}

fn exists(file: &Path) -> String {
    format!("{} exists: give another name, or --force to replace it", file.display())
}

fn write(file: &Path, text: &str, replaces: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(!replaces);
    match options.open(file).and_then(|mut new| new.write_all(text.as_bytes())) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(exists(file)),
        written => written.with_context(|| file.display().to_string()),
    }
}

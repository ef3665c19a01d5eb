//! The `sarabande` command: reads arguments and prints; everything else is in the crates below.

#![warn(clippy::print_stdout, clippy::print_stderr)] // Both panic if the reader is gone: use `print`.

#[macro_use]
mod print;
mod address;
mod admin;
mod command;
mod notify;
mod password;
mod picture;

/// The allocator of the C library keeps the memory of a flood: it returns only memory above the highest block in use.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};
use std::process::ExitCode;

/// SIP load balancer, proxy and registrar with overload control.
#[derive(Parser)]
#[command(name = "sarabande", version, after_long_help = exit_codes())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the server.
    ///
    /// SIGTERM and SIGINT (Ctrl-C) stop the server: it refuses new calls, and calls in progress may end, for at most
    /// `[stop] wait`. A second signal stops it at once. SIGHUP reloads FILE: calls go on, and a file with an error
    /// changes nothing. If another process already runs with FILE, the new process takes over from it and no call is
    /// refused. SIGUSR2 makes the server start such a successor. The log goes to standard error; `RUST_LOG` overrides
    /// `[log] level`.
    Run(command::run::Arguments),
    /// Writes a first configuration file, with servers that are asked for or taken from Kamailio.
    Init(command::init::Arguments),
    /// Checks a configuration file, or prints the schema or the reference of all keys.
    Check(command::check::Arguments),
    /// Shows in a minute what the load balancer is for, each time beside the plain alternative. Needs no other programs.
    Demo(command::demo::Arguments),
    /// Makes or answers calls, for tests and measurements.
    Load(command::load::Arguments),
    /// Shows the members of a running server and their load.
    Status(command::status::Arguments),
    /// Lists the calls in progress of pools with `forward = "dialog"`, the oldest first.
    Calls(command::calls::Arguments),
    /// Shows or removes the contacts of a user of a running registrar.
    Registrations(command::registrations::Arguments),
    /// Adds users to the file of users, changes their passwords, or lists them.
    User(command::user::Arguments),
    /// Takes a member out of service: it gets no new calls, and its calls go on.
    Drain(command::drain::Arguments),
    /// Marks a member as up: it gets new calls again.
    ///
    /// For a member that is down, or that gets no calls because it answered 503; use `drain --undo` for a drained
    /// member. Later probes or calls may change the state again.
    Up(command::up::Arguments),
    /// Adds or removes a member of a pool of a running server, or sets its weight, until the file is read again.
    Member(command::member::Arguments),
    /// Makes a running server read its configuration again.
    Reload(command::reload::Arguments),
    /// Makes a running server start another process that takes over: no call is refused or lost.
    ///
    /// The new process is started by the path of the old one, where a newer version may be installed, and reads the
    /// file again. A file with an error changes nothing. Clients over TCP, TLS and WebSocket keep their connections to
    /// the old process while their calls last, for nine tenths of `[stop] wait`. A call that lasts longer can only be
    /// ended by the client, over a new connection.
    Restart(command::restart::Arguments),
    /// Stops a running server: it takes no new calls, and ends with its last call or after `[stop] wait`.
    Stop(command::stop::Arguments),
    /// Simulates scenarios, and makes the figures of the papers and checks their statements.
    Sim(command::sim::Arguments),
    /// Computes how many calls a network of proxies carries, and how many calls' state each proxy should keep.
    Plan(command::plan::Arguments),
    /// Measures the latency of any SIP server on this host from its packets, a capture file, or HEP.
    ///
    /// Messages that leave are paired with messages that arrived. Each window of time is a line with its statistics.
    /// The server itself is not contacted or changed. Capturing needs the capability `CAP_NET_RAW`.
    Monitor(command::monitor::Arguments),
    /// Shows the last failed requests of a running server: the targets tried, the answer and the cause.
    Trace(command::trace::Arguments),
    /// Shows to which member a request would go, and why.
    Explain(command::explain::Arguments),
    /// Prints a script that completes the arguments of this program in a shell.
    ///
    /// For bash: `sarabande completions bash > /usr/share/bash-completion/completions/sarabande`; other shells have a
    /// folder of their own for such files.
    Completions(command::completions::Arguments),
    /// Writes the manual pages of this program and its commands.
    Man(command::man::Arguments),
}

fn exit_codes() -> String {
    let lines = admin::EXIT_CODES.map(|(code, meaning)| format!("\n  {code:>3}  {meaning}"));
    format!("Exit codes:{}", lines.concat())
}

fn main() -> ExitCode {
    let outcome = match Arguments::try_parse() {
        Ok(arguments) => run(arguments),
        // clap returns the output of `--help` and `--version` as an error, too; it goes to standard output.
        Err(answer) if !answer.use_stderr() => answer.print().map_err(print::failed),
        Err(error) => error.exit(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if print::is_closed(&error) => ExitCode::from(print::CLOSED),
        Err(error) => {
            print_note!("sarabande: {error:#}");
            ExitCode::from(admin::Exit::code_of(&error))
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Run(arguments) => command::run::run(&arguments),
        Command::Init(arguments) => command::init::run(&arguments),
        Command::Check(arguments) => command::check::run(&arguments),
        Command::Demo(arguments) => command::demo::run(&arguments),
        Command::Load(arguments) => command::load::run(&arguments),
        Command::Status(arguments) => command::status::run(&arguments),
        Command::Calls(arguments) => command::calls::run(&arguments),
        Command::Registrations(arguments) => command::registrations::run(&arguments),
        Command::User(arguments) => command::user::run(&arguments),
        Command::Drain(arguments) => command::drain::run(&arguments),
        Command::Up(arguments) => command::up::run(&arguments),
        Command::Member(arguments) => command::member::run(&arguments),
        Command::Reload(arguments) => command::reload::run(&arguments),
        Command::Restart(arguments) => command::restart::run(&arguments),
        Command::Stop(arguments) => command::stop::run(&arguments),
        Command::Sim(arguments) => command::sim::run(&arguments),
        Command::Plan(arguments) => command::plan::run(&arguments),
        Command::Monitor(arguments) => command::monitor::run(&arguments),
        Command::Trace(arguments) => command::trace::run(&arguments),
        Command::Explain(arguments) => command::explain::run(&arguments),
        Command::Completions(arguments) => command::completions::run(&arguments, Arguments::command()),
        Command::Man(arguments) => command::man::run(&arguments, Arguments::command()),
    }
}

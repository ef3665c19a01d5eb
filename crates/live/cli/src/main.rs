//! The `sarabande` command: reads arguments and prints; everything else is in the crates below.

#![warn(clippy::print_stdout, clippy::print_stderr)] // They panic where nobody reads: module `print`.

#[macro_use]
mod print;
mod address;
mod admin;
mod command;
mod notify;
mod picture;

/// With that of the C library the process stayed as large as a flood had made it: it returns only what lies above all
/// that is in use.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};
use std::process::ExitCode;

/// SIP load balancer: every call to the server with the least work left.
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
    /// SIGTERM and SIGINT (Ctrl-C) stop it: new calls are refused, those in progress may end, for at most
    /// `[stop] wait`; a second one stops it at once. SIGHUP has it read FILE again: calls go on, and a file with an
    /// error changes nothing. Started while another process runs with FILE, it takes over from that one: no call is
    /// refused. SIGUSR2 has it start such a successor itself. It logs to standard error; `RUST_LOG` overrides
    /// `[log] level`.
    Run(command::run::Arguments),
    /// Checks a configuration file, or prints the schema or the reference of all keys.
    Check(command::check::Arguments),
    /// Shows it all on this machine, with nothing to install: servers, callers, and the balancer's policies.
    Demo(command::demo::Arguments),
    /// Makes or takes calls, to test and to measure.
    Load(command::load::Arguments),
    /// Shows the members of a running server and what they have to do.
    Status(command::status::Arguments),
    /// Shows the contacts of a user of a running registrar, or removes them.
    Registrations(command::registrations::Arguments),
    /// Takes a member out of service: no new calls, those that it has go on.
    Drain(command::drain::Arguments),
    /// Says that a member is back: it takes new calls again, whatever it answered before.
    ///
    /// For one that counts as dead or rests; a drained one is taken back with `drain --undo`. Its next probes or
    /// calls may show otherwise.
    Up(command::up::Arguments),
    /// Has a running server read its configuration again.
    Reload(command::reload::Arguments),
    /// Has a running server start another process that takes over: no call is refused, none is lost.
    ///
    /// The new one is started by the path of the old one, where a newer version may be by now, and reads the file
    /// again. A file with an error changes nothing. Clients over TCP, TLS and WebSocket keep their connections to the
    /// old one while their calls last, for nine tenths of `[stop] wait`; in a longer call only they can hang up, by
    /// a new connection.
    Restart(command::restart::Arguments),
    /// Has a running server take no new calls, and end with its last one or after `[stop] wait`.
    Stop(command::stop::Arguments),
    /// Simulates scenarios of yours, and makes the figures of the papers and checks what they state.
    Sim(command::sim::Arguments),
    /// Says how many calls a network of proxies carries, and who of them should keep the state of how many.
    Plan(command::plan::Arguments),
    /// Measures the latency of any SIP server on this host from outside: by its packets, a capture file, or HEP.
    ///
    /// What goes out is paired with what came in; each window of time is a line with its statistics. The server is
    /// not asked and not changed. Capturing needs the capability `CAP_NET_RAW`.
    Monitor(command::monitor::Arguments),
    /// Says to which member a request would go, and why.
    Explain(command::explain::Arguments),
    /// Prints what has a shell complete the arguments of this program.
    ///
    /// For bash: `sarabande completions bash > /usr/share/bash-completion/completions/sarabande`; others have a
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
        // What `--help` and `--version` ask for comes as an error, too, and goes to standard output.
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
        Command::Check(arguments) => command::check::run(&arguments),
        Command::Demo(arguments) => command::demo::run(&arguments),
        Command::Load(arguments) => command::load::run(&arguments),
        Command::Status(arguments) => command::status::run(&arguments),
        Command::Registrations(arguments) => command::registrations::run(&arguments),
        Command::Drain(arguments) => command::drain::run(&arguments),
        Command::Up(arguments) => command::up::run(&arguments),
        Command::Reload(arguments) => command::reload::run(&arguments),
        Command::Restart(arguments) => command::restart::run(&arguments),
        Command::Stop(arguments) => command::stop::run(&arguments),
        Command::Sim(arguments) => command::sim::run(&arguments),
        Command::Plan(arguments) => command::plan::run(&arguments),
        Command::Monitor(arguments) => command::monitor::run(&arguments),
        Command::Explain(arguments) => command::explain::run(&arguments),
        Command::Completions(arguments) => command::completions::run(&arguments, Arguments::command()),
        Command::Man(arguments) => command::man::run(&arguments, Arguments::command()),
    }
}

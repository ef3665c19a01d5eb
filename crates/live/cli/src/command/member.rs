//! `sarabande member`: changes the members of a pool of a running server.

use super::drain::left;
use super::status::label;
use crate::admin::{Target, escape};
use anyhow::Result;
use server::figures::MembersView;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    change: Change,
}

#[derive(clap::Subcommand)]
enum Change {
    /// Adds a member to a pool.
    Add {
        /// Name of the pool.
        pool: String,
        /// Address or name of the server, as in the configuration.
        address: String,
        /// Capacity relative to the other members.
        #[arg(long)]
        weight: Option<String>,
        /// Name of the member for status, metrics and log.
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Removes a member from a pool: it gets no new calls, and its calls go on.
    Remove {
        /// Name of the pool.
        pool: String,
        /// Address or name of the member, as in the configuration.
        member: String,
        #[command(flatten)]
        target: Target,
    },
    /// Sets the capacity of a member relative to the other members.
    Weight {
        /// Name of the pool.
        pool: String,
        /// Address or name of the member, as in the configuration.
        member: String,
        /// The capacity; 1 unless the configuration has another.
        weight: String,
        #[command(flatten)]
        target: Target,
    },
}

/// Changes the members until the server reads its file again.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (target, path) = match &arguments.change {
        Change::Add { pool, address, weight, name, target } => {
            let part = |key: &str, value: Option<&String>| {
                value.map_or_else(String::new, |value| format!("&{key}={}", escape(value)))
            };
            let given = part("weight", weight.as_ref()) + &part("name", name.as_ref());
            (target, format!("add?pool={}&address={}{given}", escape(pool), escape(address)))
        }
        Change::Remove { pool, member, target } => {
            (target, format!("remove?pool={}&member={}", escape(pool), escape(member)))
        }
        Change::Weight { pool, member, weight, target } => {
            let (pool, member, weight) = (escape(pool), escape(member), escape(weight));
            (target, format!("weight?pool={pool}&member={member}&weight={weight}"))
        }
    };
    let meant: MembersView = target.post(&format!("/api/member/{path}"), b"")?;
    if meant.members.is_empty() {
        print_line!("The name is not resolved yet: `sarabande status` shows its members later.")?;
    }
    for member in &meant.members {
        let calls = left(std::slice::from_ref(member));
        print_line!("{}: {}, weight {}, {calls}", label(member), member.state, member.capacity)?;
    }
    print_line!("The file is unchanged. A reload or restart ends the change unless it is in the file.")
}

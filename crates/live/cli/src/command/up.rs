//! `sarabande up`: marks a member as up.

use super::status::label;
use crate::admin::{Target, escape};
use anyhow::Result;
use server::figures::MembersView;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Address of the member, or its name in the configuration.
    member: String,
    #[command(flatten)]
    target: Target,
}

/// Marks a member as up.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { member, target } = arguments;
    let meant: MembersView = target.post(&format!("/api/up?member={}", escape(member)), b"")?;
    for member in &meant.members {
        print_line!("{}: {}", label(member), member.state)?;
    }
    Ok(())
}

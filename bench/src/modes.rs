//! Modes of a proxy whose costs the SERvartuka paper compares (section 2.1, figure 1), for Sarabande and Kamailio.

use crate::credentials::{BenchUser, REALM};
use crate::generator::LoadGenerator;
use crate::registration::{register, users};
use crate::scratch::Scratch;
use crate::targets::{BenchTarget, Programs, free_port, hop};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::net::SocketAddr;
use std::process::Command;

pub(crate) const KAMAILIO_CONFIG: &str = include_str!("../kamailio/modes.cfg");

/// The user who calls, for modes with authentication. Kamailio's configuration contains the same one.
pub(crate) const CALLER: BenchUser = BenchUser { name: "caller", password: "password" };

/// State kept of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kept {
    Nothing,
    Transactions,
    Dialogs,
}

/// A mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// The printed name.
    pub name: &'static str,
    kept: Kept,
    /// Calls go to registered contacts instead of a configured next hop.
    is_located: bool,
    /// Callers must authenticate.
    is_authenticated: bool,
}

/// The paper's five modes in its order, and one that splits its last step in two.
pub const MODES: [Mode; 6] = [
    Mode { name: "stateless", kept: Kept::Nothing, is_located: false, is_authenticated: false },
    Mode { name: "stateless, look-up", kept: Kept::Nothing, is_located: true, is_authenticated: false },
    Mode {
        name: "transaction, look-up",
        kept: Kept::Transactions,
        is_located: true,
        is_authenticated: false,
    },
    Mode {
        name: "transaction, authentication",
        kept: Kept::Transactions,
        is_located: true,
        is_authenticated: true,
    },
    Mode { name: "dialog, look-up", kept: Kept::Dialogs, is_located: true, is_authenticated: false },
    Mode { name: "dialog, authentication", kept: Kept::Dialogs, is_located: true, is_authenticated: true },
];

/// A measured program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Product {
    /// Our program.
    Sarabande,
    /// Kamailio.
    Kamailio,
}

impl Product {
    /// Both, in the order of rounds.
    pub const ALL: [Self; 2] = [Self::Sarabande, Self::Kamailio];
}

impl Mode {
    /// The tables of Sarabande's configuration.
    fn tables(self, address: SocketAddr, driver: &LoadGenerator) -> String {
        // Transactions are kept for 64*T1: a short T1, so that short runs include their end.
        const TIMERS: &str = "[timers]\nt1 = \"200ms\"\n";
        let forward = match self.kept {
            Kept::Nothing => "stateless",
            Kept::Transactions => "transaction",
            Kept::Dialogs => "dialog",
        };
        let table = if self.is_located {
            let users = if self.is_authenticated { "users = \"users\"\n" } else { "" };
            format!(
                "[registrar]\ndomains = [\"{address}\"]\nrealm = \"{REALM}\"\nreach = \"contact\"\n{users}"
            )
        } else {
            format!("[proxy]\nnext = [\"{}\"]\n", driver.answerers()[0])
        };
        format!("{table}forward = \"{forward}\"\n\n{TIMERS}")
    }

    /// Returns the definitions for Kamailio's configuration.
    fn defines(self, driver: &LoadGenerator) -> Vec<String> {
        let with = [
            ("WITH_LOOKUP", self.is_located),
            ("WITH_TM", self.kept != Kept::Nothing),
            ("WITH_DIALOG", self.kept == Kept::Dialogs),
            ("WITH_AUTH", self.is_authenticated),
        ];
        let with = with.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| format!("{name}=1"));
        with.chain([hop(driver)]).collect()
    }

    /// Starts `product` in this mode and waits until a call gets through. `wrap` may change the program's command, for
    /// example to count its instructions.
    pub fn start(
        self,
        product: Product,
        programs: &Programs,
        driver: &mut LoadGenerator,
        wrap: impl FnOnce(Command) -> Command,
    ) -> Result<BenchTarget> {
        let address = free_port()?;
        let directory = Scratch::new("bench")?;
        let command = self.command(product, programs, (address, driver), &directory)?;
        driver.user = self.is_authenticated.then_some(CALLER);
        let mut target = programs.launch(&mut wrap(command), address, directory)?;
        if self.is_located {
            register(address, driver.answerers()[0]).with_context(|| target.log())?;
        }
        target.await_calls(driver)?;
        Ok(target)
    }

    fn command(
        self,
        product: Product,
        programs: &Programs,
        (address, driver): (SocketAddr, &LoadGenerator),
        directory: &Scratch,
    ) -> Result<Command> {
        if product == Product::Kamailio {
            return programs.kamailio(address, KAMAILIO_CONFIG, &self.defines(driver), directory);
        }
        directory.write("users", &users(CALLER))?;
        programs.sarabande(address, &self.tables(address, driver), directory)
    }
}

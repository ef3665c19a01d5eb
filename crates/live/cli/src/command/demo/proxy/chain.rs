//! The proxies of the demo: three in a row, each on a model of a processor.

use super::phones::{DOMAIN, USERS};
use crate::command::demo::stage::Element;
use crate::command::load::random;
use anyhow::{Context as _, Result, anyhow};
use server::ModelProcessor;
use server::figures::Standing;
use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A proxy of the row.
pub(super) struct Part {
    pub(super) name: &'static str,
    /// Capacity relative to the first proxy.
    pub(super) speed: f64,
}

/// The proxies, from the outbound proxy of the phones to their registrar. The last one forks to the phones and
/// therefore has all state, so it is a faster machine.
pub(super) const CAST: [Part; 3] =
    [Part { name: "edge", speed: 1.0 }, Part { name: "core", speed: 1.0 }, Part { name: "home", speed: 1.5 }];

/// Index of the last proxy.
const HOME: usize = CAST.len() - 1;

/// Steps that a model of a processor does in a second: so few that this machine is hardly loaded.
const STEPS: f64 = 1_200.0;
/// Steps of a call with all its state at a proxy, measured by the utilisation that the proxy reports at nine tenths of
/// its load.
const CALL_STEPS: f64 = 9.3;
/// Load at which a proxy counts as full: the default of `high` of `[distribution]`.
pub(super) const HIGH: f64 = 0.9;

/// Calls a second of which the first proxy can keep all state.
pub(super) const CARRIES: f64 = STEPS / CALL_STEPS;

/// Network of the proxies. The phones are in another one, so that they are not neighbours.
const NETWORK: &str = "127.0.83.0/24";

/// The running proxies.
pub(super) struct Chain {
    proxies: Vec<Element>,
}

impl Chain {
    /// Starts the proxies, the last one first, because each needs the address of the next.
    pub(super) async fn open(password: &str) -> Result<Self> {
        let users = UsersFile::write(password)?;
        let mut proxies: Vec<Element> = Vec::new();
        for (index, part) in CAST.iter().enumerate().rev() {
            let role = proxies.last().map_or_else(|| home(&users.0), |next| onward(next.address));
            let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 83, index as u8 + 1));
            let model = ModelProcessor { steps_per_second: STEPS * part.speed };
            proxies.push(Element::start(ip, &role, Some(model)).await?);
        }
        proxies.reverse();
        Ok(Self { proxies })
    }

    /// Addresses to which calls and registrations are sent.
    pub(super) fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.proxies[0].address, self.proxies[HOME].address)
    }

    /// Returns the figures of the proxies, in their order.
    pub(super) async fn standings(&self) -> Result<Vec<Standing>> {
        let mut standings = Vec::new();
        for Element { handle, .. } in &self.proxies {
            standings.push(handle.standing().await.map_err(|error| anyhow!(error))?);
        }
        Ok(standings)
    }

    pub(super) async fn close(self) -> Result<()> {
        for proxy in self.proxies {
            proxy.close().await?;
        }
        Ok(())
    }
}

/// Configuration of a proxy that forwards and divides state.
fn onward(next: SocketAddr) -> String {
    format!(
        "[distribution]\nneighbours = [\"{NETWORK}\"]\n[proxy]\nnext = [\"{next}\"]\nforward = \"distributed\"\n"
    )
}

/// Configuration of the last proxy: everyone may call its registered users.
fn home(users: &Path) -> String {
    let users = users.display().to_string();
    format!(
        "[distribution]\nneighbours = [\"{NETWORK}\"]\n[registrar]\ndomains = [\"{DOMAIN}\"]\nusers = {users:?}\nstore = \"memory\"\nreach = \"contact\"\n\
         [[route]]\nhost = \"{DOMAIN}\"\nfrom = \"anyone\"\nlocation = true\n"
    )
}

/// A file with the phones' accounts. Dropping it removes the file.
struct UsersFile(PathBuf);

impl UsersFile {
    fn write(password: &str) -> Result<Self> {
        let name = format!("sarabande-demo-{}-{:016x}", std::process::id(), random());
        let file = Self(std::env::temp_dir().join(name));
        let mut text = String::new();
        for user in USERS {
            let hash = digest_auth::Algorithm::Sha256.hash(&[user, DOMAIN, password].map(str::as_bytes));
            writeln!(text, "{user}:{DOMAIN}:SHA-256:{}", String::from_utf8_lossy(&hash.hex()))
                .expect("writing to a String cannot fail");
        }
        let mut options = fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(&file.0);
        let place = || format!("{} cannot be written", file.0.display());
        std::io::Write::write_all(&mut opened.with_context(place)?, text.as_bytes()).with_context(place)?;
        Ok(file)
    }
}

impl Drop for UsersFile {
    fn drop(&mut self) {
        // A remaining file has only hashes of a password that is not used any more.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::demo::stage::configuration;

    #[test]
    fn the_configurations_are_valid() {
        let [address, next] =
            ["127.0.83.1:5060", "127.0.83.2:5060"].map(|text| text.parse().expect("an address"));
        let file = UsersFile::write("x").expect("a file");
        for role in [onward(next), home(&file.0)] {
            assert!(configuration(address, &role).unwrap().distribution.is_some());
        }
        let path = file.0.clone();
        drop(file);
        assert!(!path.exists());
    }
}

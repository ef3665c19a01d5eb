//! The proxies of the demo: three in a row, each on a processor that is a model.

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
    /// How many calls it carries, as part of those of the first one.
    pub(super) speed: f64,
}

/// From the one that the phones call by to the one that they register with. That one has all state, since it rings
/// the phones, and so a larger machine.
pub(super) const CAST: [Part; 3] =
    [Part { name: "edge", speed: 1.0 }, Part { name: "core", speed: 1.0 }, Part { name: "home", speed: 1.5 }];

/// The last one's place.
const HOME: usize = CAST.len() - 1;

/// What a processor that is a model can do in a second: so little that this machine has hardly anything to do.
const STEPS: f64 = 1_200.0;
/// Steps of a call with all its state at a proxy, by the utilisation that the proxy tells at nine tenths of its
/// load.
const CALL_STEPS: f64 = 9.3;
/// Where a proxy counts as full: `high` of `[distribution]`, unless set.
pub(super) const HIGH: f64 = 0.9;

/// Calls a second of which the first proxy can keep all state.
pub(super) const CARRIES: f64 = STEPS / CALL_STEPS;

/// The proxies' addresses; the phones have another network, so that they are no neighbours.
const NETWORK: &str = "127.0.83.0/24";

/// The proxies at work.
pub(super) struct Chain {
    proxies: Vec<Element>,
}

impl Chain {
    /// Starts the last one first: each sends to the one behind it.
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

    /// Where calls go, and where phones register.
    pub(super) fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.proxies[0].address, self.proxies[HOME].address)
    }

    /// What each says of itself, in their order.
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

/// One that sends on, and shares out state.
fn onward(next: SocketAddr) -> String {
    format!(
        "[distribution]\nneighbours = [\"{NETWORK}\"]\n[proxy]\nnext = [\"{next}\"]\nforward = \"distributed\"\n"
    )
}

/// The last one: who has registered there is called, and by anybody.
fn home(users: &Path) -> String {
    let users = users.display().to_string();
    format!(
        "[distribution]\nneighbours = [\"{NETWORK}\"]\n[registrar]\ndomains = [\"{DOMAIN}\"]\nusers = {users:?}\nstore = \"memory\"\nreach = \"contact\"\n\
         [[route]]\nhost = \"{DOMAIN}\"\nfrom = \"anyone\"\nlocation = true\n"
    )
}

/// The phones' accounts, which are gone with this.
struct UsersFile(PathBuf);

impl UsersFile {
    fn write(password: &str) -> Result<Self> {
        let name = format!("sarabande-demo-{}-{:016x}", std::process::id(), random());
        let file = Self(std::env::temp_dir().join(name));
        let mut text = String::new();
        for user in USERS {
            let hash = digest_auth::Algorithm::Sha256.hash(&[user, DOMAIN, password].map(str::as_bytes));
            writeln!(text, "{user}:{DOMAIN}:SHA-256:{}", String::from_utf8_lossy(&hash.hex()))
                .expect("a String takes any text");
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
        // What is left has hashes of a password that nobody uses any more.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::demo::stage::configuration;

    #[test]
    fn the_configurations_are_right() {
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

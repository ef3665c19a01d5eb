//! Phones behind a NAT of the kernel, which uses another port for each destination.

use sarabande_tests::{Nat, Phone, RunningTool, TestSite, program, until};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::registrar::USERS;

/// Time after which the NAT removes a mapping.
const MAPPING_SECS: u32 = 3;

/// A site with the NAT, where phones register.
struct Scene {
    nat: Nat,
    site: TestSite,
}

impl Scene {
    fn new(name: &str) -> Self {
        let site = TestSite::new(name);
        Self { nat: Nat::new(&site, MAPPING_SECS), site }
    }

    /// Starts the registrar at a public host, with the configuration of the guide and these further lines. Its
    /// keep-alives, as those of the edge proxy, are faster than the NAT.
    fn registrar(&self, host: u8, more: &str) -> RunningTool {
        let guide = include_str!("../../../examples/registrar.toml");
        let listener = Self::listener(host);
        let text = guide.replace("udp = [\"0.0.0.0:5060\"]\n", &listener) + "store = \"memory\"\n" + more;
        assert!(text.contains(&listener), "{text}");
        self.site.write("registrar/users", USERS);
        self.nat.serve(&self.site, "registrar", &text)
    }

    fn listener(host: u8) -> String {
        format!("udp = [\"{}\"]\nkeep_alive = \"1s\"\n", Nat::outside(host))
    }

    fn phone(&self, user: &str, is_inside: IsInside, proxy: u8, calls: Option<&str>, seconds: u32) -> Phone {
        let baresip = Path::new("baresip");
        let (mut command, address) = match is_inside {
            IsInside::Yes => (self.nat.private(baresip), SocketAddr::from((Nat::INSIDE, 5060))),
            IsInside::No => (self.nat.public(baresip), Nat::outside(3)),
        };
        let account = (user, "sesame", Nat::outside(proxy));
        Phone::by(&mut command, "udp", &self.site, address, account, calls, seconds)
    }

    /// Waits until a user has a contact with this text in its line.
    fn shows(&self, user: &str, text: &str) {
        let shown = || {
            let mut command = self.nat.public(program());
            let output = command.args(["registrations", user]).output().expect("it runs");
            String::from_utf8_lossy(&output.stdout).contains(text).then_some(())
        };
        until(text, shown);
    }

    /// Calls from both sides. The phone outside hangs up both times, as caller and as callee. The phone inside registers
    /// by the proxy at the host `edge`, and its contact is shown with this text.
    fn calls(&self, edge: u8, registrar: u8, shown: &str) {
        let bob = self.phone("bob", IsInside::Yes, edge, None, MAPPING_SECS + 9);
        bob.says("200 OK () [1 binding]");
        // Without keep-alives the NAT would have removed the mapping.
        thread::sleep(Duration::from_secs(u64::from(MAPPING_SECS) + 1));
        self.shows("bob@example.com", shown);
        let alice = self.phone("alice", IsInside::No, registrar, Some("sip:bob@example.com"), 4);
        // The called phone says so when it has the ACK.
        bob.says("Call established: sip:alice@example.com");
        alice.finish();
        bob.says("terminated");
        bob.finish();
        let alice = self.phone("alice", IsInside::No, registrar, None, 6);
        alice.says("200 OK () [1 binding]");
        let bob = self.phone("bob", IsInside::Yes, edge, Some("sip:alice@example.com"), 9);
        bob.says("Call established: sip:alice@example.com");
        alice.finish();
        bob.says("session closed");
        bob.finish();
    }
}

#[derive(Clone, Copy)]
enum IsInside {
    Yes,
    No,
}

#[test]
fn a_phone_behind_a_nat_is_called_and_calls() {
    let scene = Scene::new("nat");
    let _registrar = scene.registrar(1, "");
    scene.calls(1, 1, "(NAT)");
}

/// The registrar is behind an edge proxy, which names the flow of the phone in a Path.
#[test]
fn a_phone_behind_a_nat_registers_by_an_edge_proxy() {
    let scene = Scene::new("nat-path");
    let _registrar = scene.registrar(2, "path = \"accept\"\n");
    let (listener, next) = (Scene::listener(1), Nat::outside(2));
    let admin = "[admin]\nlisten = \"127.0.0.1:8061\"\n";
    let edge = format!("[listen]\n{listener}[proxy]\nnext = [\"{next}\"]\n{admin}");
    let _edge = scene.nat.serve(&scene.site, "edge", &edge);
    scene.calls(1, 2, " by the path <sip:");
}

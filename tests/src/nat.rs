//! A NAT of a test, made of network namespaces.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use crate::balancer::{RunningTool, program};
use crate::child::Child;
use crate::field::TestSite;

/// Public hosts, and a private host behind a NAT that uses another port for each destination. The public hosts have no
/// route to private addresses. Removed on drop.
#[derive(Debug)]
pub struct Nat {
    /// Namespaces of the public hosts, of the NAT and of the private host.
    names: [String; 3],
}

impl Nat {
    /// Address of the private host.
    pub const INSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 2);

    /// Creates the namespaces. The NAT removes a mapping after this time without datagrams.
    pub fn new(site: &TestSite, timeout_secs: u32) -> Self {
        let nat = Self { names: ["public", "nat", "private"].map(|name| format!("{}-{name}", site.ip(1))) };
        let [public, router, private] = &nat.names;
        let (inside, timeout) = (Self::INSIDE, timeout_secs);
        let outside: Vec<_> = (1..=4)
            .map(|host| format!("ip -n {public} addr add {}/24 dev eth0", Self::outside(host).ip()))
            .collect();
        let rules = "add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; }; \
                     add rule ip nat post oifname wan masquerade fully-random";
        let script = [
            format!("for name in {public} {router} {private}; do ip netns add $name; done"),
            format!("ip -n {router} link add wan type veth peer name eth0 netns {public}"),
            format!("ip -n {router} link add lan type veth peer name eth0 netns {private}"),
            outside.join("\n"),
            format!("ip -n {router} addr add 203.0.113.9/24 dev wan"),
            format!("ip -n {router} addr add 192.168.7.1/24 dev lan"),
            format!("ip -n {private} addr add {inside}/24 dev eth0"),
            format!(
                "for link in lo eth0; do for name in {public} {private}; do ip -n $name link set $link up; done; done"
            ),
            format!("for link in lo wan lan; do ip -n {router} link set $link up; done"),
            format!("ip -n {private} route add default via 192.168.7.1"),
            format!("ip netns exec {router} nft '{rules}'"),
            format!(
                "ip netns exec {router} sysctl -qw net.ipv4.ip_forward=1 \
                 net.netfilter.nf_conntrack_udp_timeout={timeout} \
                 net.netfilter.nf_conntrack_udp_timeout_stream={timeout}"
            ),
        ];
        let output = Command::new("sh").args(["-ec", &script.join("\n")]).output().expect("a shell runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        nat
    }

    /// Returns the address of a public host, 1 to 4.
    pub fn outside(host: u8) -> SocketAddr {
        SocketAddr::from(([203, 0, 113, host], 5060))
    }

    /// Returns a command that runs a program on the public hosts.
    pub fn public(&self, program: &Path) -> Command {
        within(&self.names[0], program)
    }

    /// Returns a command that runs a program on the private host.
    pub fn private(&self, program: &Path) -> Command {
        within(&self.names[2], program)
    }

    /// Starts `sarabande run` on the public hosts with this configuration. `name` is the name of its folder.
    pub fn serve(&self, site: &TestSite, name: &str, text: &str) -> RunningTool {
        let file = site.write(&format!("{name}/sarabande.toml"), text);
        let folder = file.parent().expect("it is in a folder");
        let child = Child::start("sarabande", folder, self.public(program()).arg("run").arg(&file));
        RunningTool { _child: child }
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        for name in &self.names {
            // A namespace that stays does no harm.
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn within(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

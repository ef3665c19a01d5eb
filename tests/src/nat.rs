//! A NAT of a test, made of network namespaces.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use crate::balancer::{RunningTool, program};
use crate::child::Child;
use crate::field::TestSite;
use crate::namespaces::Namespaces;

/// Public hosts, and a private host behind a NAT that uses another port for each destination. The public hosts have no
/// route to private addresses.
#[derive(Debug)]
pub struct Nat {
    namespaces: Namespaces,
}

impl Nat {
    /// Address of the private host.
    pub const INSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 2);

    /// Creates the hosts. The NAT removes a mapping after this time without datagrams.
    pub fn new(site: &TestSite, timeout_secs: u32) -> Self {
        let outside: Vec<_> = (1..=4).map(|host| Self::outside(host).ip().to_string()).collect();
        let script = format!(
                "ip -n $nat link add wan type veth peer name eth0 netns $public
                 ip -n $nat link add lan type veth peer name eth0 netns $private
                 for address in {outside}; do ip -n $public addr add $address/24 dev eth0; done
                 ip -n $nat addr add 203.0.113.9/24 dev wan
                 ip -n $nat addr add 192.168.7.1/24 dev lan
                 ip -n $private addr add {inside}/24 dev eth0
                 for link in lo eth0; do ip -n $public link set $link up; ip -n $private link set $link up; done
                 for link in lo wan lan; do ip -n $nat link set $link up; done
                 ip -n $private route add default via 192.168.7.1
                 ip netns exec $nat nft 'add table ip nat
                     add chain ip nat post {{ type nat hook postrouting priority 100; }}
                     add rule ip nat post oifname wan masquerade fully-random'
                 ip netns exec $nat sysctl -qw net.ipv4.ip_forward=1 \
                     net.netfilter.nf_conntrack_udp_timeout={timeout_secs} \
                     net.netfilter.nf_conntrack_udp_timeout_stream={timeout_secs}",
                inside = Self::INSIDE,
             outside = outside.join(" ")
        );
        Self { namespaces: Namespaces::new(site, &["public", "nat", "private"], &script) }
    }

    /// Returns the address of a public host, 1 to 4.
    pub fn outside(host: u8) -> SocketAddr {
        SocketAddr::from(([203, 0, 113, host], 5060))
    }

    /// Returns a command that runs a program on the public hosts.
    pub fn public(&self, program: &Path) -> Command {
        self.namespaces.command("public", program)
    }

    /// Returns a command that runs a program on the private host.
    pub fn private(&self, program: &Path) -> Command {
        self.namespaces.command("private", program)
    }

    /// Starts `sarabande run` on the public hosts with this configuration. `name` is the name of its folder.
    pub fn serve(&self, site: &TestSite, name: &str, text: &str) -> RunningTool {
        let file = site.write(&format!("{name}/sarabande.toml"), text);
        let folder = file.parent().expect("it is in a folder");
        let child = Child::start("sarabande", folder, self.public(program()).arg("run").arg(&file));
        RunningTool { _child: child }
    }
}

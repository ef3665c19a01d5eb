//! Two hosts with a virtual address that keepalived moves, and a network with callers and servers.

use std::path::Path;
use std::process::Command;

use crate::balancer::program;
use crate::child::Child;
use crate::field::TestSite;
use crate::namespaces::Namespaces;
use crate::stats::Stats;
use crate::tls_client::path_text;
use crate::wait::until;

/// The virtual address of the guide.
const ADDRESS: &str = "192.0.2.1";

/// The network, in the namespace `net`, and the hosts `first` and `second`.
#[derive(Debug)]
pub struct VirtualAddress {
    namespaces: Namespaces,
    site: TestSite,
}

/// A host with a balancer and keepalived.
#[derive(Debug)]
pub struct BalancerHost {
    name: &'static str,
    balancer: Child,
    _keepalived: Child,
}

impl VirtualAddress {
    /// Creates the network. Callers have the address 192.0.2.100, servers 10.0.0.1 and 10.0.0.2.
    pub fn new(name: &str) -> Self {
        let site = TestSite::new(name);
        let script = "
            ip -n $net link add br0 type bridge
            for address in 192.0.2.100 10.0.0.1 10.0.0.2; do ip -n $net addr add $address/24 dev br0; done
            for link in lo br0; do ip -n $net link set $link up; done
            number=10
            for host in $first $second; do
                number=$((number + 1))
                ip -n $host link add eth0 type veth peer name host$number netns $net
                ip -n $net link set host$number master br0 up
                for link in lo eth0; do ip -n $host link set $link up; done
                for network in 192.0.2 10.0.0; do ip -n $host addr add $network.$number/24 dev eth0; done
                ip netns exec $host sysctl -qw net.ipv4.ip_nonlocal_bind=1
            done";
        Self { namespaces: Namespaces::new(&site, &["net", "first", "second"], script), site }
    }

    /// Starts a balancer and keepalived on a host with these configurations, in which a host replaces the paths of the
    /// program and its file.
    pub fn host(&self, name: &'static str, balancer: &str, key: &str, keepalived: &str) -> BalancerHost {
        let file = self.site.write(&format!("{name}/sarabande.toml"), balancer);
        self.site.write(&format!("{name}/shared.key"), key);
        let balancer = self.namespaces.start(&self.site, name, program(), &["run", path_text(&file)]);
        let script = format!("{} status --config {}", program().display(), file.display());
        let guide = "/usr/bin/sarabande status --config /etc/sarabande/sarabande.toml";
        assert!(keepalived.contains(guide), "{keepalived}");
        let conf = self.site.write(&format!("{name}/keepalived.conf"), keepalived.replace(guide, &script));
        let [conf, pid, vrrp] = ["keepalived.conf", "pid", "vrrp"].map(|file| conf.with_file_name(file));
        let files = ["-f", path_text(&conf), "-p", path_text(&pid), "-r", path_text(&vrrp)];
        let arguments = [&["--dont-fork", "--log-console", "--vrrp"], &files[..]].concat();
        let keepalived =
            self.namespaces.start(&self.site, name, Path::new("/usr/sbin/keepalived"), &arguments);
        let host = BalancerHost { name, balancer, _keepalived: keepalived };
        until("the balancer runs", || host.balancer.errors().contains("serving").then_some(()));
        host
    }

    /// Waits until this host has the virtual address.
    pub fn is_at(&self, host: &BalancerHost) {
        until(&format!("{} has the address", host.name), || {
            let mut command = self.namespaces.command(host.name, Path::new("ip"));
            let output = command.args(["-o", "addr"]).output().expect("it runs");
            String::from_utf8_lossy(&output.stdout).contains(&format!(" {ADDRESS}/")).then_some(())
        });
    }

    /// Starts a server, which is killed on drop.
    pub fn server(&self, address: &str) -> SippInNamespace {
        self.sipp("uas_call", address, &["-rtcheck", "loose", "-d", "500"])
    }

    /// Starts this number of calls to the virtual address. Each lasts `hold_ms`.
    pub fn calls(&self, calls: u64, hold_ms: u64) -> SippInNamespace {
        let [number, hold] = [calls, hold_ms].map(|number| number.to_string());
        let load = ["-m", &number, "-l", &number, "-r", "20", "-d", &hold];
        let to = format!("{ADDRESS}:5060");
        self.sipp(
            "uac_call",
            "192.0.2.100",
            &[&load[..], &["-key", "contact", "192.0.2.100:5060", &to]].concat(),
        )
    }

    fn sipp(&self, scenario: &str, address: &str, more: &[&str]) -> SippInNamespace {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(scenario).with_extension("xml");
        let mut command = self.namespaces.command("net", Path::new("sipp"));
        command.arg("-sf").arg(file).args(["-i", address, "-p", "5060", "-bind_local", "-nostdin"]);
        command.args([
            "-ci",
            address,
            "-trace_err",
            "-trace_stat",
            "-stf",
            "stat.csv",
            "-fd",
            "1",
            "-trace_counts",
        ]);
        SippInNamespace::start(&self.site, &format!("{scenario}-{address}"), command.args(more))
    }
}

impl BalancerHost {
    /// Ends the balancer with `kill -9`.
    pub fn kill_balancer(&mut self) {
        self.balancer.kill();
    }
}

/// A SIPp of this network, killed on drop.
#[derive(Debug)]
pub struct SippInNamespace(Child);

impl SippInNamespace {
    fn start(site: &TestSite, name: &str, command: &mut Command) -> Self {
        Self(Child::start("sipp", &crate::field::fresh(site.folder(), name), command))
    }

    /// Waits until this number of calls is answered.
    pub fn has_answers(&self, calls: u64) {
        let answered = || Stats::read(self.0.folder()).received("200");
        until("the calls are answered", || (answered() >= calls).then_some(()));
    }

    /// Waits until all calls have ended, and checks that none failed.
    pub fn finish_clean(mut self) {
        let status = self.0.wait();
        assert!(status.success(), "{status}");
    }
}

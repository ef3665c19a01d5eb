//! Who is a member, and when the slot of one that left goes to another.
//!
//! Sessions carry slots, tokens and source addresses lead to them, so a slot changes hands in steps: its node has left
//! and been silent for as long as a token of an old call might still name it; no shard has a session or lease there;
//! tokens and its address lead there no more; and then, once again, no shard has anything there. From then on nothing
//! can.

use super::dns::{self, Resolved};
use super::resolver::Resolver;
use super::{Control, Remark, Tenure};
use crate::shards::{Command, ask_each, listen::toward};
use balance::{Member, Slot};
use base::{Instant, Transport};
use node::{Topology, node_id};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Longest time between two looks for slots that nobody needs. Each walks the session tables.
const SWEEP: Duration = Duration::from_mins(1);

impl Control {
    /// Membership as configuration and DNS have it now.
    pub(super) fn update_members(&mut self) {
        let now = self.clock.now();
        let resolved = self.resolved();
        let mut members: Vec<_> = resolved
            .iter()
            .map(|member| Member {
                id: node_id(Transport::Udp, member.address),
                capacity: member.capacity,
                max_calls: member.max_calls,
            })
            .collect();
        if self.names.awaits(self.config.members()) {
            // A name that is new in the file may mean a member: nobody leaves until its first look-up has come to an end,
            // which it does in seconds.
            for node in self.cluster.nodes().iter().filter(|node| node.member) {
                if members.iter().all(|member| member.id != node.id) {
                    let (capacity, max_calls) = (node.capacity, node.max_calls);
                    members.push(Member { id: node.id, capacity, max_calls });
                }
            }
        }
        self.cluster.set_members(now, &members);
        self.settle(now, &resolved);
        let nodes = self.cluster.nodes().iter().zip(self.topology.nodes()).enumerate();
        let asked = nodes.filter(|(_, (node, _))| node.member);
        let targets: Vec<_> = asked.map(|(slot, (_, node))| (Slot(slot as u16), node.peer)).collect();
        self.probes.set_targets(now, &targets);
    }

    /// The members' addresses that a listener leads to.
    fn resolved(&mut self) -> Vec<Resolved> {
        let all = self.names.resolved(self.config.members());
        let (reachable, unreachable): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|member| toward(&self.binds, member.address).is_some());
        let left_out: BTreeSet<_> = unreachable.iter().map(|member| member.address).collect();
        for address in left_out.difference(&self.left_out) {
            tracing::warn!(member = %address, "left out: no listener of its address family");
        }
        self.left_out = left_out;
        reachable
    }

    /// Gives those that joined a place, and notes who left.
    fn settle(&mut self, now: Instant, resolved: &[Resolved]) {
        let mut topology = Topology::clone(&self.topology);
        for member in resolved {
            let (address, name) = (member.address, member.name.clone());
            let Some(slot) = self.cluster.slot(node_id(Transport::Udp, address)) else { continue };
            let Some(node) = toward(&self.binds, address) else { continue };
            let fresh = Remark {
                name: name.clone(),
                address,
                last_probe: None,
                last_change: now,
                tenure: Tenure::Member,
            };
            let Some(remark) = self.remarks.get_mut(slot.index()) else {
                topology.push_node(node);
                self.remarks.push(fresh);
                tracing::info!(member = %address, %name, "member joins");
                continue;
            };
            match std::mem::replace(&mut remark.tenure, Tenure::Member) {
                Tenure::Member => {}
                Tenure::Left(_) | Tenure::Hidden => {
                    topology.find_again(slot);
                    tracing::info!(member = %address, %name, "member joins again");
                }
                Tenure::Vacant => {
                    topology.replace_node(slot, node);
                    *remark = fresh;
                    tracing::info!(member = %address, %name, "member joins");
                }
            }
            remark.name = name;
        }
        for (node, remark) in self.cluster.nodes().iter().zip(&mut self.remarks) {
            if !node.member && matches!(remark.tenure, Tenure::Member) {
                remark.tenure = Tenure::Left(now);
                tracing::info!(member = %remark.address, name = %remark.name, "member leaves: its calls go on");
            }
        }
        self.topology = Arc::new(topology);
    }

    /// How long after a member left its slot may go to another one: a call that is silent for longer is over, and a
    /// token that is older is refused.
    fn quiet(&self) -> Duration {
        self.config.timers.call.min(self.config.token.lifetime)
    }

    pub(super) fn sweep_period(&self) -> Duration {
        self.quiet().min(SWEEP)
    }

    fn is_leaving(&self, tenure: &Tenure) -> bool {
        match tenure {
            Tenure::Member | Tenure::Vacant => false,
            Tenure::Left(since) => self.clock.now().saturating_since(*since) >= self.quiet(),
            Tenure::Hidden => true,
        }
    }

    /// Asks the shards which slots are in use, if any slot waits to be given away.
    pub(super) fn sweep(&mut self, answers: &mpsc::UnboundedSender<Vec<bool>>) {
        if !self.remarks.iter().any(|remark| self.is_leaving(&remark.tenure)) {
            return;
        }
        // What is hidden now was hidden before the shards are asked.
        self.tell();
        let (workers, answers) = (self.workers.clone(), answers.clone());
        tokio::spawn(async move {
            let Some(used) = ask_each(&workers, Command::SlotsInUse).await else { return };
            let slots = used.iter().map(Vec::len).max().unwrap_or_default();
            let anywhere = |slot| used.iter().any(|used| used.get(slot) == Some(&true));
            let _ = answers.send((0..slots).map(anywhere).collect());
        });
    }

    /// Moves the slots that nobody uses one step on.
    pub(super) fn swept(&mut self, used: &[bool]) {
        let mut topology = Topology::clone(&self.topology);
        for (index, used) in used.iter().enumerate() {
            let slot = Slot(index as u16);
            if *used || !self.is_leaving(&self.remarks[index].tenure) {
                continue;
            }
            let remark = &mut self.remarks[index];
            if let Tenure::Hidden = remark.tenure {
                self.cluster.release(slot);
                remark.tenure = Tenure::Vacant;
                tracing::info!(member = %remark.address, "former member is forgotten");
            } else {
                topology.forget(slot);
                remark.tenure = Tenure::Hidden;
                self.told = u64::MAX;
            }
        }
        self.topology = Arc::new(topology);
    }

    /// Sets the resolver up anew: also with the same settings, since the system's own may have changed. If they have, what
    /// was asked before is asked anew.
    pub(super) fn renew_resolver(&mut self) {
        let renewed = Resolver::new(&self.config.dns.servers, &self.binds);
        let former = std::mem::replace(&mut self.resolver, renewed);
        if !self.resolver.asks_as(&former) {
            self.names.start_over();
            self.targets.start_over(&mut self.resolver);
        }
    }

    /// Asks again for the names of which something was not found.
    pub(super) fn look_up_missing(&mut self, answers: &mpsc::UnboundedSender<dns::Answer>) {
        let names = self.names.ask_again(self.config.members());
        dns::look_up(names, &mut self.resolver, answers);
    }

    /// Asks for the members that are names, those aside that are being asked for already.
    pub(super) fn look_up(&mut self, answers: &mpsc::UnboundedSender<dns::Answer>) {
        let names = self.names.ask(self.config.members());
        dns::look_up(names, &mut self.resolver, answers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::control::dns::Names;
    use crate::control::resolver::tests::{a, found, server};
    use crate::shards::listen::Bind;
    use crate::token_time::TokenTime;
    use config::Address;
    use std::net::SocketAddr;

    fn config(members: &[&str]) -> config::Config {
        let text = format!(
            "[listen]\nudp = [\"127.0.0.1:5060\"]\n[pool.servers]\nmembers = {members:?}\n[timers]\ncall = \"1ms\"\n"
        );
        config::parse(&text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn control(members: &[&str]) -> Control {
        let address = "127.0.0.1:5060".parse().unwrap();
        let binds = vec![Bind { address, advertised: address }];
        let names = (Names::default(), Resolver::new(&[], &binds));
        Control::new(
            Clock::start(),
            None,
            config(members),
            binds,
            names,
            ([0; 16], TokenTime::start(None, Duration::from_hours(1))),
            Arc::new(crate::shards::board::Board::new(1)),
        )
        .unwrap()
    }

    /// Addresses by slot, and whether tokens lead there.
    fn seen(control: &Control) -> Vec<(usize, String, bool)> {
        let listed = control.view().members.into_iter();
        let leads = |address: SocketAddr| control.topology.slot_at(address).is_some();
        listed.map(|m| (m.slot.index(), m.address.to_string(), leads(m.address))).collect()
    }

    fn expected(rows: &[(usize, &str, bool)]) -> Vec<(usize, String, bool)> {
        rows.iter().map(|&(slot, address, leads)| (slot, address.to_owned(), leads)).collect()
    }

    const A: &str = "127.0.0.1:5081";
    const B: &str = "127.0.0.1:5082";
    const C: &str = "127.0.0.1:5083";

    #[tokio::test]
    async fn a_slot_goes_to_another_node_only_when_nobody_points_there() {
        let mut control = control(&[A, B]);
        control.take_over(config(&[A]));
        tokio::time::sleep(Duration::from_millis(5)).await;
        let left = expected(&[(0, A, true), (1, B, true)]);
        control.swept(&[true, true]);
        assert_eq!(seen(&control), left, "a session is there");
        let hidden = expected(&[(0, A, true), (1, B, false)]);
        control.swept(&[false, false]);
        assert_eq!(seen(&control), hidden);
        control.swept(&[false, true]);
        assert_eq!(seen(&control), hidden, "a call came between the two looks");
        control.take_over(config(&[A, C]));
        assert_eq!(
            seen(&control),
            expected(&[(0, A, true), (1, B, false), (2, C, true)]),
            "B's slot is not free yet"
        );
        control.swept(&[false, false, false]);
        assert_eq!(seen(&control), expected(&[(0, A, true), (2, C, true)]), "members stay, B is forgotten");
        control.take_over(config(&[A, C, B]));
        assert_eq!(seen(&control), expected(&[(0, A, true), (1, B, true), (2, C, true)]));
    }

    #[tokio::test]
    async fn a_member_that_comes_back_before_it_is_forgotten_keeps_its_slot() {
        let mut control = control(&[A, B]);
        control.take_over(config(&[A]));
        tokio::time::sleep(Duration::from_millis(5)).await;
        control.swept(&[false, false]);
        control.take_over(config(&[A, C, B]));
        control.swept(&[false, false, false]);
        assert_eq!(seen(&control), expected(&[(0, A, true), (1, B, true), (2, C, true)]));
    }

    /// Who is a member by now.
    fn members(control: &Control) -> Vec<String> {
        let named = control.view().members.into_iter().filter(|member| member.node.member);
        named.map(|member| member.address.to_string()).collect()
    }

    fn learn(control: &mut Control, name: &str, addresses: Result<&[&str], &str>) {
        let shares = |all: &[&str]| {
            found(&all.iter().map(|address| (address.parse().unwrap(), 1.0)).collect::<Vec<_>>())
        };
        let answer = addresses.map(shares).map_err(str::to_owned);
        control.names.hear(Address::Host { name: name.to_owned(), port: None }, answer);
        control.update_members();
    }

    #[tokio::test]
    async fn a_name_that_is_not_found_holds_nobody() {
        let mut control = control(&[A, B]);
        control.take_over(config(&[B, "typo.invalid"]));
        assert_eq!(members(&control), [A, B], "the name may mean A, and is being asked for");
        learn(&mut control, "typo.invalid", Err("no such name"));
        assert_eq!(members(&control), [B]);
        control.take_over(config(&[B, "typo.invalid", C]));
        assert_eq!(members(&control), [B, C]);
        control.take_over(config(&[C, "typo.invalid"]));
        assert_eq!(members(&control), [C], "nobody waits for a name that was not found");
    }

    #[tokio::test]
    async fn each_name_keeps_its_own_last_answer() {
        let mut control = control(&[A]);
        control.take_over(config(&["a.example", "b.example"]));
        learn(&mut control, "a.example", Ok(&[A, B]));
        learn(&mut control, "b.example", Ok(&[C]));
        learn(&mut control, "a.example", Err("no answer in time"));
        assert_eq!(members(&control), [A, B, C]);
        control.take_over(config(&["b.example"]));
        assert_eq!(members(&control), [C]);
    }

    /// Nobody answers at the first DNS server; the second is the mended one.
    #[tokio::test]
    async fn a_reload_that_mends_the_dns_empties_no_pool() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let with_dns = |members: &[&str], server: SocketAddr| {
            let mut config = config(members);
            config.dns.servers = vec![server];
            config
        };
        let mut control = control(&[A]);
        control.take_over(with_dns(&[A, "pool.test"], silent.local_addr().unwrap()));
        learn(&mut control, "pool.test", Err("no answer in time"));
        assert_eq!(members(&control), [A]);
        let (answers_in, mut answers) = mpsc::unbounded_channel();
        control.look_up(&answers_in);
        let mended = server(vec![("pool.test.", a(1))]).await;
        control.take_over(with_dns(&["pool.test"], mended));
        assert_eq!(members(&control), [A], "the mended server may say that the name means it");
        // As the first tick after a reload does. The former question has not come to its end.
        control.look_up(&answers_in);
        control.names.learn(answers.recv().await.unwrap());
        control.update_members();
        assert_eq!(members(&control), ["192.0.2.1:5060"]);
        control.take_over(with_dns(&["pool.test", "typo.test"], mended));
        learn(&mut control, "typo.test", Err("no such name"));
        control.take_over(with_dns(&["typo.test"], mended));
        assert!(members(&control).is_empty(), "the same server has nothing new to say");
    }

    #[tokio::test]
    async fn drain_takes_every_form_that_the_file_takes() {
        let first = "127.0.0.8:5060";
        let mut control = control(&["127.0.0.8", B, "Pool.example", "typo.invalid"]);
        learn(&mut control, "pool.example", Ok(&[B, C]));
        let mut meant = |named: &str| {
            let meant =
                control.drain(named, true).map_err(|error| error.split(';').next().unwrap().to_owned());
            meant.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        for (named, wanted) in [("127.0.0.8", first), (first, first), (B, B)] {
            assert_eq!(meant(named).as_deref(), Ok(wanted), "{named}");
        }
        let both = format!("{B} {C}");
        for named in ["Pool.example", "pool.example"] {
            assert_eq!(
                meant(named).as_deref(),
                Ok(both.as_str()),
                "B has a name of its own, and is meant all the same"
            );
        }
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(
            meant("typo.invalid"),
            refused("typo.invalid is not resolved: it stands for no member yet")
        );
        assert_eq!(meant("127.0.0.9"), refused("no member \"127.0.0.9\""));
        assert_eq!(meant(""), refused("no member \"\""));
    }
}

//! The control task: the one owner of membership, health and configuration. It runs beside the traffic, never in it.
//!
//! Signs come in from the shards and from probes; the [`balance::Cluster`] decides; every change goes out
//! to all shards as one value.

pub(crate) mod apply;
pub(crate) mod dns;
mod probes;

use crate::clock::Clock;
use crate::shards::listen::{Bind, toward};
use crate::shards::{Command, Report, WorkerHandle};
use balance::{Cluster, Member, Node, Sign, Slot};
use base::Instant;
use config::Config;
use dns::{Names, Resolved};
use node::{Outcome, Reason, Topology, node_id};
use probes::Probes;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Interval, MissedTickBehavior};

/// What the admin side asks of the control task.
pub(crate) enum Ask {
    View(oneshot::Sender<View>),
    Drain { member: String, draining: bool, reply: oneshot::Sender<Result<(), String>> },
    Reload(oneshot::Sender<Result<Vec<String>, String>>),
    Stop,
}

/// A member or former member, as the control task sees it.
#[derive(Clone, Debug)]
pub(crate) struct MemberView {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) node: Node,
    pub(crate) last_probe: Option<Reason>,
    pub(crate) last_change: Instant,
}

/// What the control task knows, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    pub(crate) policy: &'static str,
    pub(crate) stopping: bool,
    /// By slot.
    pub(crate) members: Vec<MemberView>,
}

/// Beyond what a node's [`Node`] says: for people.
#[derive(Clone, Debug)]
struct Remark {
    name: String,
    address: SocketAddr,
    last_probe: Option<Reason>,
    last_change: Instant,
}

pub(crate) struct Control {
    pub(crate) clock: Clock,
    pub(crate) path: Option<PathBuf>,
    config: Config,
    binds: Vec<Bind>,
    /// Of the tokens; the configuration may name another one on reload.
    secret: [u8; 16],
    workers: Vec<WorkerHandle>,
    cluster: Cluster,
    names: Names,
    remarks: Vec<Remark>,
    topology: Arc<Topology>,
    /// Version of the cluster that the shards have.
    told: u64,
    probes: Probes,
    stopping: Option<Instant>,
    /// Names are new: do not wait for the next refresh.
    look_up_now: bool,
}

/// How often the shards are asked whether calls are left when the process stops.
const STOP_POLL: Duration = Duration::from_millis(100);

/// Ticks at once and then every `period` of time.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl Control {
    pub(crate) fn new(
        clock: Clock,
        path: Option<PathBuf>,
        config: Config,
        binds: Vec<Bind>,
        names: Names,
        secret: [u8; 16],
    ) -> std::io::Result<Self> {
        let probes = Probes::new(&config, &binds)?;
        let listeners = crate::shards::listen::listeners(&binds);
        let topology = Topology::new(listeners, apply::own_names(&config.listen.names));
        let mut control = Self {
            clock,
            path,
            cluster: Cluster::new(apply::health(&config)),
            config,
            binds,
            secret,
            workers: Vec::new(),
            names,
            remarks: Vec::new(),
            topology: Arc::new(topology),
            told: 0,
            probes,
            stopping: None,
            look_up_now: false,
        };
        control.update_members();
        Ok(control)
    }

    /// What a shard needs to start with.
    pub(crate) fn start(&self) -> (Vec<Node>, Arc<Topology>) {
        (self.cluster.nodes().to_vec(), Arc::clone(&self.topology))
    }

    pub(crate) fn attach(&mut self, workers: Vec<WorkerHandle>) {
        self.workers = workers;
        self.tell();
    }

    /// Runs until a stop was asked for and the calls have ended or the wait is over.
    pub(crate) async fn run(
        mut self,
        mut reports: mpsc::UnboundedReceiver<Report>,
        mut asks: mpsc::UnboundedReceiver<Ask>,
    ) -> Result<(), String> {
        let (answers_in, mut answers) = mpsc::unbounded_channel();
        let mut refresh = every(self.config.dns.refresh);
        refresh.tick().await;
        let mut stop_poll = tokio::time::interval(STOP_POLL);
        loop {
            let due = self.probes.deadline().map(|deadline| self.clock.until(deadline));
            tokio::select! {
                Some(report) = reports.recv() => match report {
                    Report::Died => return Err("a shard ended in a panic; this is a bug".to_owned()),
                    report => self.report(&report),
                },
                Some(ask) = asks.recv() => self.ask(ask),
                outcomes = self.probes.receive() => self.probed(outcomes),
                () = tokio::time::sleep(due.unwrap_or_default()), if due.is_some() => {
                    let outcomes = self.probes.tick(self.clock.now());
                    self.probed(outcomes);
                }
                Some(found) = answers.recv() => {
                    self.names.learn(found);
                    self.update_members();
                }
                _ = refresh.tick(), if dns::has_names(&self.config.pool.members) => {
                    let (members, answers_in) = (self.config.pool.members.clone(), answers_in.clone());
                    tokio::spawn(async move { answers_in.send(dns::look_up(members).await) });
                }
                _ = stop_poll.tick(), if self.stopping.is_some() => {
                    if self.is_done().await {
                        break;
                    }
                }
            }
            if core::mem::take(&mut self.look_up_now) {
                // The first tick of a new interval comes at once.
                refresh = every(self.config.dns.refresh);
            }
            self.tell();
        }
        for worker in &self.workers {
            worker.send(Command::Stop);
        }
        Ok(())
    }

    /// Membership as configuration and DNS have it now.
    fn update_members(&mut self) {
        let now = self.clock.now();
        let mut resolved = self.names.resolved(&self.config.pool.members);
        resolved.retain(|member| {
            let reachable = toward(&self.binds, member.address).is_some();
            if !reachable {
                tracing::warn!(member = %member.address, "left out: no listener of its address family");
            }
            reachable
        });
        let mut members: Vec<_> = resolved
            .iter()
            .map(|member| Member {
                id: node_id(member.address),
                capacity: member.capacity,
                max_calls: member.max_calls,
            })
            .collect();
        if self.names.lack(&self.config.pool.members) {
            // Who a name means is not known yet: nobody leaves until it is.
            for node in self.cluster.nodes().iter().filter(|node| node.member) {
                if members.iter().all(|member| member.id != node.id) {
                    let (capacity, max_calls) = (node.capacity, node.max_calls);
                    members.push(Member { id: node.id, capacity, max_calls });
                }
            }
        }
        self.cluster.set_members(now, &members);
        self.extend_topology(now, &resolved);
        let nodes = self.cluster.nodes().iter().zip(self.topology.nodes()).enumerate();
        let asked = nodes.filter(|(_, (node, _))| node.member);
        let targets: Vec<_> = asked.map(|(slot, (_, node))| (Slot(slot as u16), node.address)).collect();
        self.probes.set_targets(now, &targets);
    }

    /// New slots get an address; slots never change hands.
    fn extend_topology(&mut self, now: Instant, resolved: &[Resolved]) {
        let mut topology = Topology::clone(&self.topology);
        for member in resolved {
            let Some(slot) = self.cluster.slot(node_id(member.address)) else { continue };
            if slot.index() < self.remarks.len() {
                self.remarks[slot.index()].name.clone_from(&member.name);
                continue;
            }
            let Some(node) = toward(&self.binds, member.address) else { continue };
            topology.push_node(node);
            let (name, address) = (member.name.clone(), member.address);
            self.remarks.push(Remark { name, address, last_probe: None, last_change: now });
            tracing::info!(member = %member.address, name = %member.name, "member joins");
        }
        self.topology = Arc::new(topology);
    }

    /// Sends the nodes to the shards if anything about them changed.
    fn tell(&mut self) {
        if self.told == self.cluster.version() {
            return;
        }
        self.told = self.cluster.version();
        let nodes: Arc<[Node]> = self.cluster.nodes().into();
        for worker in &self.workers {
            worker.send(Command::Nodes(Arc::clone(&nodes), Arc::clone(&self.topology)));
        }
    }

    fn report(&mut self, report: &Report) {
        let now = self.clock.now();
        match report {
            Report::Sign(Sign::Pause { slot, until, asked }) => {
                let rest = until.saturating_since(now);
                tracing::info!(member = %self.remarks[slot.index()].address, ?rest, "member answered 503, it rests");
                self.cluster.pause(*slot, *until, *asked);
            }
            // Neither is proof (an ICMP error is easily forged), but a probe is quick to tell.
            Report::Sign(Sign::NoAnswer { slot }) => self.probes.hurry(now, *slot),
            Report::Unreachable(address) => {
                if let Some(slot) = self.topology.slot_at(*address) {
                    self.probes.hurry(now, slot);
                }
            }
            Report::Died => {}
        }
    }

    fn probed(&mut self, outcomes: Vec<Outcome>) {
        let now = self.clock.now();
        for outcome in outcomes {
            let slot = outcome.slot;
            let before = self.cluster.nodes()[slot.index()].reachable;
            // A closed port answers for itself; silence and 503 have to repeat.
            match outcome.reason {
                Reason::Unreachable => self.cluster.unreachable(now, slot),
                // Members that nobody probes may not know OPTIONS: that somebody listens has to do.
                _ if !self.config.pool.probe.enabled => self.cluster.reachable(now, slot),
                _ => self.cluster.probed(now, slot, outcome.alive),
            }
            let remark = &mut self.remarks[slot.index()];
            remark.last_probe = Some(outcome.reason);
            let after = self.cluster.nodes()[slot.index()].reachable;
            if before != after {
                remark.last_change = now;
                let (member, reason) = (remark.address, outcome.reason);
                if after {
                    tracing::info!(%member, %reason, "member is back");
                } else {
                    tracing::warn!(%member, %reason, "member is dead: new calls go elsewhere");
                }
            }
        }
    }

    fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::View(reply) => drop(reply.send(self.view())),
            Ask::Drain { member, draining, reply } => drop(reply.send(self.drain(&member, draining))),
            Ask::Reload(reply) => drop(reply.send(self.reload())),
            Ask::Stop => self.stop(),
        }
    }

    fn view(&self) -> View {
        let members = self.cluster.nodes().iter().zip(&self.remarks);
        View {
            now: self.clock.now(),
            policy: self.config.pool.policy.name(),
            stopping: self.stopping.is_some(),
            members: members
                .map(|(node, remark)| MemberView {
                    name: remark.name.clone(),
                    address: remark.address,
                    node: node.clone(),
                    last_probe: remark.last_probe,
                    last_change: remark.last_change,
                })
                .collect(),
        }
    }

    /// By address or by the name in the configuration, which may stand for several.
    fn drain(&mut self, member: &str, draining: bool) -> Result<(), String> {
        let is_meant = |remark: &&Remark| remark.name == member || remark.address.to_string() == member;
        let slots: Vec<_> =
            (0..).zip(&self.remarks).filter(|(_, r)| is_meant(r)).map(|(slot, _)| slot).collect();
        if slots.is_empty() {
            let known: Vec<_> = self.remarks.iter().map(|remark| remark.address.to_string()).collect();
            return Err(format!("no member {member:?}; there are: {}", known.join(", ")));
        }
        for slot in slots {
            self.cluster.drain(Slot(slot), draining);
            tracing::info!(%member, draining, "drain changed");
        }
        Ok(())
    }

    fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(self.clock.now());
            tracing::info!(wait = ?self.config.stop.wait, "stopping: no new calls, the others may end");
            self.send_pipeline();
        }
    }

    /// Whether the last call has ended, or the wait is over.
    async fn is_done(&self) -> bool {
        let since = self.stopping.unwrap_or(Instant::ZERO);
        let mut active = 0;
        for worker in &self.workers {
            let (reply, answer) = oneshot::channel();
            worker.send(Command::Snapshot(reply));
            active += answer.await.map_or(0, |snapshot| snapshot.table.active);
        }
        let over = self.clock.now().saturating_since(since) >= self.config.stop.wait;
        if active == 0 || over {
            tracing::info!(calls_left = active, "stopped");
        }
        active == 0 || over
    }
}

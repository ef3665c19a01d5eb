//! The control task: the one owner of membership, health and configuration. It runs beside the traffic, never in it.
//!
//! Signs come in from the shards and from probes; the [`balance::Cluster`] decides; every change goes out
//! to all shards as one value.

pub(crate) mod apply;
pub(crate) mod dns;
mod health;
mod members;
mod probes;
pub(crate) mod resolver;
mod succession;
mod targets;

use crate::admin::Interface;
use crate::clock::Clock;
use crate::shards::board::Board;
use crate::shards::listen::{Bind, unserved};
use crate::shards::{Command, Report, ShardCounts, WorkerHandle, ask_each};
use crate::takeover::Succession;
use crate::takeover::claim::Bond;
use crate::takeover::owned::Predecessor;
use crate::token_time::TokenTime;
use balance::{Cluster, Node, Places, Slot};
use base::Instant;
use config::{Address, Config};
use dns::{NameView, Names};
use node::{Reason, Topology};
use probes::Probes;
use resolver::Resolver;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use targets::Targets;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Interval, MissedTickBehavior};

/// What the admin side asks of the control task.
pub(crate) enum Ask {
    View(oneshot::Sender<View>),
    /// Answers with the addresses of those meant.
    Drain {
        member: String,
        draining: bool,
        reply: oneshot::Sender<Result<Vec<SocketAddr>, String>>,
    },
    /// The operator says that a member is back. Answers with the addresses of those meant.
    Up {
        member: String,
        reply: oneshot::Sender<Result<Vec<SocketAddr>, String>>,
    },
    Reload(oneshot::Sender<Result<Vec<String>, String>>),
    Stop,
    /// Another process takes over.
    Succession(Succession),
    /// The process before has said what it still has to do, or has ended.
    Predecessor,
}

/// A member or former member, as the control task sees it.
#[derive(Clone, Debug)]
pub(crate) struct MemberView {
    pub(crate) slot: Slot,
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
    /// Name of the pool; empty for a proxy.
    pub(crate) pool: String,
    pub(crate) policy: &'static str,
    pub(crate) stopping: bool,
    /// What the process before still has.
    pub(crate) predecessor_calls: Option<usize>,
    /// In the order of their slots; not every slot has one.
    pub(crate) members: Vec<MemberView>,
    /// Names that shards wanted to know of and nobody asked for, because too many were being asked for.
    pub(crate) look_ups_forgotten: u64,
    /// The members that are names.
    pub(crate) names: Vec<NameView>,
}

impl View {
    pub(crate) fn at(&self, slot: Slot) -> Option<&MemberView> {
        self.members.iter().find(|member| member.slot == slot)
    }
}

/// To whom a slot belongs.
#[derive(Clone, Copy, Debug)]
enum Tenure {
    /// A member.
    Member,
    /// One that left then.
    Left(Instant),
    /// One that left; neither token nor source address leads there any more.
    Hidden,
    /// Nobody: the next that joins gets it.
    Vacant,
}

/// Beyond what a node's [`Node`] says: for people.
#[derive(Clone, Debug)]
struct Remark {
    name: String,
    address: SocketAddr,
    last_probe: Option<Reason>,
    last_change: Instant,
    tenure: Tenure,
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
    targets: Targets,
    resolver: Resolver,
    /// Members that no listener leads to.
    left_out: BTreeSet<SocketAddr>,
    /// By slot.
    remarks: Vec<Remark>,
    topology: Arc<Topology>,
    /// Version of the cluster that the shards have.
    told: u64,
    probes: Probes,
    stopping: Option<Instant>,
    token_time: TokenTime,
    /// Unix time of [`Instant::ZERO`] in seconds, by the clock of the tokens, as the shards have it.
    pub(crate) epoch_unix: u64,
    /// Since when another process takes the new calls.
    succeeded: Option<Instant>,
    /// That process hands nothing to this one any more.
    over: bool,
    /// The process before, as long as it has calls.
    predecessor: Option<(Bond, Arc<Predecessor>)>,
    board: Arc<Board>,
    /// What the shards share of members with a limit of calls.
    places: Option<Arc<Places>>,
    admin: Option<Interface>,
    /// Addresses of the machine that a wildcard would serve if they had been there at the start.
    unserved: Vec<SocketAddr>,
    /// Names and periods may be new.
    reloaded: bool,
    /// New calls refused because no member took any: since this was last told, and when that was.
    refused: (u64, Option<Instant>),
    /// Until when next hops that failed are asked last.
    resting: BTreeMap<SocketAddr, Instant>,
}

/// How often it is looked whether the machine has changed: its time, its addresses.
const LOOK_AROUND: Duration = Duration::from_secs(10);
/// How often names are asked for of which something was not found: the file or the DNS has an error, and somebody mends it.
const RETRY: Duration = Duration::from_secs(3);
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
        (names, resolver): (Names, Resolver),
        (secret, token_time): ([u8; 16], TokenTime),
        board: Arc<Board>,
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
            targets: Targets::default(),
            resolver,
            left_out: BTreeSet::new(),
            remarks: Vec::new(),
            topology: Arc::new(topology),
            told: 0,
            probes,
            stopping: None,
            succeeded: None,
            over: false,
            predecessor: None,
            board,
            places: None,
            admin: None,
            epoch_unix: clock.epoch_unix(token_time.boot()),
            token_time,
            unserved: Vec::new(),
            reloaded: false,
            refused: (0, None),
            resting: BTreeMap::new(),
        };
        control.update_members();
        Ok(control)
    }

    /// What a shard needs to start with.
    pub(crate) fn start(&self) -> (Vec<Node>, Arc<Topology>) {
        (self.cluster.nodes().to_vec(), Arc::clone(&self.topology))
    }

    /// Says where the process listens.
    pub(crate) fn announce(&self) {
        for Bind { address, advertised } in &self.binds {
            if address == advertised {
                tracing::info!(%address, "listening");
            } else {
                tracing::info!(%address, %advertised, "listening");
            }
        }
        if let Some(address) = self.config.admin.listen {
            tracing::info!(%address, "admin interface");
        }
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
        let (swept_in, mut swept) = mpsc::unbounded_channel();
        let mut retry = every(RETRY);
        let mut look_around = every(LOOK_AROUND);
        let mut sweep = every(self.sweep_period());
        let mut stop_poll = every(STOP_POLL);
        loop {
            let due = self.probes.deadline().map(|deadline| self.clock.until(deadline));
            tokio::select! {
                Some(report) = reports.recv() => match report {
                    Report::Died => return Err("a shard ended in a panic; this is a bug".to_owned()),
                    report => self.report(report),
                },
                Some(ask) = asks.recv() => self.ask(ask),
                outcomes = self.probes.receive(self.clock) => self.probed(outcomes),
                () = tokio::time::sleep(due.unwrap_or_default()), if due.is_some() => {
                    let outcomes = self.probes.tick(self.clock.now());
                    self.probed(outcomes);
                }
                Some(answer) = answers.recv() => {
                    self.names.learn(answer);
                    self.update_members();
                }
                Some(found) = self.targets.answered() => {
                    let answer = Arc::new(Targets::learn(found, self.config.dns.refresh));
                    for worker in &self.workers {
                        worker.send(Command::Name(Arc::clone(&answer)));
                    }
                }
                _ = refresh.tick() => {
                    self.renew_resolver();
                    self.look_up(&answers_in);
                }
                _ = retry.tick() => self.look_up_missing(&answers_in),
                _ = sweep.tick() => self.sweep(&swept_in),
                Some(used) = swept.recv() => self.swept(&used),
                _ = look_around.tick() => self.look_around(),
                _ = stop_poll.tick(), if self.stopping.or(self.succeeded).is_some() => {
                    if self.is_done().await {
                        break;
                    }
                }
            }
            if core::mem::take(&mut self.reloaded) {
                // The first tick of a new interval comes at once.
                refresh = every(self.config.dns.refresh);
                sweep = every(self.sweep_period());
            }
            self.tell();
        }
        if self.succeeded.is_none() {
            self.token_time.keep();
        }
        if let Some(admin) = self.admin.take() {
            admin.stop().await;
        }
        for worker in &self.workers {
            worker.send(Command::Stop);
        }
        Ok(())
    }

    /// Carries out what the cluster decided, and sends the nodes to the shards if anything about them changed.
    fn tell(&mut self) {
        self.carry_out();
        if self.told == self.cluster.version() {
            return;
        }
        self.told = self.cluster.version();
        let nodes: Arc<[Node]> = self.cluster.nodes().into();
        for worker in &self.workers {
            worker.send(Command::Nodes(Arc::clone(&nodes), Arc::clone(&self.topology)));
        }
    }

    fn report(&mut self, report: Report) {
        let now = self.clock.now();
        match report {
            Report::LookUp(name) => self.targets.look_up(name, &mut self.resolver),
            Report::Sign(sign) => {
                self.log_sign(now, sign);
                self.cluster.sign(now, sign);
            }
            Report::Unreachable(address) => {
                if let Some(slot) = self.topology.slot_at(address) {
                    tracing::debug!(member = %address, "a datagram did not arrive, says the network (ICMP)");
                    self.cluster.suspect(now, slot);
                }
            }
            Report::NoServer(refused) => self.exhausted(now, refused),
            Report::NoRoom(refused) => {
                let max_sessions = self.config.pool().map(|pool| pool.max_sessions);
                tracing::error!(refused, max_sessions, "the session table is full: new calls get 503");
            }
            Report::HopFailed(failure) => self.hop_failed(now, &failure),
            Report::Died => {}
        }
    }

    /// Tokens carry the time of day, and somebody may set it. Addresses may move here from another machine. Where no probe
    /// fails regularly, nothing else tells how long a member has been silent.
    fn look_around(&mut self) {
        self.cluster.forget_silent(self.clock.now());
        let other = self.token_time.other_ahead();
        self.token_time.look(self.config.token.lifetime);
        let epoch = self.clock.epoch_unix(self.token_time.boot());
        // Two readings of two clocks are not of the same moment. A machine that slept is later, too.
        if epoch.abs_diff(self.epoch_unix) > 1 {
            self.epoch_unix = epoch;
            self.send_pipeline();
        }
        if self.token_time.other_ahead() != other {
            self.send_tokens();
        }
        let Ok(unserved) = unserved(&self.config.listen.udp, &self.binds) else { return };
        for address in unserved.iter().filter(|address| !self.unserved.contains(address)) {
            tracing::warn!(%address, "this address came after the start: it is served from the next start on");
        }
        self.unserved = unserved;
    }

    fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::View(reply) => drop(reply.send(self.view())),
            Ask::Drain { member, draining, reply } => drop(reply.send(self.drain(&member, draining))),
            Ask::Up { member, reply } => drop(reply.send(self.up(&member))),
            Ask::Reload(reply) => drop(reply.send(self.reload())),
            Ask::Stop => self.stop(),
            Ask::Succession(succession) => self.follow(succession),
            Ask::Predecessor => self.predecessor(),
        }
    }

    fn view(&self) -> View {
        let all = (0..).map(Slot).zip(self.cluster.nodes().iter().zip(&self.remarks));
        let members = all.filter(|(_, (_, remark))| !matches!(remark.tenure, Tenure::Vacant));
        View {
            now: self.clock.now(),
            pool: self.config.pool().map_or_else(String::new, |pool| pool.name.clone()),
            policy: self.config.pool().map_or("none", |pool| pool.policy.name()),
            stopping: self.stopping.or(self.succeeded).is_some(),
            predecessor_calls: self.predecessor_calls(),
            members: members
                .map(|(slot, (node, remark))| MemberView {
                    slot,
                    name: remark.name.clone(),
                    address: remark.address,
                    node: node.clone(),
                    last_probe: remark.last_probe,
                    last_change: remark.last_change,
                })
                .collect(),
            look_ups_forgotten: self.targets.forgotten(),
            names: self.names.view(self.config.members()),
        }
    }

    fn drain(&mut self, member: &str, draining: bool) -> Result<Vec<SocketAddr>, String> {
        let meant = self.meant(member)?;
        for &(slot, member) in &meant {
            self.cluster.drain(slot, draining);
            tracing::info!(%member, draining, "drain changed");
        }
        Ok(meant.into_iter().map(|(_, address)| address).collect())
    }

    fn up(&mut self, member: &str) -> Result<Vec<SocketAddr>, String> {
        let (meant, now) = (self.meant(member)?, self.clock.now());
        for &(slot, _) in &meant {
            self.cluster.raise(now, slot);
        }
        self.carry_out();
        Ok(meant.into_iter().map(|(_, address)| address).collect())
    }

    /// The members that an operator means: by address or name, in any form that the configuration takes; a name may stand
    /// for several.
    fn meant(&self, member: &str) -> Result<Vec<(Slot, SocketAddr)>, String> {
        if self.config.proxy().is_some() {
            return Err("this process is a proxy: it has next hops, and only members of a pool are drained or brought \
                        back. To take a next hop out, remove it from `proxy.next` and reload"
                .to_owned());
        }
        let view = self.view();
        let named: Option<Address> = member.parse().ok();
        let (name, addresses) = named
            .map_or((String::new(), Vec::new()), |named| (named.to_string(), self.names.addresses(&named)));
        // By its address too: two names for one server are one member, which has the first.
        let is_meant = |known: &&MemberView| known.name == name || addresses.contains(&known.address);
        let meant: Vec<_> = view.members.iter().filter(is_meant).collect();
        if view.names.iter().any(|known| known.name == name && known.addresses == 0) && meant.is_empty() {
            return Err(format!("{name} is not resolved: it stands for no member yet"));
        }
        if meant.is_empty() {
            let both = |known: &MemberView| match known.address.to_string() {
                address if address == known.name => address,
                address => format!("{address} ({})", known.name),
            };
            let known: Vec<_> = view.members.iter().map(both).collect();
            return Err(format!("no member {member:?}; there are: {}", known.join(", ")));
        }
        Ok(meant.iter().map(|known| (known.slot, known.address)).collect())
    }

    fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(self.clock.now());
            tracing::info!(wait = ?self.config.stop.wait, "stopping: no new calls, the others may end");
            self.send_pipeline();
            self.release_predecessor();
        }
    }

    /// Whether the last call has ended, also of the process before, or the wait is over.
    async fn is_done(&self) -> bool {
        let since = self.stopping.or(self.succeeded).unwrap_or(Instant::ZERO);
        let counts = ask_each(&self.workers, Command::Counts).await.unwrap_or_default();
        // A proxy knows no calls, only requests that wait for their answer.
        let waiting = |counts: &ShardCounts| counts.proxy.as_ref().map_or(0, |proxy| proxy.unanswered);
        // What a dead member has left open need not be waited for.
        let alive = |slot: usize| self.cluster.nodes().get(slot).is_none_or(Node::is_up);
        let open = |counts: &ShardCounts| -> usize {
            let loads = counts.loads.iter().enumerate().filter(|&(slot, _)| alive(slot));
            loads.map(|(_, (_, load))| load.calls as usize + load.transactions as usize).sum()
        };
        let active: usize = counts.iter().map(|counts| open(counts) + waiting(counts)).sum();
        // Who repeats an answered message gets the same again only here: the process that has taken over has no memory of it.
        let late = self.succeeded.is_some() && counts.iter().any(|counts| counts.kept() > 0);
        let idle = active == 0 && !late && self.predecessor.is_none();
        let over = self.over || self.clock.now().saturating_since(since) >= self.config.stop.wait;
        if idle || over {
            tracing::info!(calls_left = active, "stopped");
        }
        idle || over
    }
}

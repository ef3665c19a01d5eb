//! The control task. It asks the DNS, sleeps, sends and logs for [`control::Control`], which decides about membership,
//! health and the setup of the shards. It runs beside the traffic, never in it.

pub(crate) mod apply;
mod capacities;
mod capacity;
mod carry_out;
mod certificates;
mod log_entries;
mod probes;
pub(crate) mod resolver;
mod stream_probes;
mod succession;

use crate::admin::Interface;
use crate::ask::{Ask, ScaleWish};
use crate::figures::{PoolName, View};
use crate::handle::Handle;
use crate::registrations::Home;
use crate::scale::Scaling;
use crate::takeover::claim::PredecessorLink;
use ::control::{
    ControlEffect, ControlInput, Drainer, Egress, FoundAddresses, ListedMember, QuestionId, WorkLeft,
};
use balance::{CallLimits, PoolId, SentCalls, Slot};
use base::{Flow, Outbox, Peer};
use capacities::Capacities;
pub(crate) use certificates::Certificates;
use config::Config;
use location::Registrar;
use node::{Port, Ports, Setup, ShardEvent};
use probes::ProbeSockets;
use resolver::Resolver;
use shards::listen::{toward, unserved};
use shards::{
    Board, Clock, Command, Mirror, OtherProcess, Records, ShardReport, StoreReport, Stores, WorkerHandle,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stream_probes::ProbeNews;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// The ports, with the routing of this machine.
pub(crate) struct Listening(Ports);

impl Egress for Listening {
    fn toward(&self, peer: Peer) -> Option<Flow> {
        toward(&self.0, peer)
    }
}

/// An answer to a question that the control task asked.
enum Answered {
    LookUp(QuestionId, Result<FoundAddresses, String>),
    SlotsInUse(Option<Vec<bool>>),
    WorkLeft(WorkLeft),
}

pub(crate) struct Control {
    pub(crate) clock: Clock,
    pub(crate) path: Option<PathBuf>,
    config: Config,
    /// Configuration of the file, if an operator has changed members since it was read.
    file: Option<Box<Config>>,
    ports: Ports,
    /// Secret of the tokens. A reload may bring another one.
    secret: [u8; 16],
    workers: Vec<WorkerHandle>,
    core: ::control::Control<Listening>,
    out: Outbox<ControlEffect>,
    sockets: ProbeSockets,
    resolver: Resolver,
    answers: (mpsc::UnboundedSender<Answered>, mpsc::UnboundedReceiver<Answered>),
    /// Unix time of [`Instant::ZERO`] in seconds, equal to the time of the shards.
    epoch_unix: u64,
    /// Predecessors that still have calls.
    processes: Vec<(PredecessorLink, Arc<OtherProcess>)>,
    board: Arc<Board>,
    /// Members that no probe connection could be opened to, with the cause.
    probe_troubles: BTreeMap<Peer, String>,
    pub(crate) certificates: Certificates,
    /// Stores of the registrar; `None` without one.
    stores: Option<Arc<Stores>>,
    /// Destination of call records; `None` without call records.
    records: Option<Arc<Records>>,
    /// The queue of copies for a collector; `None` without one.
    mirror: Option<Arc<Mirror>>,
    /// Stores that could not be used at the last check.
    down: Vec<&'static str>,
    /// State that shards share about members with a limit of calls.
    call_limits: Option<Arc<CallLimits>>,
    /// Counts of sent calls over all shards.
    pub(crate) sent_calls: Arc<SentCalls>,
    admin: Option<Interface>,
    capacity: Capacities,
    /// Starts and stops servers. It uses a handle as other tasks do.
    scaling: Option<(Scaling, Handle)>,
    /// Addresses of the machine that a wildcard listener would serve if they had existed at the start.
    unserved: Vec<SocketAddr>,
    succeeded: bool,
    has_ended: bool,
}

/// Interval of checks for changes of the machine's time and addresses.
const LOOK_AROUND: Duration = Duration::from_secs(10);

/// Interval of checks for silent monitors (which also send every second), failed stores and changed certificates.
const LISTEN: Duration = Duration::from_secs(1);

impl Control {
    /// Starts the control task of a process that listens at `ports`. Returns after the first look-ups of the members'
    /// names.
    pub(crate) async fn start(
        clock: Clock,
        path: Option<PathBuf>,
        config: Config,
        ports: Ports,
        secret: [u8; 16],
        (board, stores, records): (Arc<Board>, Option<Arc<Stores>>, Option<Arc<Records>>),
    ) -> std::io::Result<Box<Self>> {
        let sockets = ProbeSockets::open(&ports)?;
        let epoch_unix = clock.epoch().as_secs();
        let tokens = apply::tokens(&config, secret);
        let settings = apply::settings(&config, &ports, tokens, epoch_unix, stores.as_deref());
        let mut out = Outbox::default();
        let probes = (crate::key::random()?, sockets.local());
        let listening = Listening(ports.clone());
        let core = ::control::Control::new(clock.now(), settings, ports.clone(), listening, probes, &mut out);
        let mut control = Box::new(Self {
            clock,
            path,
            core,
            out,
            resolver: Resolver::new(&config.dns.servers, &ports),
            config,
            file: None,
            ports,
            secret,
            workers: Vec::new(),
            sockets,
            answers: mpsc::unbounded_channel(),
            processes: Vec::new(),
            board,
            probe_troubles: BTreeMap::new(),
            certificates: Certificates::default(),
            stores,
            records,
            mirror: None,
            down: Vec::new(),
            call_limits: None,
            sent_calls: Arc::default(),
            admin: None,
            capacity: Capacities::default(),
            scaling: None,
            epoch_unix,
            unserved: Vec::new(),
            succeeded: false,
            has_ended: false,
        });
        control.carry_out();
        while control.core.is_starting()
            && let Some(answered) = control.answers.1.recv().await
        {
            control.answered(answered);
            control.carry_out();
        }
        Ok(control)
    }

    /// Returns the first setup of the shards.
    pub(crate) fn setup(&self) -> &Arc<Setup> {
        self.core.setup()
    }

    /// Logs the addresses at which the process listens.
    pub(crate) fn announce(&self) {
        for Port { local: address, advertised, .. } in &self.ports {
            if address == advertised {
                tracing::info!(%address, "listening");
            } else {
                tracing::info!(%address, %advertised, "listening");
            }
        }
        if let Some(capacity) = &self.config.capacity {
            tracing::info!(address = %capacity.listen, "listening for capacity updates");
        }
        if let Some(address) = self.config.admin.listen {
            tracing::info!(%address, "listening for the admin interface");
        }
        for warning in self.config.warnings() {
            tracing::warn!("{warning}");
        }
        if self.config.registrar.as_ref().is_some_and(|registrar| registrar.users.is_none()) {
            tracing::warn!(
                "[registrar] has no `users`: anyone who reaches a listener may register as any user"
            );
        }
    }

    pub(crate) fn attach(&mut self, workers: Vec<WorkerHandle>) {
        self.workers = workers;
        self.renew_mirror(None);
        self.tell_learned();
        self.carry_out();
    }

    /// Runs until a stop was requested and the calls have ended or the wait is over.
    pub(crate) async fn run(
        mut self: Box<Self>,
        mut reports: mpsc::UnboundedReceiver<ShardReport>,
        mut asks: mpsc::UnboundedReceiver<Ask>,
    ) -> Result<(), String> {
        let mut look_around = tokio::time::interval(LOOK_AROUND);
        look_around.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut listen = tokio::time::interval(LISTEN);
        listen.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.has_ended {
            let due = self.clock.until(self.core.deadline());
            tokio::select! {
                Some(report) = reports.recv() => match report {
                    ShardReport::Died => return Err("a shard ended in a panic; this is a bug".to_owned()),
                    report => self.report(report),
                },
                Some(ask) = asks.recv() => self.ask(ask),
                news = self.sockets.readable() => self.read_probes(news),
                () = tokio::time::sleep(due) => self.take(ControlInput::Timer),
                Some(answered) = self.answers.1.recv() => self.answered(answered),
                offer = self.capacity.intake.next() => self.offered(offer),
                _ = look_around.tick() => self.look_around(),
                _ = listen.tick(), if !self.succeeded && self.looks_often() => {
                    self.look_at_certificates();
                    self.look_at_stores();
                    if self.has_monitors() {
                        self.look_at_monitors();
                    }
                }
            }
            self.carry_out();
        }
        if let Some(admin) = self.admin.take() {
            admin.stop().await;
        }
        for worker in &self.workers {
            worker.send(Command::Stop);
        }
        if let Some(mirror) = &self.mirror {
            mirror.drain().await;
        }
        Ok(())
    }

    /// Returns whether checks every second are needed.
    fn looks_often(&self) -> bool {
        self.has_monitors() || self.stores.is_some() || self.config.tls.is_some()
    }

    fn take(&mut self, input: ControlInput<'_>) {
        self.core.handle(self.clock.now(), input, &mut self.out);
    }

    fn read_probes(&mut self, news: Option<ProbeNews>) {
        let Self { sockets, core, out, clock, probe_troubles, .. } = self;
        let now = clock.now();
        match news {
            None => {}
            Some(ProbeNews::Message { from, bytes }) => {
                probe_troubles.remove(&from);
                core.handle(now, ControlInput::ProbeMessage { from, bytes: &bytes }, out);
            }
            Some(ProbeNews::NoConnection { to, why, refused }) => {
                if probe_troubles.insert(to, why).is_none() {
                    let members = core.listed();
                    probe_troubles.retain(|peer, _| members.iter().any(|member| member.peer == *peer));
                }
                if let Some(quoted) = &refused {
                    core.handle(now, ControlInput::ProbeRefused { by: to, quoted }, out);
                }
            }
        }
        // A flood over one transport must not delay answers over another.
        sockets.read(|input| core.handle(now, input, out));
    }

    fn answered(&mut self, answered: Answered) {
        self.take(match answered {
            Answered::LookUp(id, answer) => ControlInput::Answer { id, answer },
            Answered::SlotsInUse(used) => ControlInput::SlotsInUse(used),
            Answered::WorkLeft(left) => ControlInput::WorkLeft(left),
        });
    }

    fn report(&mut self, report: ShardReport) {
        self.take(match report {
            ShardReport::LookUp(name) => ControlInput::Shard(ShardEvent::LookUp(name)),
            ShardReport::Sign(sign) => ControlInput::Shard(ShardEvent::Sign(sign)),
            ShardReport::NoServer(pool, refused) => {
                ControlInput::Shard(ShardEvent::NoServer { pool, refused })
            }
            ShardReport::AtLimit(pool, by, refused) => {
                ControlInput::Shard(ShardEvent::AtLimit { pool, by, refused })
            }
            ShardReport::NoRoom(refused) => ControlInput::Shard(ShardEvent::NoRoom(refused)),
            ShardReport::Unreachable(peer) => ControlInput::Unreachable(peer),
            ShardReport::Died => return,
        });
    }

    /// Logs when a store fails, and when it can be used again.
    fn look_at_stores(&mut self) {
        if self.succeeded {
            return;
        }
        let is_down = |report: &StoreReport| report.trouble.is_some();
        let reports = self.stores.as_ref().map(|stores| stores.reports()).unwrap_or_default();
        let was_down = |name: &str| self.down.contains(&name);
        for StoreReport { name, trouble, .. } in reports.iter().filter(|report| !was_down(report.name)) {
            if let Some(why) = trouble {
                tracing::warn!(
                    "[registrar] the store of {name} is down: {why}; requests that need it get 503"
                );
            }
        }
        for report in reports.iter().filter(|report| was_down(report.name) && !is_down(report)) {
            tracing::info!("[registrar] the store of {} is up again", report.name);
        }
        self.down = reports.iter().filter(|report| is_down(report)).map(|report| report.name).collect();
    }

    /// Checks whether the time of day, which tokens contain, was set, and whether addresses have moved here from
    /// another machine.
    fn look_around(&mut self) {
        self.forget_capacities();
        if let Some(records) = &self.records {
            records.retry();
        }
        let epoch_unix = self.clock.epoch().as_secs();
        // The two clocks are not read at the same moment. After a suspend the machine's time is also later.
        if epoch_unix.abs_diff(self.epoch_unix) > 1 {
            self.epoch_unix = epoch_unix;
            self.take(ControlInput::ClockSet { epoch_unix });
        }
        let Ok(unserved) = unserved(&self.config.listen.listeners, &self.ports) else { return };
        for address in unserved.iter().filter(|address| !self.unserved.contains(address)) {
            tracing::warn!(%address, "this address was added after the start: it is served after the next start");
        }
        self.unserved = unserved;
    }

    fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::View(reply) => drop(reply.send(self.view())),
            Ask::Drain { member, draining, reply } => {
                let input = |slot| ControlInput::Drain { slot, by: Drainer::Operator, draining };
                drop(reply.send(self.tell_meant(&member, input)));
            }
            Ask::Scale { pool, address, wish } => self.scale(&pool, address, wish),
            Ask::Up { member, reply } => drop(reply.send(self.tell_meant(&member, ControlInput::Up))),
            Ask::ChangeMember { pool, change, reply } => drop(reply.send(self.change_member(&pool, &change))),
            Ask::Reload(reply) => drop(reply.send(self.reload())),
            Ask::Home(reply) => drop(reply.send(self.home())),
            Ask::Stop => {
                self.stop_scaling();
                self.take(ControlInput::Stop);
            }
            Ask::Succession(succession) => self.follow(succession),
            Ask::Process(id) => self.process(id),
        }
    }

    fn home(&self) -> Option<Home> {
        let (stores, config) = self.stores.as_ref().zip(self.config.registrar.as_ref())?;
        let registrar = Registrar::new(config.settings.registrar.clone());
        let realm = config.settings.authentication.as_ref().map(|with| with.digest.realm.clone());
        Some(Home { stores: Arc::clone(stores), registrar, realm })
    }

    fn view(&self) -> View {
        View {
            now: self.clock.now(),
            pools: self.core.pools().map(|(id, pool)| PoolName::new(id, pool)).collect(),
            ports: self.ports.clone(),
            stopping: self.core.is_stopping(),
            stops_at: self.core.stops_at(),
            predecessor_calls: self.remainder().map(|left| left.calls),
            is_proxy: self.config.pool().is_none(),
            hops: self.core.setup().hops().collect(),
            members: self.core.listed(),
            look_ups_forgotten: self.core.look_ups_forgotten(),
            names: self.core.names(),
            records: self.records.as_ref().map(|records| records.counts()),
            mirror: self.mirror.as_ref().map(|mirror| mirror.counts()),
            stores: self.stores.as_ref().map(|stores| stores.reports()).unwrap_or_default(),
            probe_troubles: self.probe_troubles.clone(),
            certificates: self.certificates.facts(),
            capacity: self.capacity_report(),
            scales: self.scaling.as_ref().map(|(scaling, _)| scaling.views()).unwrap_or_default(),
            unsaved: self.unsaved(),
            shows_member_histograms: self.config.admin.member_histograms,
        }
    }

    /// Starts the scaling of servers, if the configuration has it.
    pub(crate) fn start_scaling(&mut self, handle: Handle) {
        self.scaling = Some((Scaling::default(), handle));
        self.renew_scaling();
    }

    /// Renews the scaling after the configuration has changed or this process takes new calls again.
    fn renew_scaling(&mut self) {
        if let Some((scaling, handle)) = &mut self.scaling {
            scaling.renew(&self.config, self.clock, handle);
        }
        self.release_unscaled();
    }

    /// Undoes the drains of scalers in pools that no longer have a scaler, since nothing else would undo them.
    fn release_unscaled(&mut self) {
        let Some((scaling, _)) = &self.scaling else { return };
        let is_scaled = |id: &PoolId| self.core.pool(*id).is_some_and(|pool| scaling.drains(&pool.name));
        let listed = self.core.listed();
        let left = listed.iter().filter(|member| member.drains.scaler && !member.pools.iter().any(is_scaled));
        for slot in left.map(|member| member.slot).collect::<Vec<_>>() {
            self.take(ControlInput::Drain { slot, by: Drainer::Scaler, draining: false });
        }
    }

    /// Carries out what the scaler of a pool wants. A scaler that was ended meanwhile is ignored.
    fn scale(&mut self, pool: &str, address: SocketAddr, wish: ScaleWish) {
        if !self.scaling.as_ref().is_some_and(|(scaling, _)| scaling.drains(pool)) {
            return;
        }
        let number = self.core.pool_number(pool);
        let is_it = |member: &&ListedMember| {
            member.peer.address == address && member.pools.iter().any(|pool| Some(*pool) == number)
        };
        let slots: Vec<_> = self.core.listed().iter().filter(is_it).map(|member| member.slot).collect();
        for slot in slots {
            self.take(match wish {
                ScaleWish::Drain(draining) => ControlInput::Drain { slot, by: Drainer::Scaler, draining },
                ScaleWish::Doubt => ControlInput::Doubt(slot),
            });
        }
    }

    /// Restarts the scaling when new calls come to this process again, since another process may have started and
    /// stopped servers.
    fn restart_scaling(&mut self) {
        self.stop_scaling();
        self.renew_scaling();
    }

    /// Stops the scaling. A process that takes no new calls starts and stops no servers.
    fn stop_scaling(&mut self) {
        if let Some((scaling, _)) = &mut self.scaling {
            scaling.stop();
        }
    }

    /// Sends an input for each member that an operator named. Returns these members.
    fn tell_meant(
        &mut self,
        member: &str,
        input: impl Fn(Slot) -> ControlInput<'static>,
    ) -> Result<Vec<Peer>, String> {
        let meant = self.core.meant(member, config::member_address(member).ok().as_ref())?;
        for &(slot, _) in &meant {
            self.take(input(slot));
        }
        // The caller may rely on the effects.
        self.carry_out();
        Ok(meant.into_iter().map(|(_, peer)| peer).collect())
    }
}

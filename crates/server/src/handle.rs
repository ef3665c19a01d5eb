use crate::clock::Clock;
use crate::control::{Ask, MemberView, View};
use crate::shards::{Command, ShardSnapshot, WorkerHandle};
use balance::{Decision, Load, NodeStats, State};
use base::{Instant, Ledger};
use node::{Counters, Explanation};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::sync::{mpsc, oneshot};

/// Asks and commands a running server; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    clock: Clock,
    asks: mpsc::UnboundedSender<Ask>,
    workers: Vec<WorkerHandle>,
}

/// A member or former member with all its figures, over all shards.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four different things, each shown on its own")]
pub struct MemberReport {
    /// As the configuration names it.
    pub name: String,
    /// Where it is.
    pub address: SocketAddr,
    /// One word: `up`, `slow-start`, `paused`, `full`, `draining`, `down` or `removed`.
    pub state: &'static str,
    /// Whether the configuration names it.
    pub member: bool,
    /// Whether it answers probes.
    pub reachable: bool,
    /// Whether it takes new calls now.
    pub accepting: bool,
    /// Whether an operator drains it.
    pub draining: bool,
    /// Seconds until its rest after a 503 ends; 0 for none.
    pub paused_seconds: f64,
    /// Configured capacity.
    pub capacity: f64,
    /// Capacity now: less in the slow start.
    pub capacity_now: f64,
    /// Most calls at a time; 0 for no limit.
    pub max_calls: u32,
    /// What decided the last probe.
    pub last_probe: Option<String>,
    /// Seconds since it was last found dead or back, or joined.
    pub since_change_seconds: f64,
    /// Load by leases.
    pub load: Load,
    /// Age of its oldest call, in seconds; only when asked for.
    pub oldest_call_seconds: Option<f64>,
    /// What it did.
    pub stats: NodeStats,
}

/// Figures of the whole process.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Name of the policy.
    pub policy: &'static str,
    /// Whether a stop was asked for.
    pub stopping: bool,
    /// What the pipelines did.
    pub counters: Counters,
    /// What it cost.
    pub ledger: Ledger,
    /// By shard.
    pub shards: Vec<ShardTotals>,
}

/// Figures of one shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardTotals {
    /// Sessions in progress.
    pub active: usize,
    /// Ended sessions kept for late messages.
    pub expired: usize,
    /// Transactions in progress.
    pub transactions: usize,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the kernel refused to send.
    pub send_failed: u64,
    /// Datagrams that the kernel threw away because the shard was late.
    pub receive_lost: u64,
    /// Datagrams given to the shard that owns their call.
    pub handed_over: u64,
    /// Datagrams lost because the way to that shard was full.
    pub handover_lost: u64,
}

/// A session in the table.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// Address of its node.
    pub node: SocketAddr,
    /// Where it stands.
    pub state: State,
    /// Seconds since it began.
    pub age_seconds: f64,
    /// Whether it counts as a call.
    pub is_call: bool,
}

/// Where a request would go.
#[derive(Clone, Debug)]
pub struct ExplainReport {
    /// The node, if it would be forwarded to one.
    pub node: Option<SocketAddr>,
    /// `policy`, `session`, `token` or `moved`, or what else would happen.
    pub why: &'static str,
    /// The policy in force.
    pub policy: &'static str,
    /// Whether its call is in the session table.
    pub known: bool,
    /// The node that a verified token in it names.
    pub token: Option<SocketAddr>,
    /// Every member: address, load over all shards as the policy sees it, capacity now, why it takes no calls.
    pub candidates: Vec<(SocketAddr, Load, f64, Option<&'static str>)>,
}

/// The server has ended, so nobody answers.
pub(crate) const GONE: &str = "the server is stopping";

impl Handle {
    pub(crate) fn new(clock: Clock, asks: mpsc::UnboundedSender<Ask>, workers: Vec<WorkerHandle>) -> Self {
        Self { clock, asks, workers }
    }

    /// Every member and former member by slot. `oldest_calls` walks the session tables, which takes some
    /// milliseconds a million calls.
    ///
    /// # Errors
    /// When the server has ended.
    pub async fn members(&self, oldest_calls: bool) -> Result<Vec<MemberReport>, String> {
        let view = self.view().await?;
        let snapshots = self.snapshots().await?;
        let oldest = if oldest_calls { self.oldest_calls().await? } else { BTreeMap::new() };
        let now = view.now;
        let report = |(slot, member): (usize, MemberView)| {
            let mut load = Load::default();
            let mut stats = NodeStats::default();
            for (own, of_shard) in snapshots.iter().filter_map(|snapshot| snapshot.nodes.get(slot)) {
                load += *own;
                stats.merge(of_shard);
            }
            let age = oldest.get(&slot).map(|then| now.saturating_since(*then).as_secs_f64());
            member_report(member, now, load, stats, age)
        };
        Ok(view.members.into_iter().enumerate().map(report).collect())
    }

    /// Figures of the whole process.
    ///
    /// # Errors
    /// When the server has ended.
    pub async fn totals(&self) -> Result<Totals, String> {
        let view = self.view().await?;
        let mut totals = Totals {
            uptime_seconds: self.clock.now().as_secs_f64(),
            policy: view.policy,
            stopping: view.stopping,
            ..Totals::default()
        };
        for snapshot in self.snapshots().await? {
            totals.counters.merge(&snapshot.counters);
            totals.ledger += snapshot.ledger;
            totals.shards.push(ShardTotals {
                active: snapshot.table.active,
                expired: snapshot.table.expired,
                transactions: snapshot.transactions,
                received: snapshot.traffic.received,
                sent: snapshot.traffic.sent,
                send_failed: snapshot.traffic.send_failed,
                receive_lost: snapshot.traffic.receive_lost,
                handed_over: snapshot.traffic.handed_over,
                handover_lost: snapshot.traffic.handover_lost,
            });
        }
        Ok(totals)
    }

    /// The session of a Call-ID, if it is in the table.
    ///
    /// # Errors
    /// When the server has ended.
    pub async fn session(&self, call_id: &[u8]) -> Result<Option<SessionReport>, String> {
        for worker in &self.workers {
            let (reply, answer) = oneshot::channel();
            worker.send(Command::Session(call_id.to_vec(), reply));
            if let Some(session) = answer.await.map_err(|_| GONE)? {
                // Asked afterwards: a member that has just joined may be its node.
                let view = self.view().await?;
                return Ok(Some(SessionReport {
                    node: view.members[session.slot.index()].address,
                    state: session.state,
                    age_seconds: view.now.saturating_since(session.created).as_secs_f64(),
                    is_call: session.is_call,
                }));
            }
        }
        Ok(None)
    }

    /// Starts or ends the draining of a member, named by its address or as in the configuration.
    ///
    /// # Errors
    /// When there is no such member; says which there are.
    pub async fn drain(&self, member: &str, draining: bool) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Drain { member: member.to_owned(), draining, reply })?;
        answer.await.map_err(|_| GONE)?
    }

    /// Reads the configuration again. Returns what changed in it but needs a restart.
    ///
    /// # Errors
    /// The errors in the file; then nothing has changed.
    pub async fn reload(&self) -> Result<Vec<String>, String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Reload(reply))?;
        answer.await.map_err(|_| GONE)?
    }

    /// Stops taking new calls; the server ends when the others have ended or the wait is over.
    pub fn stop(&self) {
        // A server that has ended has stopped.
        let _ = self.ask(Ask::Stop);
    }

    /// Where a request from `from` would go now, and why.
    ///
    /// # Errors
    /// How it would be refused, or why it is no request.
    pub async fn explain(&self, from: SocketAddr, request: Vec<u8>) -> Result<ExplainReport, String> {
        let view = self.view().await?;
        let mut answers = Vec::new();
        for worker in &self.workers {
            let (reply, answer) = oneshot::channel();
            worker.send(Command::Explain(from, request.clone(), reply));
            answers.push(answer.await.map_err(|_| GONE)??);
        }
        // The shard that has the call knows best; a new call is the same to all.
        let at = answers.iter().position(|answer| answer.known).unwrap_or(0);
        Ok(explain_report(&view, &answers[at]))
    }

    fn ask(&self, ask: Ask) -> Result<(), String> {
        self.asks.send(ask).map_err(|_| GONE.to_owned())
    }

    async fn view(&self) -> Result<View, String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::View(reply))?;
        answer.await.map_err(|_| GONE.to_owned())
    }

    async fn snapshots(&self) -> Result<Vec<ShardSnapshot>, String> {
        let mut snapshots = Vec::new();
        for worker in &self.workers {
            let (reply, answer) = oneshot::channel();
            worker.send(Command::Snapshot(reply));
            snapshots.push(*answer.await.map_err(|_| GONE)?);
        }
        Ok(snapshots)
    }

    async fn oldest_calls(&self) -> Result<BTreeMap<usize, Instant>, String> {
        let mut oldest = BTreeMap::new();
        for worker in &self.workers {
            let (reply, answer) = oneshot::channel();
            worker.send(Command::OldestCalls(reply));
            for (slot, began) in answer.await.map_err(|_| GONE)?.into_iter().enumerate() {
                let Some(began) = began else { continue };
                let first = oldest.entry(slot).or_insert(began);
                *first = began.min(*first);
            }
        }
        Ok(oldest)
    }
}

fn member_report(
    member: MemberView,
    now: Instant,
    load: Load,
    stats: NodeStats,
    oldest_call_seconds: Option<f64>,
) -> MemberReport {
    let node = &member.node;
    let refusal = node.refusal(now, load.calls);
    let ramping = node.capacity_at(now) < node.capacity;
    let state = match refusal {
        Some(balance::Refusal::Unreachable) => "down",
        Some(refusal) => refusal.name(),
        None if ramping => "slow-start",
        None => "up",
    };
    MemberReport {
        name: member.name,
        address: member.address,
        state,
        member: node.member,
        reachable: node.reachable,
        accepting: refusal.is_none(),
        draining: node.draining,
        paused_seconds: node.paused_until.saturating_since(now).as_secs_f64(),
        capacity: node.capacity,
        capacity_now: node.capacity_at(now),
        max_calls: node.max_calls,
        last_probe: member.last_probe.map(|reason| reason.to_string()),
        since_change_seconds: now.saturating_since(member.last_change).as_secs_f64(),
        load,
        oldest_call_seconds,
        stats,
    }
}

fn explain_report(view: &View, explanation: &Explanation) -> ExplainReport {
    let address = |slot: balance::Slot| view.members.get(slot.index()).map(|member| member.address);
    let (node, why) = match explanation.decision {
        Decision::Forward { slot, why } => (address(slot), why.name()),
        Decision::Search => (None, "sent to every member: nobody here knows its INVITE"),
        Decision::Orphan => (None, "in a dialog that nobody here knows: the rule for orphans"),
        Decision::NoServer => (None, "503: no member takes new calls"),
    };
    let candidates = explanation.verdicts.iter().filter_map(|verdict| {
        let candidate = verdict.candidate;
        let refusal = verdict.refusal.map(balance::Refusal::name);
        Some((address(candidate.slot)?, candidate.load, candidate.capacity, refusal))
    });
    let named = |id| view.members.iter().find(|member| member.node.id == id).map(|member| member.address);
    ExplainReport {
        node,
        why,
        policy: explanation.policy,
        known: explanation.known,
        token: explanation.token.and_then(named),
        candidates: candidates.collect(),
    }
}

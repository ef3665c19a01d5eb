//! Building blocks of canaries, and the plans that they run in.

use base::{Flow, Instant, Transport};
use control::Drainer;
use control::scale::{DriverServer, Order};
use dialog::CallRecord;
use distribute::Function;
use route::Forward;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use swarm::{
    Destination, FilePlan, Plan, PlannedAction, Severity, Shown, SiteProcess, SiteRole, Wrapper, site_address,
};
use swarm::{ProcessInput, Sent};
use swarm::{draw, run_with};
use wire::{Message, Method};

/// Most plans that a canary is tried in until its rule is reported.
const PLANS: usize = 30;

/// Progress of a forwarded INVITE.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Silent,
    Ringing,
    Answered,
}

struct Invite {
    site: u16,
    call: Vec<u8>,
    stage: Stage,
    sent: Sent,
}

/// State of a canary during a run.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) count: u32,
    pub(crate) kept: Vec<Sent>,
    pub(crate) seen: BTreeSet<Vec<u8>>,
    pub(crate) records: Vec<CallRecord>,
    /// Servers that were ordered to stop.
    pub(crate) servers: Vec<DriverServer>,
    invites: Vec<Invite>,
}

impl Memory {
    /// Returns true at every `every`-th call.
    pub(crate) fn turn(&mut self, every: u32) -> bool {
        self.count += 1;
        self.count.is_multiple_of(every)
    }

    /// Returns the last INVITE that this process forwarded and that is at this stage.
    pub(crate) fn invite(&self, at: SiteProcess, stage: Stage) -> Option<Sent> {
        let fits = |invite: &&Invite| (invite.site, invite.stage) == (at.site, stage);
        self.invites.iter().rev().find(fits).map(|invite| invite.sent.clone())
    }

    /// Returns the INVITE of this call that this process forwarded.
    pub(crate) fn invite_of(&self, at: SiteProcess, call: &[u8]) -> Option<Sent> {
        let fits = |invite: &&Invite| invite.site == at.site && invite.call == call;
        self.invites.iter().rev().find(fits).map(|invite| invite.sent.clone())
    }

    fn note(&mut self, at: SiteProcess, cause: ProcessInput<'_>, sent: &[Sent]) {
        if let ProcessInput::Datagram { bytes, .. } = cause
            && is_response(bytes, Method::Invite, 100..700)
        {
            let (call, status) = (call_of(bytes), scanned(bytes).status());
            let stage = if status < Some(200) { Stage::Ringing } else { Stage::Answered };
            for invite in &mut self.invites {
                if invite.site == at.site && invite.call == call && invite.stage != Stage::Answered {
                    invite.stage = stage;
                }
            }
        }
        for one in sent.iter().filter(|one| is(&one.bytes, "INVITE")) {
            let call = call_of(&one.bytes);
            if self.invite_of(at, &call).is_none() {
                self.invites.push(Invite { site: at.site, call, stage: Stage::Silent, sent: one.clone() });
            }
        }
    }
}

type Says = dyn Fn(&mut Memory, SiteProcess, ProcessInput<'_>, &mut Vec<Sent>) + Send + Sync;
type Writes = dyn Fn(&mut Memory, &mut Vec<CallRecord>) + Send + Sync;
type Orders = dyn Fn(&mut Memory, &mut Vec<Order>) + Send + Sync;
type Shows = dyn Fn(&mut Memory, &mut Shown) + Send + Sync;
/// Selects datagrams.
pub(crate) type Kind = fn(&[u8]) -> bool;

/// A fault that breaks one rule.
#[derive(Clone)]
pub(crate) struct Canary {
    pub(crate) rule: &'static str,
    pub(crate) fits: fn(&Plan) -> bool,
    prepare: fn(&mut Plan),
    hears: fn(&mut Memory, &mut Vec<u8>),
    swallows: fn(&[u8]) -> bool,
    says: Arc<Says>,
    writes: Arc<Writes>,
    shows: Arc<Shows>,
    orders: Arc<Orders>,
    drains_as: Drainer,
    answers: fn(&mut Memory, &mut Sent),
    carries: fn(&mut Memory, &mut Vec<u8>),
    hands_over: bool,
}

impl Canary {
    pub(crate) fn new(rule: &'static str, fits: fn(&Plan) -> bool) -> Self {
        Self {
            rule,
            fits,
            prepare: |_| {},
            hears: |_, _| {},
            swallows: |_| false,
            says: Arc::new(|_, _, _, _| {}),
            writes: Arc::new(|_, _| {}),
            shows: Arc::new(|_, _| {}),
            orders: Arc::new(|_, _| {}),
            drains_as: Drainer::Scaler,
            answers: |_, _| {},
            carries: |_, _| {},
            hands_over: true,
        }
    }

    /// Changes the plan before the run.
    pub(crate) fn prepare(self, prepare: fn(&mut Plan)) -> Self {
        Self { prepare, ..self }
    }

    /// Changes a process's incoming datagrams.
    pub(crate) fn hears(self, hears: fn(&mut Memory, &mut Vec<u8>)) -> Self {
        Self { hears, ..self }
    }

    /// Drops incoming datagrams of a kind.
    pub(crate) fn swallows(self, swallows: fn(&[u8]) -> bool) -> Self {
        Self { swallows, ..self }
    }

    /// Changes the messages that a process sends.
    pub(crate) fn says(
        self,
        says: impl Fn(&mut Memory, SiteProcess, ProcessInput<'_>, &mut Vec<Sent>) + Send + Sync + 'static,
    ) -> Self {
        Self { says: Arc::new(says), ..self }
    }

    /// Changes each sent datagram of a kind.
    pub(crate) fn tampers(self, kind: Kind, change: fn(&mut Sent)) -> Self {
        self.says(move |_, _, _, sent| sent.iter_mut().filter(|one| kind(&one.bytes)).for_each(change))
    }

    /// Changes the messages that a process sends for an incoming datagram of a kind.
    pub(crate) fn on(
        self,
        kind: Kind,
        act: fn(&mut Memory, SiteProcess, &[u8], SocketAddr, &mut Vec<Sent>),
    ) -> Self {
        self.says(move |memory, at, cause, sent| {
            if let ProcessInput::Datagram { from, bytes } = cause
                && kind(bytes)
            {
                act(memory, at, bytes, from, sent);
            }
        })
    }

    /// Changes the messages that a process sends at a timer.
    pub(crate) fn on_timer(self, act: fn(&mut Memory, SiteProcess, &mut Vec<Sent>)) -> Self {
        self.says(move |memory, at, cause, sent| {
            if matches!(cause, ProcessInput::Timer) {
                act(memory, at, sent);
            }
        })
    }

    /// Changes the records that a process writes.
    pub(crate) fn writes(
        self,
        writes: impl Fn(&mut Memory, &mut Vec<CallRecord>) + Send + Sync + 'static,
    ) -> Self {
        Self { writes: Arc::new(writes), ..self }
    }

    /// Changes the state that a process reports.
    pub(crate) fn shows(self, shows: impl Fn(&mut Memory, &mut Shown) + Send + Sync + 'static) -> Self {
        Self { shows: Arc::new(shows), ..self }
    }

    /// Changes the orders of a scaler.
    pub(crate) fn orders(
        self,
        orders: impl Fn(&mut Memory, &mut Vec<Order>) + Send + Sync + 'static,
    ) -> Self {
        Self { orders: Arc::new(orders), ..self }
    }

    /// Makes a scaler drain as an operator.
    pub(crate) fn drains_as_operator(self) -> Self {
        Self { drains_as: Drainer::Operator, ..self }
    }

    /// Changes a message of an answerer.
    pub(crate) fn answers(self, answers: fn(&mut Memory, &mut Sent)) -> Self {
        Self { answers, ..self }
    }

    /// Changes the pieces of connections.
    pub(crate) fn carries(self, carries: fn(&mut Memory, &mut Vec<u8>)) -> Self {
        Self { carries, ..self }
    }

    /// Leaves datagrams with the shard that got them.
    pub(crate) fn keeps(self) -> Self {
        Self { hands_over: false, ..self }
    }

    /// Runs plans until one reports the broken rule.
    ///
    /// # Errors
    /// Lists the other reports.
    pub(crate) fn is_noticed(&self) -> Result<(), String> {
        let mut findings = Vec::new();
        for mut plan in (0..).map(draw).filter(self.fits).take(PLANS) {
            (self.prepare)(&mut plan);
            let broken = WrappedCanary { canary: self.clone(), memory: Memory::default() };
            match run_with(plan, broken).outcome {
                Err(found) if found.starts_with(&format!("{}: ", self.rule)) => return Ok(()),
                found => findings.push(found.map(|_| ())),
            }
        }
        Err(format!("\"{}\" is not noticed: {:?}", self.rule, &findings[..findings.len().min(3)]))
    }
}

struct WrappedCanary {
    canary: Canary,
    memory: Memory,
}

impl Wrapper for WrappedCanary {
    fn hears(&mut self, bytes: &mut Vec<u8>) -> bool {
        (self.canary.hears)(&mut self.memory, bytes);
        !(self.canary.swallows)(bytes)
    }

    fn says(&mut self, at: SiteProcess, cause: ProcessInput<'_>, sent: &mut Vec<Sent>) {
        self.memory.note(at, cause, sent);
        (self.canary.says)(&mut self.memory, at, cause, sent);
    }

    fn hands_over(&mut self) -> bool {
        self.canary.hands_over
    }

    fn writes(&mut self, records: &mut Vec<CallRecord>) {
        if !records.is_empty() {
            (self.canary.writes)(&mut self.memory, records);
        }
    }

    fn shows(&mut self, shown: &mut Shown) {
        (self.canary.shows)(&mut self.memory, shown);
    }

    fn orders(&mut self, orders: &mut Vec<Order>) {
        (self.canary.orders)(&mut self.memory, orders);
    }

    fn drains_as(&mut self) -> Drainer {
        self.canary.drains_as
    }

    fn carries(&mut self, piece: &mut Vec<u8>) {
        (self.canary.carries)(&mut self.memory, piece);
    }

    fn answers(&mut self, sent: &mut Sent) {
        (self.canary.answers)(&mut self.memory, sent);
    }
}

// Plans.

fn is_balancer(role: &SiteRole) -> bool {
    matches!(role, SiteRole::Balancer(_))
}

/// Plans over TCP.
pub(crate) fn over_tcp(plan: &Plan) -> bool {
    plan.transport == Transport::Tcp
}

/// Plans with balancers only.
pub(crate) fn balancer(plan: &Plan) -> bool {
    plan.sites.iter().all(|site| is_balancer(&site.role))
}

fn is_proxy(role: &SiteRole) -> bool {
    matches!(role, SiteRole::Proxy(_))
}

fn shares(role: &SiteRole) -> bool {
    is_proxy(role) && role.forwards(Forward::Distributed)
}

fn forks(role: &SiteRole) -> bool {
    is_proxy(role) && role.file().is_some_and(FilePlan::forks)
}

/// Plans with proxies only, which keep all transactions and send each request to one next hop.
pub(crate) fn proxy(plan: &Plan) -> bool {
    let is_plain = |role: &SiteRole| is_proxy(role) && !shares(role) && !forks(role);
    plan.sites.iter().all(|site| is_plain(&site.role))
}

/// Plans in which a proxy forks.
pub(crate) fn forking(plan: &Plan) -> bool {
    plan.sites.iter().any(|site| forks(&site.role))
}

/// Plans in which a proxy keeps the state of calls.
pub(crate) fn keeping_calls(plan: &Plan) -> bool {
    let keeps = |role: &SiteRole| is_proxy(role) && role.forwards(Forward::Dialog);
    plan.sites.iter().any(|site| keeps(&site.role))
}

/// Plans in which a balancer has a queue.
pub(crate) fn queueing(plan: &Plan) -> bool {
    let has_queue =
        |role: &SiteRole| matches!(role, SiteRole::Balancer(file) if file.pools[0].settings.queue.is_some());
    plan.sites.iter().any(|site| has_queue(&site.role))
}

/// Plans in which a balancer starts and stops its servers.
pub(crate) fn scaled(plan: &Plan) -> bool {
    plan.sites.iter().any(|site| site.role.scale().is_some())
}

/// Plans whose proxies share out the state of calls.
pub(crate) fn sharing(plan: &Plan) -> bool {
    plan.sites.iter().all(|site| shares(&site.role))
}

/// Plans whose proxies share out this function, with authentication or without.
fn sharing_with(plan: &Plan, function: Function, has_users: bool) -> bool {
    let shares =
        |file: &FilePlan| file.shared_function() == Some(function) && file.users.is_some() == has_users;
    plan.sites.iter().all(|site| site.role.file().is_some_and(shares))
}

/// Plans whose proxies share out transactions alone.
pub(crate) fn sharing_transactions(plan: &Plan) -> bool {
    sharing_with(plan, Function::State, false)
}

/// Plans whose proxies share out dialogs and records too.
pub(crate) fn sharing_dialogs(plan: &Plan) -> bool {
    sharing_with(plan, Function::Dialog, false)
}

/// Plans whose proxies share out transactions and authentication.
pub(crate) fn sharing_authentication(plan: &Plan) -> bool {
    sharing_with(plan, Function::State, true)
}

/// Plans whose proxies share out all three.
pub(crate) fn sharing_all(plan: &Plan) -> bool {
    sharing_with(plan, Function::Dialog, true)
}

/// Plans with a registrar and its users' phones.
pub(crate) fn home(plan: &Plan) -> bool {
    plan.sites.iter().all(|site| matches!(site.role, SiteRole::Home(_)))
}

/// Plans with sites of several pools.
pub(crate) fn mixed(plan: &Plan) -> bool {
    plan.sites.iter().all(|site| matches!(site.role, SiteRole::Mixed(_)))
}

/// Plans with a balancer whose members are several proxies.
pub(crate) fn balancer_first(plan: &Plan) -> bool {
    plan.sites.iter().any(|site| {
        let targets = site.role.targets();
        is_balancer(&site.role)
            && targets.len() > 1
            && targets.iter().all(|to| matches!(to, Destination::Site(_)))
    })
}

/// Plans with balancers only in which no call may fail.
pub(crate) fn gentle(plan: &Plan) -> bool {
    balancer(plan) && plan.severity == Severity::Gentle
}

/// Removes all faults from the plan.
pub(crate) fn calm(plan: &mut Plan) {
    plan.rules.clear();
    plan.actions.clear();
}

pub(crate) fn act(plan: &mut Plan, millis: u64, action: PlannedAction) {
    plan.actions.push((Instant::from_millis(millis), action));
    plan.actions.sort_by_key(|&(at, _)| at);
}

/// Address of the sending process.
pub(crate) fn own(at: SiteProcess) -> SocketAddr {
    site_address(at.site)
}

// Messages.

pub(crate) fn scanned(bytes: &[u8]) -> Message<'_> {
    wire::scan(bytes).expect("canaries see only SIP messages")
}

pub(crate) fn is(bytes: &[u8], method: &str) -> bool {
    bytes.starts_with(method.as_bytes()) && bytes.get(method.len()) == Some(&b' ')
}

/// Returns true if this process sent this request.
pub(crate) fn sent_by(at: SiteProcess, one: &Sent) -> bool {
    let message = scanned(&one.bytes);
    let via = message.top_via();
    via.host.ip().zip(via.port).map(SocketAddr::from) == Some(own(at))
}

/// Returns true for a response to this method with a status in this range.
pub(crate) fn is_response(bytes: &[u8], method: Method, status: core::ops::Range<u16>) -> bool {
    wire::scan(bytes).is_ok_and(|message| {
        message.status().is_some_and(|is| status.contains(&is)) && message.cseq().method == method
    })
}

pub(crate) fn is_any_response(bytes: &[u8]) -> bool {
    bytes.starts_with(b"SIP/2.0 ")
}

pub(crate) fn is_request(bytes: &[u8]) -> bool {
    wire::scan(bytes).is_ok_and(|message| message.method().is_some())
}

/// Returns true for a request made by the sender itself: it has one Via.
pub(crate) fn is_own(bytes: &[u8], method: &str) -> bool {
    is(bytes, method) && !scanned(bytes).has_lower_vias()
}

pub(crate) fn call_of(bytes: &[u8]) -> Vec<u8> {
    scanned(bytes).call_id().to_vec()
}

fn edit(bytes: &mut Vec<u8>, change: impl FnOnce(String) -> String) {
    let text = String::from_utf8(core::mem::take(bytes)).expect("agents write text");
    *bytes = change(text).into_bytes();
}

/// Replaces the first occurrence of a text.
pub(crate) fn replace(bytes: &mut Vec<u8>, from: &str, to: &str) {
    edit(bytes, |text| text.replacen(from, to, 1));
}

/// Replaces the value of a header line, after skipping `skip` lines of that name.
pub(crate) fn line(bytes: &mut Vec<u8>, name: &str, skip: usize, change: impl FnOnce(&str) -> String) {
    edit(bytes, |text| {
        let start = format!("\r\n{name}: ");
        let Some((at, _)) = text.match_indices(&start).nth(skip) else { return text };
        let at = at + start.len();
        let end = at + text[at..].find("\r\n").expect("lines end");
        format!("{}{}{}", &text[..at], change(&text[at..end]), &text[end..])
    });
}

/// Removes the first line of a name.
pub(crate) fn without(bytes: &mut Vec<u8>, name: &str) {
    edit(bytes, |text| {
        let Some(at) = text.find(&format!("\r\n{name}: ")) else { return text };
        let end = at + 2 + text[at + 2..].find("\r\n").expect("lines end");
        format!("{}{}", &text[..at], &text[end..])
    });
}

/// Adds a line before the first one of a name.
pub(crate) fn add(bytes: &mut Vec<u8>, before: &str, new: &str) {
    edit(bytes, |text| text.replacen(&format!("\r\n{before}: "), &format!("\r\n{new}\r\n{before}: "), 1));
}

/// Duplicates the topmost Via.
pub(crate) fn double_via(bytes: &mut Vec<u8>) {
    line(bytes, "Via", 0, |via| format!("{via}\r\nVia: {via}"));
}

/// Adds a byte to the body.
pub(crate) fn embody(bytes: &mut Vec<u8>) {
    let length = scanned(bytes).body().len() + 1;
    line(bytes, "Content-Length", 0, |_| length.to_string());
    bytes.push(b'x');
}

/// Changes the last character of a Via's branch.
pub(crate) fn rebranch(bytes: &mut Vec<u8>, via: usize) {
    line(bytes, "Via", via, |value| {
        let start = value.find("branch=").expect("every Via has a branch") + 7;
        let end = value[start..].find(';').map_or(value.len(), |length| start + length);
        let last = if &value[end - 1..end] == "a" { "b" } else { "a" };
        format!("{}{last}{}", &value[..end - 1], &value[end..])
    });
}

pub(crate) fn restatus(bytes: &mut [u8], to: u16) {
    let to = format!("SIP/2.0 {to}");
    bytes[..to.len()].copy_from_slice(to.as_bytes());
}

pub(crate) fn elsewhere(sent: &mut Sent) {
    let port = sent.to.port() ^ 1;
    sent.to.set_port(port);
}

/// Makes a response to a request.
pub(crate) fn response(request: &[u8], from: SocketAddr, status: u16) -> Sent {
    let mut bytes = Vec::new();
    wire::write_response(&scanned(request), from, status, "Made up", "canary", &[], &mut bytes);
    let to = wire::request_source_target(scanned(request).top_via(), from).unwrap_or(from);
    Sent::by(Flow::udp(0, to), bytes)
}

/// Forwards a response by its next Via.
pub(crate) fn passed_on(response: &[u8]) -> Option<Sent> {
    let to = wire::response_target(&scanned(response).second_via()?)?;
    let mut bytes = response.to_vec();
    without(&mut bytes, "Via");
    Some(Sent::by(Flow::udp(0, to), bytes))
}

/// Makes the ACK or CANCEL of an INVITE's sender: only the topmost Via, and no body.
pub(crate) fn made_of(invite: &Sent, method: &str) -> Sent {
    let mut sent = invite.clone();
    while scanned(&sent.bytes).has_lower_vias() {
        edit(&mut sent.bytes, |text| {
            let (at, _) = text.match_indices("\r\nVia: ").nth(1).expect("it has lower Vias");
            let end = at + 2 + text[at + 2..].find("\r\n").expect("lines end");
            format!("{}{}", &text[..at], &text[end..])
        });
    }
    let body = scanned(&sent.bytes).body().len();
    sent.bytes.truncate(sent.bytes.len() - body);
    line(&mut sent.bytes, "Content-Length", 0, |_| "0".to_owned());
    replace(&mut sent.bytes, "INVITE ", &format!("{method} "));
    line(&mut sent.bytes, "CSeq", 0, |cseq| cseq.replace("INVITE", method));
    sent
}

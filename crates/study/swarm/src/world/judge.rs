//! What came of a run.

use super::host::Role;
use super::{PlannedAction, World, Wrapper};
use crate::RunRule;
use crate::plan::{FilePlan, HomePlan, Severity, SiteRole};
use core::time::Duration;
use load::{AnswererResults, CallResults};
use proxy::ProxyTimers;
use route::Forward;
use sim::engine::Trace;

/// How much happened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Calls that were started.
    pub calls: u64,
    /// Things that were done to hosts.
    pub actions: u64,
    /// Servers that have come up since their balancer had them started.
    pub servers_started: u64,
    /// Servers that were stopped since their balancer wanted it.
    pub servers_stopped: u64,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How much happened.
    pub counts: Counts,
    /// Digest of all of it: equal for two runs that went the same way.
    pub trace: Trace,
    /// What the callers counted, all together.
    pub callers: CallResults,
    /// What the answerers that live at the end counted, all together.
    pub answerers: AnswererResults,
}

impl<W: Wrapper> World<W> {
    pub(super) fn summary(&self) -> Summary {
        let mut callers = CallResults::default();
        self.callers().for_each(|caller| callers.merge(caller.results()));
        let mut answerers = AnswererResults::default();
        for host in &self.hosts {
            if let Role::Answerer { agent: Some(agent), .. } = &host.role {
                answerers.merge(agent.results());
            }
        }
        let counts = Counts { calls: callers.calls_started, ..self.counts };
        Summary { counts, trace: self.trace, callers, answerers }
    }

    /// How long a process may remember a call after its last message.
    pub(super) fn memory(&self) -> Duration {
        // A cancelled INVITE is given up after 64*T1, and what is final stays for as long.
        let of_transactions = |timers: &ProxyTimers| timers.c + timers.transaction.t1 * (3 * 64);
        let of_site = |site: &super::SitePlan| match &site.role {
            SiteRole::Home(HomePlan { timers, .. }) => of_transactions(timers),
            SiteRole::Balancer(file) => of_table(file) + file.sessions.call_lifetime,
            SiteRole::Proxy(file) => {
                let of_calls = if file.keeps_dialogs() { file.calls.silence } else { Duration::ZERO };
                of_transactions(&file.timers) + of_calls
            }
            SiteRole::Mixed(file) => {
                // No call of a gentle plan is lost, so none has to be forgotten for its silence.
                let is_lasting = self.plan.care == Severity::Gentle;
                let lost = file.calls.silence.max(file.sessions.call_lifetime);
                let lost = if is_lasting { Duration::ZERO } else { lost };
                lost + of_table(file) + of_transactions(&file.timers)
            }
        };
        self.sites.iter().map(of_site).max().unwrap_or_default()
    }

    /// What must hold of the calls when all of them are over.
    pub(super) fn judge_calls(&self, Summary { callers, answerers, .. }: &Summary) -> Result<(), String> {
        // The entry of a chain refuses what no proxy of it has room for.
        let is_entry = self.plan.files().any(|file| file.forwards(Forward::Distributed));
        let most = if is_entry { self.checkers.turned_away() } else { 0 };
        let turned_away =
            |results: &CallResults| results.calls_refused.get(&503).map_or(0, |refused| most.min(*refused));
        for (plan, caller) in self.plan.callers.iter().zip(self.callers()) {
            let results = caller.results();
            let done = results.calls_completed + turned_away(results);
            let all = results.calls_completed > 0 && done == results.calls_started;
            if plan.must_succeed && !all {
                return Err(RunRule::NotAll.broken(format_args!("{}", outcomes(results))));
            }
        }
        let byes_failed = callers.bye_timeouts + callers.bye_refused.values().sum::<u64>();
        if answerers.calls_in_progress > byes_failed + callers.forks_hung_up {
            let left = answerers.calls_in_progress;
            return Err(RunRule::AnswerersLeft.broken(format_args!("{left}, {}", outcomes(callers))));
        }
        if self.plan.care != Severity::Gentle {
            return Ok(());
        }
        // A restart in the middle of a transaction, of a call that is older than the key: the BYE comes under another
        // branch then, and whoever has answered it knows the call no more.
        let acts = |is: fn(&PlannedAction) -> bool| self.plan.actions.iter().any(|(_, action)| is(action));
        let is_rebranched = acts(|action| matches!(action, PlannedAction::Rekey))
            && acts(|action| matches!(action, PlannedAction::Fail(_)));
        // And both sides of a call hang up at once, a proxy that ends calls being one.
        let is_limited = self.plan.files().any(|file| file.calls.longest.is_some());
        let ended_twice = callers.bye_refused.get(&481).copied().filter(|_| is_rebranched || is_limited);
        let ended_twice = ended_twice.unwrap_or_default();
        // A balancer that has just started takes the servers of a scaled pool that do not run for running. A call that is
        // cancelled there goes to no other one, and its caller waits in vain for 487 (RFC 3261 §9.1).
        let is_scaled = self.plan.files().any(|file| file.scale.is_some())
            && acts(|action| matches!(action, PlannedAction::Fail(_)));
        let given_up = if is_scaled { self.checkers.given_up() } else { 0 };
        let lost = self.checkers.lost() + given_up + ended_twice + turned_away(callers);
        if callers.calls_failed() > lost {
            return Err(RunRule::Failed.broken(format_args!("{lost} died, {}", outcomes(callers))));
        }
        // A table that was lost and a node that is dead, or seems to be, are the only reasons to ask a second node.
        let may_fork = self.plan.actions.iter().any(|(_, action)| match action {
            PlannedAction::Fail(_) | PlannedAction::TakeOver(_) | PlannedAction::Die { .. } => true,
            PlannedAction::Stall(host, _) => *host >= self.plan.process_host(0),
            _ => false,
        });
        // One that is being started may get an INVITE after it has gone on to another one.
        let may_fork = may_fork || !self.drivers.is_empty() || self.plan.files().any(FilePlan::forks);
        if !may_fork && (callers.forks_hung_up, callers.wrong_server) != (0, 0) {
            return Err(RunRule::TwoServers.broken(format_args!("{}", outcomes(callers))));
        }
        Ok(())
    }
}

/// How long the session table remembers a call that has ended.
fn of_table(file: &FilePlan) -> Duration {
    file.sessions.linger * 2 + file.sessions.invite_timeout
}

fn outcomes(results: &CallResults) -> String {
    format!(
        "{} started, {} completed, refused {:?}, {} abandoned, {} answered late, {} INVITE time-outs, {} BYE time-outs, BYE refused {:?}, \
         {} forks, {} at a wrong server",
        results.calls_started,
        results.calls_completed,
        results.calls_refused,
        results.calls_abandoned,
        results.calls_answered_late,
        results.invite_timeouts,
        results.bye_timeouts,
        results.bye_refused,
        results.forks_hung_up,
        results.wrong_server
    )
}

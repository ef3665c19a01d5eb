//! Result of a run: statistics, and rules for the calls as a whole.

use super::host::Role;
use super::{PlannedAction, World, Wrapper};
use crate::RunRule;
use crate::plan::{FilePlan, HomePlan, Severity, SiteRole};
use core::time::Duration;
use load::{AnswererResults, CallResults};
use proxy::ProxyTimers;
use route::Forward;
use sim::engine::Trace;

/// Statistics of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Calls started.
    pub calls: u64,
    /// Actions on hosts.
    pub actions: u64,
    /// Servers started by order of their balancer.
    pub servers_started: u64,
    /// Servers stopped by order of their balancer.
    pub servers_stopped: u64,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Statistics.
    pub counts: Counts,
    /// Digest of all events: equal for two runs that went the same way.
    pub trace: Trace,
    /// Totals of the callers.
    pub callers: CallResults,
    /// Totals of the answerers alive at the end.
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

    /// Returns the longest time that a process may remember a call after its last message.
    pub(super) fn memory(&self) -> Duration {
        // A cancelled INVITE is given up after 64*T1, and a final state lasts as long again.
        let of_transactions = |timers: &ProxyTimers| timers.c + timers.transaction.t1 * (3 * 64);
        let of_site = |site: &super::SitePlan| match &site.role {
            SiteRole::Home(HomePlan { timers, .. }) => of_transactions(timers),
            SiteRole::Balancer(file) => of_table(file) + file.sessions.call_lifetime,
            SiteRole::Proxy(file) => {
                let of_calls = if file.keeps_dialogs() { file.calls.silence } else { Duration::ZERO };
                of_transactions(&file.timers) + of_calls
            }
            SiteRole::Mixed(file) => {
                // No call of a gentle plan is lost, so the silence limit never applies.
                let is_lasting = self.plan.severity == Severity::Gentle;
                let lost = file.calls.silence.max(file.sessions.call_lifetime);
                let lost = if is_lasting { Duration::ZERO } else { lost };
                lost + of_table(file) + of_transactions(&file.timers)
            }
        };
        self.sites.iter().map(of_site).max().unwrap_or_default()
    }

    /// Checks the results of all calls after they have ended.
    pub(super) fn judge_calls(&self, Summary { callers, answerers, .. }: &Summary) -> Result<(), String> {
        // The entry of a chain refuses calls that no proxy of the chain has room for.
        let is_entry = self.plan.files().any(|file| file.forwards(Forward::Distributed));
        let most = if is_entry { self.checkers.turned_away() } else { 0 };
        let turned_away =
            |results: &CallResults| results.calls_refused.get(&503).map_or(0, |refused| most.min(*refused));
        for (plan, caller) in self.plan.callers.iter().zip(self.callers()) {
            let results = caller.results();
            let done = results.calls_completed + turned_away(results);
            let all = results.calls_completed > 0 && done == results.calls_started;
            if plan.must_succeed && !all {
                return Err(RunRule::FailedWithoutFaults.broken(format_args!("{}", outcomes(results))));
            }
        }
        let byes_failed = callers.bye_timeouts + callers.bye_refused.values().sum::<u64>();
        if answerers.calls_in_progress > byes_failed + callers.forks_hung_up {
            let left = answerers.calls_in_progress;
            return Err(RunRule::AnswerersLeft.broken(format_args!("{left}, {}", outcomes(callers))));
        }
        if self.plan.severity != Severity::Gentle {
            return Ok(());
        }
        // If a process restarts in a transaction of a call older than the key, its BYE is forwarded with another
        // branch. The answerer no longer knows the call then and sends 481.
        let acts = |is: fn(&PlannedAction) -> bool| self.plan.actions.iter().any(|(_, action)| is(action));
        let is_rebranched = acts(|action| matches!(action, PlannedAction::Rekey))
            && acts(|action| matches!(action, PlannedAction::Fail(_)));
        // Both sides may hang up at once: a proxy that ends calls counts as a side.
        let is_limited = self.plan.files().any(|file| file.calls.longest.is_some());
        let ended_twice = callers.bye_refused.get(&481).copied().filter(|_| is_rebranched || is_limited);
        let ended_twice = ended_twice.unwrap_or_default();
        // A balancer that has just started treats stopped servers of a scaled pool as running. A call sent there and
        // cancelled goes to no other server, and its caller waits in vain for 487 (RFC 3261 §9.1).
        let is_scaled = self.plan.files().any(|file| file.scale.is_some())
            && acts(|action| matches!(action, PlannedAction::Fail(_)));
        let given_up = if is_scaled { self.checkers.given_up() } else { 0 };
        let lost = self.checkers.lost() + given_up + ended_twice + turned_away(callers);
        if callers.calls_failed() > lost {
            return Err(RunRule::TooManyFailed.broken(format_args!("{lost} lost, {}", outcomes(callers))));
        }
        // A second node gets a call only after a session table was lost, or if a node is dead or seems to be.
        let may_fork = self.plan.actions.iter().any(|(_, action)| match action {
            PlannedAction::Fail(_) | PlannedAction::TakeOver(_) | PlannedAction::Die { .. } => true,
            PlannedAction::Stall(host, _) => *host >= self.plan.process_host(0),
            _ => false,
        });
        // A server that is starting may get an INVITE after the call has gone to another server.
        let may_fork = may_fork || !self.drivers.is_empty() || self.plan.files().any(FilePlan::forks);
        if !may_fork && (callers.forks_hung_up, callers.wrong_server) != (0, 0) {
            return Err(RunRule::TwoServers.broken(format_args!("{}", outcomes(callers))));
        }
        Ok(())
    }
}

/// Returns how long the session table remembers an ended call.
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

//! Records of requests that failed with a transaction. The targets and their results are at hand when the request ends.

use super::form::Editor;
use super::received::Received;
use super::targets::{Candidate, Fate, Source};
use crate::outcome::failure::FailureCause;
use crate::trace::failed::{FailedRequest, Tried, TriedResult};
use ::proxy::ProxyEvent;
use base::Flow;

impl Editor<'_> {
    /// Records a request that ends with this status, unless it has succeeded. `own_reason`: reason phrase if the
    /// response is of this proxy.
    pub(super) fn note_failure(&mut self, request: &Received, status: u16, own_reason: Option<&'static str>) {
        let is_own = own_reason.is_some();
        let cause = own_reason
            .map_or(FailureCause::Answered { status }, |reason| FailureCause::Refused { status, reason });
        // A caller gives up because no target has answered.
        let is_silent =
            || tried(self, request, status, is_own).iter().all(|of| of.result == TriedResult::Silent);
        if !(cause.is_failure() || status == 487 && is_silent()) {
            return;
        }
        let now = self.site.now;
        let tried = tried(self, request, status, is_own);
        let rule = request.rule.as_ref().map_or("", |rule| &*rule.routes.rule(rule.index).name);
        self.site.failures.note(now, request.flow.peer.ip(), cause, true, || FailedRequest {
            arrived: request.arrived,
            route: rule.into(),
            tried: tried.into(),
            ..FailedRequest::new(now, &request.message(), request.flow.remote(), cause)
        });
    }
}

/// Returns the targets that got a request, with their results.
fn tried(editor: &Editor<'_>, request: &Received, status: u16, is_own: bool) -> Vec<Tried> {
    let answered = (!is_own).then_some(status);
    let (targets, site) = (&request.targets, &*editor.site);
    if let Source::Uri(target) = &targets.source {
        let result = match (answered, status) {
            (Some(status), _) => TriedResult::Answered(status),
            (None, 408 | 487) => TriedResult::Silent,
            (None, 430) => TriedResult::ConnectionLost,
            (None, 500 | 503) => TriedResult::Unreachable,
            (None, _) => return Vec::new(),
        };
        return vec![Tried { target: target.hop.remote(), at: request.arrived, result }];
    }
    let flow_of = |candidate: &Candidate| -> Option<Flow> {
        match &targets.source {
            Source::Pool(_) => Some(site.topology.node(candidate.slot())),
            Source::Contacts(contacts) => {
                contacts.get(usize::from(candidate.target)).map(|contact| contact.hop)
            }
            Source::Uri(_) => None,
        }
    };
    let current = targets.current().map(|current| current.attempt);
    let tried = targets.candidates.iter().filter_map(|candidate| {
        let result = match candidate.fate {
            Fate::Planned | Fate::Settled(ProxyEvent::Cancelled) => return None,
            Fate::Sent | Fate::Silent | Fate::Settled(ProxyEvent::Timeout) => TriedResult::Silent,
            Fate::Settled(ProxyEvent::Unreachable) => TriedResult::Unreachable,
            Fate::Settled(ProxyEvent::FlowFailed) => TriedResult::ConnectionLost,
            Fate::Settled(ProxyEvent::TimerC) => TriedResult::NoFinalResponse,
            // The first response is recorded. Of a single target the last one is known, too.
            Fate::Settled(ProxyEvent::Response(first @ ..200)) => match answered {
                Some(last) if current == Some(candidate.attempt) => TriedResult::Answered(last),
                None if status == 408 => TriedResult::NoFinalResponse,
                _ => TriedResult::Answered(first),
            },
            Fate::Settled(ProxyEvent::Response(status)) => TriedResult::Answered(status),
        };
        Some(Tried { target: flow_of(candidate)?.remote(), at: candidate.since, result })
    });
    tried.collect()
}

//! The destination of a request, and the reasons for it.

use super::NeighbourView;
use super::contacts::ContactView;
use super::members::work;
use super::metric::figures;
use super::peer::PeerText;
use super::view::View;
use crate::registrations::UserContacts;
use balance::{Candidate, CandidateVerdict, MemberRoom, NodeDecision, NodeRefusal, Slot, Why};
use control::ListedMember;
use node::{Explanation, PassedOver, QueueTurn, RouteTaken};
use route::{EditStep, FailoverCause};

figures! {
    /// `POST /api/explain`
    ExplanationView as "Explanation" {
        /// Member that the request would go to; `null` if there is none.
        member: Option<PeerText>,
        /// Reason for the choice of the member: `policy`, `queue`, `session`, `token` or `moved`. If no member gets the
        /// request, its result: `waits` (in the queue of its pool), `full` (no room in that queue), `located`,
        /// `outside`, `search`, `rejected`, `unavailable`, `busy` (every member that takes calls is at the limit that
        /// `candidates` name).
        why: String,
        /// User to whose contacts the request would go (`located`), as USER@DOMAIN; otherwise `null`.
        user: Option<String>,
        /// Contacts of this user in the order in which they are tried; empty if the user has not registered.
        contacts: Vec<ContactView>,
        /// Destination outside all pools, by the request's Route or Request-URI (`outside`); otherwise `null`.
        outside: Option<PeerText>,
        /// Route that the request takes; `null` without one.
        route: Option<Route>,
        /// Pools of the route that were tried first and could not take the request.
        passed_over: Vec<PassedOverView>,
        /// Pool whose policy chose, or that could not take the request; `null` if no pool was tried.
        pool: Option<String>,
        /// Name of the policy of the request's pool.
        policy: String,
        /// Whether the call is in the session table.
        known: bool,
        /// Member that a verified token in the request names.
        token: Option<PeerText>,
        /// Every member as the policy sees it.
        candidates: Vec<CandidateView>,
        /// Servers whose limit (RFC 7339) may hold the request back.
        limited: Vec<NeighbourView>,
    }
}

figures! {
    /// The route of a request.
    Route as "Route" from (taken: RouteTaken) {
        /// Name of the route; without a name in the file its number, as `route-2` for the second route.
        name: String = taken.name,
        /// Earlier routes, which do not match the request.
        earlier: Vec<Unmatched> = taken.earlier.into_iter().map(Unmatched::new).collect(),
        /// Changes that the route makes to the request, in their order.
        rewrites: Vec<RewriteView> = taken.steps.into_iter().map(RewriteView::new).collect(),
        /// Request-URI after the changes; `null` if it is unchanged.
        request_uri: Option<String> = taken.uri,
    }
}

figures! {
    /// A route that does not match the request.
    Unmatched as "Unmatched" from (earlier: (String, String)) {
        /// Name of the route.
        name: String = earlier.0,
        /// Key of the condition that does not hold, and its value in the request.
        condition: String = earlier.1,
    }
}

figures! {
    /// One change that a route makes to a request. `before` and `after` are `null` if it does not change this request.
    RewriteView as "Rewrite" from (step: EditStep) {
        /// The action in the words of the configuration.
        action: String = step.action,
        /// Request-URI, or values of the header field, before the change; `null` if there was none.
        before: Option<String> = step.before,
        /// Request-URI, or values of the header field, after the change; `null` if there is none.
        after: Option<String> = step.after,
    }
}

figures! {
    /// A pool of the route that could not take the request, so that the next pool was tried.
    PassedOverView as "PassedOver" from (over: &PassedOver, view: &View) {
        /// Name of the pool.
        pool: String = view.named(&[over.pool]).pop().unwrap_or_default(),
        /// Cause, as `failover.on` has it: `dead` (no member takes calls) or `full`.
        why: String = if over.outcome == FailoverCause::Full { "full" } else { "dead" }.to_owned(),
        /// Members of the pool. If one of them takes calls, the pool has reached its limit of sessions.
        candidates: Vec<CandidateView> = CandidateView::list(&over.verdicts, view),
    }
}

figures! {
    /// One member at the moment of a choice.
    CandidateView as "Candidate" from (
        member: &ListedMember, candidate: Candidate, refused: Option<NodeRefusal>, room: Option<MemberRoom>,
    ) {
        /// Address of the member.
        member: PeerText = member.peer.into(),
        /// Calls in progress, over all threads.
        calls: u32 = candidate.load.calls,
        /// Transactions without a final response.
        transactions: u32 = candidate.load.transactions,
        /// Weighted work of the open transactions; a BYE is 1.
        work: f64 = work(candidate.load.work),
        /// Capacity now.
        capacity: f64 = candidate.capacity,
        /// Controller of the limit that is found from the member's answers; `null` if no such limit is used.
        limit_law: Option<String> = room.and_then(|room| room.law).map(|law| law.name().to_owned()),
        /// Requests without any answer, counted by the thread of this call; `null` if no such limit is used.
        unanswered: Option<u32> = room.filter(|room| room.law.is_some()).map(|room| room.open),
        /// Limit of unanswered requests, found from the delay of the member's answers; `null` while nothing limits
        /// them.
        limit: Option<u32> = room.and_then(|room| room.limit),
        /// Limit of new calls a second, over all threads; 0 for no limit.
        max_rate: u32 = member.node.max_rate,
        /// Why the member takes no new call; `null` if it takes one.
        refusal: Option<String> = refused.map(|refusal| refusal.name().to_owned()),
    }
}

impl CandidateView {
    fn list(verdicts: &[CandidateVerdict], view: &View) -> Vec<Self> {
        let shown = |verdict: &CandidateVerdict| {
            let member = view.at(verdict.candidate.slot)?;
            Some(Self::new(member, verdict.candidate, verdict.refusal, verdict.room))
        };
        verdicts.iter().filter_map(shown).collect()
    }
}

/// Returns the member that the request would be forwarded to, if any, and the reason or the result.
fn outcome(view: &View, explanation: &Explanation) -> (Option<PeerText>, &'static str) {
    let address = |slot: Slot| view.at(slot).map(|member| member.peer.into());
    match explanation.decision {
        _ if explanation.outside.is_some() => (None, "outside"),
        _ if explanation.located.is_some() => (None, "located"),
        _ if let Some(taken) = explanation.queue => match taken {
            QueueTurn::Member(slot) => (address(slot), "queue"),
            QueueTurn::Waits => (None, "waits"),
            QueueTurn::Full => (None, "full"),
        },
        NodeDecision::Forward { slot, why } => (address(slot), why.name()),
        NodeDecision::Search => (None, "search"),
        NodeDecision::Orphan => (None, "rejected"),
        NodeDecision::AtLimit(_) => (None, "busy"),
        NodeDecision::NoServer | NodeDecision::NoRoom => (None, "unavailable"),
    }
}

impl ExplanationView {
    /// `contacts` are the contacts of the request's user, if the request goes to the contacts of a user.
    pub(crate) fn new(view: &View, explanation: Explanation, contacts: Option<&UserContacts>) -> Self {
        let (member, why) = outcome(view, &explanation);
        let is_asked = explanation.outside.is_none()
            && explanation.located.is_none()
            && match explanation.decision {
                NodeDecision::Forward { why, .. } => matches!(why, Why::Policy | Why::Moved),
                NodeDecision::NoServer | NodeDecision::AtLimit(_) | NodeDecision::NoRoom => true,
                NodeDecision::Search | NodeDecision::Orphan => false,
            };
        let named =
            |id| view.members.iter().find(|member| member.node.id == id).map(|member| member.peer.into());
        let user = |aor: &location::Aor| String::from_utf8_lossy(aor.bare()).into_owned();
        Self {
            member,
            why: why.to_owned(),
            user: explanation.located.as_ref().map(user),
            contacts: contacts.map(|found| ContactView::list(&found.there, found.date)).unwrap_or_default(),
            outside: explanation.outside.map(|way| way.remote().into()),
            route: explanation.route.map(Route::new),
            passed_over: explanation.passed_over.iter().map(|over| PassedOverView::new(over, view)).collect(),
            pool: is_asked.then(|| view.named(&[explanation.pool]).pop()).flatten(),
            policy: explanation.policy.to_owned(),
            known: explanation.known,
            token: explanation.token.and_then(named),
            candidates: CandidateView::list(&explanation.verdicts, view),
            limited: explanation.limited.iter().map(NeighbourView::new).collect(),
        }
    }
}

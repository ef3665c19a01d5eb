//! Where a request would go, and why.

use super::NeighbourView;
use super::contacts::ContactView;
use super::members::work;
use super::metric::figures;
use super::peer::PeerText;
use super::view::View;
use crate::registrations::Contacts;
use balance::{Candidate, CandidateVerdict, Decision, MemberRoom, NodeRefusal, Slot, Why};
use control::ListedMember;
use node::{Explanation, PassedOver, QueueTurn, RouteTaken};
use route::{Outcome, Step};

figures! {
    /// `POST /api/explain`
    ExplanationView as "Explanation" {
        /// The member that the request would go to; `null` when to none.
        member: Option<PeerText>,
        /// `policy`, `queue`, `session`, `token` or `moved`; or what would happen instead: `waits` (in the queue of
        /// its pool), `full` (no room in that), `located`, `outside`, `search`, `rejected`, `unavailable`,
        /// `busy` (every member that takes calls is at the limit that `candidates` name).
        why: String,
        /// The user to whose contacts it would go (`located`), as USER@DOMAIN; `null` otherwise.
        user: Option<String>,
        /// These contacts, those first that are tried first; empty where nobody has registered.
        contacts: Vec<ContactView>,
        /// Where a request would go that no pool gets, by its Route or Request-URI (`outside`); `null` otherwise.
        outside: Option<PeerText>,
        /// The route that it goes by; `null` without one.
        route: Option<Route>,
        /// Pools of the route that were asked before, and took nothing.
        passed_over: Vec<PassedOverView>,
        /// The pool whose policy chose, or that took nothing; `null` where none was asked.
        pool: Option<String>,
        /// Name of the policy of the pool that the request is for.
        policy: String,
        /// Whether the call is in the session table.
        known: bool,
        /// The member that a verified token in the request names.
        token: Option<PeerText>,
        /// Every member as the policy sees it.
        candidates: Vec<CandidateView>,
        /// Of the servers that it may go to those whose limit (RFC 7339) may hold it back.
        limited: Vec<NeighbourView>,
    }
}

figures! {
    /// The route of a request.
    Route as "Route" from (taken: RouteTaken) {
        /// Its name; `route-2` is the second one if it has none in the file.
        name: String = taken.name,
        /// What it does to the request first, in this order.
        rewrites: Vec<RewriteView> = taken.steps.into_iter().map(RewriteView::new).collect(),
        /// The Request-URI that comes of it; `null` where it stays as it is.
        request_uri: Option<String> = taken.uri,
    }
}

figures! {
    /// One thing that a route does to a request; `before` and `after` are `null` where it leaves this one as it is.
    RewriteView as "Rewrite" from (step: Step) {
        /// In the words of the configuration.
        action: String = step.action,
        /// The Request-URI, or the values of the header field, before it; `null`: there was none.
        before: Option<String> = step.before,
        /// The same after it; `null`: there is none.
        after: Option<String> = step.after,
    }
}

figures! {
    /// A pool of the route that takes nothing, so that the request goes on to the next one.
    PassedOverView as "PassedOver" from (over: &PassedOver, view: &View) {
        /// Its name.
        pool: String = view.named(&[over.pool]).pop().unwrap_or_default(),
        /// Why, as `failover.on` has it: `dead` (no member takes calls) or `full`.
        why: String = if over.outcome == Outcome::Full { "full" } else { "dead" }.to_owned(),
        /// Its members; where one takes calls, the pool has as many sessions as it may.
        candidates: Vec<CandidateView> = CandidateView::list(&over.verdicts, view),
    }
}

figures! {
    /// One member at the moment of a choice.
    CandidateView as "Candidate" from (
        member: &ListedMember, candidate: Candidate, refused: Option<NodeRefusal>, room: Option<MemberRoom>,
    ) {
        /// Its address.
        member: PeerText = member.peer.into(),
        /// Calls in progress, all threads.
        calls: u32 = candidate.load.calls,
        /// Transactions without a final response.
        transactions: u32 = candidate.load.transactions,
        /// Weighted work; a BYE is 1.
        work: f64 = work(candidate.load.work),
        /// Capacity now.
        capacity: f64 = candidate.capacity,
        /// The law of the limit that is found from its answers; `null` where none is looked for.
        limit_law: Option<String> = room.and_then(|room| room.law).map(|law| law.name().to_owned()),
        /// Requests without any answer, of this call's thread; `null` where no limit is looked for.
        unanswered: Option<u32> = room.filter(|room| room.law.is_some()).map(|room| room.open),
        /// How many these may be, by the delay of its answers; `null` while nothing limits them.
        limit: Option<u32> = room.and_then(|room| room.limit),
        /// Most new calls a second, over all threads; 0 for no limit.
        max_rate: u32 = member.node.max_rate,
        /// Why it takes no new call; `null` if it does.
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

/// The member, if the request would be forwarded to one, and why, or what else would happen.
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
        Decision::Forward { slot, why } => (address(slot), why.name()),
        Decision::Search => (None, "search"),
        Decision::Orphan => (None, "rejected"),
        Decision::AtLimit(_) => (None, "busy"),
        Decision::NoServer | Decision::NoRoom => (None, "unavailable"),
    }
}

impl ExplanationView {
    /// `contacts` are those of whoever the request is for, where it goes to the contacts of a user.
    pub(crate) fn new(view: &View, explanation: Explanation, contacts: Option<&Contacts>) -> Self {
        let (member, why) = outcome(view, &explanation);
        let is_asked = explanation.outside.is_none()
            && explanation.located.is_none()
            && match explanation.decision {
                Decision::Forward { why, .. } => matches!(why, Why::Policy | Why::Moved),
                Decision::NoServer | Decision::AtLimit(_) | Decision::NoRoom => true,
                Decision::Search | Decision::Orphan => false,
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

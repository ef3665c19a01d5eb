//! Requests with a transaction that no dialog directs: to a pool, a user or a client (RFC 3261 §16.5).

use super::received::Received;
use super::targets::{RequestRule, Source, Targets, UriTarget};
use super::transactions::Stateful;
use crate::decide::client_flow::FlowHop;
use crate::decide::destination::Destination;
use crate::outcome::counters::Drop;
use crate::outcome::rejection::Rejection;
use crate::read::arrival::Arrival;
use crate::read::progress::Progress;
use crate::site::Site;
use crate::site::allowance::Sender;
use crate::site::reply;
use crate::step::Step;
use balance::RequestFacts;
use route::Forward;
use std::sync::Arc;
use wire::Method;

impl Stateful {
    /// Checks that there is room for a request that is forwarded in this way: for its transaction and, if dialogs are
    /// kept, for its call.
    pub(crate) fn check_new(
        &mut self,
        step: &Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        forward: Forward,
    ) -> Result<(), Rejection> {
        // A request that is too short to be answered begins no transaction, since a transaction would repeat a
        // response.
        if arrival.message.bytes().len() < reply::ANSWERED_MIN && arrival.method != Method::Ack {
            return Err(Rejection::Dropped(Drop::Unanswerable));
        }
        self.check_limit(step.site, arrival.message, false)?;
        match &self.dialogs {
            Some(dialogs) if forward == Forward::Dialog && begins_call(&destination.request) => {
                dialogs.check(step.site, arrival.message)
            }
            _ => Ok(()),
        }
    }

    /// Sends a request to the first of its targets. If dialogs are kept, also records the request for its call, which
    /// is new or known.
    pub(crate) fn begin(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        forward: Forward,
        targets: Targets,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let (site, message, mut tracked) = (&*step.site, arrival.message, None);
        if let Some(dialogs) = &mut self.dialogs {
            tracked = message.to_tag().and_then(|_| dialogs.follow_without_token(site, message));
            if tracked.is_none() && forward == Forward::Dialog && begins_call(&destination.request) {
                let pool = targets.pool().map(|pool| pool.request.pool.0);
                let call = dialogs.begin(site, message, arrival.flow.peer, destination.rule, pool)?;
                tracked = Some(Box::new(call));
            }
        }
        let received = Received {
            rule: destination.rule.map(|index| RequestRule { routes: Arc::clone(&site.routes), index }),
            routing: destination.routing,
            tracked,
            is_at_source: destination.is_at_source,
            ..admitted(site, arrival, targets, progress)
        };
        self.forward(step, message, arrival.key, received, progress.hand_over());
        Ok(())
    }

    /// Sends a request by the flow of a client that its Route names.
    pub(crate) fn begin_by_flow(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        to: &FlowHop,
        progress: &mut Progress,
    ) {
        let FlowHop { hop, routing } = *to;
        let targets = Targets::new(Source::Uri(UriTarget { is_by_path: true, ..UriTarget::new(hop, true) }));
        let received = Received { routing, ..admitted(step.site, arrival, targets, progress) };
        self.forward(step, arrival.message, arrival.key, received, progress.hand_over());
    }
}

/// Returns the record of an admitted request.
fn admitted(site: &Site, arrival: &Arrival<'_>, targets: Targets, progress: &Progress) -> Received {
    Received {
        is_genuine: progress.sender() == Sender::Genuine,
        proof: progress.proof.mark(),
        ..Received::new(site, arrival.call, arrival.flow, arrival.message, targets)
    }
}

/// Returns whether a request is the INVITE of a call. A To tag that nothing proves makes no difference.
fn begins_call(request: &RequestFacts<'_>) -> bool {
    request.method == Method::Invite && !request.in_dialog
}

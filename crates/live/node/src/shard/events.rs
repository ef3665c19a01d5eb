//! Handles the inputs of a shard that are not messages: timers, lost connections, answers of stores and of the DNS, and
//! room at members.
//!
//! A request that has waited is read and processed again from the beginning, with its
//! [`Progress`](crate::read::progress::Progress).

use crate::address::hop_name::HopName;
use crate::forward::keep_alive::send_keep_alives;
use crate::outcome::event::ShardEvent;
use crate::outcome::question::StoreAnswer;
use crate::queue::Served;
use crate::read::arrival::Inbound;
use crate::read::progress::{Stage, Waited, Waiter};
use crate::registrar::{PendingRequest, WaitEnd, keep_answer};
use crate::shard::pipeline::Pipeline;
use crate::site::leave::{has_left_by_udp, over_udp};
use crate::token::branch::peek_ingress;
use balance::{PoolId, Sign};
use base::{Flow, Operation, Transport};
use wire::{Message, Method};

pub(crate) fn expire(pipeline: &mut Pipeline<'_>) {
    // Transactions come first, since requests that turn out to be unanswered can be sent to another target.
    if let Some(stateful) = pipeline.stateful.as_deref_mut() {
        stateful.expire(&mut pipeline.step);
    }
    expire_waiting(pipeline);
    send_keep_alives(&mut pipeline.step);
    for _ in 0..pipeline.step.balancer.expire(pipeline.step.site.now) {
        pipeline.step.site.ledger.charge(Operation::Expire);
    }
}

/// Handles an ICMP error or a lost connection (RFC 3261 §16.9). `quoted` is the beginning of the datagram to `to` that
/// did not arrive.
pub(crate) fn unreachable(pipeline: &mut Pipeline<'_>, to: Flow, quoted: &[u8]) {
    if let Some(queues) = pipeline.step.queues.as_deref_mut() {
        queues.gone(pipeline.step.site, to, quoted);
    }
    if to.transport == Transport::Tcp && sends_over_udp(pipeline, to, quoted) {
        return;
    }
    if let Some(stateful) = pipeline.stateful.as_deref_mut() {
        stateful.unreachable(&mut pipeline.step, to, quoted);
    }
    if to.transport.is_reliable() {
        pipeline.stateless.failed(&mut pipeline.step, to, quoted);
    }
}

/// RFC 3261 §18.1.1: if a request should leave over TCP because of its length, and the connection was not accepted, the
/// request goes over UDP. Returns whether nothing more has to be reported. If the request was written to the connection
/// before it broke, the request fails as over any other connection.
fn sends_over_udp(pipeline: &mut Pipeline<'_>, lost: Flow, quoted: &[u8]) -> bool {
    let step = &mut pipeline.step;
    if quoted.is_empty() {
        return false;
    }
    if pipeline.stateful.as_deref_mut().is_some_and(|stateful| stateful.send_over_udp(step, lost, quoted)) {
        return true;
    }
    // The transaction of the request has ended meanwhile. An ACK has no transaction.
    let has_ended = |message: &Message<'_>| {
        let is_proxys = message.top_via().branch.and_then(peek_ingress).is_some();
        is_proxys && message.method() != Some(Method::Ack)
    };
    if wire::scan(quoted).is_ok_and(|message| has_ended(&message)) {
        return false;
    }
    let Some((bytes, way)) = over_udp(step.site, lost, quoted) else {
        return has_left_by_udp(step.site, lost, quoted);
    };
    step.out.send(way, |buffer| buffer.extend_from_slice(&bytes));
    true
}

/// Ends a step: queued calls go to members that have room, and the events of the step are reported.
pub(crate) fn conclude(pipeline: &mut Pipeline<'_>) {
    serve_queues(pipeline);
    for sign in pipeline.step.balancer.drain_signs() {
        if let Sign::NoAnswer { slot, silent: true } = sign
            && let Some(member) = pipeline.stateful.as_deref().and_then(|stateful| stateful.member(slot))
        {
            pipeline.step.site.admission.overload.silent(pipeline.step.site.now, member);
        }
        pipeline.step.out.event(ShardEvent::Sign(sign));
    }
    if let Some(stateful) = pipeline.stateful.as_deref_mut() {
        stateful.tell(pipeline.step.out);
        stateful.tell_calls(&mut pipeline.step);
    }
}

/// Sends queued requests to members that have room, and refuses requests that have waited too long.
pub(crate) fn serve_queues(pipeline: &mut Pipeline<'_>) {
    let step = &mut pipeline.step;
    let Some(queues) = step.queues.as_deref_mut() else { return };
    let Served { due, released } = queues.serve(step.site.now, step.balancer);
    for (pool, waited, waiter) in due {
        if let (Waited::Pulled(member), Some(queues)) = (waited, pipeline.step.queues.as_deref_mut()) {
            queues.gives(pool, member);
        }
        take_up(pipeline, waiter, Some((pool, waited)));
        // The request may have been refused before a member was chosen.
        if let Some(queues) = pipeline.step.queues.as_deref_mut() {
            queues.settle(pipeline.step.site.now, |_| false);
        }
    }
    for waiter in released {
        take_up(pipeline, waiter, None);
    }
}

/// Continues a call that has waited in a queue. `waited` says how the wait ended. It is `None` if the queue was
/// removed.
fn take_up(pipeline: &mut Pipeline<'_>, waiter: Waiter, waited: Option<(PoolId, Waited)>) {
    let Waiter { flow, bytes, mut progress } = waiter;
    progress.waited = waited;
    let got_trying = progress.got_trying;
    let Ok(message) = wire::scan(&bytes) else { return };
    match pipeline.take(flow, &message, progress) {
        Ok(()) => pipeline.step.site.tell(flow, Some(&message), pipeline.step.out),
        Err(rejection) => pipeline.refuse_waiter(flow, &bytes, got_trying, rejection),
    }
}

/// Handles the answer of a store to the question with this number.
pub(crate) fn answered(pipeline: &mut Pipeline<'_>, number: u64, answer: StoreAnswer) {
    let now = pipeline.step.site.now;
    if let Some(request) =
        pipeline.registrar.as_deref_mut().and_then(|registrar| registrar.take(now, Some(number)))
    {
        resume(pipeline, request, WaitEnd::Answered(answer));
    }
}

/// Continues the requests that wait for the address of this name, after the DNS has answered.
pub(crate) fn resolved(pipeline: &mut Pipeline<'_>, name: &HopName) {
    let now = pipeline.step.site.now;
    let numbers =
        pipeline.registrar.as_deref().map(|registrar| registrar.waiting().of_name(name)).unwrap_or_default();
    for number in numbers {
        if let Some(request) =
            pipeline.registrar.as_deref_mut().and_then(|registrar| registrar.take(now, Some(number)))
        {
            resume(pipeline, request, WaitEnd::Resolved);
        }
    }
}

/// Ends the wait of requests that have waited too long for a store.
pub(crate) fn expire_waiting(pipeline: &mut Pipeline<'_>) {
    let now = pipeline.step.site.now;
    while let Some(request) =
        pipeline.registrar.as_deref_mut().and_then(|registrar| registrar.take(now, None))
    {
        resume(pipeline, request, WaitEnd::Expired);
    }
}

/// Ends the wait of a request, with an answer or without.
fn resume(pipeline: &mut Pipeline<'_>, request: PendingRequest, end: WaitEnd) {
    let PendingRequest { waiter, pending, is_cancelled, .. } = request;
    let Waiter { flow, bytes, mut progress } = waiter;
    let message = wire::scan(&bytes).expect("the request was parsed on arrival");
    let sent = pipeline.step.out.transmits().len();
    let Some(registrar) = pipeline.registrar.as_deref_mut() else { return };
    let inbound = Inbound { flow, message: &message };
    let stage = registrar.resume(&mut pipeline.step, inbound, pending, is_cancelled, end, &mut progress);
    let taken = match stage {
        Ok(Stage::GoesOn) => pipeline.take(flow, &message, progress),
        Ok(Stage::Done) => Ok(()),
        Err(rejection) => {
            progress.refuse();
            Err(rejection)
        }
    };
    if let Err(rejection) = taken {
        pipeline.step.reject(flow, &message, None, rejection);
        keep_answer(&mut pipeline.step, flow.peer, &message, sent);
    }
    pipeline.step.site.tell(flow, Some(&message), pipeline.step.out);
}

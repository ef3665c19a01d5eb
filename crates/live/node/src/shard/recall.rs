//! Finds the waiting request or the earlier answer that a request belongs to.

use crate::outcome::rejection::OwnResponse;
use crate::read::progress::Waiter;
use crate::registrar::Registrar;
use crate::seen::RequestPrint;
use crate::site::reply::trying;
use crate::step::Step;
use base::Flow;
use transaction::ServerKey;
use wire::{Message, Method};

/// How a request relates to an earlier request.
pub(crate) enum Recalled {
    /// A repetition, which needs nothing more.
    Repetition,
    /// The CANCEL of a call that waited in a queue. The call was removed from the queue.
    Cancelled(Box<Waiter>),
}

/// Returns whether a request repeats a request that waits or was answered here, or is the CANCEL of a waiting request.
pub(crate) fn recall(
    step: &mut Step<'_>,
    registrar: Option<&mut Registrar>,
    flow: Flow,
    message: &Message<'_>,
    known: Option<ServerKey>,
) -> Option<Recalled> {
    let may_be = registrar.is_some() || step.queues.is_some();
    if !may_be || message.fault().is_some() || message.method() == Some(Method::Ack) {
        return None;
    }
    let key = step.site.seen.key(&step.site.tokens, message, known, flow.peer);
    if message.method() == Some(Method::Cancel) {
        let waits_for_store = registrar.is_some_and(|registrar| registrar.cancel(key));
        let queues = step.queues.as_deref_mut().filter(|_| !waits_for_store);
        let queued = queues.and_then(|queues| queues.cancel(key));
        if waits_for_store || queued.is_some() {
            step.answer(flow, message, OwnResponse::Cancelled);
        }
        let queued = queued.map(|waiter| Recalled::Cancelled(Box::new(waiter)));
        return queued.or(waits_for_store.then_some(Recalled::Repetition));
    }
    let Step { site, queues, out, .. } = step;
    if let Some(registrar) = registrar {
        let of = RequestPrint::new(key, message.bytes().len(), flow.peer);
        if let Some((way, answer)) = site.seen.answers.get(site.now, of) {
            if let Some(answer) = answer {
                out.send(way, |buffer| buffer.extend_from_slice(answer));
            }
            return Some(Recalled::Repetition);
        }
        if registrar.waiting().has(key) {
            return Some(Recalled::Repetition);
        }
    }
    let sends_trying = queues.as_deref_mut()?.absorbs(key)?;
    if sends_trying {
        trying(site, flow, message, out);
    }
    Some(Recalled::Repetition)
}

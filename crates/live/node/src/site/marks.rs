//! Marks of state distribution in the Via of requests, and notices in the Via of responses.

use crate::outcome::event::ShardEvent;
use crate::site::Site;
use crate::site::sharing::param;
use crate::token::vouch;
use base::{Flow, Outbox};
use core::fmt::Write as _;
use distribute::{Call, Function, NextHop, Notice, StateDecision};
use overload::NewRequestSender;
use std::net::SocketAddr;
use wire::{Message, Method};

/// The proxies that can verify the credentials of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CredentialsFor {
    /// This proxy alone: the credentials answer its challenge.
    Us,
    /// Another proxy, which has the keys of the nonces.
    Another,
    /// The first proxy that challenges: there are no credentials, or no valid credentials.
    FirstChallenger,
    /// None: the credentials have been verified.
    Verified,
}

/// Returns whether this proxy shares out the state of dialogs. It then keeps the dialogs of calls whose transactions it
/// keeps.
pub(crate) fn shares_dialogs(site: &Site) -> bool {
    site.sharing.as_ref().is_some_and(|sharing| sharing.function == Function::Dialog)
}

/// Returns whether a neighbour that sent this request says that an earlier proxy keeps the dialogs of the call and
/// writes its record.
pub(crate) fn has_record_elsewhere(site: &Site, message: &Message<'_>, from: SocketAddr) -> bool {
    site.sharing.as_ref().is_some_and(|sharing| sharing.mark(message, from).has(Function::Dialog))
}

/// Returns whether this proxy of the chain keeps the transaction of a request outside dialogs that goes on to `to`.
/// `has_room`: there is room for it here. Must not be called for a copy of a request whose transaction is kept here,
/// since the copy belongs to this transaction.
pub(crate) fn keeps(
    site: &mut Site,
    message: &Message<'_>,
    from: SocketAddr,
    to: SocketAddr,
    has_room: bool,
    out: &mut Outbox<ShardEvent>,
) -> bool {
    let Some(sharing) = &mut site.sharing else { return true };
    if sharing.is_marked_by_unknown_neighbour(message, from) {
        out.event(ShardEvent::MarkOfStranger(from));
    }
    let call = Call {
        from: sharing.neighbour(from),
        // A neighbour without a recent notice perhaps does not share out state. Then no later proxy would keep the
        // call.
        to: sharing
            .neighbour(to)
            .filter(|to| sharing.distributor.has_notice(site.now, *to))
            .map_or(NextHop::Exit, NextHop::Neighbour),
        kept: sharing.mark(message, from).has(sharing.function),
        key: site.seen.keys.request(message).key.0 as u64,
    };
    let elsewhere = if has_room { None } else { sharing.distributor.on_call_without_room(site.now, call) };
    let decision = elsewhere.unwrap_or_else(|| sharing.distributor.on_call(site.now, call));
    sharing.report.state.count(decision);
    decision == StateDecision::Keep
}

/// Returns the origin of a new request for overload control. OPTIONS count as requests of a client whose share is 1.
/// Other elements probe this proxy with OPTIONS, and after a 503 they would send no calls for a while.
pub(crate) fn origin(site: &Site, from: SocketAddr, method: Method) -> NewRequestSender {
    match site.sharing.as_ref().filter(|_| method != Method::Options) {
        None => NewRequestSender::Client(1.0),
        Some(sharing) if sharing.neighbour(from).is_some() => NewRequestSender::Chain,
        Some(sharing) => NewRequestSender::Client(sharing.takes()),
    }
}

/// Returns whether an INVITE from this address gets a 100 at once. Between neighbours, the 100 would cost the stateless
/// proxy before this one two more messages. RFC 3261 §17.2.1 allows omitting it if another response follows within 200
/// ms.
pub(crate) fn tries_at_once(site: &Site, from: SocketAddr) -> bool {
    site.sharing.as_ref().is_none_or(|sharing| sharing.neighbour(from).is_none())
}

/// Returns whether a proxy before this one has authenticated the sender, as a neighbour states with proof.
pub(crate) fn is_vouched(site: &Site, message: &Message<'_>, from: SocketAddr) -> bool {
    let Some(sharing) = &site.sharing else { return false };
    sharing.mark(message, from).has(Function::Authentication)
        && param(message, message.top_via(), vouch::PARAMETER)
            .is_some_and(|value| site.tokens.is_vouched(message, value, site.unix()))
}

/// Returns whether a neighbour asks this proxy to authenticate the sender of a request.
pub(crate) fn is_asked(site: &Site, message: &Message<'_>, from: SocketAddr) -> bool {
    site.sharing.as_ref().is_some_and(|sharing| sharing.mark(message, from).requires_authentication())
}

/// Returns whether another proxy may keep the transaction of a request that this proxy forwards.
pub(crate) fn shares_state(site: &Site) -> bool {
    site.sharing.is_some()
}

/// Returns whether this next hop, or a proxy behind it, verifies credentials.
pub(crate) fn verifies_behind(site: &Site, hop: SocketAddr) -> bool {
    let sharing = site.sharing.as_ref();
    let authentication = sharing.and_then(|sharing| sharing.authentication.as_ref());
    authentication.is_some_and(|distributor| distributor.has_notice(site.now, hop))
}

/// Returns whether a later proxy verifies the credentials of a request, or an earlier proxy has verified them. `to` is
/// the next hop, if this hop or a proxy behind it verifies credentials.
pub(crate) fn leaves_credentials(
    site: &mut Site,
    message: &Message<'_>,
    from: SocketAddr,
    to: Option<SocketAddr>,
    credentials: CredentialsFor,
) -> bool {
    let Some(sharing) = &mut site.sharing else { return false };
    let neighbour = sharing.neighbour(from);
    let Some(distributor) = &mut sharing.authentication else { return false };
    let call = Call {
        from: neighbour,
        to: to.map_or(NextHop::Exit, NextHop::Neighbour),
        kept: credentials == CredentialsFor::Verified,
        // A request repeated with credentials has the same key (RFC 3261 §22.2).
        key: site.tokens.dialog_key(message),
    };
    let decision = match credentials {
        CredentialsFor::Us => {
            distributor.on_own_call(site.now, call);
            StateDecision::Keep
        }
        CredentialsFor::Another => {
            let elsewhere = distributor.on_call_without_room(site.now, call);
            elsewhere.unwrap_or_else(|| distributor.on_call(site.now, call))
        }
        CredentialsFor::FirstChallenger | CredentialsFor::Verified => distributor.on_call(site.now, call),
    };
    sharing.report.authentication.count(decision);
    decision != StateDecision::Keep
}

/// Reads the notice in a verified response of a neighbour.
pub(crate) fn hear_notice(site: &mut Site, response: &Message<'_>, from: SocketAddr) {
    let Some(sharing) = &mut site.sharing else { return };
    let Some(neighbour) = sharing.neighbour(from) else { return };
    for (function, distributor) in sharing.distributors() {
        let value = param(response, response.top_via(), function.notice_parameter());
        if let Some(notice) = value.and_then(Notice::parse) {
            distributor.on_notice(site.now, neighbour, notice);
        }
    }
}

/// Reads the load that a neighbour states in a verified response (RFC 7339 §5.4).
pub(crate) fn hear_load(site: &mut Site, response: &Message<'_>, flow: Flow, out: &mut Outbox<ShardEvent>) {
    if site.admission.overload.heard(site.now, response, site.topology.known_as(flow)) {
        out.event(ShardEvent::NoFeedback(flow.peer));
    }
}

/// Writes the notices into the Via of the next receiver of a response, if this receiver is a neighbour. Removes all
/// other notices.
pub(crate) fn tell_notice(site: &mut Site, response: &Message<'_>, to: SocketAddr) {
    let Site { sharing: Some(sharing), scratch, edits, .. } = site else { return };
    let Some(via) = response.second_via() else { return };
    let bytes = response.bytes();
    scratch.clear();
    let mut done = via.value.start;
    for param in via.params(bytes).filter(|param| is_notice(param.name)) {
        scratch.extend_from_slice(&bytes[done as usize..param.whole.start as usize]);
        done = param.whole.end;
    }
    let was_clean = done == via.value.start;
    scratch.extend_from_slice(&bytes[done as usize..via.value.end as usize]);
    let neighbour = sharing.neighbour(to).filter(|neighbour| sharing.carries_notice(*neighbour));
    if neighbour.is_some() {
        for (function, distributor) in sharing.distributors() {
            write_param(scratch, function.notice_parameter(), distributor.notice(neighbour));
        }
    }
    if neighbour.is_some() || !was_clean {
        edits.replace(response, via.value.of(bytes), scratch);
    }
}

fn is_notice(name: &[u8]) -> bool {
    Function::ALL.iter().any(|function| name.eq_ignore_ascii_case(function.notice_parameter().as_bytes()))
}

/// Appends a parameter to a Via.
pub(crate) fn write_param(out: &mut Vec<u8>, name: &str, value: impl core::fmt::Display) {
    struct Text<'a>(&'a mut Vec<u8>);
    impl core::fmt::Write for Text<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    write!(Text(out), ";{name}={value}").expect("writing to a Vec cannot fail");
}

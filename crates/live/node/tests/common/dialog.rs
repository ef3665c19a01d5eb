//! A dialog between a user agent outside and a node, as both of them know it.

use super::text::{Req, answer, record_routes, scanned};
use super::{Bed, Sent, addr};
use std::net::SocketAddr;

/// One end of a dialog.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) at: SocketAddr,
    /// The listener of the balancer that it talks to.
    pub(crate) listener: u16,
    pub(crate) tag: &'static str,
    /// Its route set, in the order of the Route header field (RFC 3261 §12.1).
    pub(crate) routes: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    pub(crate) call_id: String,
    pub(crate) caller: End,
    pub(crate) callee: End,
}

impl Dialog {
    /// A client calls: INVITE, 200.
    pub(crate) fn inbound(bed: &mut Bed, call_id: &str, client: SocketAddr, listener: u16) -> Self {
        let invite = Req::new("INVITE", call_id, client);
        let at_node = bed.one(listener, client, &invite.bytes());
        assert!(bed.is_node(at_node.to));
        let node = at_node.to;
        Self::answered(bed, call_id, (client, listener), (node, at_node.listener), &at_node)
    }

    /// A node calls the user agent at `outside`: INVITE, 200.
    pub(crate) fn outbound(bed: &mut Bed, call_id: &str, node: usize, outside: SocketAddr) -> Self {
        let (node, listener) = bed.site.nodes[node];
        let invite = Req { uri: format!("sip:carol@{outside}"), ..Req::new("INVITE", call_id, addr(node)) };
        let arrived = bed.one(listener, addr(node), &invite.bytes());
        assert_eq!(arrived.to, outside);
        Self::answered(bed, call_id, (addr(node), listener), (outside, arrived.listener), &arrived)
    }

    fn answered(
        bed: &mut Bed,
        call_id: &str,
        (caller, caller_listener): (SocketAddr, u16),
        (callee, callee_listener): (SocketAddr, u16),
        invite: &Sent,
    ) -> Self {
        let source = addr(bed.site.listeners[callee_listener as usize]);
        let ok = bed.one(callee_listener, callee, &answer(&invite.bytes, source, 200, callee));
        assert_eq!((ok.to, ok.listener, ok.status()), (caller, caller_listener, 200));
        Self::of(call_id, (caller, caller_listener), (callee, callee_listener), invite, &ok)
    }

    /// The dialog that an INVITE, as the callee got it, and a response to it, as the caller got it, have begun.
    pub(crate) fn of(
        call_id: &str,
        (caller, caller_listener): (SocketAddr, u16),
        (callee, callee_listener): (SocketAddr, u16),
        invite: &Sent,
        response: &Sent,
    ) -> Self {
        // RFC 3261 §12.1: the callee takes the list in order, the caller in reverse order.
        let (at_callee, mut at_caller) = (record_routes(&invite.bytes), record_routes(&response.bytes));
        at_caller.reverse();
        let end = |at, listener, tag, routes| End { at, listener, tag, routes };
        Self {
            call_id: call_id.to_owned(),
            caller: end(caller, caller_listener, "alice", at_caller),
            callee: end(callee, callee_listener, "bob", at_callee),
        }
    }

    /// A request of the caller within the dialog.
    pub(crate) fn by_caller(&self, method: &'static str, cseq: u32) -> Req {
        self.request(&self.caller, &self.callee, method, cseq)
    }

    /// A request of the callee within the dialog.
    pub(crate) fn by_callee(&self, method: &'static str, cseq: u32) -> Req {
        self.request(&self.callee, &self.caller, method, cseq)
    }

    fn request(&self, from: &End, to: &End, method: &'static str, cseq: u32) -> Req {
        let (at, call_id) = (from.at, &self.call_id);
        let branch = format!("z9hG4bK-{call_id}-{}-{method}-{cseq}", from.tag);
        Req {
            uri: format!("sip:{}", to.at),
            via: format!("SIP/2.0/UDP {at};branch={branch};rport"),
            from_tag: from.tag.to_owned(),
            to_tag: Some(to.tag.to_owned()),
            cseq,
            routes: from.routes.clone(),
            ..Req::new(method, call_id, at)
        }
    }

    /// Sends a request of `from`; it must reach `to`, whose 200 must come back.
    pub(crate) fn exchange(bed: &mut Bed, from: &End, to: &End, request: &Req) -> Sent {
        let arrived = bed.one(from.listener, from.at, &request.bytes());
        assert_eq!((arrived.to, arrived.listener), (to.at, to.listener), "{}", request.method);
        assert_eq!(scanned(&arrived.bytes).routes().count(), 0, "our own Route values are gone");
        if request.method != "ACK" {
            let source = addr(bed.site.listeners[to.listener as usize]);
            let back = bed.one(to.listener, to.at, &answer(&arrived.bytes, source, 200, to.at));
            assert_eq!((back.to, back.listener, back.status()), (from.at, from.listener, 200));
            assert_eq!(back.message().vias().count(), 1);
        }
        arrived
    }

    /// The caller sends this and is answered.
    pub(crate) fn caller_asks(&self, bed: &mut Bed, method: &'static str, cseq: u32) -> Sent {
        Self::exchange(bed, &self.caller, &self.callee, &self.by_caller(method, cseq))
    }

    /// The callee sends this and is answered.
    pub(crate) fn callee_asks(&self, bed: &mut Bed, method: &'static str, cseq: u32) -> Sent {
        Self::exchange(bed, &self.callee, &self.caller, &self.by_callee(method, cseq))
    }
}

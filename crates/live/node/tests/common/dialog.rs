//! A dialog between a user agent outside and a node, as both know it.

use super::text::scanned;
use super::*;

/// One end of a dialog.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) at: SocketAddr,
    /// The listener of the balancer that this end uses.
    pub(crate) listener: u16,
    pub(crate) tag: String,
    /// Route set in the order of the Route header field (RFC 3261 §12.1).
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
        let at_node = bed.one_by(Flow::udp(listener, client), &invite.bytes());
        assert!(bed.is_node(at_node.to));
        Self::answered(bed, &at_node)
    }

    /// A node calls the user agent at `outside`: INVITE, 200.
    pub(crate) fn outbound(bed: &mut Bed, call_id: &str, node: usize, outside: SocketAddr) -> Self {
        let (node, listener) = bed.site.nodes[node];
        let invite = Req { uri: format!("sip:carol@{outside}"), ..Req::new("INVITE", call_id, addr(node)) };
        let arrived = bed.one(listener, addr(node), &invite.bytes());
        assert_eq!(arrived.to, outside);
        Self::answered(bed, &arrived)
    }

    /// The dialog of an INVITE that the callee accepts.
    pub(crate) fn answered(bed: &mut testbed::Bed, invite: &Sent) -> Self {
        let ok = answered(bed, invite, 200);
        assert_eq!(ok.status(), 200);
        Self::of(invite, &ok)
    }

    /// The dialog that an INVITE and a response have begun. The INVITE is as the callee got it, the response as the
    /// caller got it. The callee is at the address of its Contact, if there is one.
    pub(crate) fn of(invite: &Sent, response: &Sent) -> Self {
        let tag = |sent: &Sent, name, default: &str| {
            testkit::tag(&sent.bytes, name).unwrap_or_else(|| default.to_owned())
        };
        let contact = testkit::value(&response.bytes, "Contact").unwrap_or_default();
        let contact = contact.trim_matches(['<', '>']).strip_prefix("sip:").and_then(|at| at.parse().ok());
        // RFC 3261 §12.1: the callee takes the list in order, the caller in reverse order.
        let (at_callee, mut at_caller) = (record_routes(&invite.bytes), record_routes(&response.bytes));
        at_caller.reverse();
        let end = |sent: &Sent, tag, routes| End { at: sent.to, listener: sent.listener, tag, routes };
        Self {
            call_id: string(invite.message().call_id()),
            caller: end(response, tag(invite, "From", "alice"), at_caller),
            callee: End {
                at: contact.unwrap_or(invite.to),
                ..end(invite, tag(response, "To", "bob"), at_callee)
            },
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
            from_tag: from.tag.clone(),
            to_tag: Some(to.tag.clone()),
            cseq,
            routes: from.routes.clone(),
            ..Req::new(method, call_id, at)
        }
    }

    /// Sends a request of `from`. It must reach `to`, whose 200 must come back.
    pub(crate) fn exchange(bed: &mut testbed::Bed, from: &End, to: &End, request: &Req) -> Sent {
        let arrived = bed.one_by(Flow::udp(from.listener, from.at), &request.bytes());
        assert_eq!((arrived.to, arrived.listener), (to.at, to.listener), "{}", request.method);
        assert_eq!(scanned(&arrived.bytes).routes().count(), 0, "our own Route values are gone");
        if request.method != "ACK" {
            let back = answered(bed, &arrived, 200);
            assert_eq!((back.to, back.listener, back.status()), (from.at, from.listener, 200));
            assert_eq!(back.message().vias().count(), 1);
        }
        arrived
    }

    /// The caller sends this and is answered.
    pub(crate) fn caller_asks(&self, bed: &mut testbed::Bed, method: &'static str, cseq: u32) -> Sent {
        Self::exchange(bed, &self.caller, &self.callee, &self.by_caller(method, cseq))
    }

    /// The callee sends this and is answered.
    pub(crate) fn callee_asks(&self, bed: &mut testbed::Bed, method: &'static str, cseq: u32) -> Sent {
        Self::exchange(bed, &self.callee, &self.caller, &self.by_callee(method, cseq))
    }
}

//! Rules for forwarding by any element, independent of the state it keeps (RFC 3261 §16.6, §16.7, §16.11).

use super::{ProcessRule, Sent};
use std::net::SocketAddr;
use wire::{Message, Via, request_source_target, response_target, scheme_of};

/// Watches messages that an element forwards in the step in which they come.
#[derive(Clone)]
pub(crate) struct Hop {
    listeners: Vec<SocketAddr>,
    /// Whether a request may go to several next hops.
    pub(super) forks: bool,
}

impl Hop {
    /// Creates a watch. `forks`: a request may go to several next hops.
    pub(crate) fn new(listeners: &[SocketAddr], forks: bool) -> Self {
        Self { listeners: listeners.to_vec(), forks }
    }

    /// Checks a step: the element got a datagram, or a timer fired (`None`), and it sent `sent`.
    pub(crate) fn check(&self, got: Option<(SocketAddr, &[u8])>, sent: &[Sent]) {
        self.families(sent);
        let came = got.and_then(|(from, bytes)| Some((from, wire::scan(bytes).ok()?)));
        if got.is_some() && came.is_none() {
            return ProcessRule::UnparsableInput.equal(sent, []);
        }
        for one in sent {
            let went = scanned(one);
            if went.method().is_some() {
                self.top_via(one, &went);
            }
            let Some((from, came)) = &came else { continue };
            if came.call_id() != went.call_id() {
                continue;
            }
            // Matched by branch, as the other parts of the Vias are checked below.
            let is_below = |message: &Message<'_>, top: &Via<'_>| {
                let mut below = message.vias().skip(1).filter_map(Result::ok);
                top.branch.is_some() && below.any(|via| via.branch == top.branch)
            };
            match (came.method(), went.method()) {
                (Some(method), Some(same)) if method == same && is_below(&went, came.top_via()) => {
                    self.passed_on((one, &went), (came, *from));
                }
                (None, None) if came.status() == went.status() && is_below(came, went.top_via()) => {
                    passed_back(came, &went);
                }
                _ => {}
            }
        }
    }

    /// Checks that each datagram leaves by a socket of its address family.
    pub(super) fn families(&self, sent: &[Sent]) {
        for one in sent {
            let listener = self.listeners[one.listener as usize];
            ProcessRule::AddressFamily
                .holds(listener.is_ipv4() == one.to.is_ipv4(), format_args!("to {}", one.to));
        }
    }

    /// Checks that the topmost Via of a request is the element's own (§16.6 step 8).
    pub(super) fn top_via(&self, sent: &Sent, request: &Message<'_>) {
        let via = request.top_via();
        let sent_by = via.host.ip().zip(via.port).map(SocketAddr::from);
        ProcessRule::TopVia.equal(sent_by, Some(self.listeners[sent.listener as usize]));
    }

    /// Checks a request that came from `from` and was forwarded (§16.6).
    pub(super) fn passed_on(
        &self,
        (sent, went): (&Sent, &Message<'_>),
        (came, from): (&Message<'_>, SocketAddr),
    ) {
        self.top_via(sent, went);
        ProcessRule::RequestVias.equal(went.vias().count(), came.vias().count() + 1);
        ProcessRule::RequestBody.equal(went.body(), came.body());
        let below = went.second_via().expect("a forwarded request has the Via of its sender");
        let source = request_source_target(came.top_via(), from).unwrap_or(from);
        ProcessRule::LowerVia.equal(response_target(&below).unwrap_or(source), source);
        let hops = came.max_forwards().map_or(70, |(hops, _)| hops - 1);
        ProcessRule::MaxForwards.equal(went.max_forwards().map(|(hops, _)| hops), Some(hops));
        // RFC 5393 §5.3.3: a forking proxy gives each branch a part, others pass on the rest.
        let (given, left) = (breadth(went), breadth(came).unwrap_or(60).min(60));
        let is_part = self.forks && given.is_some_and(|given| (1..=left).contains(&given));
        let detail = format_args!("{given:?} of {left}");
        ProcessRule::MaxBreadth.holds(is_part || given == Some(left), detail);
    }
}

/// Checks a response that was passed back (§16.7).
pub(super) fn passed_back(came: &Message<'_>, went: &Message<'_>) {
    ProcessRule::ResponseVias.equal(went.vias().count() + 1, came.vias().count());
    ProcessRule::ResponseBody.equal(went.body(), came.body());
}

fn breadth(message: &Message<'_>) -> Option<u32> {
    message.max_breadth().map(|(branches, _)| branches)
}

/// Parses a sent datagram, which must be one message without SIPS: this network has no TLS.
pub(super) fn scanned(sent: &Sent) -> Message<'_> {
    let Ok(message) = wire::scan(&sent.bytes) else {
        ProcessRule::NotSip.is_broken(format_args!("{sent:?}"))
    };
    ProcessRule::ExtraBytes.equal(message.bytes(), &sent.bytes[..]);
    // RFC 3261 §26.2.2.
    let next = message.routes().next().map(|route| route.uri);
    let mut decides = message.uri().into_iter().chain(next);
    let is_sips = |uri: &[u8]| scheme_of(uri).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips"));
    ProcessRule::SipsOverUdp.holds(!decides.any(is_sips), format_args!("to {}", sent.to));
    message
}

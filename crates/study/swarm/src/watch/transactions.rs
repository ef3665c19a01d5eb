//! The transactions of a proxy as they look from outside: made of messages and time alone.

use super::ProcessRule;
use base::Instant;
use core::time::Duration;
use std::net::SocketAddr;
use transaction::Timers;
use wire::{Message, Via};

/// What branches of RFC 3261 begin with (§8.1.1.7).
const COOKIE: &[u8] = b"z9hG4bK";
/// The most copies of a request that timers A and E make, with the first (§17.1.1.2, §17.1.2.2).
const COPIES_MAX: (u32, u32) = (7, 11);
/// The same towards somebody who was named and never heard of.
const COPIES_UNHEARD: u32 = 3;

/// Longer than Timer C lets an INVITE ring.
pub(super) const RINGING_MAX: Duration = Duration::from_mins(5);

/// What tells the transactions of clients apart (RFC 3261 §17.2.3): branch, sent-by, method.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ServerId {
    branch: Vec<u8>,
    sent_by: String,
    method: Vec<u8>,
}

impl ServerId {
    /// Of a request of this method with this Via on top; `None` for a peer of RFC 2543, whose branch tells nothing.
    pub(super) fn new(via: &Via<'_>, method: &[u8]) -> Option<Self> {
        let branch = via.branch.filter(|branch| branch.len() > COOKIE.len())?.to_ascii_lowercase();
        let cookie = branch.get(..COOKIE.len())?;
        if !cookie.eq_ignore_ascii_case(COOKIE) {
            return None;
        }
        let host = match via.host.ip() {
            Some(ip) => ip.to_string(),
            None => format!("{:?}", via.host).to_ascii_lowercase(),
        };
        let sent_by = format!("{host} {}", via.sent_by_port());
        Some(Self { branch, sent_by, method: method.to_vec() })
    }

    /// Of a request that came in.
    pub(crate) fn of(request: &Message<'_>) -> Option<Self> {
        Self::new(request.top_via(), method_of(request))
    }

    /// Of the request that something was sent for: its answer, or the request as it went on.
    pub(crate) fn of_sent(sent: &Message<'_>) -> Option<Self> {
        if sent.status().is_some() { Self::of(sent) } else { Self::new(&sent.second_via()?, method_of(sent)) }
    }

    /// The INVITE that an ACK or a CANCEL of this identity is about.
    pub(super) fn of_invite(&self) -> Self {
        Self { method: b"INVITE".to_vec(), ..self.clone() }
    }

    /// The least identity with this branch and sent-by.
    pub(super) fn first(&self) -> Self {
        Self { method: Vec::new(), ..self.clone() }
    }

    /// Whether both differ by the method alone.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        (&self.branch, &self.sent_by) == (&other.branch, &other.sent_by)
    }

    pub(super) fn is_invite(&self) -> bool {
        self.method == b"INVITE"
    }
}

/// The method of a request, or of the one that a response answers.
pub(super) fn method_of<'m>(message: &Message<'m>) -> &'m [u8] {
    message.cseq().method_name.of(message.bytes())
}

/// Whether a request was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cancelled {
    No,
    /// A CANCEL came for it that may repeat one from before it.
    Perhaps,
    Yes,
}

/// A request that came in.
pub(super) struct Server {
    pub(super) request: Vec<u8>,
    pub(super) from: SocketAddr,
    /// Where its answers go.
    pub(super) back: SocketAddr,
    since: Instant,
    touched: Instant,
    invite: bool,
    /// The last answer that went back.
    pub(super) last: Option<(u16, Vec<u8>)>,
    final_at: Option<Instant>,
    pub(super) acked_at: Option<Instant>,
    pub(super) cancelled: Cancelled,
    /// How many next hops have been given it.
    pub(super) attempts: u32,
    /// By which requests.
    pub(super) branches: Vec<ClientId>,
    /// How many of these rang for their time, and were followed by others.
    pub(super) rung_out: usize,
}

impl Server {
    pub(super) fn new(
        id: &ServerId,
        request: &Message<'_>,
        from: SocketAddr,
        back: SocketAddr,
        now: Instant,
    ) -> Self {
        Self {
            request: request.bytes().to_vec(),
            from,
            back,
            since: now,
            touched: now,
            invite: id.is_invite(),
            last: None,
            final_at: None,
            acked_at: None,
            cancelled: Cancelled::No,
            attempts: 0,
            branches: Vec::new(),
            rung_out: 0,
        }
    }

    /// Whether it came just now.
    pub(super) fn is_new(&self, now: Instant) -> bool {
        self.since == now
    }

    /// Whether it has a 2xx.
    pub(super) fn is_accepted(&self) -> bool {
        self.is_answered() && self.status() < 300
    }

    pub(super) fn is_answered(&self) -> bool {
        self.final_at.is_some()
    }

    fn status(&self) -> u16 {
        self.last.as_ref().map_or(0, |(status, _)| *status)
    }

    /// Whether it was sent on and waits for its final answer.
    pub(super) fn waits(&self) -> bool {
        self.attempts > 0 && !self.is_answered()
    }

    /// Whether the same request may begin something new: its transaction has ended, or there never was one.
    pub(super) fn is_over(&self, now: Instant, timers: &Timers) -> bool {
        let life = timers.t1 * 64;
        match self.final_at {
            // Answered without a transaction (§16.3, §11), or so it may be.
            Some(_) if self.attempts == 0 => true,
            // Timer I; else H, L and J.
            Some(at) => match self.acked_at {
                Some(acked) if self.status() >= 300 => now >= acked + timers.t4,
                _ => now >= at + life,
            },
            // The client's timer F.
            None => !self.invite && now >= self.since + life,
        }
    }

    /// A next hop was given it.
    pub(super) fn sent_on(&mut self, now: Instant, by: ClientId) {
        self.attempts += 1;
        self.branches.push(by);
        self.touched = now;
    }

    /// An answer went back. Every final answer is one and the same, but for the 2xx of an INVITE (§16.7 step 5), each
    /// of which goes back when it comes, after a failure, too.
    pub(super) fn answered(&mut self, now: Instant, status: u16, bytes: &[u8], relayed: bool) {
        self.touched = now;
        let may_have = self.invite || status == 100 || status >= 200 && status != 408;
        ProcessRule::NonInvite.holds(may_have, format_args!("{status}"));
        let again = self.last.as_ref().is_some_and(|(_, last)| last == bytes);
        if self.is_answered() {
            let another_2xx = self.invite && relayed && (200..300).contains(&status);
            let fine = again || another_2xx;
            ProcessRule::SecondFinal.holds(fine, format_args!("{status} after {}", self.status()));
            if self.status() >= 300 {
                return;
            }
        } else if status >= 200 {
            self.final_at = Some(now);
        }
        self.last = Some((status, bytes.to_vec()));
    }

    /// Whether nothing more can come of it.
    pub(super) fn is_forgotten(&self, now: Instant, timers: &Timers) -> bool {
        self.is_over(now, timers) && now >= self.touched + timers.t1 * 192
    }
}

/// What tells the transactions of the proxy itself apart (§17.1.3): branch and method.
pub(super) type ClientId = (Vec<u8>, Vec<u8>);

/// A request that was sent on, or a CANCEL of the proxy's own.
pub(super) struct Client {
    /// Whose it is; `None` where that cannot be told from the Via.
    pub(super) server: Option<ServerId>,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
    copies: u32,
    copies_max: u32,
    since: Instant,
    touched: Instant,
    /// When something last came in answer, and when a CANCEL was sent.
    heard: Option<Instant>,
    pub(super) cancelled: Option<Instant>,
    invite: bool,
    /// Whether anything has come in answer.
    pub(super) provisional: bool,
    /// Its final response; 0 before that.
    pub(super) status: u16,
    /// The ACK to its refusal.
    pub(super) ack: Option<Vec<u8>>,
}

impl Client {
    /// `is_known`: whether it goes to a next hop, or to where something came from.
    pub(super) fn new(
        server: Option<ServerId>,
        message: &Message<'_>,
        (to, is_known): (SocketAddr, bool),
        now: Instant,
    ) -> Self {
        let invite = method_of(message) == b"INVITE";
        let copies_max = if invite { COPIES_MAX.0 } else { COPIES_MAX.1 };
        Self {
            server,
            to,
            bytes: message.bytes().to_vec(),
            copies: 1,
            copies_max: if is_known { copies_max } else { COPIES_UNHEARD },
            since: now,
            touched: now,
            heard: None,
            cancelled: None,
            invite,
            provisional: false,
            status: 0,
            ack: None,
        }
    }

    /// It was sent again: the same, to the same place, not too often, and not any more once it is answered.
    pub(super) fn repeated(&mut self, now: Instant, bytes: &[u8], to: SocketAddr) {
        ProcessRule::AgainElsewhere.equal(to, self.to);
        ProcessRule::AgainDiffers.holds(bytes == self.bytes, format_args!("{}", bytes.escape_ascii()));
        ProcessRule::AgainAnswered.holds(self.status == 0, format_args!("with {}", self.status));
        self.copies += 1;
        ProcessRule::AgainTooOften.holds(self.copies <= self.copies_max, format_args!("{}", self.copies));
        self.touched = now;
    }

    /// A response came.
    pub(super) fn heard(&mut self, now: Instant, status: u16, timers: &Timers) {
        self.touched = now;
        // What comes when nobody waits any more changes nothing.
        if self.waits(now, timers) {
            self.heard = Some(now);
        }
        self.provisional = true;
        if self.status == 0 && status >= 200 {
            self.status = status;
        }
    }

    /// Whether it certainly waits for its final response: timers B and C have not run out, nor the time of a CANCEL.
    pub(super) fn waits(&self, now: Instant, timers: &Timers) -> bool {
        let life = timers.t1 * 64;
        let latest = [Some(self.heard.unwrap_or(self.since)), self.cancelled].into_iter().flatten().min();
        self.invite && self.status == 0 && latest.is_some_and(|at| now < at + life)
    }

    /// Whether its transaction may be there still. That of an INVITE lasts while it rings, as the server side's does.
    pub(super) fn may_live(&self, now: Instant, timers: &Timers, server: Option<&Server>) -> bool {
        let rings = match (&self.server, server) {
            _ if !self.invite => false,
            (Some(_), server) => server.is_some_and(Server::waits),
            (None, _) => now < self.touched + RINGING_MAX,
        };
        rings || now < self.touched + timers.t1 * 192
    }
}

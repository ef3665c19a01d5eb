//! Transactions of a proxy, derived from its messages and the time alone.

use super::ProcessRule;
use base::Instant;
use core::time::Duration;
use std::net::SocketAddr;
use transaction::Timers;
use wire::{Message, Via};

/// Magic cookie at the start of branches of RFC 3261 (§8.1.1.7).
const COOKIE: &[u8] = b"z9hG4bK";
/// Most copies of a request that timers A and E produce, including the first (§17.1.1.2, §17.1.2.2).
const COPIES_MAX: (u32, u32) = (7, 11);
/// Most copies to a destination that only a message names, and that has never sent anything.
const COPIES_UNHEARD: u32 = 3;

/// Longer than Timer C lets an INVITE ring.
pub(super) const RINGING_MAX: Duration = Duration::from_mins(5);

/// Key of a server transaction (RFC 3261 §17.2.3): branch, sent-by, method.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ServerId {
    branch: Vec<u8>,
    sent_by: String,
    method: Vec<u8>,
}

impl ServerId {
    /// Key of a request with this method and topmost Via; `None` for a client of RFC 2543, whose branch identifies
    /// nothing.
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

    /// Key of a received request.
    pub(crate) fn of(request: &Message<'_>) -> Option<Self> {
        Self::new(request.top_via(), method_of(request))
    }

    /// Key of the received request that a sent message belongs to, as its response or as its forwarded copy.
    pub(crate) fn of_sent(sent: &Message<'_>) -> Option<Self> {
        if sent.status().is_some() { Self::of(sent) } else { Self::new(&sent.second_via()?, method_of(sent)) }
    }

    /// Key of the INVITE that an ACK or a CANCEL with this key belongs to.
    pub(super) fn of_invite(&self) -> Self {
        Self { method: b"INVITE".to_vec(), ..self.clone() }
    }

    /// Smallest key with this branch and sent-by.
    pub(super) fn first(&self) -> Self {
        Self { method: Vec::new(), ..self.clone() }
    }

    /// Returns true if both keys differ at most in the method.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        (&self.branch, &self.sent_by) == (&other.branch, &other.sent_by)
    }

    pub(super) fn is_invite(&self) -> bool {
        self.method == b"INVITE"
    }
}

/// Returns the method of a request, or the CSeq method of a response.
pub(super) fn method_of<'m>(message: &Message<'m>) -> &'m [u8] {
    message.cseq().method_name.of(message.bytes())
}

/// Whether a request was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cancelled {
    No,
    /// A CANCEL came that may be a retransmission of a CANCEL from before the request.
    Perhaps,
    Yes,
}

/// A received request.
pub(super) struct Server {
    pub(super) request: Vec<u8>,
    pub(super) from: SocketAddr,
    /// Destination of its responses.
    pub(super) back: SocketAddr,
    since: Instant,
    touched: Instant,
    invite: bool,
    /// The last response sent.
    pub(super) last: Option<(u16, Vec<u8>)>,
    final_at: Option<Instant>,
    pub(super) acked_at: Option<Instant>,
    pub(super) cancelled: Cancelled,
    /// Number of next hops that it was sent to.
    pub(super) attempts: u32,
    /// Keys of the forwarded requests.
    pub(super) branches: Vec<ClientId>,
    /// Number of branches that rang for the ring time and were followed by others.
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

    /// Returns true if it came in this step.
    pub(super) fn is_new(&self, now: Instant) -> bool {
        self.since == now
    }

    /// Returns true if it was answered 2xx.
    pub(super) fn is_accepted(&self) -> bool {
        self.is_answered() && self.status() < 300
    }

    pub(super) fn is_answered(&self) -> bool {
        self.final_at.is_some()
    }

    fn status(&self) -> u16 {
        self.last.as_ref().map_or(0, |(status, _)| *status)
    }

    /// Returns true if it was forwarded and has no final response.
    pub(super) fn waits(&self) -> bool {
        self.attempts > 0 && !self.is_answered()
    }

    /// Returns true if a copy counts as a new request: the transaction has ended, or there may never have been one.
    pub(super) fn is_over(&self, now: Instant, timers: &Timers) -> bool {
        let life = timers.t1 * 64;
        match self.final_at {
            // It may have been answered without a transaction (§16.3, §11).
            Some(_) if self.attempts == 0 => true,
            // Timer I, else timers H, L and J.
            Some(at) => match self.acked_at {
                Some(acked) if self.status() >= 300 => now >= acked + timers.t4,
                _ => now >= at + life,
            },
            // Timer F of the client.
            None => !self.invite && now >= self.since + life,
        }
    }

    /// Records that it was forwarded to a next hop.
    pub(super) fn sent_on(&mut self, now: Instant, by: ClientId) {
        self.attempts += 1;
        self.branches.push(by);
        self.touched = now;
    }

    /// Records a response, and checks that all final responses are equal. Only the 2xx to an INVITE may differ (§16.7
    /// step 5): each is passed back when it comes, even after a failure.
    pub(super) fn answered(&mut self, now: Instant, status: u16, bytes: &[u8], relayed: bool) {
        self.touched = now;
        let may_have = self.invite || status == 100 || status >= 200 && status != 408;
        ProcessRule::NonInviteStatus.holds(may_have, format_args!("{status}"));
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

    /// Returns true if no message can belong to it any more.
    pub(super) fn is_forgotten(&self, now: Instant, timers: &Timers) -> bool {
        self.is_over(now, timers) && now >= self.touched + timers.t1 * 192
    }
}

/// Key of a client transaction of the proxy (§17.1.3): branch and method.
pub(super) type ClientId = (Vec<u8>, Vec<u8>);

/// A forwarded request, or a CANCEL made by the proxy.
pub(super) struct Client {
    /// Its server transaction; `None` if the Via does not identify it.
    pub(super) server: Option<ServerId>,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
    copies: u32,
    copies_max: u32,
    since: Instant,
    touched: Instant,
    /// When the last response came, and when a CANCEL was sent.
    heard: Option<Instant>,
    pub(super) cancelled: Option<Instant>,
    invite: bool,
    /// Whether any response has come.
    pub(super) provisional: bool,
    /// Status of the final response, or 0.
    pub(super) status: u16,
    /// The ACK to its failure response.
    pub(super) ack: Option<Vec<u8>>,
}

impl Client {
    /// `is_known`: the destination is a next hop, or has sent something before.
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

    /// Checks a retransmission: same bytes, same destination, not too many, and none after the response.
    pub(super) fn repeated(&mut self, now: Instant, bytes: &[u8], to: SocketAddr) {
        ProcessRule::RetransmissionTarget.equal(to, self.to);
        ProcessRule::RetransmissionBytes.holds(bytes == self.bytes, format_args!("{}", bytes.escape_ascii()));
        ProcessRule::RetransmissionAnswered.holds(self.status == 0, format_args!("with {}", self.status));
        self.copies += 1;
        ProcessRule::RetransmissionCount
            .holds(self.copies <= self.copies_max, format_args!("{}", self.copies));
        self.touched = now;
    }

    /// Records a response.
    pub(super) fn heard(&mut self, now: Instant, status: u16, timers: &Timers) {
        self.touched = now;
        // A late response changes nothing.
        if self.waits(now, timers) {
            self.heard = Some(now);
        }
        self.provisional = true;
        if self.status == 0 && status >= 200 {
            self.status = status;
        }
    }

    /// Returns true if it certainly awaits its final response: timers B and C are running, and so is the time after a
    /// CANCEL.
    pub(super) fn waits(&self, now: Instant, timers: &Timers) -> bool {
        let life = timers.t1 * 64;
        let latest = [Some(self.heard.unwrap_or(self.since)), self.cancelled].into_iter().flatten().min();
        self.invite && self.status == 0 && latest.is_some_and(|at| now < at + life)
    }

    /// Returns true if its transaction may still exist. The client transaction of an INVITE lasts while the server
    /// transaction waits.
    pub(super) fn may_live(&self, now: Instant, timers: &Timers, server: Option<&Server>) -> bool {
        let rings = match (&self.server, server) {
            _ if !self.invite => false,
            (Some(_), server) => server.is_some_and(Server::waits),
            (None, _) => now < self.touched + RINGING_MAX,
        };
        rings || now < self.touched + timers.t1 * 192
    }
}

//! State of dialogs, in addition to a transaction for each request. Calls are known from their INVITE to the response
//! to their BYE, and their session timers are watched (RFC 4028 §8). The result of each call is reported once.

use crate::address::target::Target;
use crate::message::validate::{LARGEST, check_room};
use crate::outcome::rejection::{OwnResponse, Refused, Rejection, refused};
use crate::site::Site;
use crate::token::Tokens;
use crate::token::dialog::VerifiedToken;
use ::dialog::session_timer::{Forwarded, SessionTimer, SessionTimerRequest, TooSmall};
use ::dialog::{
    CallCounts, CallDescription, CallEvent, CallSettings, Calls, DialogEnds, DialogKey, DialogPath,
    DialogSide, ForwardedBye, HangUp, Heard, Invited, Proof,
};
use base::{Flow, Instant};
use core::hash::Hasher;
use core::time::Duration;
use std::net::SocketAddr;
use wire::build::RequestBuilder;
use wire::{Edits, Message, Method, NameAddr};

/// Refusal when there are too many calls (RFC 3261 §21.5.4). Some calls end within its Retry-After.
const TOO_MANY_CALLS: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Calls") };

/// Maximum bytes of a call's Call-ID and caller's tag together, and of the addresses of its two sides.
const LONGEST_NAME: usize = 1024;
const LONGEST_ENDS: usize = 4096;

/// Maximum bytes added to a 2xx (Session-Expires and Require), or to a request (Session-Expires and Min-SE).
const SESSION_MAX: usize = 70;

/// Settings of calls with kept dialogs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DialogSettings {
    /// Limits of duration and number of calls, for all shards together.
    pub calls: CallSettings,
    /// Session timers that are requested from the two sides.
    pub session: SessionTimer,
    /// Names of the pools in call records, by number.
    pub pools: Vec<String>,
}

impl DialogSettings {
    /// Returns the share of one of `shards` shards.
    fn share(&self, shards: usize) -> Self {
        let most = self.calls.most.div_ceil(shards.max(1));
        Self { calls: CallSettings { most, ..self.calls.clone() }, ..self.clone() }
    }
}

/// State of a request that begins a call with kept dialogs, or belongs to one, until its response.
pub(crate) struct Tracked {
    key: DialogKey,
    by: DialogSide,
    role: Role,
    session: Forwarded,
    /// The sender of the best failure so far, and its Reason.
    refused_by: Option<(SocketAddr, Box<[u8]>)>,
}

/// A received request, with the flows of caller and callee if they are clients.
#[derive(Clone, Copy)]
pub(crate) struct KeptRequest<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) clients: [Option<Flow>; 2],
}

/// The INVITE of a call, its record, and the path to the caller.
#[derive(Clone, Copy)]
struct NewCall<'a> {
    request: KeptRequest<'a>,
    invited: &'a Invited,
    to_caller: Option<DialogPath>,
}

enum Role {
    /// The INVITE that begins the call, and the path to the caller.
    Invites(Box<Invited>, Option<DialogPath>),
    /// An INVITE or UPDATE within the dialog, and whether it goes to the dialog's target.
    Refreshes(Proof),
    Ends(ForwardedBye),
    /// Any other request of a dialog whose state is kept.
    GoesOn,
}

impl Tracked {
    /// Returns the memory that the value takes besides its own size, in bytes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>()
            + size_of::<Invited>()
            + self.refused_by.as_ref().map_or(0, |(_, reason)| reason.len())
    }

    /// Returns the hash of the call.
    pub(crate) fn call(&self) -> u64 {
        self.key.call
    }

    /// RFC 4028 §8.1: sets Session-Expires and Min-SE of the forwarded request.
    pub(crate) fn edit_request(&self, message: &Message<'_>, edits: &mut Edits) {
        let mut set = |name: &str, value: Option<u32>, old: Option<&[u8]>| {
            let Some(value) = value.map(|value| value.to_string()) else { return };
            match old {
                // [8.1-2] The refresher parameter stays.
                Some(old) => edits.replace(message, old, value.as_bytes()),
                None => edits.add_header(message, name, value.as_bytes()),
            }
        };
        let Forwarded { expires, least, .. } = self.session;
        if expires.is_some() {
            set("Session-Expires", expires, message.session_expires().map(|(_, digits)| digits));
        }
        if least.is_some() {
            set("Min-SE", least, message.min_se().map(|(_, digits)| digits));
        }
    }
}

/// The dialogs of a shard.
#[derive(Debug, Default)]
pub(crate) struct Dialogs {
    calls: Calls,
    session: SessionTimer,
    pools: Vec<String>,
}

impl Dialogs {
    /// Applies the settings at one of `shards` shards.
    pub(crate) fn configure(&mut self, settings: &DialogSettings, shards: usize) {
        let DialogSettings { calls, session, pools } = settings.share(shards);
        self.calls.configure(calls);
        (self.session, self.pools) = (session, pools);
    }

    /// Checks that a request may begin a call: there is room for it, and its session interval is long enough.
    pub(crate) fn check(&self, site: &Site, message: &Message<'_>) -> Result<(), Rejection> {
        let call = call_hash(&site.tokens, message.call_id(), message.from_tag());
        if message.call_id().len() + message.from_tag().map_or(0, <[u8]>::len) > LONGEST_NAME {
            return Err(refused(400, "Call-ID Too Long").into());
        }
        self.session_of(message)?;
        if self.calls.has_room(call) { Ok(()) } else { Err(TOO_MANY_CALLS.into()) }
    }

    /// Returns whether there is room for the call of this INVITE.
    pub(super) fn has_room(&self, site: &Site, message: &Message<'_>) -> bool {
        self.calls.has_room(call_hash(&site.tokens, message.call_id(), message.from_tag()))
    }

    /// Records the INVITE of a call that is forwarded by this rule to this pool. `pool`: `None` for a user's contacts.
    pub(crate) fn begin(
        &mut self,
        site: &Site,
        message: &Message<'_>,
        from: SocketAddr,
        rule: Option<usize>,
        pool: Option<u16>,
    ) -> Result<Tracked, Rejection> {
        let session = self.session_of(message)?;
        let call = call_hash(&site.tokens, message.call_id(), message.from_tag());
        let rule = rule.map_or("", |rule| &site.routes.rule(rule).name);
        let pool = pool.and_then(|pool| self.pools.get(usize::from(pool))).map_or("", |name| name);
        let invited = Invited {
            about: about(message, DialogSide::Caller, from, rule, pool),
            unix: site.unix(),
            cseq: message.cseq().number,
            is_spiral: message
                .vias()
                .flatten()
                .any(|via| site.tokens.has_made(via.branch.unwrap_or_default())),
        };
        self.calls.invited(site.now, call, &invited).map_err(|_| TOO_MANY_CALLS)?;
        let (key, role) =
            (DialogKey { call, tag: 0 }, Role::Invites(Box::new(invited), way_to_caller(site, message)));
        Ok(Tracked { key, by: DialogSide::Caller, role, session, refused_by: None })
    }

    /// Records a forwarded request within a dialog whose token says that its state is kept. `proof`: whether it goes to
    /// the dialog's target.
    pub(crate) fn within(
        &mut self,
        site: &Site,
        message: &Message<'_>,
        from: SocketAddr,
        held: &VerifiedToken,
        proof: Proof,
    ) -> Result<Option<Box<Tracked>>, Rejection> {
        let method = message.method().unwrap_or(Method::Other);
        let refreshes = matches!(method, Method::Invite | Method::Update);
        let session = if refreshes { self.session_of(message)? } else { Forwarded::default() };
        let by = DialogSide::of(held.by_initiator);
        let (key, callee) = dialog_key(&site.tokens, message, by);
        let heard = self.calls.heard(site.now, key, by, message.cseq().number);
        if !refreshes && method != Method::Bye {
            let is_asked = heard == Some(Heard::Watched) && method != Method::Ack;
            let tracked = Tracked { key, by, role: Role::GoesOn, session, refused_by: None };
            return Ok(is_asked.then(|| Box::new(tracked)));
        }
        if heard.is_none() {
            let about = about(message, by, from, "", "");
            self.calls.found(site.now, key, about, callee.unwrap_or_default(), held.made);
        }
        Ok(Some(Box::new(self.follow(site, message, key, by, proof, session))))
    }

    /// Records a forwarded request that refreshes or ends a dialog.
    fn follow(
        &mut self,
        site: &Site,
        message: &Message<'_>,
        key: DialogKey,
        by: DialogSide,
        proof: Proof,
        session: Forwarded,
    ) -> Tracked {
        let role = if message.method() == Some(Method::Bye) {
            Role::Ends(self.calls.bye(site.now, key, by, reason(message), proof))
        } else {
            Role::Refreshes(proof)
        };
        Tracked { key, by, role, session, refused_by: None }
    }

    /// Records that this proxy refused a BYE of a dialog whose state is kept. The sender of the BYE regards the call as
    /// ended all the same (RFC 3261 §15.1.1).
    pub(crate) fn refused_bye(
        &mut self,
        site: &Site,
        bye: &Message<'_>,
        from: SocketAddr,
        held: &VerifiedToken,
        status: u16,
    ) {
        if let Ok(Some(tracked)) = self.within(site, bye, from, held, Proof::Tags) {
            self.concluded(site.now, &tracked, status, true);
        }
    }

    /// Records a forwarded request with a To tag and without a token, for example from a client that ignores
    /// Record-Route. It may belong to a known dialog. Its tags prove nothing, since any element may answer it.
    pub(crate) fn follow_without_token(
        &mut self,
        site: &Site,
        message: &Message<'_>,
    ) -> Option<Box<Tracked>> {
        message.method().filter(|method| matches!(method, Method::Invite | Method::Update | Method::Bye))?;
        let mut heard = |by| {
            let (key, _) = dialog_key(&site.tokens, message, by);
            self.calls.heard(site.now, key, by, message.cseq().number).map(|_| (key, by))
        };
        let (key, by) = heard(DialogSide::Caller).or_else(|| heard(DialogSide::Callee))?;
        Some(Box::new(self.follow(site, message, key, by, Proof::Tags, Forwarded::default())))
    }

    /// Records a response from `source` to the `tracked` request. All edits that do not depend on kept dialogs have
    /// already been made.
    pub(crate) fn relayed(
        &mut self,
        site: &mut Site,
        tracked: &mut Tracked,
        request: KeptRequest<'_>,
        response: &Message<'_>,
        source: Flow,
    ) {
        let now = site.now;
        match response.status().unwrap_or_default() {
            status @ 101..200 if matches!(tracked.role, Role::Invites(..)) => {
                let key = DialogKey { tag: site.tokens.tag_hash(response.to_tag()), ..tracked.key };
                self.calls.provisional(now, key, matches!(status, 180 | 182 | 183));
            }
            100..200 => {}
            status @ 200..300 => {
                let session = tracked.session_of(response, site);
                match &tracked.role {
                    Role::Invites(invited, to_caller) => {
                        let new = NewCall { request, invited, to_caller: *to_caller };
                        self.accept(site, tracked.key.call, response, source, session, Some(new));
                    }
                    Role::Ends(bye) => self.calls.bye_answered(now, tracked.key, status, *bye),
                    Role::Refreshes(proof) => {
                        let request = wire::scan(request.bytes).expect("the request was parsed on arrival");
                        let hashed = |uri| (uri, contact_hash(&site.tokens, uri));
                        let [asked_contact, answered_contact] =
                            [&request, response].map(|message| message.contact().map(hashed));
                        let contacts = if tracked.by == DialogSide::Caller {
                            [asked_contact, answered_contact]
                        } else {
                            [answered_contact, asked_contact]
                        };
                        self.calls.refreshed(now, tracked.key, session, (tracked.by, *proof), contacts);
                    }
                    Role::GoesOn => self.calls.request_accepted(now, tracked.key),
                }
            }
            _ => tracked.refused_by = Some((source.peer, reason(response).into())),
        }
    }

    /// Records a response to a request that already had a final response: another 2xx to an INVITE, or a repeated 2xx.
    pub(crate) fn relayed_late(&mut self, site: &Site, response: &Message<'_>, source: Flow) {
        let is_accepted = response.status().is_some_and(|status| (200..300).contains(&status));
        if is_accepted && response.cseq().method == Method::Invite && !self.calls.is_empty() {
            let call = call_hash(&site.tokens, response.call_id(), response.from_tag());
            let session = response.session_expires().map(|(seconds, _)| Duration::from_secs(seconds.into()));
            self.accept(site, call, response, source, session, None);
        }
    }

    fn accept(
        &mut self,
        site: &Site,
        call: u64,
        response: &Message<'_>,
        source: Flow,
        session: Option<Duration>,
        new: Option<NewCall<'_>>,
    ) {
        let key = DialogKey { call, tag: site.tokens.tag_hash(response.to_tag()) };
        let tag = response.to_tag().unwrap_or_default();
        let ways = [new.and_then(|new| new.to_caller), way_to_callee(site, response)];
        let ends = || {
            let KeptRequest { bytes, clients } = new?.request;
            ends(site, &wire::scan(bytes).ok()?, response, clients)
        };
        let invited = new.map(|new| new.invited);
        self.calls.accepted(site.now, key, (tag, source.peer, ways), invited, session, ends);
    }

    /// Records how many targets got the INVITE that begins a call, before its final response.
    pub(crate) fn tried(&mut self, tracked: &Tracked, attempts: usize) {
        if matches!(tracked.role, Role::Invites(..)) {
            self.calls.tried(tracked.key.call, u16::try_from(attempts).unwrap_or(u16::MAX));
        }
    }

    /// Records the final failure response to the `tracked` request, from this proxy (`is_own`) or from a next hop.
    pub(crate) fn concluded(&mut self, now: Instant, tracked: &Tracked, status: u16, is_own: bool) {
        match &tracked.role {
            Role::Invites(invited, _) => {
                let by = tracked.refused_by.as_ref().filter(|_| !is_own);
                let reason = by.map_or(&[][..], |(_, reason)| reason);
                let by = (by.map(|(source, _)| *source), reason);
                self.calls.failed(now, (tracked.key.call, invited), status, by);
            }
            Role::Ends(bye) => self.calls.bye_answered(now, tracked.key, status, *bye),
            Role::Refreshes(_) | Role::GoesOn => {}
        }
    }

    /// Records a 2xx to a BYE of this proxy. The sender of the 2xx still had the call.
    pub(crate) fn took_our_bye(&mut self, site: &Site, response: &Message<'_>) {
        for (of, by) in [(DialogSide::Caller, DialogSide::Callee), (DialogSide::Callee, DialogSide::Caller)] {
            self.calls.accepted_our_bye(dialog_key(&site.tokens, response, of).0, by);
        }
    }

    /// Records the CANCEL of a call's INVITE.
    pub(crate) fn cancelled(&mut self, call: u64, cancel: &Message<'_>) {
        self.calls.cancelled(call, DialogSide::Caller, reason(cancel));
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        self.calls.expire(now);
    }

    /// Ends the calls with this Call-ID. Returns the number of ended dialogs.
    pub(crate) fn hang_up_call(&mut self, now: Instant, call_id: &[u8]) -> usize {
        self.calls.hang_up_call(now, call_id)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.calls.deadline()
    }

    pub(crate) fn next_event(&mut self) -> Option<CallEvent> {
        self.calls.next_event()
    }

    /// Returns the Call-IDs of the present calls.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &[u8]> {
        self.calls.call_ids()
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(crate) fn counts(&self) -> CallCounts {
        self.calls.counts()
    }

    /// Returns the session interval for a session refresh request (RFC 4028 §8.1).
    fn session_of(&self, message: &Message<'_>) -> Result<Forwarded, Rejection> {
        check_room(message, SESSION_MAX)?;
        let asked_contact = SessionTimerRequest {
            supports: message.supports("timer"),
            expires: message.session_expires().map(|(seconds, _)| seconds),
            least: message.min_se().map(|(seconds, _)| seconds),
        };
        self.session
            .request(asked_contact)
            .map_err(|TooSmall(least)| Rejection::Answered(OwnResponse::SessionTooShort(least)))
    }
}

impl Tracked {
    /// RFC 4028 §8.2: returns the duration of the session. Adds header fields to the 2xx if no element behind this
    /// proxy supports timers.
    fn session_of(&self, response: &Message<'_>, site: &mut Site) -> Option<Duration> {
        if !matches!(self.role, Role::Invites(..) | Role::Refreshes(_)) {
            return None;
        }
        let has_room = response.bytes().len() + SESSION_MAX <= LARGEST;
        // [8.2-2] [8.2-3]
        let answered = self.session.kept.response(response.session_expires().map(|(seconds, _)| seconds));
        let is_unread = response.header("Session-Expires").is_some();
        if let Some(seconds) = answered.insert.filter(|_| has_room && !is_unread) {
            let value = format!("{seconds};refresher=uac");
            site.edits.add_header(response, "Session-Expires", value.as_bytes());
            if !response.option_tags("Require").any(|tag| tag.eq_ignore_ascii_case(b"timer")) {
                site.edits.add_header(response, "Require", b"timer");
            }
        }
        answered.interval.map(|seconds| Duration::from_secs(seconds.into()))
    }
}

fn tags<'a>(message: &Message<'a>, by: DialogSide) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
    let (from, to) = (message.from_tag(), message.to_tag());
    if by == DialogSide::Caller { (from, to) } else { (to, from) }
}

/// Returns the key of a dialog, and the callee's tag.
fn dialog_key<'a>(tokens: &Tokens, message: &Message<'a>, by: DialogSide) -> (DialogKey, Option<&'a [u8]>) {
    let (caller, callee) = tags(message, by);
    let call = call_hash(tokens, message.call_id(), caller);
    (DialogKey { call, tag: tokens.tag_hash(callee) }, callee)
}

/// Returns the hash of a call, the same for requests of both sides.
fn call_hash(tokens: &Tokens, call_id: &[u8], caller: Option<&[u8]>) -> u64 {
    let mut hasher = tokens.kept_hasher();
    hasher.write_usize(call_id.len());
    hasher.write(call_id);
    hasher.write(caller.unwrap_or_default());
    hasher.finish()
}

fn about(message: &Message<'_>, by: DialogSide, from: SocketAddr, rule: &str, pool: &str) -> CallDescription {
    let uri = |value| NameAddr::parse(value).map_or(&[][..], |address| address.uri);
    let (mut caller, mut callee) = (uri(message.from()), uri(message.to()));
    if by == DialogSide::Callee {
        core::mem::swap(&mut caller, &mut callee);
    }
    let (tag, _) = tags(message, by);
    // In a request within a dialog, the Request-URI is the Contact of the receiver.
    let asked_contact = if message.to_tag().is_none() { message.uri().unwrap_or_default() } else { &[] };
    let texts = [
        message.call_id(),
        tag.unwrap_or_default(),
        caller,
        callee,
        asked_contact,
        rule.as_bytes(),
        pool.as_bytes(),
    ];
    CallDescription::new(texts, (by == DialogSide::Caller).then_some(from))
}

/// Returns the path to the caller by its INVITE: the Record-Route values below this proxy's, and the Contact.
fn way_to_caller(site: &Site, invite: &Message<'_>) -> Option<DialogPath> {
    Some(way(&site.tokens, invite.record_routes().map(|value| value.uri), invite.contact()?))
}

/// Returns the path to the callee by its 2xx: the Record-Route values above this proxy's, and the Contact.
fn way_to_callee(site: &Site, response: &Message<'_>) -> Option<DialogPath> {
    let is_ours = |uri: &[u8]| wire::SipUri::parse(uri).is_ok_and(|uri| site.topology.is_ours(&uri));
    let beyond = response.record_routes().map(|value| value.uri).take_while(|uri| !is_ours(uri));
    let beyond: Vec<_> = beyond.collect();
    Some(way(&site.tokens, beyond.into_iter().rev(), response.contact()?))
}

/// Returns the path of a request to this Contact, by these Route values, which follow this proxy's value.
pub(super) fn way<'a>(tokens: &Tokens, routes: impl Iterator<Item = &'a [u8]>, contact: &[u8]) -> DialogPath {
    let mut routes = routes.peekable();
    let is_direct = routes.peek().is_none();
    let mut hasher = tokens.kept_hasher();
    for route in routes {
        hasher.write_usize(route.len());
        hasher.write(route);
    }
    DialogPath { routes: if is_direct { 0 } else { hasher.finish() }, contact: contact_hash(tokens, contact) }
}

/// Returns the hash of user and target of a Contact. Other parameters are left out, since they may get lost between
/// Contact and Request-URI.
fn contact_hash(tokens: &Tokens, uri: &[u8]) -> u64 {
    let mut hasher = tokens.kept_hasher();
    let user = wire::SipUri::parse(uri).ok().and_then(|uri| uri.user).unwrap_or_default();
    hasher.write_usize(user.len());
    hasher.write(user);
    match Target::of(uri) {
        Target::OtherTransport | Target::Nowhere => hasher.write(uri),
        target => target.put(&mut hasher),
    }
    hasher.finish()
}

/// Returns the Reason (RFC 3326).
fn reason<'a>(message: &Message<'a>) -> &'a [u8] {
    message.header("Reason").unwrap_or_default()
}

/// Returns the routes from this proxy to both sides. To the caller, [12.1.1-1], they are the Record-Route values below
/// this proxy's value, in their order. To the callee, [12.1.2-1], they are the values above this proxy's value, in
/// reverse order. `None` if they take too much memory.
fn ends(
    site: &Site,
    request: &Message<'_>,
    response: &Message<'_>,
    [caller, callee]: [Option<Flow>; 2],
) -> Option<DialogEnds> {
    let joined = |values: Vec<&[u8]>| values.join(&b", "[..]).into_boxed_slice();
    let to_caller: Vec<_> = request.record_routes().map(|value| value.value.of(request.bytes())).collect();
    let is_ours = |uri: &[u8]| wire::SipUri::parse(uri).is_ok_and(|uri| site.topology.is_ours(&uri));
    let above = response.record_routes().take_while(|value| !is_ours(value.uri));
    let mut to_callee: Vec<_> = above.map(|value| value.value.of(response.bytes())).collect();
    to_callee.reverse();
    let contact = |message: &Message<'_>| message.contact().unwrap_or_default().into();
    let flows = [caller.filter(|_| to_caller.is_empty()), callee.filter(|_| to_callee.is_empty())];
    let ends = DialogEnds {
        flows,
        from_and_to: [response.from().into(), response.to().into()],
        contacts: [contact(request), contact(response)],
        routes: [joined(to_caller), joined(to_callee)],
    };
    let length = ends
        .from_and_to
        .iter()
        .chain(&ends.contacts)
        .chain(&ends.routes)
        .map(|text| text.len())
        .sum::<usize>();
    (length <= LONGEST_ENDS).then_some(ends)
}

/// Writes a BYE of this proxy with this Via to one side of a dialog. The BYE is as the other side would send it:
/// [12.2.1.1-1] it has the tags of the other side, [12.2.1.1-2] and the next CSeq number of that side.
pub(crate) fn bye(hang_up: &HangUp, to: DialogSide, via: &[u8], out: &mut Vec<u8>) {
    let (of, other) = (DialogEnds::index(to), 1 - DialogEnds::index(to));
    let ends = &hang_up.ends;
    let mut request = RequestBuilder::new(out, "BYE", &ends.contacts[of]).header("Via", via);
    if !ends.routes[of].is_empty() {
        request = request.header("Route", &ends.routes[of]);
    }
    request
        .header("Max-Forwards", "70")
        .header("From", &ends.from_and_to[other])
        .header("To", &ends.from_and_to[of])
        .header("Call-ID", &hang_up.call_id)
        .header_fmt("CSeq", format_args!("{} BYE", hang_up.cseq[other].saturating_add(1)))
        .header("Reason", "SIP;cause=408;text=\"Time Limit Of Calls\"")
        .finish(b"");
}

//! Rules for a registrar: which contacts are found, and which requests pass (RFC 3261 §10.3, §16.5, §22).

use super::hop::scanned;
use super::transactions::ServerId;
use super::{ProcessInput, ProcessRule, Sent};
use crate::credentials::prover;
use base::Instant;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use wire::{ContactValue, Message, Method, NameAddr, SipUri};

/// Intervals have a resolution of one second.
const SECOND: Duration = Duration::from_secs(1);
/// Longer than any binding.
const LONGEST: Duration = Duration::from_hours(2);
/// Longest wait for the stores: a few questions for each request, at most five seconds each.
const PATIENCE: Duration = Duration::from_mins(1);

/// User name and contact URI.
type Binding = (Vec<u8>, Vec<u8>);

/// Knowledge about a contact.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Start and end of the time in which it is certainly registered.
    surely: Option<(Instant, Instant)>,
    /// Until when it may be registered; `None`: it certainly is not.
    until: Option<Instant>,
}

/// A contact, derived from the answers to REGISTERs.
#[derive(Default)]
struct Bound {
    known: Known,
    /// REGISTERs that may change it and have no answer.
    open: BTreeSet<ServerId>,
    /// Knowledge after they are answered; `None`: unknown.
    then: Option<Known>,
}

impl Bound {
    /// A REGISTER that may change it has come.
    fn opens(&mut self, now: Instant, id: &ServerId) {
        if self.open.is_empty() {
            self.then = Some(self.known);
        }
        self.open.insert(id.clone());
        self.known = Known { surely: None, until: Some(now + LONGEST) };
    }

    /// A REGISTER was answered.
    fn closes(&mut self, id: &ServerId, outcome: Outcome) {
        if !self.open.remove(id) {
            return;
        }
        match outcome {
            // The order of concurrent changes is unknown.
            _ if !self.open.is_empty() => self.then = None,
            Outcome::Done(known) => self.then = Some(known),
            Outcome::Nothing => {}
            Outcome::Unknown => self.then = None,
        }
        if self.open.is_empty()
            && let Some(known) = self.then.take()
        {
            self.known = known;
        }
    }
}

/// Effect of a REGISTER on a contact.
#[derive(Clone, Copy)]
enum Outcome {
    Done(Known),
    Nothing,
    Unknown,
}

/// A received request.
struct ReceivedRequest {
    since: Instant,
    user: Vec<u8>,
    is_register: bool,
    /// Contact of a REGISTER; `None`: all contacts of the user.
    contact: Option<Vec<u8>>,
    is_proved: bool,
    /// Whether something was sent for it.
    is_answered: bool,
}

/// Watches a registrar that forwards requests to the contacts of its users.
pub(crate) struct HomeWatch {
    authenticates: bool,
    is_durable: bool,
    now: Instant,
    bound: BTreeMap<Binding, Bound>,
    requests: BTreeMap<ServerId, ReceivedRequest>,
}

impl HomeWatch {
    pub(crate) fn new(authenticates: bool, is_durable: bool) -> Self {
        let (bound, requests) = (BTreeMap::new(), BTreeMap::new());
        Self { authenticates, is_durable, now: Instant::ZERO, bound, requests }
    }

    /// The process ended. Pending changes may have been made or not. Bindings that are not durable are gone.
    pub(crate) fn ended(&mut self) {
        self.requests.clear();
        for bound in self.bound.values_mut() {
            let known = if self.is_durable { bound.known } else { Known::default() };
            *bound = Bound { known, ..Bound::default() };
        }
    }

    /// The process sent `sent` because of `cause`.
    pub(crate) fn check(&mut self, now: Instant, cause: ProcessInput<'_>, sent: &[Sent]) {
        self.now = now;
        if let ProcessInput::Datagram { bytes, .. } = cause
            && let Ok(request) = wire::scan(bytes)
        {
            self.heard(&request);
        }
        let sent: Vec<_> = sent.iter().map(scanned).collect();
        let ids: BTreeSet<_> = sent.iter().filter_map(ServerId::of_sent).collect();
        for id in ids {
            let of: Vec<_> =
                sent.iter().filter(|message| ServerId::of_sent(message).as_ref() == Some(&id)).collect();
            self.sent(&id, &of);
        }
    }

    /// Records a new request. Copies are ignored.
    fn heard(&mut self, request: &Message<'_>) {
        let is_register = request.method() == Some(Method::Register);
        let begins = (is_register || request.method() == Some(Method::Invite)) && request.to_tag().is_none();
        let id = ServerId::of(request);
        let Some(id) = id.filter(|id| begins && !self.requests.contains_key(id)) else { return };
        let uri = if is_register { NameAddr::parse(request.to()).map(|to| to.uri) } else { request.uri() };
        let user = uri.and_then(user_of).unwrap_or_default();
        let prover = prover(request).filter(|name| !is_register || *name == user);
        let is_proved = !self.authenticates || prover.is_some();
        let contact = request.contacts().find_map(|value| match value {
            Ok(ContactValue::Address(address)) => Some(address.uri.to_vec()),
            _ => None,
        });
        if is_register && is_proved {
            self.opens(&id, &user, contact.as_deref());
        }
        let received =
            ReceivedRequest { since: self.now, user, is_register, contact, is_proved, is_answered: false };
        self.requests.insert(id, received);
    }

    /// Records a pending REGISTER. A pending removal of all contacts may also remove a contact that is registered after
    /// it.
    fn opens(&mut self, id: &ServerId, user: &[u8], contact: Option<&[u8]>) {
        let now = self.now;
        if let Some(contact) = contact {
            let bound = self.bound.entry((user.to_vec(), contact.to_vec())).or_default();
            let removes_all = |(_, received): &(&ServerId, &ReceivedRequest)| {
                received.is_register && received.contact.is_none() && received.user == user
            };
            let others =
                self.requests.iter().filter(removes_all).filter(|(_, received)| !received.is_answered);
            others.for_each(|(other, _)| bound.opens(now, other));
            return bound.opens(now, id);
        }
        let of_user = self.bound.iter_mut().filter(|((name, _), _)| name == user);
        of_user.for_each(|(_, bound)| bound.opens(now, id));
    }

    /// These messages were sent for the request with this key.
    fn sent(&mut self, id: &ServerId, sent: &[&Message<'_>]) {
        let Some(received) = self.requests.get_mut(id) else { return };
        let is_first = !core::mem::replace(&mut received.is_answered, true);
        if !is_first {
            return;
        }
        let received = &self.requests[id];
        let name = || received.user.escape_ascii().to_string();
        let status = sent.iter().find_map(|message| message.status()).unwrap_or_default();
        let called: BTreeSet<_> =
            sent.iter().filter(|one| one.status().is_none()).filter_map(|one| one.uri()).collect();
        let got_through = !called.is_empty() || (200..300).contains(&status);
        ProcessRule::NotAuthenticated
            .holds(received.is_proved || !got_through, format_args!("for {}", name()));
        if received.is_register {
            return self.registered(id, status, sent);
        }
        // Refused for another reason than a missing contact.
        if called.is_empty() && status >= 300 && status != 480 {
            return;
        }
        let of_user = |((user, _), _): &(&Binding, &Bound)| *user == received.user;
        for ((user, contact), bound) in self.bound.iter().filter(of_user) {
            let surely =
                bound.known.surely.is_some_and(|(from, to)| from <= received.since && self.now <= to);
            let is_called = called.contains(&contact[..]);
            let of = format_args!("{} of {}", contact.escape_ascii(), user.escape_ascii());
            ProcessRule::ContactNotCalled.holds(is_called || !surely, of);
        }
        for contact in called {
            let bound = self.bound.get(&(received.user.clone(), contact.to_vec()));
            let may = bound.and_then(|bound| bound.known.until).is_some_and(|until| received.since <= until);
            ProcessRule::GoneContactCalled
                .holds(may, format_args!("{} of {}", contact.escape_ascii(), name()));
        }
    }

    /// A REGISTER was answered.
    fn registered(&mut self, id: &ServerId, status: u16, answers: &[&Message<'_>]) {
        let received = &self.requests[id];
        let granted = |contact: &[u8]| {
            let mut listed = answers.iter().flat_map(|answer| answer.contacts()).filter_map(Result::ok);
            listed.find_map(|value| match value {
                ContactValue::Address(address) if address.uri == contact => address.expires,
                _ => None,
            })
        };
        let is_about = |((user, contact), _): &(&Binding, &mut Bound)| {
            *user == received.user && received.contact.as_ref().is_none_or(|own| own == contact)
        };
        for ((_, contact), bound) in self.bound.iter_mut().filter(is_about) {
            let outcome = match (status, granted(contact)) {
                (200..300, Some(seconds)) => {
                    let granted = Duration::from_secs(seconds.into());
                    let surely = Some((self.now, received.since + granted.saturating_sub(SECOND)));
                    Outcome::Done(Known { surely, until: Some(self.now + granted + SECOND) })
                }
                // A call from before may still be on its way there.
                (200..300, None) => Outcome::Done(Known { surely: None, until: Some(self.now) }),
                (503, _) => Outcome::Unknown,
                _ => Outcome::Nothing,
            };
            bound.closes(id, outcome);
        }
    }

    /// Checks that every request was answered or forwarded in time.
    pub(crate) fn audit(&self, now: Instant) {
        let waits = |received: &&ReceivedRequest| !received.is_answered && now > received.since + PATIENCE;
        let waits = self.requests.values().find(waits);
        let user = waits.map(|received| received.user.escape_ascii().to_string());
        ProcessRule::NotAnswered.holds(waits.is_none(), format_args!("about {user:?}"));
    }
}

/// Returns the user part of a URI.
fn user_of(uri: &[u8]) -> Option<Vec<u8>> {
    let uri = SipUri::parse(uri).ok()?;
    uri.user.map(<[u8]>::to_vec)
}

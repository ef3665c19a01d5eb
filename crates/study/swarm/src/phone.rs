//! A phone that registers (RFC 3261 §10.2): one REGISTER after the other, at the times of its plan.

use crate::credentials::{answer, with_field};
use crate::plan::{DOMAIN, PhonePlan, PhoneStep, answerer_address, password, site_address, user_name};
use base::Instant;
use core::time::Duration;
use std::net::SocketAddr;
use wire::build::RequestBuilder;

/// Wait after a temporary refusal.
const LATER: Duration = Duration::from_secs(3);
/// Most answers to challenges of one REGISTER, so that a registrar that challenges every request is given up.
const TRIES_MAX: u32 = 4;

/// A REGISTER that waits for its final response.
struct PendingRegister {
    branch: Vec<u8>,
    bytes: Vec<u8>,
    step: PhoneStep,
    /// Challenges answered so far.
    tries: u32,
    /// Next retransmission (Timer E, RFC 3261 §17.1.2.2).
    again: Instant,
    interval: Duration,
    /// Timeout (Timer F).
    until: Instant,
}

pub(crate) struct Phone {
    plan: PhonePlan,
    timers: load::Timers,
    /// Steps begun so far.
    done: usize,
    /// A step to retry, and when.
    later: Option<(Instant, PhoneStep)>,
    pending: Option<PendingRegister>,
    cseq: u32,
    secret: Vec<u8>,
}

impl Phone {
    pub(crate) fn new(plan: &PhonePlan, timers: load::Timers) -> Self {
        let name = user_name(plan.user);
        let secret = if plan.knows_password { password(name.as_bytes()) } else { b"guessed".to_vec() };
        Self { plan: plan.clone(), timers, done: 0, later: None, pending: None, cseq: 0, secret }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        if let Some(pending) = &self.pending {
            return Some(pending.again.min(pending.until));
        }
        let next = self.plan.steps.get(self.done).map(|(at, _)| *at);
        [next, self.later.map(|(at, _)| at)].into_iter().flatten().min()
    }

    fn aor(&self) -> String {
        format!("sip:{}@{DOMAIN}", user_name(self.plan.user))
    }

    fn at(&self) -> SocketAddr {
        answerer_address(self.plan.answerer)
    }

    /// Address that REGISTERs are sent to.
    pub(crate) fn registrar(&self) -> SocketAddr {
        site_address(self.plan.site)
    }

    fn uri() -> String {
        format!("sip:{DOMAIN}")
    }

    fn register(&self, step: PhoneStep) -> (Vec<u8>, Vec<u8>) {
        let (at, aor, number) = (self.at(), self.aor(), self.plan.answerer);
        let branch = format!("z9hG4bKphone{number}n{}", self.cseq);
        let mut bytes = Vec::new();
        let request = RequestBuilder::new(&mut bytes, "REGISTER", Self::uri())
            .header("Via", format!("SIP/2.0/UDP {at};rport;branch={branch}"))
            .header("Max-Forwards", "70")
            .header("From", format!("<{aor}>;tag=phone{number}"))
            .header("To", format!("<{aor}>"))
            .header("Call-ID", format!("phone-{number}@{}", at.ip()))
            .header("CSeq", format!("{} REGISTER", self.cseq));
        let contact = format!("<sip:phone-{number}@{at}>");
        let request = match step {
            PhoneStep::Register(expires) => {
                request.header("Contact", contact).header("Expires", expires.to_string())
            }
            PhoneStep::Remove => request.header("Contact", contact).header("Expires", "0"),
            PhoneStep::RemoveAll => request.header("Contact", "*").header("Expires", "0"),
        };
        request.finish(b"");
        (branch.into_bytes(), bytes)
    }

    /// Builds a REGISTER, with an extra header field if given, and starts to wait for its response.
    fn ask(&mut self, now: Instant, step: PhoneStep, tries: u32, field: Option<(&str, Vec<u8>)>) -> Vec<u8> {
        self.cseq += 1;
        let (branch, bytes) = self.register(step);
        let bytes = field.map_or(bytes.clone(), |(name, value)| with_field(&bytes, name, &value));
        let interval = self.timers.t1;
        let (again, until) = (now + interval, now + self.timers.t1 * 64);
        self.pending =
            Some(PendingRegister { branch, bytes: bytes.clone(), step, tries, again, interval, until });
        bytes
    }

    /// Runs due timers, and returns the bytes to send.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Vec<u8>> {
        if let Some(pending) = &mut self.pending {
            if now < pending.until {
                let due = now >= pending.again;
                pending.interval =
                    if due { (pending.interval * 2).min(self.timers.t2) } else { pending.interval };
                pending.again = if due { now + pending.interval } else { pending.again };
                return due.then(|| pending.bytes.clone());
            }
            // Timer F fired without an answer.
            self.later = Some((now, pending.step));
            self.pending = None;
        }
        if let Some(&(at, step)) = self.plan.steps.get(self.done)
            && at <= now
        {
            // The next step replaces one that did not succeed.
            self.done += 1;
            self.later = None;
            return Some(self.ask(now, step, 0, None));
        }
        let (_, step) = self.later.take_if(|(at, _)| *at <= now)?;
        Some(self.ask(now, step, 0, None))
    }

    /// Handles a response to a REGISTER, and returns the bytes to send.
    pub(crate) fn receive(&mut self, now: Instant, bytes: &[u8]) -> Option<Vec<u8>> {
        let response = wire::scan(bytes).ok()?;
        let (status, branch) = (response.status()?, response.top_via().branch?);
        let pending = self.pending.take_if(|pending| pending.branch == branch && status >= 200)?;
        let name = user_name(self.plan.user);
        let uri = Self::uri();
        if status == 401 && pending.tries < TRIES_MAX {
            let field = answer(&response, name.as_bytes(), &self.secret, uri.as_bytes())?;
            return Some(self.ask(now, pending.step, pending.tries + 1, Some(field)));
        }
        if status >= 500 {
            self.later = Some((now + LATER, pending.step));
        }
        None
    }
}

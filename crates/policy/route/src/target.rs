//! Where a rule sends a request: to pools, to its own Request-URI, or nowhere but back with an answer.

use crate::Failover;
use core::cmp::Reverse;

/// Where a rule sends a request.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Target {
    /// To a member of one of these.
    Pools(Pools),
    /// Where its Request-URI leads, as it is after the rule's actions; of whoever is no member of a pool only to an
    /// address in [`Conditions::hosts`](crate::Conditions::hosts), so that no stranger has requests sent anywhere.
    #[default]
    RequestUri,
    /// To where the user in its Request-URI has registered.
    Location,
    /// Nowhere: it is answered.
    Answer(Answer),
    /// Nowhere, and whoever sent it hears nothing.
    Silence,
}

/// Pools that a rule sends requests to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pools {
    /// At least one.
    pub choices: Vec<Choice>,
    /// When the next one is tried.
    pub failover: Failover,
}

/// One of the pools of a target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    /// Number of the pool, as whoever makes the table numbers them.
    pub pool: u16,
    /// Those of the lowest number come first, as with SRV records (RFC 2782).
    pub priority: u16,
    /// Share of the first attempts among those of the same priority; more than 0.
    pub weight: f64,
}

impl Pools {
    /// One pool that gets everything.
    pub fn one(pool: u16) -> Self {
        Self { choices: vec![Choice { pool, priority: 1, weight: 1.0 }], failover: Failover::default() }
    }

    /// The pools in the order in which they are tried for a call.
    ///
    /// By priority; within one by weight, drawn from the call's key and the place in the list alone (weighted
    /// rendezvous, as the policy `hash` has it). So a request that is sent again, or comes to another thread or
    /// process, goes the same way, whatever number the pool has there, and a change of one weight moves few calls.
    pub fn order(&self, call: u128) -> impl Iterator<Item = u16> + use<> {
        let drawn = |place: u16, choice: &Choice| -choice.weight / draw(call, place).ln();
        let places = (0..).zip(&self.choices);
        let mut all: Vec<_> =
            places.map(|(place, choice)| (choice.priority, drawn(place, choice), choice.pool)).collect();
        all.sort_by(|one, other| {
            one.0.cmp(&other.0).then(Reverse(Total(one.1)).cmp(&Reverse(Total(other.1))))
        });
        all.into_iter().map(|(_, _, pool)| pool)
    }

    /// The first of [`order`](Self::order), without the others.
    pub fn first(&self, call: u128) -> Option<u16> {
        match &self.choices[..] {
            [only] => Some(only.pool),
            _ => self.order(call).next(),
        }
    }
}

/// A number that is never NaN.
#[derive(Clone, Copy, PartialEq)]
struct Total(f64);

impl Eq for Total {}

impl PartialOrd for Total {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Total {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A number in (0, 1) from a call and a place: the finalizer of splitmix64 over both.
fn draw(call: u128, place: u16) -> f64 {
    let mut x =
        (call as u64) ^ ((call >> 64) as u64) ^ (u64::from(place) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    ((x >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// An answer of our own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    status: u16,
    reason: String,
    contacts: Vec<String>,
}

impl Answer {
    /// The longest reason phrase, in bytes.
    pub const REASON_MAX: usize = 60;
    /// The most bytes of all Contacts: an answer must not be much longer than what is answered, whose source may be
    /// forged.
    pub const CONTACTS_MAX: usize = 256;

    /// An answer with this status and reason phrase; without a phrase, that of RFC 3261 §21. `contacts` are the URIs
    /// of a redirection, in the order of preference.
    ///
    /// # Errors
    /// What is expected: a failure or a redirection, text on one line, URIs with a 3xx only, and with a 300 to 302 at
    /// least one.
    pub fn new(status: u16, reason: Option<&str>, contacts: &[&str]) -> Result<Self, String> {
        if !(300..700).contains(&status) {
            return Err("expected a status from 300 to 699".to_owned());
        }
        let reason = reason.unwrap_or_else(|| reason_of(status));
        if reason.len() > Self::REASON_MAX || reason.chars().any(char::is_control) {
            return Err(format!("expected a reason of at most {} bytes on one line", Self::REASON_MAX));
        }
        let is_redirection = status < 400;
        if !is_redirection && !contacts.is_empty() {
            return Err("expected a status from 300 to 399 with a contact".to_owned());
        }
        if matches!(status, 300..=302) && contacts.is_empty() {
            return Err("expected a contact: where the caller is to go instead".to_owned());
        }
        if contacts.iter().map(|contact| contact.len()).sum::<usize>() > Self::CONTACTS_MAX {
            return Err(format!("expected contacts of at most {} bytes together", Self::CONTACTS_MAX));
        }
        let is_uri =
            |contact: &&str| wire::SipUri::parse(contact.as_bytes()).is_ok_and(|uri| !uri.has_headers);
        if let Some(wrong) = contacts.iter().find(|contact| !is_uri(contact)) {
            return Err(format!("expected a SIP URI, such as \"sip:bob@example.com\", and not {wrong:?}"));
        }
        let contacts = contacts.iter().map(|contact| (*contact).to_owned()).collect();
        Ok(Self { status, reason: reason.to_owned(), contacts })
    }

    /// 300 to 699.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason phrase.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The value of the Contact, if there is one (RFC 3261 §8.3, §20.10).
    pub fn contact(&self) -> Option<String> {
        let values: Vec<_> = self.contacts.iter().map(|uri| format!("<{uri}>")).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// The reason phrases of RFC 3261 §21 for what a proxy may answer without having asked anybody.
fn reason_of(status: u16) -> &'static str {
    match status {
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        305 => "Use Proxy",
        380 => "Alternative Service",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        410 => "Gone",
        480 => "Temporarily Unavailable",
        484 => "Address Incomplete",
        485 => "Ambiguous",
        486 => "Busy Here",
        488 => "Not Acceptable Here",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        600 => "Busy Everywhere",
        603 => "Decline",
        604 => "Does Not Exist Anywhere",
        606 => "Not Acceptable",
        _ if status < 400 => "Redirected",
        _ => "Refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(choices: &[(u16, u16, f64)]) -> Pools {
        let choice = |&(pool, priority, weight): &_| Choice { pool, priority, weight };
        Pools { choices: choices.iter().map(choice).collect(), failover: Failover::default() }
    }

    #[test]
    fn pools_are_tried_by_priority_and_shared_by_weight() {
        let pools = pools(&[(0, 2, 1.0), (1, 1, 3.0), (2, 1, 1.0)]);
        let (mut firsts, calls) = ([0; 3], 8_000_u64);
        for call in 0..calls {
            let key = u128::from(call.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let order: Vec<_> = pools.order(key).collect();
            assert_eq!(order, pools.order(key).collect::<Vec<_>>());
            assert_eq!(pools.first(key), Some(order[0]));
            assert_eq!((order.len(), order[2]), (3, 0), "the lower priority comes last");
            firsts[usize::from(order[0])] += 1;
        }
        assert!((5_800..6_200).contains(&firsts[1]), "three quarters of {calls}: {firsts:?}");
        assert_eq!(Pools::one(7).first(1), Some(7));
    }

    #[test]
    fn a_change_of_one_weight_moves_few_calls() {
        let (before, after) = (pools(&[(0, 0, 1.0), (1, 0, 1.0)]), pools(&[(0, 0, 1.0), (1, 0, 1.5)]));
        let moved = (0..1_000_u128).filter(|&call| before.first(call << 9) != after.first(call << 9));
        let moved: Vec<_> = moved.collect();
        assert!((50..150).contains(&moved.len()), "a tenth: {}", moved.len());
        assert!(moved.iter().all(|call| after.first(call << 9) == Some(1)));
    }

    #[test]
    fn answers_are_what_a_caller_can_read() {
        let answer = Answer::new(302, None, &["sip:a@b", "sips:c@[2001:db8::1]:5061"]).unwrap();
        assert_eq!((answer.status(), answer.reason()), (302, "Moved Temporarily"));
        assert_eq!(answer.contact().as_deref(), Some("<sip:a@b>, <sips:c@[2001:db8::1]:5061>"));
        assert_eq!(Answer::new(403, Some("Not From There"), &[]).unwrap().contact(), None);
        let long = "x".repeat(61);
        let host = format!("sip:{}", "h".repeat(300));
        for (status, reason, contacts) in [
            (200, None, &[][..]),
            (299, None, &[]),
            (700, None, &[]),
            (302, None, &[]),
            (403, None, &["sip:a@b"]),
            (302, None, &["a@b"]),
            (302, None, &["sip:a@b>, <sip:c"]),
            (302, None, &["sip:a@b\r\nEvil: 1"]),
            (302, None, &["sip:a@b?x=y"]),
            (302, None, &[&host[..]]),
            (403, Some("a\r\nEvil: 1"), &[]),
            (403, Some(&long[..]), &[]),
        ] {
            assert!(Answer::new(status, reason, contacts).is_err(), "{status} {reason:?} {contacts:?}");
        }
    }
}

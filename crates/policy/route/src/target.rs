//! Target of a rule: pools, the Request-URI, registered contacts, or a response.

use crate::Failover;
use core::cmp::Reverse;

/// Destination of a rule's requests.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Target {
    /// A member of one of these pools.
    Pools(Pools),
    /// The Request-URI after the rule's actions. A request from a sender other than a member may only go to an address
    /// in [`Conditions::hosts`](crate::Conditions::hosts). So a stranger cannot have requests sent to any address.
    #[default]
    RequestUri,
    /// Contacts that the user in the Request-URI has registered.
    Location,
    /// No destination: the request is answered.
    Answer(Answer),
    /// No destination and no response.
    Silence,
}

/// Pools of a target.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pools {
    /// At least one pool.
    pub choices: Vec<TargetPool>,
    /// Rules for trying the next pool.
    pub failover: Failover,
}

/// A pool of a target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TargetPool {
    /// Number of the pool, assigned by the creator of the table.
    pub pool: u16,
    /// Pools with the lowest number come first, as with SRV records (RFC 2782).
    pub priority: u16,
    /// Share of the first attempts among pools of equal priority; more than 0.
    pub weight: f64,
}

impl Pools {
    /// A single pool that gets all requests.
    pub fn one(pool: u16) -> Self {
        Self { choices: vec![TargetPool { pool, priority: 1, weight: 1.0 }], failover: Failover::default() }
    }

    /// Order in which the pools are tried for a call.
    ///
    /// The order is by priority. Within a priority it is drawn by weight from the call's key and the place in the list
    /// (weighted rendezvous, as in policy `hash`). So a repeated request has the same order on another thread or in
    /// another process, even if the pool numbers there differ. A change of one weight moves few calls.
    pub fn order(&self, call: u128) -> impl Iterator<Item = u16> + use<> {
        let drawn = |place: u16, choice: &TargetPool| -choice.weight / draw(call, place).ln();
        let places = (0..).zip(&self.choices);
        let mut all: Vec<_> =
            places.map(|(place, choice)| (choice.priority, drawn(place, choice), choice.pool)).collect();
        all.sort_by(|one, other| {
            one.0.cmp(&other.0).then(Reverse(Total(one.1)).cmp(&Reverse(Total(other.1))))
        });
        all.into_iter().map(|(_, _, pool)| pool)
    }

    /// First pool of [`order`](Self::order).
    pub fn first(&self, call: u128) -> Option<u16> {
        match &self.choices[..] {
            [only] => Some(only.pool),
            _ => self.order(call).next(),
        }
    }
}

/// Number that is never NaN.
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

/// Number in (0, 1) from a call and a place: the finalizer of splitmix64 over both.
fn draw(call: u128, place: u16) -> f64 {
    let mut x =
        (call as u64) ^ ((call >> 64) as u64) ^ (u64::from(place) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    ((x >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Response that a rule gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    status: u16,
    reason: String,
    contacts: Vec<String>,
}

impl Answer {
    /// Longest reason phrase, in bytes.
    pub const REASON_MAX: usize = 60;
    /// Most bytes of all Contacts. A response must not be much longer than its request, whose source may be forged.
    pub const CONTACTS_MAX: usize = 256;

    /// Creates a response with this status and reason phrase; `None` for the phrase of RFC 3261 §21. `contacts` are the
    /// URIs of a redirection, in order of preference.
    ///
    /// # Errors
    /// Describes the expected value: a status of failure or redirection, text on one line, URIs only with a 3xx, and at
    /// least one with 300 to 302.
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
            return Err("expected a contact: the URI that the caller should call instead".to_owned());
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

    /// Status, 300 to 699.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Reason phrase.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Value of the Contact header field, if there are contacts (RFC 3261 §8.3, §20.10).
    pub fn contact(&self) -> Option<String> {
        let values: Vec<_> = self.contacts.iter().map(|uri| format!("<{uri}>")).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// Reason phrases of RFC 3261 §21 for responses that a proxy may give without forwarding the request.
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
        let choice = |&(pool, priority, weight): &_| TargetPool { pool, priority, weight };
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
            assert_eq!(
                (order.len(), order[2]),
                (3, 0),
                "the pool with the larger priority number comes last"
            );
            firsts[usize::from(order[0])] += 1;
        }
        assert!((5_800..6_200).contains(&firsts[1]), "expected three quarters of {calls}: {firsts:?}");
        assert_eq!(Pools::one(7).first(1), Some(7));
    }

    #[test]
    fn a_change_of_one_weight_moves_few_calls() {
        let (before, after) = (pools(&[(0, 0, 1.0), (1, 0, 1.0)]), pools(&[(0, 0, 1.0), (1, 0, 1.5)]));
        let moved = (0..1_000_u128).filter(|&call| before.first(call << 9) != after.first(call << 9));
        let moved: Vec<_> = moved.collect();
        assert!((50..150).contains(&moved.len()), "expected about a tenth: {}", moved.len());
        assert!(moved.iter().all(|call| after.first(call << 9) == Some(1)));
    }

    #[test]
    fn only_valid_answers_are_accepted() {
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

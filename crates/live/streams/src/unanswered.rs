//! Requests without a final response on a connection, in either direction.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use wire::Peek;

/// Requests that are remembered for a connection. With more of them it may be closed too early.
const MOST: usize = 4_096;

/// Requests without a final response, by hashes of the fields that they share with their responses. INVITEs are always
/// remembered, since they may ring for minutes; others on request.
#[derive(Debug, Default)]
pub(super) struct Unanswered(HashSet<u64>);

impl Unanswered {
    /// Notes a received or sent message. `others`: also requests other than INVITE.
    pub(super) fn note(&mut self, message: &[u8], others: bool) {
        let Self(requests) = self;
        match message.strip_prefix(b"SIP/2.0 ") {
            Some([b'1', ..]) => {}
            Some(_) => {
                if !requests.is_empty()
                    && let Some(key) = key(message)
                    && requests.remove(&key)
                    && requests.is_empty()
                {
                    // Thousands of idle connections must not keep the memory of one moment.
                    *requests = HashSet::new();
                }
            }
            None => {
                let is_meant = message.starts_with(b"INVITE ") || (others && !message.starts_with(b"ACK "));
                if is_meant && requests.len() < MOST {
                    requests.extend(key(message));
                }
            }
        }
    }

    /// Number of requests.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Memory in bytes.
    pub(super) fn held(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}

fn key(message: &[u8]) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    Peek::call_id_and_cseq(message)?.hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(unanswered: &mut Unanswered, start: &str, cseq: &str, others: bool) -> usize {
        let text = format!("{start}\r\nCall-ID: c\r\nCSeq: {cseq}\r\n\r\n");
        unanswered.note(text.as_bytes(), others);
        unanswered.len()
    }

    #[test]
    fn a_request_is_unanswered_until_its_final_response() {
        let mut unanswered = Unanswered::default();
        let mut note = |start, cseq, others| note(&mut unanswered, start, cseq, others);
        assert_eq!(note("OPTIONS a SIP/2.0", "1 OPTIONS", false), 0);
        assert_eq!(note("INVITE a SIP/2.0", "1 INVITE", false), 1);
        assert_eq!(note("SIP/2.0 180 Ringing", "1 INVITE", false), 1);
        assert_eq!(note("PRACK a SIP/2.0", "2 PRACK", true), 2);
        assert_eq!(note("SIP/2.0 200 OK", "2 PRACK", true), 1, "only the response to the PRACK");
        assert_eq!(note("SIP/2.0 200 OK", "1 INVITE", false), 0);
        assert_eq!(note("SIP/2.0 200 OK", "1 INVITE", false), 0, "a repeated response changes nothing");
        assert_eq!(note("ACK a SIP/2.0", "1 ACK", true), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut unanswered = Unanswered::default();
        for number in 0..2 * MOST {
            note(&mut unanswered, "INVITE a SIP/2.0", &format!("{number} INVITE"), false);
        }
        assert_eq!(unanswered.len(), MOST);
    }
}

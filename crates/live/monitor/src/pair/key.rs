//! Keys of requests: a keyed hash, so that no sender can choose two requests that collide.

use base::SipHash;
use core::hash::Hasher as _;
use wire::{Host, Message, Via};

/// Makes keys. The secret is needed because senders choose the hashed data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys(pub(super) [u64; 2]);

impl Keys {
    /// Returns the key of a few texts.
    pub(super) fn of(self, parts: &[&[u8]]) -> u64 {
        let mut hasher = SipHash::new(self.0);
        for part in parts {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        hasher.finish()
    }

    /// Returns the key of the transaction that a Via starts: Call-ID, CSeq, sent-by and branch. The method is that of
    /// the CSeq, so a CANCEL has another key than its INVITE, and a response has the key of its request.
    ///
    /// Parameters that a server adds to the Via of its client (`received`, `rport`) are not part of the key.
    pub(super) fn transaction(self, message: &Message<'_>, via: &Via<'_>) -> u64 {
        let cseq = message.cseq();
        let method = cseq.method_name.of(message.bytes());
        let (v4, v6);
        let host = match via.host {
            Host::V4(ip) => {
                v4 = ip.octets();
                &v4[..]
            }
            Host::V6(ip) => {
                v6 = ip.octets();
                &v6[..]
            }
            Host::Name(name) => name,
        };
        let port = via.sent_by_port().to_be_bytes();
        let branch = via.branch.unwrap_or_default();
        self.of(&[message.call_id(), &cseq.number.to_be_bytes(), method, host, &port, branch])
    }
}

//! What a proxy says to a neighbour whose caller it has authenticated: the Via parameter `vouch`.
//!
//! A mark is believed by the address that it comes from, and UDP addresses can be forged. A mark that saves a password
//! has to be proved: with a keyed hash of the branch above it, the dialog that the request begins, its From and its
//! CSeq. Whoever does not have the secret of the site cannot make one, and one that was seen on the wire is good for
//! that transaction alone, for some minutes.

use super::{Tokens, keyed_hash};
use wire::Message;

/// Name of the Via parameter.
pub(crate) const PARAMETER: &str = "vouch";

/// The time in a hash counts in steps of so many seconds, of which the next and the last one are good, too: clocks of
/// neighbours may differ by as much.
const STEP: u32 = 256;

impl Tokens {
    /// The value of the parameter in a Via with this branch.
    pub(crate) fn vouch(&self, message: &Message<'_>, branch: &[u8], unix: u32) -> String {
        format!("{:016x}", hash(self.current.vouch, message, branch, unix / STEP))
    }

    /// Whether the topmost Via of a request vouches for its sender.
    pub(crate) fn is_vouched(&self, message: &Message<'_>, value: &[u8], unix: u32) -> bool {
        let given = core::str::from_utf8(value).ok().filter(|text| text.len() == 16);
        let given = given.and_then(|text| u64::from_str_radix(text, 16).ok());
        let (Some(given), Some(branch)) = (given, message.top_via().branch) else { return false };
        let step = unix / STEP;
        let steps = [step, step.wrapping_sub(1), step.wrapping_add(1)];
        self.all().any(|keys| steps.iter().any(|&step| hash(keys.vouch, message, branch, step) == given))
    }
}

fn hash(key: [u64; 2], message: &Message<'_>, branch: &[u8], step: u32) -> u64 {
    let cseq = message.cseq();
    let method = cseq.method_name.of(message.bytes());
    let (call_id, from) = (message.call_id(), message.from());
    let mut head = [0; 20];
    for (place, number) in head.chunks_exact_mut(4).zip([
        step,
        cseq.number,
        branch.len() as u32,
        call_id.len() as u32,
        method.len() as u32,
    ]) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    keyed_hash(key, &[&head, branch, call_id, method, from])
}

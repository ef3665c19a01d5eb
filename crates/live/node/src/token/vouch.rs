//! The Via parameter `vouch`, by which a proxy shows a neighbour that it has authenticated the caller.
//!
//! Marks are accepted by their source address, and UDP addresses can be forged. So a mark that replaces a password
//! needs a proof. It is a keyed hash of the branch in the same Via, the dialog that the request begins, its From and
//! its CSeq. Only holders of the site's secret can make this hash. A mark seen on the wire is valid for its transaction
//! alone, for some minutes.

use super::{Tokens, keyed_hash};
use wire::Message;

/// Name of the Via parameter.
pub(crate) const PARAMETER: &str = "vouch";

/// Length of a time step in a hash, in seconds. The steps before and after the present one are also valid, since the
/// clocks of neighbours may differ by one step.
const STEP: u32 = 256;

impl Tokens {
    /// Returns the value of the parameter for a Via with this branch.
    pub(crate) fn vouch(&self, message: &Message<'_>, branch: &[u8], unix: u32) -> String {
        format!("{:016x}", hash(self.current.vouch, message, branch, unix / STEP))
    }

    /// Returns whether the topmost Via of a request vouches for its sender.
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

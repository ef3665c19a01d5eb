//! The SERvartuka paper: the cost of state for one server (figure 2), the capacity of networks whose state is shared
//! out (figure 3), their goodput against the offered load (figure 4), and which servers get state first (section 3).

pub(super) mod capacity;
mod claims;
pub(super) mod costs;
pub(super) mod goodput;
mod network;
pub(super) mod order;
mod stairs;
pub(super) mod utilisation;

use self::network::{BUFFER, DELTA_C, STATEFUL, STATELESS};

/// Returns the assumptions of all simulated figures.
fn assumptions(scale: f64) -> Vec<String> {
    let mut assumptions = vec![
        format!(
            "A server takes 1/{STATELESS:.0} s for a call without state, and for one with state 1/{STATEFUL:.0} s, as \
             the paper has measured (section 2.2). Each of the six messages that it reads of a call, INVITE, 180, 200, \
             ACK, BYE and 200, costs the same, and so does each of the four transactions of a call with state. A timer \
             that sends again costs half a message."
        ),
        "State is that of the transactions of INVITE and BYE, at one server: figure 4 does not say which mode was \
         measured, figure 2 does. The BYE gets its state where the INVITE had it, by Record-Route."
            .to_owned(),
        format!(
            "Calls begin at equal gaps, as SIPp makes them, and last 2 s in the mean. A server has a buffer of {BUFFER} \
             messages. There is no overload control."
        ),
        format!(
            "U_high is 0.9, deltaC {DELTA_C} calls/s in a period of 1 s, as docs/evidence/chain.md has them; the \
             paper gives no values."
        ),
    ];
    if scale > 1.0 {
        assumptions.push(format!(
            "All servers and their buffers, loads and deltaC are {scale:.0} times smaller than they are said to be, so that a run is short."
        ));
    }
    assumptions
}

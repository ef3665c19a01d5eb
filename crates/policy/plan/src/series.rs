//! The closed form of a series, as a check of the program and for a rule of thumb.

use crate::topology::{Function, Node};

/// The most calls a second that nodes in series carry, when each call's state is kept at one of them. `None` for no
/// node, or where one of them never keeps state.
///
/// With `f_i` the cost of forwarding and `x_i` the extra cost of state, a load t leaves node i room for
/// `(1 - f_i t) / x_i` calls with state. Together they have to keep t (equation 5 of the paper):
///
/// `t = sum(1 / x_i) / (1 + sum(f_i / x_i))`, and at most the least `1 / f_i`.
pub fn series(nodes: &[Node]) -> Option<f64> {
    let forwards = nodes.iter().map(|node| node.stateless).reduce(f64::min)?;
    let (mut room, mut taken) = (0.0, 0.0);
    for node in nodes {
        let extra = node.extra_cost(Function::State)?;
        room += 1.0 / extra;
        taken += node.forward_cost() / extra;
    }
    // Where state costs nothing, room is without end, and only forwarding counts.
    Some(if room.is_finite() { forwards.min(room / (1.0 + taken)) } else { forwards })
}

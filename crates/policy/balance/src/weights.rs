//! Weight of a transaction in the load of a node, by method.

use wire::Method;

/// Work of a transaction by method, in thousandths. The values are integers, so that sums return to exactly zero.
///
/// Source: TLWL paper, section III A 3: an INVITE costs more than a BYE ([`Weights::INVITE`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weights([u32; Method::ALL.len()]);

impl Weights {
    /// Work of weight 1.
    pub const UNIT: u32 = 1_000;
    /// Default weight of an INVITE.
    pub const INVITE: f64 = base::INVITE_WORK;

    /// Weights of 1 for every method except INVITE, whose weight is `ratio`.
    pub fn invite(ratio: f64) -> Self {
        let mut weights = Self([Self::UNIT; Method::ALL.len()]);
        weights.set(Method::Invite, ratio);
        weights
    }

    /// Sets the weight of a method; 1.0 is the weight of a BYE.
    pub fn set(&mut self, method: Method, weight: f64) {
        self.0[method as usize] = (weight * f64::from(Self::UNIT)).round() as u32;
    }

    /// The weight of a method.
    pub fn get(&self, method: Method) -> f64 {
        f64::from(self.work(method)) / f64::from(Self::UNIT)
    }

    /// The work of one transaction, in thousandths.
    pub fn work(&self, method: Method) -> u32 {
        self.0[method as usize]
    }
}

impl Default for Weights {
    fn default() -> Self {
        Self::invite(Self::INVITE)
    }
}

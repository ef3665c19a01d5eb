//! Operations that cost processor time: counted live, priced in simulations.

use core::ops::{Add, AddAssign, Index, Sub};

/// Work of an INVITE relative to a BYE (TLWL paper, section III A 3): its service time at a server, and its default
/// weight in a server's load. The paper found the ratio 1.75 (TLWL-1.75) to be the best.
pub const INVITE_WORK: f64 = 1.75;

/// Operations that cost processor time. A live server counts them; a simulator prices them as service time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Operation {
    /// Reading the header of a datagram.
    Scan,
    /// Looking a session up by its key.
    Lookup,
    /// Creating a session entry.
    CreateSession,
    /// Running a policy over the candidates.
    Choose,
    /// Making a keyed token.
    MakeToken,
    /// Verifying a keyed token.
    VerifyToken,
    /// Forwarding a message.
    Forward,
    /// Answering a request ourselves.
    Reject,
    /// Dropping a message without an answer.
    Discard,
    /// Ending a lease whose time is over.
    Expire,
    /// Creating a transaction.
    CreateTransaction,
    /// Looking for the transaction of a message.
    Match,
    /// Sending a message again: a timer fired, or the peer repeated its own.
    Retransmit,
    /// Taking a message that is not passed on: a retransmission, or the ACK to a failure.
    Absorb,
    /// A timer of a transaction firing.
    TimerFire,
    /// Ending a transaction and freeing its memory.
    ExpireTransaction,
}

impl Operation {
    /// Every operation, in declaration order.
    pub const ALL: [Self; 16] = [
        Self::Scan,
        Self::Lookup,
        Self::CreateSession,
        Self::Choose,
        Self::MakeToken,
        Self::VerifyToken,
        Self::Forward,
        Self::Reject,
        Self::Discard,
        Self::Expire,
        Self::CreateTransaction,
        Self::Match,
        Self::Retransmit,
        Self::Absorb,
        Self::TimerFire,
        Self::ExpireTransaction,
    ];

    /// The name in metrics and cost tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Lookup => "lookup",
            Self::CreateSession => "create_session",
            Self::Choose => "choose",
            Self::MakeToken => "make_token",
            Self::VerifyToken => "verify_token",
            Self::Forward => "forward",
            Self::Reject => "reject",
            Self::Discard => "discard",
            Self::Expire => "expire",
            Self::CreateTransaction => "create_transaction",
            Self::Match => "match",
            Self::Retransmit => "retransmit",
            Self::Absorb => "absorb",
            Self::TimerFire => "timer_fire",
            Self::ExpireTransaction => "expire_transaction",
        }
    }
}

/// Counts of each [`Operation`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ledger([u64; Operation::ALL.len()]);

impl Ledger {
    /// Charges one operation.
    pub fn charge(&mut self, operation: Operation) {
        self.0[operation as usize] += 1;
    }

    /// Returns the operations with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Operation, u64)> + '_ {
        Operation::ALL.into_iter().map(|operation| (operation, self[operation]))
    }
}

impl Index<Operation> for Ledger {
    type Output = u64;

    fn index(&self, operation: Operation) -> &u64 {
        &self.0[operation as usize]
    }
}

impl Add for Ledger {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sub for Ledger {
    type Output = Self;

    /// Work since `earlier`, an earlier state of the same ledger.
    fn sub(mut self, earlier: Self) -> Self {
        for (count, before) in self.0.iter_mut().zip(earlier.0) {
            *count -= before;
        }
        self
    }
}

impl AddAssign for Ledger {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_operations_matches_the_indices() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index, "{}", operation.name());
        }
        let mut ledger = Ledger::default();
        ledger.charge(Operation::Expire);
        let mut sum = ledger;
        sum += ledger;
        assert_eq!((sum[Operation::Expire], sum[Operation::Scan]), (2, 0));
    }
}

//! Kept messages and calls, for the handover to another process.

use super::Proxy;
use crate::Form;
use transaction::TransactionKey;

impl<F: Form> Proxy<F> {
    /// Whether a response with this key belongs to a client transaction.
    pub fn expects(&self, key: TransactionKey) -> bool {
        self.layer.find_client(key).is_some()
    }

    /// Calls of the requests that wait for their response, or for more 2xx.
    pub fn calls(&self) -> impl Iterator<Item = F::Call> {
        self.table.calls()
    }

    /// The requests without a final response.
    pub fn requests(&self) -> impl Iterator<Item = &F::Request> {
        self.table.requests()
    }

    /// Messages kept for retransmission.
    pub fn messages(&self) -> impl Iterator<Item = &F::Message> {
        self.layer.messages()
    }
}

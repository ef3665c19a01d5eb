//! What is kept, for a process that takes over from this one, and hands it what belongs here.

use super::Proxy;
use crate::Form;
use transaction::TransactionKey;

impl<F: Form> Proxy<F> {
    /// Whether a client transaction waits for this response, or has had it.
    pub fn expects(&self, key: TransactionKey) -> bool {
        self.layer.find_client(key).is_some()
    }

    /// The calls of the requests that wait for their answer, or for more 2xx.
    pub fn calls(&self) -> impl Iterator<Item = F::Call> {
        self.table.calls()
    }

    /// The requests without a final response.
    pub fn requests(&self) -> impl Iterator<Item = &F::Request> {
        self.table.requests()
    }

    /// The messages that are kept to be sent again.
    pub fn messages(&self) -> impl Iterator<Item = &F::Message> {
        self.layer.messages()
    }
}

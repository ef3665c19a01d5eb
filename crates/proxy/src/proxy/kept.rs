//! What is kept, for a process that takes over from this one, and hands it what belongs here.

use super::Proxy;
use crate::Medium;
use transaction::Key;

impl<D: Medium> Proxy<D> {
    /// Whether a client transaction waits for this response, or has had it.
    pub fn expects(&self, key: Key) -> bool {
        self.layer.find_client(key).is_some()
    }

    /// The calls of the requests that wait for their answer, or for more 2xx.
    pub fn calls(&self) -> impl Iterator<Item = D::Call> {
        self.table.calls()
    }

    /// The messages that are kept to be sent again.
    pub fn messages(&self) -> impl Iterator<Item = &D::Message> {
        self.layer.messages()
    }
}

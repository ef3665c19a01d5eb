//! Receiving end of a connection.

use super::message::{greeting, named, read_code, read_update};
use super::{Key, KeyKind, NONCE_BYTES, ServerName, UpdateKeys, UpdateRefusal};
use std::sync::Arc;

/// An accepted update.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Number on the connection, from 1.
    pub number: u64,
    /// Server.
    pub server: ServerName,
    /// Capacity in calls a second.
    pub capacity: f64,
    /// Kind of key it was made with: the server's own, or that of all servers without one.
    pub key: KeyKind,
}

impl Update {
    /// Line that confirms it, with the number of calls `sent` from here to its server so far.
    pub fn ok(&self, sent: u64) -> String {
        format!("OK {} {sent}\n", self.number)
    }
}

/// Receiving end of a connection.
#[derive(Debug)]
pub struct UpdateReceiver {
    keys: Arc<UpdateKeys>,
    greeting: String,
    /// Number of the next update; `None` after a refusal.
    due: Option<u64>,
    named: Option<ServerName>,
}

impl UpdateReceiver {
    /// Creates the receiver of a new connection. The nonce must be random, and used for this connection only.
    pub fn new(keys: Arc<UpdateKeys>, nonce: [u8; NONCE_BYTES]) -> Self {
        Self { keys, greeting: greeting(nonce), due: Some(1), named: None }
    }

    /// First line to send.
    pub fn greeting(&self) -> String {
        format!("{}\n", self.greeting)
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    /// If the update is refused; all further lines of this connection are refused too.
    pub fn line(&mut self, line: &[u8]) -> Result<Update, UpdateRefusal> {
        let due = self.due.take().ok_or(UpdateRefusal::WrongNumber)?;
        let update = self.read(line)?;
        if update.number != due {
            return Err(UpdateRefusal::WrongNumber);
        }
        self.due = due.checked_add(1);
        Ok(update)
    }

    /// Server named last. Anyone can write it: only an [`Update`] confirms it.
    pub fn named(&self) -> Option<&ServerName> {
        self.named.as_ref()
    }

    /// Checks the code first. Only the server, which determines the key, is read before the code is verified.
    fn read(&mut self, line: &[u8]) -> Result<Update, UpdateRefusal> {
        let text = core::str::from_utf8(line).map_err(|_| UpdateRefusal::Malformed)?;
        let (update, code) = text.rsplit_once(' ').ok_or(UpdateRefusal::Malformed)?;
        let code = read_code(code).ok_or(UpdateRefusal::Malformed)?;
        self.named = named(update);
        let is_code_of = |key: &Key| key.is_code(&self.greeting, update, &code);
        let key = self.keys.verify(self.named.as_ref(), is_code_of).ok_or(UpdateRefusal::WrongCode)?;
        let (number, server, capacity) = read_update(update).ok_or(UpdateRefusal::Malformed)?;
        Ok(Update { number, server, capacity, key })
    }
}

//! The end of a connection that gets updates.

use super::message::{greeting, named, read_code, read_update};
use super::{Key, KeyKind, Keys, NONCE_BYTES, Refusal, Server};
use std::sync::Arc;

/// An update that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Its number on the connection, from 1.
    pub number: u64,
    /// Of whom.
    pub server: Server,
    /// Calls a second.
    pub capacity: f64,
    /// With which key it was made: the server's own, or that of all servers without one.
    pub key: KeyKind,
}

impl Update {
    /// The line that says that it was accepted, and how many calls its server was `sent` from here so far.
    pub fn ok(&self, sent: u64) -> String {
        format!("OK {} {sent}\n", self.number)
    }
}

/// The end of a connection that gets updates.
#[derive(Debug)]
pub struct Receiver {
    keys: Arc<Keys>,
    greeting: String,
    /// Of the update that is due; `None` once one was refused.
    due: Option<u64>,
    named: Option<Server>,
}

impl Receiver {
    /// For a new connection. The nonce is random, and of this connection alone.
    pub fn new(keys: Arc<Keys>, nonce: [u8; NONCE_BYTES]) -> Self {
        Self { keys, greeting: greeting(nonce), due: Some(1), named: None }
    }

    /// The line to begin with.
    pub fn greeting(&self) -> String {
        format!("{}\n", self.greeting)
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    /// It is refused, and so is all that follows on this connection.
    pub fn line(&mut self, line: &[u8]) -> Result<Update, Refusal> {
        let due = self.due.take().ok_or(Refusal::WrongNumber)?;
        let update = self.read(line)?;
        if update.number != due {
            return Err(Refusal::WrongNumber);
        }
        self.due = due.checked_add(1);
        Ok(update)
    }

    /// The server that was named last. Anybody can write it: only an [`Update`] shows that it is so.
    pub fn named(&self) -> Option<&Server> {
        self.named.as_ref()
    }

    /// The code is checked first: the rest of an update is read only where the code is right, but for the server, which
    /// says what key the code has to be of.
    fn read(&mut self, line: &[u8]) -> Result<Update, Refusal> {
        let text = core::str::from_utf8(line).map_err(|_| Refusal::Malformed)?;
        let (update, code) = text.rsplit_once(' ').ok_or(Refusal::Malformed)?;
        let code = read_code(code).ok_or(Refusal::Malformed)?;
        self.named = named(update);
        let is_code_of = |key: &Key| key.is_code(&self.greeting, update, &code);
        let key = self.keys.verify(self.named.as_ref(), is_code_of).ok_or(Refusal::WrongCode)?;
        let (number, server, capacity) = read_update(update).ok_or(Refusal::Malformed)?;
        Ok(Update { number, server, capacity, key })
    }
}

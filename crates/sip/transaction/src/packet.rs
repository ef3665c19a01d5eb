//! Live messages as the layer keeps them.

use crate::build;
use crate::effects::{KeptMessage, UNLIMITED_REPEATS};
use crate::key::Tag;
use base::Flow;
use std::borrow::Cow;
use std::sync::Arc;
use wire::Patch;

/// Live message as the layer keeps it: its bytes and its flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The whole message.
    pub bytes: Bytes,
    /// Flow by which the message leaves.
    pub flow: Flow,
    /// Most retransmissions of a final response by timer G.
    pub repeats: u8,
}

impl Packet {
    /// Makes a message that timers retransmit without limit.
    pub fn new(bytes: impl Into<Bytes>, flow: Flow) -> Self {
        Self { bytes: bytes.into(), flow, repeats: UNLIMITED_REPEATS }
    }
}

/// Bytes of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// The bytes themselves.
    Whole(Box<[u8]>),
    /// Shared bytes with edits, so that a forwarded request is in memory only once.
    Edited(Arc<[u8]>, Patch),
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self::Whole(bytes.into())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(bytes.into())
    }
}

impl Bytes {
    /// Appends the bytes to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Whole(bytes) => out.extend_from_slice(bytes),
            Self::Edited(bytes, patch) => patch.apply(bytes, out),
        }
    }

    /// Returns all bytes in one piece.
    pub fn whole(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Whole(bytes) => Cow::Borrowed(bytes),
            Self::Edited(bytes, patch) => {
                let mut whole = Vec::with_capacity(bytes.len() + patch.memory());
                patch.apply(bytes, &mut whole);
                Cow::Owned(whole)
            }
        }
    }

    /// Memory held for this message alone, in bytes.
    fn memory(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Edited(_, patch) => patch.memory(),
        }
    }
}

impl KeptMessage for Packet {
    type Response<'a> = wire::Message<'a>;

    /// [17.1.1.2-18] Uses the address, transport and socket of the INVITE.
    fn ack(&self, response: &wire::Message<'_>) -> Option<Self> {
        let invite = self.bytes.whole();
        let invite = wire::scan(&invite).ok()?;
        let mut bytes = Vec::with_capacity(512);
        build::ack_for(&invite, response, &mut bytes);
        Some(Self::new(bytes, self.flow))
    }

    fn to_tag(&self) -> Tag {
        Tag::of(wire::scan(&self.bytes.whole()).ok().and_then(|response| response.to_tag()))
    }

    fn memory(&self) -> usize {
        self.bytes.memory()
    }

    fn repeats(&self) -> u8 {
        self.repeats
    }
}

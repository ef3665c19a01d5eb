//! A live message as the layer keeps it.

use crate::build;
use crate::effects::{KeptMessage, UNLIMITED_REPEATS};
use crate::key::Tag;
use base::Flow;
use std::borrow::Cow;
use std::sync::Arc;
use wire::Patch;

/// A live message as the layer keeps it: its bytes and its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The whole message.
    pub bytes: Bytes,
    /// Where it goes, and how.
    pub flow: Flow,
    /// Of a final response: [`KeptMessage::repeats`].
    pub repeats: u8,
}

impl Packet {
    /// A message that is repeated as often as timers have it.
    pub fn new(bytes: impl Into<Bytes>, flow: Flow) -> Self {
        Self { bytes: bytes.into(), flow, repeats: UNLIMITED_REPEATS }
    }
}

/// Bytes of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// As they are.
    Whole(Box<[u8]>),
    /// Those of a message that somebody else keeps too, with edits: a request that is forwarded is in memory once.
    Edited(Arc<[u8]>, Patch),
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(bytes.into())
    }
}

impl Bytes {
    /// Appends them to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Whole(bytes) => out.extend_from_slice(bytes),
            Self::Edited(bytes, patch) => patch.apply(bytes, out),
        }
    }

    /// All of them in one piece.
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

    /// Bytes of memory that are held for these alone.
    fn memory(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Edited(_, patch) => patch.memory(),
        }
    }
}

impl KeptMessage for Packet {
    type Response<'a> = wire::Message<'a>;

    /// [17.1.1.2-18] To the address that the INVITE went to, over the same transport, from the same socket.
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

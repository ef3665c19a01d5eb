use crate::build;
use crate::effects::Message;
use crate::key::Tag;
use std::net::SocketAddr;

/// A live message as the layer keeps it: its bytes and its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The whole message.
    pub bytes: Box<[u8]>,
    /// Where it goes.
    pub to: SocketAddr,
    /// Index of the local socket it leaves from.
    pub listener: u16,
}

impl Message for Packet {
    type Response<'a> = wire::Message<'a>;

    /// [17.1.1.2-18] To the address that the INVITE went to, from the same socket.
    fn ack(&self, response: &wire::Message<'_>) -> Option<Self> {
        let invite = wire::scan(&self.bytes).ok()?;
        let mut bytes = Vec::with_capacity(512);
        build::ack_for(&invite, response, &mut bytes);
        Some(Self { bytes: bytes.into(), to: self.to, listener: self.listener })
    }

    fn to_tag(&self) -> Tag {
        Tag::of(wire::scan(&self.bytes).ok().and_then(|response| response.to_tag()))
    }
}

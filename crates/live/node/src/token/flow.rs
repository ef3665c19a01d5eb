//! The token in our Path: the connection of the client that registers by it (RFC 5626 §5.2).

use super::{Tokens, keyed_hash, text};
use crate::client_flow::{ClientFlow, LENGTHS};

const MAC: usize = 8;
/// The port, the flow of either family, and the MAC.
const LONG: [usize; 2] = [1 + LENGTHS[0] + MAC, 1 + LENGTHS[1] + MAC];

impl Tokens {
    /// Appends the token of a client that is connected to this port.
    pub(crate) fn write_flow(&self, port: u16, client: ClientFlow, out: &mut Vec<u8>) {
        let (bytes, length) = client.bytes();
        let mut token = vec![port as u8];
        token.extend_from_slice(&bytes[..length]);
        let mac = keyed_hash(self.key(false).flow, &[&token]);
        token.extend_from_slice(&mac.to_be_bytes());
        text::encode(&token, out);
    }

    /// Reads it back; `None`: it is not ours, or was altered.
    pub(crate) fn read_flow(&self, token: &[u8]) -> Option<(u16, ClientFlow)> {
        let short = text::decode::<{ LONG[0] }>(token).map(Vec::from);
        let bytes = short.or_else(|| text::decode::<{ LONG[1] }>(token).map(Vec::from))?;
        let (body, mac) = bytes.split_last_chunk::<MAC>()?;
        let is_ours = self.all().any(|key| keyed_hash(key.flow, &[body]).to_be_bytes() == *mac);
        let (port, client) = body.split_first().filter(|_| is_ours)?;
        Some((u16::from(*port), ClientFlow::from_bytes(client)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TokenKey, Topology};
    use base::{Connection, Flow, Transport};
    use core::num::NonZeroU32;
    use core::time::Duration;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let tokens = |key| Tokens::new(TokenKey([key; 16]), &[], Duration::from_hours(1));
        for peer in ["192.0.2.7:40001", "[2001:db8::7]:40001"] {
            let connection = NonZeroU32::new(77).map(Connection);
            let flow =
                Flow { transport: Transport::Wss, listener: 4, peer: peer.parse().unwrap(), connection };
            let client = ClientFlow::of(flow, &Topology::default()).unwrap();
            let mut token = Vec::new();
            tokens(1).write_flow(4, client, &mut token);
            assert_eq!(tokens(1).read_flow(&token), Some((4, client)));
            assert_eq!(tokens(2).read_flow(&token), None);
            for at in 0..token.len() {
                let mut altered = token.clone();
                altered[at] = if altered[at] == b'0' { b'1' } else { b'0' };
                assert_eq!(tokens(1).read_flow(&altered), None, "{at}");
            }
        }
    }
}

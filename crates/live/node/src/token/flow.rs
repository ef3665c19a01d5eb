//! The token in this proxy's Path: it names the connection of the client that registers (RFC 5626 §5.2).

use super::{Tokens, keyed_hash, text};
use crate::address::client_flow::{ClientFlow, LENGTHS};

const MAC: usize = 8;
/// Bytes of the port, and of the time until which the token is valid.
const HEAD: usize = 1 + 4;
/// Lengths of a token with its flow and MAC, for each address family.
const LONG: [usize; 2] = [HEAD + LENGTHS[0] + MAC, HEAD + LENGTHS[1] + MAC];

impl Tokens {
    /// Appends the token of a client that is connected to this port, valid until the Unix time `until`.
    pub(crate) fn write_flow(&self, port: u16, client: ClientFlow, until: u32, out: &mut Vec<u8>) {
        let (bytes, length) = client.bytes();
        let mut token = vec![port as u8];
        token.extend_from_slice(&until.to_be_bytes());
        token.extend_from_slice(&bytes[..length]);
        let mac = keyed_hash(self.current.flow, &[&token]);
        token.extend_from_slice(&mac.to_be_bytes());
        text::encode(&token, out);
    }

    /// Reads a token at this time. `None` if the token is of another site, altered, or too old.
    pub(crate) fn read_flow(&self, token: &[u8], unix: u32) -> Option<(u16, ClientFlow)> {
        let short = text::decode::<{ LONG[0] }>(token).map(Vec::from);
        let bytes = short.or_else(|| text::decode::<{ LONG[1] }>(token).map(Vec::from))?;
        let (body, mac) = bytes.split_last_chunk::<MAC>()?;
        let is_ours = self.all().any(|key| keyed_hash(key.flow, &[body]).to_be_bytes() == *mac);
        let ([port, until @ ..], client) = body.split_first_chunk::<HEAD>().filter(|_| is_ours)?;
        let is_good = unix <= u32::from_be_bytes(*until);
        Some((u16::from(*port), ClientFlow::from_bytes(client).filter(|_| is_good)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::topology::AddressTable;
    use crate::token::TokenKey;
    use base::{Connection, Flow, Transport};
    use core::num::NonZeroU32;
    use core::time::Duration;

    #[test]
    fn a_written_token_is_read_and_no_other_text() {
        let tokens = |key| Tokens::new(TokenKey([key; 16]), &[], Duration::from_hours(1));
        for peer in ["192.0.2.7:40001", "[2001:db8::7]:40001"] {
            let connection = NonZeroU32::new(77).map(Connection);
            let flow =
                Flow { transport: Transport::Wss, listener: 4, peer: peer.parse().unwrap(), connection };
            let client = ClientFlow::seen(flow, &AddressTable::default()).unwrap();
            let mut token = Vec::new();
            tokens(1).write_flow(4, client, 1_000, &mut token);
            assert_eq!(tokens(1).read_flow(&token, 1_000), Some((4, client)));
            assert_eq!(tokens(1).read_flow(&token, 1_001), None);
            assert_eq!(tokens(2).read_flow(&token, 1_000), None);
            for at in 0..token.len() {
                let mut altered = token.clone();
                altered[at] = if altered[at] == b'0' { b'1' } else { b'0' };
                assert_eq!(tokens(1).read_flow(&altered, 0), None, "{at}");
            }
        }
    }
}

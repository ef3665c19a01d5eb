//! The address of a peer in JSON.

use base::{NoPeer, Peer};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A peer as text: `10.0.0.1:5060` over UDP, and `10.0.0.1:5060;transport=tcp` over anything else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Peer", with = "String"))]
pub struct PeerText(pub Peer);

impl From<Peer> for PeerText {
    fn from(peer: Peer) -> Self {
        Self(peer)
    }
}

impl From<PeerText> for String {
    fn from(PeerText(peer): PeerText) -> Self {
        peer.to_string()
    }
}

impl TryFrom<String> for PeerText {
    type Error = NoPeer;

    fn try_from(text: String) -> Result<Self, NoPeer> {
        text.parse().map(Self)
    }
}

impl FromStr for PeerText {
    type Err = NoPeer;

    fn from_str(text: &str) -> Result<Self, NoPeer> {
        text.parse().map(Self)
    }
}

impl fmt::Display for PeerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Transport;

    #[test]
    fn json_has_the_transport_where_it_is_not_udp() {
        let text = |transport| {
            let peer = PeerText(Peer::new(transport, "192.0.2.1:5060".parse().unwrap()));
            let json = serde_json::to_string(&peer).unwrap();
            assert_eq!(serde_json::from_str::<PeerText>(&json).unwrap(), peer);
            json
        };
        assert_eq!(text(Transport::Udp), "\"192.0.2.1:5060\"");
        assert_eq!(text(Transport::Tls), "\"192.0.2.1:5060;transport=tls\"");
        assert!(serde_json::from_str::<PeerText>("\"sip.example.com\"").is_err());
    }
}

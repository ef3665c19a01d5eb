use super::CallerConfig;
use super::dialog::Dialog;
use super::token::{HOLE, Pattern, Token};
use wire::Message;

/// The transaction of a call that a request belongs to: the last character of its branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leg {
    /// INVITE, its CANCEL, and its ACK to a refusal: one branch (RFC 3261 §9.1, §17.1.1.3).
    Invite,
    /// The ACK to a 2xx.
    Ack,
    /// BYE.
    Bye,
    /// The BYE of a second dialog that a forked INVITE made.
    ForkBye,
}

impl Leg {
    const ALL: [Self; 4] = [Self::Invite, Self::Ack, Self::Bye, Self::ForkBye];

    fn letter(self) -> char {
        ['i', 'a', 'b', 'f'][self as usize]
    }
}

const COOKIE: &str = "z9hG4bK";

/// Token and leg of a branch of ours.
pub(super) fn read_branch(branch: &[u8]) -> Option<(Token, Leg)> {
    let (token, letter) = Token::split(branch.strip_prefix(COOKIE.as_bytes())?)?;
    let leg = Leg::ALL.into_iter().find(|leg| letter == [leg.letter() as u8])?;
    Some((token, leg))
}

/// The messages of a caller, ready but for the tokens and for what the other side decides.
#[derive(Debug)]
pub(super) struct Texts {
    invite: Pattern,
    cancel: Pattern,
    /// ACK to a refusal, up to To.
    refusal_ack: Pattern,
    /// Via and Max-Forwards of requests in a dialog, by leg.
    vias: [Pattern; Leg::ALL.len()],
    /// From to the end of these requests.
    ack_end: Pattern,
    bye_end: Pattern,
}

impl Texts {
    pub(super) fn new(config: &CallerConfig) -> Self {
        let CallerConfig { local, uri, .. } = config;
        // RFC 3261 §8.1.1.7: the branch starts with the cookie; rport is RFC 3581's.
        let via = |leg: Leg| {
            let letter = leg.letter();
            format!("Via: SIP/2.0/UDP {local};rport;branch={COOKIE}{HOLE}{letter}\r\nMax-Forwards: 70\r\n")
        };
        let from = format!("From: <sip:caller@{local}>;tag={HOLE}\r\nCall-ID: {HOLE}\r\n");
        let pattern = |text: String| Pattern::new(text.into_bytes());
        let first = |method: &str| format!("{method} {uri} SIP/2.0\r\n{}{from}", via(Leg::Invite));
        let body = session(config);
        Self {
            invite: pattern(format!(
                "{}To: <{uri}>\r\nCSeq: 1 INVITE\r\nContact: <sip:caller@{local}>\r\n\
                 Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
                first("INVITE"),
                body.len()
            )),
            cancel: pattern(format!(
                "{}To: <{uri}>\r\nCSeq: 1 CANCEL\r\nContent-Length: 0\r\n\r\n",
                first("CANCEL")
            )),
            refusal_ack: pattern(first("ACK")),
            vias: Leg::ALL.map(|leg| pattern(via(leg))),
            ack_end: pattern(format!("{from}CSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n")),
            bye_end: pattern(format!("{from}CSeq: 2 BYE\r\nContent-Length: 0\r\n\r\n")),
        }
    }

    pub(super) fn invite(&self, token: Token, out: &mut Vec<u8>) {
        self.invite.write(token, out);
    }

    /// RFC 3261 §9.1: everything as in the INVITE but the method.
    pub(super) fn cancel(&self, token: Token, out: &mut Vec<u8>) {
        self.cancel.write(token, out);
    }

    /// RFC 3261 §17.1.1.3: the INVITE's Request-URI, Via, From and Call-ID, the response's To.
    pub(super) fn refusal_ack(&self, token: Token, response: &Message<'_>, out: &mut Vec<u8>) {
        self.refusal_ack.write(token, out);
        for part in [b"To: ", response.to(), b"\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n"] {
            out.extend_from_slice(part);
        }
    }

    /// RFC 3261 §13.2.2.4: an ACK within the dialog, with the CSeq number of the INVITE.
    pub(super) fn ack(&self, token: Token, dialog: &Dialog, out: &mut Vec<u8>) {
        self.in_dialog(b"ACK ", token, Leg::Ack, dialog, out);
        self.ack_end.write(token, out);
    }

    /// RFC 3261 §15.1.1.
    pub(super) fn bye(&self, token: Token, leg: Leg, dialog: &Dialog, out: &mut Vec<u8>) {
        self.in_dialog(b"BYE ", token, leg, dialog, out);
        self.bye_end.write(token, out);
    }

    fn in_dialog(&self, method: &[u8], token: Token, leg: Leg, dialog: &Dialog, out: &mut Vec<u8>) {
        for part in [method, dialog.uri(), b" SIP/2.0\r\n"] {
            out.extend_from_slice(part);
        }
        self.vias[leg as usize].write(token, out);
        out.extend_from_slice(dialog.lines());
    }
}

/// An offer of one PCMU stream (RFC 4566); nothing listens there.
fn session(config: &CallerConfig) -> String {
    let ip = config.local.ip();
    let family = if ip.is_ipv4() { "IP4" } else { "IP6" };
    format!(
        "v=0\r\no=caller 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\n\
         m=audio 49170 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    )
}

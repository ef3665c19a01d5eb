//! Texts of a caller's requests.

use super::CallerConfig;
use super::token::{HOLE, Pattern, Token};
use crate::dialog::Dialog;
use crate::{COOKIE, session};
use std::net::SocketAddr;
use wire::Message;
use wire::build::RequestBuilder;

/// The transaction of a call that a request belongs to: a character of its branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leg {
    /// INVITE, its CANCEL, and its ACK to a refusal: one branch (RFC 3261 §9.1, §17.1.1.3).
    Invite,
    /// The ACK to a 2xx.
    Ack,
    /// BYE.
    Bye,
    /// The BYE of another dialog that a forked INVITE created. There may be several: the remote tag follows.
    ForkBye,
}

impl Leg {
    const ALL: [Self; 4] = [Self::Invite, Self::Ack, Self::Bye, Self::ForkBye];

    fn letter(self) -> char {
        ['i', 'a', 'b', 'f'][self as usize]
    }
}

/// Returns token and leg of a branch that this agent created.
pub(super) fn read_branch(branch: &[u8]) -> Option<(Token, Leg)> {
    let (token, rest) = Token::split(branch.strip_prefix(COOKIE.as_bytes())?)?;
    let (letter, tag) = rest.split_first()?;
    let leg = Leg::ALL.into_iter().find(|leg| *letter == leg.letter() as u8)?;
    (tag.is_empty() || leg == Leg::ForkBye).then_some((token, leg))
}

/// Lines after the Via.
const FORWARDS: &str = "\r\nMax-Forwards: 70\r\n";

/// Messages of a caller, complete except for the tokens and the parts that the other side decides.
#[derive(Debug)]
pub(super) struct Texts {
    invite: Pattern,
    cancel: Pattern,
    /// ACK to a refusal, up to To.
    refusal_ack: Pattern,
    /// Via of requests in a dialog, by leg, up to the end of the branch.
    vias: [Pattern; Leg::ALL.len()],
    /// Lines from From to the end of an ACK in a dialog.
    ack_end: Pattern,
    bye_end: Pattern,
}

impl Texts {
    pub(super) fn new(config: &CallerConfig) -> Self {
        let CallerConfig { local, uri, .. } = config;
        let via = |leg| format!("Via: {}", via(config, leg));
        let party = format!("From: {}\r\nCall-ID: {HOLE}\r\n", from(*local));
        let pattern = |text: String| Pattern::new(text.into_bytes());
        Self {
            invite: Pattern::new(whole(config, "INVITE")),
            cancel: Pattern::new(whole(config, "CANCEL")),
            refusal_ack: pattern(format!("ACK {uri} SIP/2.0\r\n{}{FORWARDS}{party}", via(Leg::Invite))),
            vias: Leg::ALL.map(|leg| pattern(via(leg))),
            ack_end: pattern(format!("{party}CSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n")),
            bye_end: pattern(format!("{party}CSeq: 2 BYE\r\nContent-Length: 0\r\n\r\n")),
        }
    }

    pub(super) fn invite(&self, token: Token, out: &mut Vec<u8>) {
        self.invite.write(token, out);
    }

    /// RFC 3261 §9.1: equal to the INVITE except for the method.
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
        // RFC 3261 §8.1.1.7: no two requests share a branch, and the BYEs to forks are equal otherwise.
        if leg == Leg::ForkBye {
            out.extend_from_slice(dialog.remote_tag());
        }
        out.extend_from_slice(FORWARDS.as_bytes());
        out.extend_from_slice(dialog.lines());
    }
}

/// RFC 3261 §8.1.1.7: the branch starts with the cookie. `rport` is defined in RFC 3581.
fn via(config: &CallerConfig, leg: Leg) -> String {
    let CallerConfig { transport, local, .. } = config;
    format!("SIP/2.0/{} {local};rport;branch={COOKIE}{HOLE}{}", transport.name(), leg.letter())
}

fn from(local: SocketAddr) -> String {
    format!("<sip:caller@{local}>;tag={HOLE}")
}

/// Returns an INVITE or CANCEL.
fn whole(config: &CallerConfig, method: &str) -> Vec<u8> {
    let CallerConfig { transport, local, uri, .. } = config;
    let mut text = Vec::new();
    let request = RequestBuilder::new(&mut text, method, uri)
        .header("Via", via(config, Leg::Invite))
        .header("Max-Forwards", "70")
        .header("From", from(*local))
        .header("To", format!("<{uri}>"))
        .header("Call-ID", HOLE)
        .header("CSeq", format!("1 {method}"));
    if method == "INVITE" {
        let contact = format!("<sip:caller@{local}{}>", transport.uri_param());
        let request = request.header("Contact", contact).header("Content-Type", "application/sdp");
        request.finish(session("caller", *local).as_bytes());
    } else {
        request.finish(b"");
    }
    text
}

//! The ACK and the CANCEL that a client makes from an INVITE.

use wire::Message;
use wire::build::RequestBuilder;

/// Appends the ACK to a failure response (RFC 3261 §17.1.1.3).
///
/// [17.1.1.3-1] Call-ID, From and Request-URI are the INVITE's, [17.1.1.3-2] the To is the response's, [17.1.1.3-3]
/// the one Via is the INVITE's topmost, [17.1.1.3-4] the CSeq has the INVITE's number and the method ACK,
/// [17.1.1.3-5] and the Route is the INVITE's. [17.1.1.3-6] There is no body.
pub fn ack_for(invite: &Message<'_>, response: &Message<'_>, out: &mut Vec<u8>) {
    from_invite(invite, "ACK", response.to(), out);
}

/// Appends the CANCEL of an INVITE that has been answered provisionally (RFC 3261 §9.1).
///
/// [9.1-1] Request-URI, Call-ID, To, the number of the CSeq and From are the INVITE's, [9.1-2] as is the one Via,
/// [9.1-3] and the Route. [9.1-4] There is no Require and no Proxy-Require.
pub fn cancel_for(invite: &Message<'_>, out: &mut Vec<u8>) {
    from_invite(invite, "CANCEL", invite.to(), out);
}

fn from_invite(invite: &Message<'_>, method: &str, to: &[u8], out: &mut Vec<u8>) {
    let via = invite.top_via().value.of(invite.bytes());
    let mut request = RequestBuilder::new(out, method, invite.uri().unwrap_or_default()).header("Via", via);
    for route in invite.headers("Route") {
        request = request.header("Route", route);
    }
    request
        .header("Max-Forwards", "70")
        .header("From", invite.from())
        .header("To", to)
        .header("Call-ID", invite.call_id())
        .header_fmt("CSeq", format_args!("{} {method}", invite.cseq().number))
        .finish(b"");
}

//! The ACK and the CANCEL that a client makes from an INVITE.

use wire::Message;
use wire::build::RequestBuilder;

/// Appends the ACK to a failure response (RFC 3261 §17.1.1.3).
///
/// [17.1.1.3-1] Call-ID, From and Request-URI are those of the INVITE, [17.1.1.3-2] and To is that of the response.
/// [17.1.1.3-3] The only Via is the topmost one of the INVITE. [17.1.1.3-4] CSeq has the number of the INVITE and the
/// method ACK, [17.1.1.3-5] and Route is that of the INVITE. [17.1.1.3-6] There is no body.
pub fn ack_for(invite: &Message<'_>, response: &Message<'_>, out: &mut Vec<u8>) {
    from_invite(invite, "ACK", response.to(), out);
}

/// Appends the CANCEL of an INVITE that has a provisional response (RFC 3261 §9.1).
///
/// [9.1-1] Request-URI, Call-ID, To, the number of CSeq and From are those of the INVITE. [9.1-2] The only Via is the
/// topmost one of the INVITE, [9.1-3] and Route is that of the INVITE. [9.1-4] There is no Require and no
/// Proxy-Require.
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

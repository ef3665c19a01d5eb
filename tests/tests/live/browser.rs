//! A phone in a web page, by SIP.js in Chromium, over secure WebSocket.

use std::net::SocketAddr;

use sarabande_tests::{
    Agent, AgentRequest, Authority, RunningProxy, TestSite, WebPhone, bye_of_callee, path_text, respond,
    status, value,
};

/// Adds a session description as a browser's peer sends it, with the encryption and candidates of RFC 8829. No media is
/// sent. `role` is `actpass` in an offer and `active` in an answer.
fn with_session(message: &[u8], role: &str) -> Vec<u8> {
    let fingerprint = vec!["AB"; 32].join(":");
    let session = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 127.0.0.1\r\na=mid:0\r\na=sendrecv\r\na=rtcp-mux\r\n\
         a=ice-ufrag:abcd\r\na=ice-pwd:abcdefghijklmnopqrstuvwx\r\na=fingerprint:sha-256 {fingerprint}\r\n\
         a=setup:{role}\r\na=rtpmap:0 PCMU/8000\r\n"
    );
    let length = format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n", session.len());
    testkit::text(message)
        .replace("Content-Length: 0\r\n", &length)
        .into_bytes()
        .into_iter()
        .chain(session.into_bytes())
        .collect()
}

/// A page registers with its user's password, is called from UDP, and calls there. Each side ends a call.
#[test]
fn a_web_page_registers_is_called_and_calls() {
    let field = TestSite::new("web-page");
    let certificate = Authority::new(&field, "authority").issue("proxy", &format!("IP:{}", field.ip(1)));
    let users = field.write("users", "alice:example.com:MD5:174dc5b75643cb678c9b8ae5066d4b25\n");
    let at = SocketAddr::new(field.ip(1), 7443);
    // Numbers go to the phone.
    let phone = Agent::bind(field.sip(2));
    let users = path_text(&users);
    let tables = format!(
        "[tls]\ncertificates = [{}]\n[proxy]\nnext = [\"{}\"]\n[registrar]\ndomains = [\"example.com\"]\nusers = {users:?}\n\
         [[route]]\nuser = {{ regex = \"^[0-9]+$\" }}\npool = \"proxy\"\n[[route]]\nlocation = true\n",
        certificate.toml(),
        phone.address()
    );
    let proxy = RunningProxy::listening(&field, 1, 2, &format!("wss = [\"{at}\"]"), &tables);
    let mut page = WebPhone::open(&field, 1, ("alice", "sesame"), at, &certificate);
    page.says("registered");

    // The page is called, and the caller ends the call.
    let mut invite = AgentRequest::new("INVITE", "to-page");
    invite.uri = "sip:alice@example.com".to_owned();
    phone.send(proxy.address(), &with_session(&invite.bytes(phone.address()), "actpass"));
    page.says("called by sip:caller@example.net");
    let answer = phone.final_response("to-page");
    assert_eq!(status(&answer), Some(200), "{}", testkit::text(&answer));
    phone.send(proxy.address(), &AgentRequest::in_dialog("ACK", &answer).bytes(phone.address()));
    page.says("call Established");
    let mut bye = AgentRequest::in_dialog("BYE", &answer);
    bye.cseq = 3;
    phone.send(proxy.address(), &bye.bytes(phone.address()));
    assert_eq!(status(&phone.final_response("to-page")), Some(200));
    page.says("call Terminated");

    // The page calls and hangs up; then it calls, and the callee hangs up.
    for page_ends in [true, false] {
        page.does("call sip:4711@example.com");
        let invite = next(&phone, "INVITE ");
        phone.send(proxy.address(), &with_session(&respond(&invite, "200 OK", phone.address()), "active"));
        next(&phone, "ACK ");
        page.says("call Established");
        if page_ends {
            page.does("hang up");
            let bye = next(&phone, "BYE ");
            phone.send(proxy.address(), &respond(&bye, "200 OK", phone.address()));
        } else {
            phone.send(proxy.address(), &bye_of_callee(&invite, "server", phone.address()).bytes());
            let call = value(&invite, "Call-ID").expect("a Call-ID");
            assert_eq!(status(&phone.final_response(&call)), Some(200));
        }
        page.says("call Terminated");
    }
}

/// Returns the next request of this method, skipping copies of others.
fn next(phone: &Agent, method: &str) -> Vec<u8> {
    loop {
        let message = phone.receive();
        if message.starts_with(method.as_bytes()) {
            return message;
        }
    }
}

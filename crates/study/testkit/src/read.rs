//! Reads messages as far as tests need it: header fields by name, status, head and body.

/// Converts bytes to text, so that tests can compare it. Panics if they are not UTF-8.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Returns everything before the empty line, as text.
pub fn head(message: &[u8]) -> String {
    let end = message.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(message.len(), |at| at + 2);
    String::from_utf8_lossy(&message[..end]).into_owned()
}

/// Returns everything after the empty line.
pub fn body(message: &[u8]) -> &[u8] {
    message.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(&[], |at| &message[at + 4..])
}

/// Returns all values of a header field, line by line in order. Matches long and compact names in any case. Folded
/// lines are not joined.
pub fn header(message: &[u8], name: &str) -> Vec<String> {
    let compact = match name {
        "Via" => "v",
        "From" => "f",
        "To" => "t",
        "Call-ID" => "i",
        "Contact" => "m",
        "Content-Length" => "l",
        _ => name,
    };
    let is_name = |found: &str| [name, compact].iter().any(|name| found.trim().eq_ignore_ascii_case(name));
    let head = head(message);
    let values = head.lines().filter_map(|line| line.split_once(':').filter(|(found, _)| is_name(found)));
    values.map(|(_, value)| value.trim().to_owned()).collect()
}

/// Returns the first value of a header field.
pub fn value(message: &[u8], name: &str) -> Option<String> {
    header(message, name).into_iter().next()
}

/// Returns the tag of a From or To.
pub fn tag(message: &[u8], name: &str) -> Option<String> {
    Some(value(message, name)?.split_once(";tag=")?.1.to_owned())
}

/// Returns the status code; `None` if the message is not a response.
pub fn status(message: &[u8]) -> Option<u16> {
    head(message).strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
}

/// Returns the Record-Route values of a message, topmost first, as Route values: each URI in its angle brackets.
pub fn record_routes(message: &[u8]) -> Vec<String> {
    let lines = header(message, "Record-Route");
    let uris = lines.iter().flat_map(|line| line.split('<').skip(1));
    uris.filter_map(|rest| Some(format!("<{}>", rest.split_once('>')?.0))).collect()
}

/// Returns the route set of a caller from the response that created the dialog (RFC 3261 §12.1.2).
pub fn route_set(response: &[u8]) -> Vec<String> {
    let mut routes = record_routes(response);
    routes.reverse();
    routes
}

/// Returns the message with a part of its text replaced.
///
/// # Panics
/// When `old` is not in the message.
pub fn replaced(message: &[u8], old: &str, new: &str) -> Vec<u8> {
    let text = text(message);
    assert!(text.contains(old), "{old} in {text}");
    text.replace(old, new).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &[u8] =
        b"SIP/2.0 200 OK\r\nRecord-Route: \"P\" <sip:p;lr>;x=1, <sip:q;lr>\r\nf: <sip:a@x>;tag=1\r\n\
        record-route: <sip:r>\r\nTo: <sip:b@x>\r\n\r\nTo: <sip:body>\r\n\r\nmore";

    #[test]
    fn fields_are_found_by_any_name_and_only_in_the_head() {
        assert_eq!(value(OK, "From").as_deref(), Some("<sip:a@x>;tag=1"));
        assert_eq!(header(OK, "To"), ["<sip:b@x>"]);
        assert_eq!((tag(OK, "From").as_deref(), tag(OK, "To")), (Some("1"), None));
        assert_eq!((status(OK), status(b"BYE sip:a SIP/2.0\r\n\r\n")), (Some(200), None));
        assert_eq!(body(OK), b"To: <sip:body>\r\n\r\nmore");
    }

    #[test]
    fn a_route_set_is_the_record_route_turned_around() {
        assert_eq!(record_routes(OK), ["<sip:p;lr>", "<sip:q;lr>", "<sip:r>"]);
        assert_eq!(route_set(OK), ["<sip:r>", "<sip:q;lr>", "<sip:p;lr>"]);
    }
}

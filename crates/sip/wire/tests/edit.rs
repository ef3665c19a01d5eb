//! Edited messages, compared with the whole expected message.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use wire::{Edits, Message, scan};

const TAIL: &str = "From: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nContent-Length: 3\r\n\r\n\r\n\0";

/// Renders a request with `lines` before the usual header lines, edited by `edit`, and returns it without the usual
/// lines.
fn edited(lines: &str, edit: impl FnOnce(&mut Edits, &Message<'_>)) -> String {
    let text = format!("INVITE sip:b@x SIP/2.0\r\n{lines}{TAIL}");
    let m = scan(text.as_bytes()).unwrap();
    assert_eq!(m.fault(), None, "{text}");
    let mut edits = Edits::new();
    edit(&mut edits, &m);
    let mut out = b"kept".to_vec();
    edits.render(&m, &mut out);
    // Again, after the edits themselves are cleared.
    let mut again = b"kept".to_vec();
    let patch = edits.patch(&m);
    edits.clear();
    patch.apply(m.bytes(), &mut again);
    assert_eq!(again, out);
    let out = String::from_utf8(out).unwrap();
    let out = out.strip_prefix("kept").expect("render appends");
    let out = out.strip_suffix(TAIL).expect("the rest is untouched");
    out.replace("INVITE sip:b@x SIP/2.0\r\n", "")
}

const VIA: &str = "Via: SIP/2.0/UDP h;branch=1\r\n";

#[test]
fn nothing() {
    assert_eq!(edited(VIA, |_, _| ()), VIA);
}

#[test]
fn push_via_goes_before_the_first_via() {
    assert_eq!(
        edited(&format!("s: x\r\nv: SIP/2.0/UDP h\r\n{VIA}"), |e, m| e.push_via(m, b"SIP/2.0/UDP p")),
        format!("s: x\r\nVia: SIP/2.0/UDP p\r\nv: SIP/2.0/UDP h\r\n{VIA}")
    );
    assert_eq!(
        edited(VIA, |e, m| {
            e.push_via(m, b"1");
            e.push_via(m, b"2");
        }),
        format!("Via: 2\r\nVia: 1\r\n{VIA}")
    );
}

#[test]
fn replace_changes_a_part_of_a_line() {
    let routes = "Record-Route: <sip:a;lr;x=old>, <sip:b;lr>\r\n";
    let replaced = edited(&format!("{VIA}{routes}"), |e, m| {
        let uri = m.record_routes().next().unwrap().uri;
        e.replace(m, &uri[uri.len() - 3..], b"newer");
        e.pop_via(m);
    });
    assert_eq!(replaced, "Record-Route: <sip:a;lr;x=newer>, <sip:b;lr>\r\n");
}

#[test]
fn pop_via_takes_one_value() {
    let pop = |lines: &str| edited(lines, Edits::pop_via);
    assert_eq!(pop(VIA), "");
    assert_eq!(pop(&format!("{VIA}v: SIP/2.0/UDP g\r\n")), "v: SIP/2.0/UDP g\r\n");
    assert_eq!(pop("Via: SIP/2.0/UDP h;x=\",\" , SIP/2.0/UDP g\r\n"), "Via: SIP/2.0/UDP g\r\n");
    assert_eq!(pop("Via:\r\n SIP/2.0/UDP h,\r\n SIP/2.0/UDP g\r\n"), "Via:\r\n SIP/2.0/UDP g\r\n");
    assert_eq!(pop(&format!("v:\r\n SIP/2.0/UDP h;\r\n\tbranch=2 \r\n{VIA}")), VIA);
    // Removed and replaced, as if the response were sent back as a request.
    assert_eq!(
        edited(VIA, |e, m| {
            e.pop_via(m);
            e.push_via(m, b"new");
        }),
        "Via: new\r\n"
    );
    // Marks in a removed Via are removed too.
    assert_eq!(
        edited(VIA, |e, m| {
            e.mark_received(m, "192.0.2.1:9".parse().unwrap());
            e.pop_via(m);
        }),
        ""
    );
}

#[test]
fn the_last_record_route_pushed_is_topmost() {
    let push = |lines: &str| {
        edited(lines, |e, m| {
            e.push_record_route(m, b"<sip:1;lr>");
            e.push_record_route(m, b"<sip:2;lr>");
        })
    };
    let pushed = "Record-Route: <sip:2;lr>\r\nRecord-Route: <sip:1;lr>\r\n";
    assert_eq!(push(VIA), format!("{pushed}{VIA}"));
    assert_eq!(
        push(&format!("{VIA}record-route: <sip:0>\r\n")),
        format!("{VIA}{pushed}record-route: <sip:0>\r\n")
    );
}

#[test]
fn pop_route_takes_values_and_emptied_lines() {
    let routes = format!("Route: <sip:1>, <sip:2>\r\n{VIA}route : <sip:3>,\r\n <sip:4> , <sip:5>\r\n");
    let pop = |n| edited(&routes, |e, m| e.pop_route(m, n));
    assert_eq!(pop(0), routes);
    assert_eq!(pop(1), format!("Route: <sip:2>\r\n{VIA}route : <sip:3>,\r\n <sip:4> , <sip:5>\r\n"));
    assert_eq!(pop(2), format!("{VIA}route : <sip:3>,\r\n <sip:4> , <sip:5>\r\n"));
    assert_eq!(pop(3), format!("{VIA}route : <sip:4> , <sip:5>\r\n"));
    assert_eq!(pop(5), VIA);
    assert_eq!(pop(9), VIA);
    assert_eq!(
        edited(&routes, |e, m| {
            e.pop_route(m, 1);
            e.pop_route(m, 2);
        }),
        pop(3)
    );
}

#[test]
fn strict_routing() {
    let routes = format!("Route: <sip:1>, <sip:2>, <sip:3>\r\n{VIA}");
    let last = |lines: &str| edited(lines, Edits::pop_last_route);
    assert_eq!(last(&routes), format!("Route: <sip:1>, <sip:2>\r\n{VIA}"));
    assert_eq!(
        last(&format!("Route: <sip:1>\r\n{VIA}Route: <sip:2>\r\n")),
        format!("Route: <sip:1>\r\n{VIA}")
    );
    assert_eq!(last(&format!("Route: <sip:1>\r\n{VIA}")), VIA);
    // Both ends of one line, in either order, until nothing is left of it.
    assert_eq!(
        edited(&routes, |e, m| {
            e.pop_last_route(m);
            e.pop_route(m, 1);
        }),
        format!("Route: <sip:2>\r\n{VIA}")
    );
    assert_eq!(
        edited(&routes, |e, m| {
            e.pop_route(m, 2);
            e.pop_last_route(m);
        }),
        VIA
    );
    // To a strict router: RFC 3261 §16.6 step 6.
    let out = |lines: &str, n| {
        edited(lines, |e, m| {
            e.append_route(m, b"<sip:b@x>");
            e.pop_route(m, n);
            e.set_uri(m, b"sip:strict");
        })
    };
    assert_eq!(
        out(&routes, 1),
        format!("INVITE sip:strict SIP/2.0\r\nRoute: <sip:2>, <sip:3>, <sip:b@x>\r\n{VIA}")
    );
    assert_eq!(out(&routes, 3), format!("INVITE sip:strict SIP/2.0\r\nRoute: <sip:b@x>\r\n{VIA}"));
    assert_eq!(out(VIA, 0), format!("INVITE sip:strict SIP/2.0\r\nRoute: <sip:b@x>\r\n{VIA}"));
}

#[test]
fn max_forwards_replaced_or_added() {
    let set = |lines: &str| {
        edited(lines, |e, m| {
            e.set_max_forwards(m, 70);
            e.set_max_forwards(m, 69);
        })
    };
    assert_eq!(set(&format!("MAX-forwards :  0070 \r\n{VIA}")), format!("MAX-forwards :  69 \r\n{VIA}"));
    assert_eq!(edited(VIA, |e, m| e.set_max_forwards(m, 70)), format!("Max-Forwards: 70\r\n{VIA}"));
    let breadth = format!("max-breadth:  99 \r\n{VIA}");
    assert_eq!(edited(&breadth, |e, m| e.set_max_breadth(m, 60)), breadth.replace("99", "60"));
    assert_eq!(edited(VIA, |e, m| e.set_max_breadth(m, 60)), format!("Max-Breadth: 60\r\n{VIA}"));
}

#[test]
fn the_last_uri_set_is_used() {
    assert_eq!(
        edited(VIA, |e, m| {
            e.set_uri(m, b"sip:first");
            e.set_uri(m, b"sip:second");
        }),
        format!("INVITE sip:second SIP/2.0\r\n{VIA}")
    );
}

#[test]
fn source_is_marked_in_the_top_via_only() {
    assert_eq!(
        edited("Via: SIP/2.0/UDP h;rport;branch=1 , SIP/2.0/UDP g;rport\r\n", |e, m| {
            e.mark_received(m, "[2001:db8::9]:5099".parse().unwrap());
        }),
        "Via: SIP/2.0/UDP h;rport=5099;received=2001:db8::9;branch=1 , SIP/2.0/UDP g;rport\r\n"
    );
}

#[test]
fn all_at_once_and_reused() {
    let lines = format!("Route: <sip:p;lr>, <sip:q;lr>\r\nMax-Forwards: 9\r\n{VIA}");
    let text = format!("INVITE sip:b@x SIP/2.0\r\n{lines}{TAIL}noise");
    let m = scan(text.as_bytes()).unwrap();
    let mut edits = Edits::new();
    let mut outs = Vec::new();
    for _ in 0..2 {
        edits.clear();
        edits.mark_received(&m, "192.0.2.1:9".parse().unwrap());
        edits.push_via(&m, b"SIP/2.0/UDP p");
        edits.push_record_route(&m, b"<sip:p;lr>");
        edits.pop_route(&m, 1);
        edits.set_max_forwards(&m, 8);
        edits.set_uri(&m, b"sip:c@y");
        let mut out = Vec::new();
        edits.render(&m, &mut out);
        outs.push(String::from_utf8(out).unwrap());
    }
    let expected = format!(
        "INVITE sip:c@y SIP/2.0\r\nRoute: <sip:q;lr>\r\nMax-Forwards: 8\r\nRecord-Route: <sip:p;lr>\r\n\
         Via: SIP/2.0/UDP p\r\nVia: SIP/2.0/UDP h;branch=1;received=192.0.2.1\r\n{TAIL}"
    );
    assert_eq!(outs, [expected.clone(), expected]);
}

#[test]
fn headers_are_added_behind_all_others_and_removed_by_name() {
    let text =
        format!("INVITE sip:b@x SIP/2.0\r\n{VIA}s: one\r\nX-A: 1,\r\n 2\r\nSubject: two\r\nx-a: 3\r\n{TAIL}");
    let m = scan(text.as_bytes()).unwrap();
    let mut edits = Edits::new();
    edits.remove_headers(&m, |name| wire::is_header(name, "Subject"));
    edits.add_header(&m, "X-B", b"first");
    edits.add_header(&m, "X-B", b"sec\r\nond");
    edits.push_record_route(&m, b"<sip:1;lr>");
    edits.push_via(&m, b"SIP/2.0/UDP p");
    let (mut out, mut again) = (Vec::new(), Vec::new());
    edits.render(&m, &mut out);
    edits.patch(&m).apply(m.bytes(), &mut again);
    assert_eq!(again, out);
    let tail = TAIL.replace("3\r\n\r\n", "3\r\nX-B: first\r\nX-B: sec  ond\r\n\r\n");
    let expected = format!(
        "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP p\r\nRecord-Route: <sip:1;lr>\r\n{VIA}X-A: 1,\r\n 2\r\nx-a: 3\r\n{tail}"
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let m = scan(again.as_slice()).unwrap();
    let fields: Vec<_> = m.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"x-a")).collect();
    assert_eq!(fields, [(&b"X-A"[..], &b"1,\r\n 2"[..]), (b"x-a", b"3")]);
}

#[test]
fn the_version_is_sent_in_upper_case() {
    for start in ["INVITE sip:b@x sip/2.0", "Sip/2.0 200 sip/2.0"] {
        let text = format!("{start}\r\n{VIA}{TAIL}");
        let m = scan(text.as_bytes()).unwrap();
        let mut edits = Edits::new();
        edits.set_uri(&m, b"sip:longer@example.com");
        edits.pop_via(&m);
        let mut out = b"SIP".to_vec();
        edits.render(&m, &mut out);
        let mut again = b"SIP".to_vec();
        edits.patch(&m).apply(m.bytes(), &mut again);
        assert_eq!(again, out);
        let expected = match m.status() {
            None => format!("SIPINVITE sip:longer@example.com SIP/2.0\r\n{TAIL}"),
            Some(_) => format!("SIPSIP/2.0 200 sip/2.0\r\n{TAIL}"),
        };
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

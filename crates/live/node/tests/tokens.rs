//! Tokens that are not of this site, not of this call, too old, or of no member; responses to no request of this proxy.

use crate::common::*;

fn call() -> Dialog {
    Dialog::inbound(&mut Bed::new(Site::plain()), "token", client(), 0)
}

/// At a balancer without state: 481, an ACK is dropped, each is counted, and nothing else is sent.
fn assert_refused(bed: &mut Bed, request: &Req, case: &str) {
    let before = bed.shard.counters().tokens_refused;
    for method in ["BYE", "INVITE", "INFO", "CANCEL"] {
        let request = Req { method: method.to_owned(), ..request.clone() };
        let charged = bed.shard.ledger();
        let foretold = bed.explain(client(), &request.bytes()).expect("well formed");
        assert_eq!(bed.shard.ledger(), charged, "explain is not charged");
        assert_eq!((foretold.decision, foretold.token), (balance::NodeDecision::Orphan, None));
        let sent = bed.one(0, client(), &request.bytes());
        assert_eq!((sent.to, sent.status()), (client(), 481), "{case}: {method}");
    }
    bed.dropped(0, client(), &Req { method: "ACK".to_owned(), ..request.clone() }.bytes(), "refused_ack");
    assert_eq!(bed.shard.counters().tokens_refused, before + 5, "{case}");
    bed.assert_idle();
}

#[test]
fn too_old_or_from_the_future() {
    let call = call();
    let later = |seconds| Site { epoch_unix: Site::plain().epoch_unix + seconds, ..Site::plain() };
    let bye = call.by_caller("BYE", 2);
    let fresh = LIFETIME.as_secs();
    assert_eq!(Bed::new(later(fresh)).one(0, client(), &bye.bytes()).to, call.callee.at);
    assert_refused(&mut Bed::new(later(fresh + 1)), &bye, "too old");
    let earlier = |seconds| Site { epoch_unix: Site::plain().epoch_unix - seconds, ..Site::plain() };
    assert_eq!(Bed::new(earlier(fresh)).one(0, client(), &bye.bytes()).to, call.callee.at);
    assert_refused(&mut Bed::new(earlier(fresh + 1)), &bye, "clocks differ by more than a lifetime");
}

/// Clients move. Another holder of the token reaches only the node of the call, too.
#[test]
fn a_token_from_another_address_leads_to_its_node() {
    let mut call = call();
    call.caller.at = addr("127.0.9.2:7000");
    let mut bed = Bed::new(Site::plain());
    for (cseq, method) in (2..).zip(["ACK", "INFO", "INVITE", "BYE"]) {
        call.caller_asks(&mut bed, method, cseq);
    }
    bed.assert_forgets();
}

/// Request-URI and Route lead elsewhere: a client still reaches only its node.
#[test]
fn a_client_reaches_nothing_but_its_node() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "elsewhere", client(), 0);
    let mut bye = Req { uri: "sip:127.0.6.6:7".to_owned(), ..call.by_caller("INFO", 2) };
    bye.routes.push("<sip:127.0.6.6:8;lr>".to_owned());
    let sent = bed.one(0, client(), &bye.bytes());
    assert_eq!((sent.to, sent.message().routes().count()), (call.callee.at, 1));
    let routes = vec!["<sip:127.0.6.6:8;lr>".to_owned()];
    let new = Req { routes, uri: "sip:127.0.6.6:7".to_owned(), ..Req::new("INVITE", "new", client()) };
    let sent = bed.one(0, client(), &new.bytes());
    assert!(bed.is_node(sent.to));
}

/// Requests of a pool's dialog go to its member, which evaluates Route and Request-URI. The 2xx may have another
/// Contact, the member may fork and send several 2xx, and a loose router may be behind it.
#[test]
fn a_dialog_goes_to_its_member_whatever_follows_it() {
    for mode in [Service::Balance, Service::BalanceTransactions] {
        let mut bed = Bed::new(Site::plain()).with_mode(mode);
        let sent = bed.receive(0, client(), &Req::new("INVITE", "behind", client()).bytes());
        let invite = sent.last().expect("the INVITE is forwarded");
        let router = "<sip:127.0.6.6;lr>".to_owned();
        for (tag, contact) in [("bob", "127.0.5.1:5060"), ("carol", "127.0.5.2:5070")] {
            let routes = [vec![router.clone()], record_routes(&invite.bytes)].concat();
            let ok = Resp { tag, routes: Some(routes), ..Resp::new(200, addr(contact)) };
            let ok = bed.one(0, invite.to, &ok.bytes(&invite.bytes));
            let call = Dialog::of(invite, &ok);
            for (method, cseq) in [("ACK", 1), ("INFO", 2)] {
                let sent = bed.one(0, client(), &call.by_caller(method, cseq).bytes());
                let message = sent.message();
                let uri = message.uri().map(string);
                assert_eq!((sent.to, uri), (invite.to, Some(format!("sip:{contact}"))), "{mode:?} {method}");
                assert_eq!(message.routes().count(), 1);
            }
        }
    }
}

#[test]
fn responses_without_a_request_of_this_proxy() {
    let mut bed = Bed::new(Site::plain());
    let invite = bed.one(0, client(), &Req::new("INVITE", "forged", client()).bytes());
    let node = invite.to;
    let ok = answer(&invite.bytes, addr(PROXY), 200, node);
    let branch = String::from_utf8(invite.branch()).unwrap();
    let mut altered = branch.clone().into_bytes();
    let last = altered.len() - 3;
    altered[last] = if altered[last] == b'0' { b'1' } else { b'0' };
    let altered = String::from_utf8(altered).unwrap();
    let forged = [
        replaced(&ok, &branch, &altered),
        replaced(&ok, &branch, "z9hG4bKelse"),
        replaced(&ok, &format!(";branch={branch}"), ""),
        replaced(&ok, "Call-ID: forged", "Call-ID: other"),
        replaced(&ok, "CSeq: 1", "CSeq: 2"),
        // The second Via: another target, another transaction.
        replaced(&ok, "rport=6000", "rport=6001"),
        replaced(&ok, "received=127.0.9.1", "received=127.0.6.6"),
        replaced(&ok, "received=127.0.9.1", "received=127.0.9.1;maddr=127.0.6.6"),
        replaced(&ok, "branch=z9hG4bK-forged-1", "branch=z9hG4bK-forged-2"),
    ];
    for bytes in forged {
        bed.dropped(0, node, &bytes, "foreign_response");
    }
    bed.dropped(0, node, &replaced(&ok, "received=127.0.9.1", "received=127.0.9.1;maddr=a.b"), "no_target");
    let without = answer(&Req::new("OPTIONS", "probe", addr(PROXY)).bytes(), addr(PROXY), 200, node);
    bed.dropped(0, node, &without, "no_way_back");
    assert_eq!(bed.load().transactions, 1, "no forged answer ends a lease");
    assert_eq!(bed.one(0, node, &ok).to, client());
}

#[test]
fn an_old_branch_still_answers() {
    // A transaction ends long before, but the branch itself has no date: it leads only to its client.
    let mut bed = Bed::new(Site::plain());
    let invite = bed.one(0, client(), &Req::new("INVITE", "old", client()).bytes());
    bed.wait(Duration::from_hours(5));
    assert_eq!(answered(&mut bed, &invite, 200).to, client());
    bed.assert_forgets();
}

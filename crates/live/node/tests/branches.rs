//! The branch of this proxy's Via (RFC 3261 §16.6 step 8, §16.11): messages with the same branch and with different
//! ones.

use crate::common::*;

#[test]
fn one_transaction_has_one_branch() {
    let mut bed = Bed::new(Site::plain());
    let invite = Req::new("INVITE", "same", client());
    let sent = bed.one(0, client(), &invite.bytes());
    assert_eq!(bed.one(0, client(), &invite.bytes()), sent, "retransmitted before any answer");
    // With the Record-Route (§16.11), although its token contains a time.
    bed.wait(Duration::from_secs(5));
    answered(&mut bed, &sent, 180);
    assert_eq!(bed.one(0, client(), &invite.bytes()), sent, "retransmitted after a response");
    let cancel = bed.one(0, client(), &invite.same_branch("CANCEL", None).bytes());
    assert_eq!((cancel.to, cancel.branch()), (sent.to, sent.branch()));
    let ok = bed.one(0, sent.to, &answer(&cancel.bytes, addr(PROXY), 200, sent.to));
    assert_eq!((ok.to, ok.status()), (client(), 200));
    answered(&mut bed, &sent, 487);
    let ack = bed.one(0, client(), &invite.same_branch("ACK", Some("bob")).bytes());
    assert_eq!((ack.to, ack.branch()), (sent.to, sent.branch()));
    bed.assert_idle();
}

#[test]
fn one_transaction_has_one_branch_within_a_dialog_and_from_the_pool() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "inside", client(), 0);
    for (from, invite) in
        [(&call.caller, call.by_caller("INVITE", 2)), (&call.callee, call.by_callee("INVITE", 1))]
    {
        let sent = bed.one(0, from.at, &invite.bytes());
        for method in ["INVITE", "CANCEL", "ACK"] {
            let to_tag = invite.to_tag.clone();
            let again = bed.one(0, from.at, &invite.same_branch(method, to_tag.as_deref()).bytes());
            assert_eq!((again.to, again.branch()), (sent.to, sent.branch()), "{method}");
        }
    }
}

#[test]
fn other_transactions_have_other_branches() {
    let mut bed = Bed::new(Site::plain());
    let first = Req::new("INVITE", "one", client());
    let branch = bed.one(0, client(), &first.bytes()).branch();
    let via = |branch: &str| format!("SIP/2.0/UDP {};branch={branch};rport", client());
    let others = [
        first.clone().via(&via("z9hG4bKother")),
        Req { cseq: 2, ..first.clone() },
        Req { call_id: "two".to_owned(), ..first.clone() },
        Req { from_tag: "anna".to_owned(), ..first.clone() },
        Req { uri: "sip:robert@pool.example".to_owned(), ..first.clone() },
    ];
    let mut seen = vec![branch];
    for other in others {
        let branch = bed.one(0, client(), &other.bytes()).branch();
        assert!(!seen.contains(&branch), "{}", String::from_utf8_lossy(&other.bytes()));
        seen.push(branch);
    }
    // The same text from another address is another client's.
    let there = addr("127.0.9.2:6000");
    assert!(!seen.contains(&bed.one(0, there, &first.bytes()).branch()));
}

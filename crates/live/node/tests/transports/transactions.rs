//! Transactions over streams (RFC 3261 §17): no retransmissions, and losses are known at once.

use super::bed::{CLIENT, answer, client, node, request, shard};
use crate::common::*;
use dialog::CallSettings;

const MEMBER: &str = "127.0.1.1:5060";
const DIALOG: Service = Service::Calls(Spread::Found);

/// Returns the number of INVITEs that a silent server gets, and the final status at the caller.
fn unanswered(caller: Flow, member: Flow) -> (usize, Vec<u16>) {
    let mut bed = shard(Service::HOPS, &[member]);
    bed.one_by(caller, &request("INVITE", "c", caller).bytes());
    let sent = bed.wait(Duration::from_secs(30));
    let invites = sent.iter().filter(|sent| sent.bytes.starts_with(b"INVITE")).count();
    let late = bed.wait(Duration::from_secs(20));
    (invites, late.iter().filter_map(|sent| sent.message().status()).collect())
}

#[test]
fn requests_are_not_retransmitted_over_a_stream() {
    let tcp = client(Transport::Tcp, CLIENT, 7);
    // 0.5, 1.5, 3.5, ... s after the first.
    assert_eq!(unanswered(tcp, node(Transport::Udp, MEMBER)), (5, vec![408]));
    assert_eq!(unanswered(tcp, node(Transport::Tls, MEMBER)), (0, vec![408]));
}

#[test]
fn cancel_and_ack_take_the_way_of_their_invite() {
    {
        let member = node(Transport::Tcp, MEMBER);
        let mut bed = shard(Service::HOPS, &[member]);
        let caller = client(Transport::Wss, CLIENT, 7);
        let invite = request("INVITE", "c", caller);
        let at_member = bed.one_by(caller, &invite.bytes());
        let by = client(Transport::Tcp, MEMBER, 3);
        assert_eq!(bed.one_by(by, &answer(&at_member, 180, "")).flow.connection, caller.connection);
        let cancel = invite.same_branch("CANCEL", None);
        let sent = bed.receive_by(caller, &cancel.bytes());
        let of = |start: &[u8]| {
            sent.iter().find(|sent| sent.bytes.starts_with(start)).expect("the request was sent").flow
        };
        assert_eq!((of(b"SIP/2.0 200").connection, of(b"CANCEL")), (caller.connection, member));
        let sent = bed.receive_by(by, &answer(&at_member, 487, ""));
        let of = |start: &[u8]| {
            sent.iter().find(|sent| sent.bytes.starts_with(start)).expect("the request was sent").flow
        };
        assert_eq!((of(b"SIP/2.0 487").connection, of(b"ACK")), (caller.connection, member));
    }
}

/// A member that accepts no connection has no work with the request, so another one gets it at once.
#[test]
fn requests_without_a_connection_go_to_the_next_member() {
    let members = [node(Transport::Tcp, MEMBER), node(Transport::Udp, "127.0.1.2:5060")];
    let mut bed = shard(Service::HOPS, &members);
    let caller = client(Transport::Udp, CLIENT, 0);
    for call in 0..16 {
        let first = bed.one_by(caller, &request("INVITE", &format!("c{call}"), caller).bytes());
        if first.flow.transport == Transport::Tcp {
            let then = bed.unreachable_by(first.flow, &first.bytes);
            assert_eq!(then.iter().map(|sent| sent.flow).collect::<Vec<_>>(), [members[1]]);
            return;
        }
    }
    panic!("each call went over UDP");
}

/// A member's connection breaks after it took requests. Unanswered requests go to the next member; a ringing call waits
/// for its response.
#[test]
fn requests_lost_with_a_connection_go_to_the_next_member() {
    let members = [node(Transport::Tcp, MEMBER), node(Transport::Udp, "127.0.1.2:5060")];
    let mut bed = shard(Service::HOPS, &members);
    let caller = client(Transport::Udp, CLIENT, 0);
    let mut sent = Vec::new();
    for call in 0..32 {
        let first = bed.one_by(caller, &request("INVITE", &format!("c{call}"), caller).bytes());
        if first.flow.transport == Transport::Tcp {
            sent.push(first);
        }
    }
    let rings = sent.pop().expect("some calls went over TCP");
    bed.one_by(client(Transport::Tcp, MEMBER, 3), &answer(&rings, 180, ""));
    let moved = bed.unreachable_by(rings.flow, b"");
    assert!(!sent.is_empty() && moved.iter().all(|sent| sent.flow == members[1]), "{}", moved.len());
    assert_eq!(moved.len(), sent.len());
}

/// A reload changes the order of the pools, and so the mode, during a call.
#[test]
fn a_call_goes_on_by_its_connection_after_a_reload() {
    let members = [node(Transport::Udp, MEMBER), node(Transport::Tcp, "127.0.1.2:5060")];
    let mut bed = shard(Service::HOPS, &members);
    let pools = [pool_of(Service::HOPS, [0]), pool_of(Service::Balance, [1])];
    bed.set_pools(pools.clone());
    let caller = client(Transport::Wss, CLIENT, 7);
    let invite = request("INVITE", "c", caller);
    let at_member = bed.one_by(caller, &invite.bytes());
    bed.one_by(members[0], &answer(&at_member, 200, "sip:bob@127.0.1.1:5060"));
    let [first, second] = pools;
    bed.set_pools([second, first]);
    let bye = Req {
        uri: invite.contact.clone(),
        from_tag: "bob".to_owned(),
        to_tag: Some("alice".to_owned()),
        routes: record_routes(&at_member.bytes),
        ..Req::new("BYE", "c", members[0].peer)
    };
    assert_eq!(bed.one_by(members[0], &bye.bytes()).flow, caller);
}

/// Without transactions the caller would wait for 32 s, since over a stream it retransmits nothing.
#[test]
fn a_caller_is_answered_if_no_connection_takes_its_request() {
    for mode in [Service::Balance, Service::Relay { record_route: true }] {
        let member = node(Transport::Tcp, MEMBER);
        let mut bed = shard(mode, &[member]);
        let caller = client(Transport::Wss, CLIENT, 7);
        let invite = request("INVITE", "c", caller);
        let at_member = bed.one_by(caller, &invite.bytes());
        let sent = bed.unreachable_by(at_member.flow, &at_member.bytes);
        assert_eq!(sent.len(), 1, "{mode:?}");
        assert_eq!((sent[0].status(), sent[0].flow.connection), (500, caller.connection));
        assert_eq!(sent[0].message().vias().count(), 1);
        assert_eq!(bed.shard.balancer().open_transactions(), 0, "the member has no work with it");
        let ack = invite.same_branch("ACK", Some(&testkit::tag(&sent[0].bytes, "To").expect("a tag")));
        assert_eq!(bed.receive_by(caller, &ack.bytes()), [], "{mode:?}");
        // A forged error has no effect, nor has ICMP.
        let forged = replaced(&at_member.bytes, "z9hG4bKsb", "z9hG4bKsc");
        assert_eq!(bed.unreachable_by(at_member.flow, &forged), []);
    }
}

/// The BYE of this proxy at the time limit of a call uses the connection of a client, too.
#[test]
fn a_call_at_its_time_limit_ends_at_the_browser_too() {
    let member = node(Transport::Udp, MEMBER);
    let mut bed = shard(DIALOG, &[member]);
    let calls = CallSettings { longest: Some(Duration::from_mins(1)), ..CallSettings::default() };
    let dialogs = DialogSettings { calls, ..DialogSettings::default() };
    bed.set(|setup| setup.settings.dialogs = Some(dialogs.into()));
    let caller = client(Transport::Wss, CLIENT, 7);
    let at_member = bed.one_by(caller, &request("INVITE", "c", caller).bytes());
    bed.one_by(member, &answer(&at_member, 200, "sip:bob@127.0.1.1:5060"));
    let sent = bed.wait(Duration::from_secs(61));
    let byes = sent.iter().filter(|sent| sent.bytes.starts_with(b"BYE"));
    let flows: Vec<_> = byes.map(|sent| sent.flow).collect();
    assert!(flows.contains(&caller) && flows.contains(&member), "{flows:?}");
}

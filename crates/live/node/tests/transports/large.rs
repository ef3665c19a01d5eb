//! Requests that are too long for UDP (RFC 3261 §18.1.1).

use super::bed::{CLIENT, answer, client, node, request, shard, shard_with};
use crate::common::*;
use crate::domain::{ALICE, call};
use node::LargeRequests;

const MEMBER: &str = "127.0.1.1:5060";
const LONGEST: usize = 1_300;
const RELAY: Service = Service::Relay { record_route: true };
const MODES: [Service; 3] = [Service::Balance, RELAY, Service::HOPS];

fn caller() -> Flow {
    client(Transport::Udp, CLIENT, 0)
}

fn udp() -> Flow {
    node(Transport::Udp, MEMBER)
}

fn tcp() -> Flow {
    node(Transport::Tcp, MEMBER)
}

/// The connection by which the member answers requests over TCP.
fn from_member() -> Flow {
    client(Transport::Tcp, MEMBER, 3)
}

fn bed(mode: Service) -> testbed::Bed {
    shard(mode, &[udp()])
}

/// An INVITE with this many bytes of an unknown header field.
fn long(call: &str, bytes: usize) -> Req {
    request("INVITE", call, caller()).with("X-Padding", &"x".repeat(bytes))
}

/// Returns the request that leaves for the member.
fn forwarded(bed: &mut testbed::Bed, invite: &Req) -> Sent {
    let sent = bed.receive_by(caller(), &invite.bytes());
    let mut for_member = sent.into_iter().filter(|sent| sent.to == udp().peer);
    for_member.next().expect("the request is forwarded")
}

#[test]
fn requests_longer_than_1300_bytes_leave_by_tcp() {
    for mode in MODES.into_iter().chain([Service::Calls(Spread::Counted)]) {
        let mut bed = bed(mode);
        // Header fields of session timers count, too.
        let session = dialog::session_timer::SessionTimer { expires: Some(1_800), least: 90 };
        let dialogs = DialogSettings { session, ..DialogSettings::default() };
        bed.set(|setup| setup.settings.dialogs = Some(Arc::new(dialogs)));
        let short = forwarded(&mut bed, &long("a", 1));
        let fits = 1 + LONGEST - short.bytes.len();
        let longest = forwarded(&mut bed, &long("b", fits));
        assert_eq!((longest.bytes.len(), longest.flow), (LONGEST, udp()), "{mode:?}");
        let longer = forwarded(&mut bed, &long("c", fits + 1));
        assert_eq!((longer.bytes.len(), longer.flow), (LONGEST + 1, tcp()), "{mode:?}");
        let text = string(&longer.bytes);
        assert!(text.contains("\r\nVia: SIP/2.0/TCP 127.0.0.1:5060;branch="), "{text}");
        // The member is still reached over UDP.
        let recorded = record_routes(&longer.bytes);
        assert!(recorded.len() == 1 && !recorded[0].contains("transport"), "{recorded:?}");
        let ok = bed.one_by(from_member(), &answer(&longer, 200, "sip:bob@127.0.1.1:5060"));
        assert_eq!((ok.flow, ok.status()), (caller(), 200), "{mode:?}");
        let bye = Req::in_dialog("BYE", &ok.bytes, 2, caller().peer);
        assert_eq!(bed.one_by(caller(), &bye.bytes()).flow, udp(), "{mode:?}");
    }
}

#[test]
fn copies_cancel_and_ack_follow_the_long_invite() {
    for mode in MODES {
        let mut bed = bed(mode);
        let invite = long("c", LONGEST);
        let first = forwarded(&mut bed, &invite);
        let copies: Vec<_> = bed.receive_by(caller(), &invite.bytes());
        assert!(copies.iter().all(|copy| *copy == first || copy.flow == caller()), "{mode:?}");
        bed.one_by(from_member(), &answer(&first, 180, ""));
        let to_member = |sent: Vec<Sent>, start: &str| {
            let of = sent.into_iter().find(|sent| sent.bytes.starts_with(start.as_bytes()));
            let of = of.unwrap_or_else(|| panic!("{mode:?}: {start}"));
            let via = string(&of.bytes).contains("Via: SIP/2.0/TCP ");
            (of.flow, via, of.branch() == first.branch())
        };
        let cancel = bed.receive_by(caller(), &invite.same_branch("CANCEL", None).bytes());
        assert_eq!(to_member(cancel, "CANCEL"), (tcp(), true, true), "{mode:?}");
        let mut sent = bed.receive_by(from_member(), &answer(&first, 487, ""));
        let failure = sent
            .iter()
            .find(|sent| sent.bytes.starts_with(b"SIP/2.0 487"))
            .expect("the request is forwarded");
        let ack = invite.same_branch("ACK", testkit::tag(&failure.bytes, "To").as_deref());
        sent.extend(bed.receive_by(caller(), &ack.bytes()));
        assert_eq!(to_member(sent, "ACK"), (tcp(), true, true), "{mode:?}");
    }
}

/// Servers without TCP still work, at the cost of one refused connection.
#[test]
fn long_requests_leave_by_udp_if_tcp_is_refused() {
    for mode in MODES {
        let mut bed = bed(mode);
        let invite = long("c", LONGEST);
        let first = forwarded(&mut bed, &invite);
        let again = bed.unreachable_by(first.flow, &first.bytes);
        let [again] = &again[..] else { panic!("{mode:?}: {again:?}") };
        assert_eq!(again.flow, udp(), "{mode:?}");
        assert_eq!(again.bytes, replaced(&first.bytes, "Via: SIP/2.0/TCP", "Via: SIP/2.0/UDP"), "{mode:?}");
        assert_eq!(bed.unreachable_by(first.flow, &first.bytes), [], "once");
        // Its CANCEL follows it, and the next request uses UDP at once.
        bed.one_by(udp(), &answer(again, 180, ""));
        let sent = bed.receive_by(caller(), &invite.same_branch("CANCEL", None).bytes());
        let cancel = sent.iter().find(|sent| sent.bytes.starts_with(b"CANCEL"));
        assert_eq!(cancel.map(|sent| sent.flow), Some(udp()), "{mode:?}");
        let other = long("d", LONGEST);
        assert_eq!(forwarded(&mut bed, &other).flow, udp(), "{mode:?}");
        bed.wait(Duration::from_millis(59_800));
        let early = long("e", LONGEST);
        assert_eq!(forwarded(&mut bed, &early).flow, udp(), "{mode:?}");
        bed.now += Duration::from_millis(400);
        assert_eq!(forwarded(&mut bed, &long("f", LONGEST)).flow, tcp(), "tried again: {mode:?}");
        // Its copies stay with UDP.
        let copies = bed.receive_by(caller(), &early.bytes());
        assert!(copies.iter().all(|sent| sent.flow.transport == Transport::Udp), "{mode:?}: {copies:?}");
    }
}

/// The transaction continues with the timers for UDP, and its member has not failed.
#[test]
fn a_transaction_goes_on_over_udp() {
    let other = node(Transport::Udp, "127.0.1.2:5060");
    let mut bed = shard(Service::HOPS, &[udp(), other]);
    let sent = bed.receive_by(caller(), &long("c", LONGEST).bytes());
    let first = sent.into_iter().find(|sent| sent.flow != caller()).expect("the request is forwarded");
    let member = Flow::udp(0, first.to);
    let again = bed.unreachable_by(first.flow, &first.bytes);
    assert_eq!(again.iter().map(|sent| sent.flow).collect::<Vec<_>>(), [member]);
    let copies: Vec<_> = bed.wait(Duration::from_millis(1_600)).iter().map(|sent| sent.flow).collect();
    assert_eq!(copies, [member; 2], "after 0.5 and 1.5 s");
    let ringing = bed.one_by(member, &answer(&again[0], 180, ""));
    assert_eq!((ringing.flow, ringing.status()), (caller(), 180));
}

#[test]
fn the_configuration_and_the_ports_decide() {
    for mode in MODES {
        let mut by_udp = bed(mode);
        by_udp.set(|setup| setup.settings.large_requests = LargeRequests::Udp);
        assert_eq!(forwarded(&mut by_udp, &long("c", LONGEST)).flow, udp(), "{mode:?}");
        let mut without = shard_with(&[Transport::Udp, Transport::Tls], mode, &[udp()]);
        assert_eq!(forwarded(&mut without, &long("c", LONGEST)).flow, udp(), "{mode:?}");
    }
}

/// A phone behind a NAT or a firewall drops connection attempts silently.
#[test]
fn a_phone_on_udp_is_reached_over_udp() {
    let alice = client(Transport::Udp, ALICE, 0);
    let phone = client(Transport::Udp, "127.0.9.7:40007", 0);
    for contact in ["sip:bob@10.0.0.7:5060", "sip:bob@127.0.9.7:40007"] {
        let mut bed = crate::domain::Bed::with_ports(super::bed::ports(), false, Reach::Source);
        let of = request("REGISTER", contact, phone);
        let bob = || "<sip:bob@example.com>".to_owned();
        let uri = "sip:example.com".to_owned();
        let register = Req { uri, from: bob(), to: bob(), contact: contact.to_owned(), ..of };
        assert_eq!(bed.one_by(phone, &register.bytes()).status(), 200);
        let invite = call(contact, "bob", alice.peer).with("X-Padding", &"x".repeat(LONGEST));
        let sent = bed.receive_by(alice, &invite.bytes());
        let at_phone = sent.iter().find(|sent| sent.to == phone.peer).expect("the request is forwarded");
        assert_eq!(at_phone.flow.transport, Transport::Udp, "{contact}");
    }
}

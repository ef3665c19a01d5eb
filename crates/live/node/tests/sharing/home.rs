//! A registrar at the end of a chain keeps no state of a call that a proxy before it keeps.

use super::via_with;
use crate::common::*;
use crate::domain::{Bed, call, register};
use distribute::{Function, Mark};
use node::{Distribution, RegistrarSettings};

const EDGE: &str = "127.0.8.1:5060";
const PHONES: [&str; 2] = ["127.0.9.2:6000", "127.0.9.3:6000"];

/// Bob has registered these phones.
fn home(phones: &[&str]) -> Bed {
    let mut bed = Bed::new(false, Reach::Contact);
    bed.inner.set(|setup| {
        let home = setup.settings.registrar.take().expect("there is a registrar");
        setup.settings.registrar =
            Some(Arc::new(RegistrarSettings { forward: Forward::Distributed, ..(*home).clone() }));
        setup.settings.limits = ProxyLimits::default();
        let neighbours = vec!["127.0.8.0/24".parse().expect("a network")];
        setup.settings.distribution = Some(Distribution { neighbours, ..Distribution::default() });
    });
    for phone in phones {
        let registration =
            Req { call_id: phone.to_string(), ..register("bob", addr(phone), &format!("sip:bob@{phone}")) };
        assert_eq!(bed.one(addr(phone), &registration.bytes()).status(), 200);
    }
    bed
}

fn invite(from: SocketAddr, kept: bool) -> Req {
    let mark = if kept { Mark::default().with(Function::State) } else { Mark::default() };
    let via = via_with(&format!("{}={mark}", Mark::PARAMETER));
    let via = via.replace(&client().to_string(), &from.to_string());
    call("call", "bob", from).via(&via)
}

/// Returns the receivers of the requests, which all have this method.
fn requests(sent: &[Sent], method: Method) -> Vec<SocketAddr> {
    let requests = sent.iter().filter(|sent| sent.message().status().is_none());
    requests.inspect(|sent| assert_eq!(sent.message().method(), Some(method))).map(|sent| sent.to).collect()
}

#[test]
fn a_call_that_is_kept_before_passes_a_registrar_without_state() {
    for (phones, from, is_marked, keeps) in [
        (&PHONES[..1], EDGE, true, false),
        (&PHONES[..1], EDGE, false, true),
        (&PHONES[..1], "127.0.9.9:5060", true, true),
        (&PHONES[..], EDGE, true, true),
    ] {
        let mut bed = home(phones);
        let before = transactions(&bed);
        let invite = invite(addr(from), is_marked);
        let sent = bed.receive(addr(from), &invite.bytes());
        let to: Vec<_> = phones.iter().map(|phone| addr(phone)).collect();
        assert_eq!(requests(&sent, Method::Invite), to, "{from} {is_marked}");
        assert_eq!(transactions(&bed) > before, keeps, "{phones:?} {from} {is_marked}");
        let at_phone = sent.into_iter().find(|sent| sent.to == to[0]).expect("a phone rings");
        // Its copy, its CANCEL and the ACK to the failure follow it, or meet the transaction.
        let copy = bed.receive(addr(from), &invite.bytes());
        assert_eq!(requests(&copy, Method::Invite).is_empty(), keeps);
        bed.receive(to[0], &answer(&at_phone.bytes, addr(PROXY), 180, to[0]));
        let cancelled = bed.receive(addr(from), &invite.same_branch("CANCEL", None).bytes());
        assert!(requests(&cancelled, Method::Cancel).contains(&to[0]), "{cancelled:?}");
        if !keeps {
            let failed = bed.receive(to[0], &answer(&at_phone.bytes, addr(PROXY), 487, to[0]));
            assert_eq!(failed.iter().map(Sent::status).collect::<Vec<_>>(), [487]);
            let ack = bed.receive(addr(from), &invite.same_branch("ACK", Some("bob")).bytes());
            assert_eq!(requests(&ack, Method::Ack), to);
        }
    }
}

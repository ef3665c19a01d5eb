//! The gate gives new requests a ticket, and each ticket ends once: settled, refused, passed on or lost.

use crate::common::*;

/// Open, settled, refused, passed, lost.
fn tickets(bed: &ProxyBed) -> [u64; 5] {
    let tickets = bed.shard.tickets();
    [tickets.open(), tickets.settled(), tickets.refused(), tickets.passed(), tickets.lost()]
}

#[test]
fn a_request_with_a_transaction_holds_its_ticket_until_the_final_response() {
    for (service, status) in [(Service::HOPS, 200), (Service::HOPS, 486), (Service::BalanceTransactions, 200)]
    {
        let mut bed = ProxyBed::plain().with_mode(service);
        let invite = Req::new("INVITE", "call", client());
        let at_hop = bed.invite(&invite);
        assert_eq!(tickets(&bed), [1, 0, 0, 0, 0]);
        bed.receive(0, client(), &invite.bytes());
        assert_eq!(tickets(&bed), [1, 0, 0, 0, 0], "a retransmission has no ticket");
        respond(&mut bed, &at_hop, 180);
        assert_eq!(tickets(&bed), [1, 0, 0, 0, 0]);
        respond(&mut bed, &at_hop, status);
        assert_eq!(tickets(&bed), [0, 1, 0, 0, 0], "{service:?}, {status}");
    }
}

#[test]
fn an_unanswered_request_is_refused_in_the_end() {
    let mut bed = ProxyBed::plain();
    bed.invite(&Req::new("INVITE", "call", client()));
    bed.wait(Duration::from_hours(1));
    assert_eq!(tickets(&bed), [0, 0, 1, 0, 0], "refused with 408 after silence");
}

#[test]
fn a_request_without_a_transaction_passes_at_once() {
    for service in [Service::Balance, STATELESS] {
        let mut bed = ProxyBed::plain().with_mode(service);
        bed.invite(&Req::new("INVITE", "call", client()));
        assert_eq!(tickets(&bed), [0, 0, 0, 1, 0], "{service:?}");
    }
}

#[test]
fn a_request_without_a_server_is_refused() {
    for service in [Service::Balance, Service::BalanceTransactions, Service::HOPS] {
        let mut bed = ProxyBed::plain().with_mode(service);
        bed.set(|setup| testbed::set_members(setup, &[]));
        bed.receive(0, client(), &Req::new("INVITE", "call", client()).bytes());
        assert_eq!(tickets(&bed), [0, 0, 1, 0, 0], "{service:?}");
    }
}

#[test]
fn requests_of_a_dialog_need_no_ticket() {
    let mut bed = ProxyBed::plain();
    let call = bed.call("call");
    let given = bed.shard.tickets().given();
    bed.receive(0, client(), &call.by_caller("BYE", 2).bytes());
    assert_eq!((bed.shard.tickets().given(), tickets(&bed)[0]), (given, 0));
}

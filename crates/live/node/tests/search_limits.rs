//! A CANCEL or ACK of an unknown INVITE goes to every member: limits of this traffic.

use crate::common::*;

/// Longer than an INVITE can be open.
const OLD: Duration = Duration::from_hours(1);

/// A balancer with `members` members that has been active for a while, or has just started.
fn bed(members: u16, old: bool) -> Bed {
    let node = |n: u16| &*Box::leak(format!("127.0.{}.{}:5060", 1 + n / 250, 1 + n % 250).into_boxed_str());
    let nodes = (0..members).map(|n| (node(n), 0)).collect();
    let mut bed = Bed::new(Site { nodes, ..Site::plain() });
    for _ in 0..if old { OLD.as_secs() } else { 0 } {
        bed.one(0, addr("127.0.9.9:5060"), &Req::new("OPTIONS", "work", addr("127.0.9.9:5060")).bytes());
        bed.wait(Duration::from_secs(1));
    }
    bed
}

fn source(n: u32) -> SocketAddr {
    SocketAddr::from(([127, 1, (n >> 8) as u8, n as u8], 5060))
}

/// Returns the datagrams to members for a flood of 1,000 per second over 10 s, from the given sources.
fn flood(bed: &mut Bed, method: &'static str, from: impl Fn(u32) -> SocketAddr) -> usize {
    let mut sent = 0;
    for n in 0..10_000 {
        let from = from(n);
        let request = Req::new(method, &format!("{method}-{n}"), from).bytes();
        let at_members = bed.receive(0, from, &request).into_iter().filter(|one| bed.is_node(one.to));
        sent += at_members.count();
        bed.now += Duration::from_millis(1);
    }
    sent
}

/// Returns whether a CANCEL of an unknown INVITE is searched for.
fn is_searched(bed: &mut Bed, call: &str, from: SocketAddr) -> bool {
    let members = bed.site.nodes.len();
    let sent = bed.receive(0, from, &Req::new("CANCEL", call, from).bytes());
    if sent.len() == members && members > 1 {
        return true;
    }
    assert_eq!((sent.len(), sent[0].to, sent[0].status()), (1, from, 481));
    false
}

#[test]
fn one_source_cannot_keep_the_members_busy() {
    for method in ["ACK", "CANCEL"] {
        let mut bed = bed(100, true);
        let sent = flood(&mut bed, method, |_| source(0));
        assert!((100..=1_600).contains(&sent), "{method}: {sent} datagrams");
        assert!(!is_searched(&mut bed, "again", source(0)));
        assert!(is_searched(&mut bed, "lawful", source(1)), "{method}: other sources have their own share");
        bed.assert_idle();
    }
}

#[test]
fn many_sources_cannot_keep_the_members_busy() {
    let mut bed = bed(100, true);
    let sent = flood(&mut bed, "ACK", source);
    assert!((1_000..=6_200).contains(&sent), "{sent} datagrams");
    assert!(bed.drops("search_limit") > 9_900);
    assert!(!is_searched(&mut bed, "last", source(60_000)));
    bed.wait(Duration::from_secs(2));
    assert!(is_searched(&mut bed, "later", source(60_001)));
}

/// After a restart, the ACKs and CANCELs of all open INVITEs come without a token.
#[test]
fn a_young_process_searches_more() {
    let mut young = bed(10, false);
    let sent = flood(&mut young, "CANCEL", |_| source(0));
    assert!((25_000..=28_000).contains(&sent), "{sent} datagrams");
    let mut old = bed(10, true);
    let sent = flood(&mut old, "CANCEL", |_| source(0));
    assert!((1_250..=1_550).contains(&sent), "{sent} datagrams");
    // A standby process that takes over knows as little as one that has just started.
    old.wait(Duration::from_mins(1));
    let sent = flood(&mut old, "CANCEL", |_| source(0));
    assert!((25_000..=28_000).contains(&sent), "{sent} datagrams");
}

/// A host with one IPv6 address has 2^64 of them.
#[test]
fn the_addresses_of_one_network_are_one_source() {
    let mut bed = Bed::new(Site::mixed());
    let at = |network: u16, n: u64| {
        let text = format!("[2001:db8:0:{network:x}:{n:x}::1]:5060", n = n & 0xffff);
        text.parse::<SocketAddr>().expect("an address")
    };
    let mut searched = |network| {
        let searched = |n: &u64| {
            let from = at(network, *n);
            let cancel = Req::new("CANCEL", &format!("{network}-{n}"), from).bytes();
            bed.receive(1, from, &cancel).len() == 2
        };
        (0..2_000).filter(searched).count()
    };
    let first = searched(1);
    assert!((1_000..2_000).contains(&first), "{first}");
    assert!(searched(2) > 1_000, "another network");
}

/// CANCEL and ACK are never long: they have no body, and few header fields.
#[test]
fn long_requests_are_not_searched_for() {
    let mut bed = bed(10, false);
    for (length, searched) in [(1_990, true), (2_010, false)] {
        let long = |method, call: &str| {
            let request = Req::new(method, call, source(0));
            let missing = length - request.clone().with("X-Fill", "").bytes().len();
            request.with("X-Fill", &"x".repeat(missing)).bytes()
        };
        let sent = bed.receive(0, source(0), &long("CANCEL", &length.to_string()));
        assert_eq!(sent.len(), if searched { 10 } else { 1 }, "{length}");
        let before = bed.drops("search_limit");
        let sent = bed.receive(0, source(0), &long("ACK", &format!("ack-{length}")));
        assert_eq!(sent.len(), if searched { 10 } else { 0 }, "{length}");
        assert_eq!(bed.drops("search_limit") - before, u64::from(!searched));
    }
}

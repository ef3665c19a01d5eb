//! What one shard of a proxy finds out about a next hop, all of them know.
mod common;

use balance::{Sign, Slot};
use common::addr;
use common::proxy::{HOPS, ProxyBed, client};
use common::text::Req;
use node::ShardEvent;
use std::time::Duration;

fn signs(bed: &mut ProxyBed) -> Vec<Sign> {
    let sign = |event| if let ShardEvent::Sign(sign) = event { Some(sign) } else { None };
    bed.events.drain(..).filter_map(sign).collect()
}

#[test]
fn a_failure_is_told_once_and_heeded_by_the_others() {
    let hops = HOPS.map(|hop| (hop, 0));
    let mut bed = ProxyBed::new(&["127.0.0.1:5060"], &hops);
    let invite = |n: usize| Req::new("INVITE", &format!("call{n}"), client());
    let calls: Vec<_> = (0..20).map(|n| bed.invite(&invite(n))).collect();
    let dead = addr(HOPS[0]);
    let lost: Vec<_> = calls.iter().filter(|sent| sent.to == dead).collect();
    for sent in &lost {
        let moved = bed.unreachable(dead, &sent.bytes);
        assert_eq!((moved.len(), moved[0].to), (1, addr(HOPS[1])));
    }
    let until = bed.now + Duration::from_secs(32);
    let told: Vec<_> =
        signs(&mut bed).into_iter().filter(|sign| matches!(sign, Sign::Unreachable { .. })).collect();
    assert_eq!(told, [Sign::Unreachable { slot: Slot(0), until }], "{} found it so", lost.len());

    let mut other = ProxyBed::new(&["127.0.0.1:5060"], &hops);
    let nodes = bed.shard.balancer().nodes().to_vec();
    other.set(|setup| setup.nodes = nodes.into());
    assert!((0..20).all(|n| other.invite(&invite(n)).to == addr(HOPS[1])));
    assert_eq!(signs(&mut other), [], "what it was told it tells nobody");
    other.wait(Duration::from_secs(33));
    assert!((20..40).any(|n| other.invite(&invite(n)).to == dead), "it comes back at the same time");
}

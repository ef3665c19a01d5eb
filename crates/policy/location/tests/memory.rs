//! Memory of a binding.

use allocation_counter::measure;
use base::{Transport, UnixTime};
use location::{Aor, Binding, BindingsRecord, MemoryLimits, MemoryStore, Source, Store};

const BINDINGS: usize = 1_000_000;

/// A usual binding of a client behind a NAT: contact and Call-ID of some 30 bytes.
fn binding(n: usize) -> Binding {
    Binding {
        uri: format!("sip:{n:07}@192.168.100.100:5060").into_bytes().into(),
        params: Box::default(),
        q: 1000,
        updated: UnixTime::from_secs(1_700_000_000),
        expires: 3600,
        call_id: format!("{n:032x}").into_bytes().into(),
        cseq: 1,
        path: Box::default(),
        source: Some(Source {
            transport: Transport::Udp,
            peer: ([198, 51, 100, 7], 40_000).into(),
            local: ([203, 0, 113, 1], 5060).into(),
            connection: None,
        }),
    }
}

#[test]
fn a_million_bindings_fit_into_300_bytes_each() {
    let mut store = MemoryStore::new(MemoryLimits { bindings: BINDINGS, bytes: 1 << 30 });
    let now = UnixTime::from_secs(1_700_000_000);
    let info = measure(|| {
        // In random order, as users register.
        for n in 0..BINDINGS {
            let n = n * 7_919 % BINDINGS;
            let aor = Aor::of(format!("sip:{n:07}@example.com").as_bytes()).unwrap();
            let record = BindingsRecord::of(&[binding(n)]).unwrap();
            store.replace(now, &aor, None, Some(&record)).unwrap();
        }
    });
    assert_eq!(store.bindings(), BINDINGS);
    let each = info.bytes_current / BINDINGS as i64;
    println!("{each} bytes a binding, of which {} are key and record", store.bytes() / BINDINGS);
    assert!((150..300).contains(&each), "{each} bytes a binding");
}

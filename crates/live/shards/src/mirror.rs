//! Copies of SIP messages for a collector such as Homer (`[hep]`).
//!
//! The traffic threads only copy bytes into a queue that is bounded in bytes. A thread of its own selects messages
//! (`mirror/selection.rs`), makes packets of HEP and sends them (`mirror/collector.rs`), so a slow collector delays no
//! call.

mod collector;
mod selection;
mod shared;

use crate::clock::Clock;
use base::{Flow, Instant, Outbox, Transport};
use collector::Collector;
use config::HepConfig;
use monitor::Captured;
use node::{Ports, ShardEvent};
use selection::Selection;
pub use shared::MirrorCounts;
use shared::{Counters, Packets, Shared};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Limit in bytes of messages that wait for the collector: about a second of 1,000 calls a second.
const WAITING_MAX: usize = 8 << 20;
/// Memory of a message in the queue, beside its bytes.
const OVERHEAD: usize = size_of::<Seen>();
/// Longest wait for the collector at the end of the process.
const DRAIN: Duration = Duration::from_secs(1);

/// Queue of copies, shared by all threads of a process.
pub struct Mirror {
    ports: Ports,
    batches: mpsc::Sender<Batch>,
    shared: Arc<Shared>,
}

/// Messages of one turn of a thread.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    messages: Vec<Seen>,
}

struct Seen {
    at: Instant,
    from: SocketAddr,
    to: SocketAddr,
    transport: Transport,
    is_sent: bool,
    /// End of its bytes in the batch.
    end: usize,
}

impl Mirror {
    /// Starts the thread that sends copies. `ports` are those of the process. The counts are those of `before`, whose thread
    /// still sends what waits there.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn start(config: &HepConfig, ports: &Ports, before: Option<&Self>) -> io::Result<Self> {
        let counters = before.map(|before| Arc::clone(&before.shared.counters)).unwrap_or_default();
        let shared = Arc::new(Shared { counters, ..Shared::default() });
        let (batches, waiting) = mpsc::channel();
        let (collector, selection) =
            (Collector::new(config.to.clone(), Arc::clone(&shared)), Selection::new(config));
        let run = {
            let shared = Arc::clone(&shared);
            move || send(&waiting, selection, collector, &shared)
        };
        std::thread::Builder::new().name("hep".to_owned()).spawn(run)?;
        Ok(Self { ports: ports.clone(), batches, shared })
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> MirrorCounts {
        let Counters { sent, lost } = &*self.shared.counters;
        MirrorCounts { sent: sent.load(Relaxed), lost: lost.load(Relaxed) }
    }

    /// Waits for a moment until all copies are sent, before the process ends.
    pub async fn drain(&self) {
        let empty = async {
            while self.shared.waiting.load(Relaxed) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN, empty).await;
    }

    fn push(&self, batch: Batch) {
        let (size, count) = (batch.size(), batch.messages.len() as u64);
        let before = self.shared.waiting.fetch_add(size, Relaxed);
        if before + size > WAITING_MAX || self.batches.send(batch).is_err() {
            self.shared.waiting.fetch_sub(size, Relaxed);
            self.shared.counters.lost.fetch_add(count, Relaxed);
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Relaxed);
    }
}

impl Batch {
    fn size(&self) -> usize {
        self.bytes.len() + OVERHEAD * self.messages.len()
    }

    /// Returns the messages, and for each whether this process has sent it.
    fn iter(&self) -> impl Iterator<Item = (Captured<'_>, bool)> {
        let mut start = 0;
        self.messages.iter().map(move |&Seen { at, from, to, transport, is_sent, end }| {
            let bytes = &self.bytes[start..end];
            start = end;
            (Captured { at, from, to, transport, bytes }, is_sent)
        })
    }
}

/// Copies of the messages of one thread.
pub(crate) struct Recorder {
    mirror: Arc<Mirror>,
    batch: Batch,
}

impl Recorder {
    pub(crate) fn new(mirror: Arc<Mirror>) -> Self {
        Self { mirror, batch: Batch::default() }
    }

    pub(crate) fn received(&mut self, flow: Flow, bytes: &[u8]) {
        self.add(flow, bytes, false);
    }

    /// Takes the messages that are sent now, and passes the messages of this turn on.
    pub(crate) fn sent(&mut self, out: &Outbox<ShardEvent>) {
        for transmit in out.transmits() {
            self.add(transmit.flow, out.message(transmit), true);
        }
        if !self.batch.messages.is_empty() {
            self.mirror.push(std::mem::take(&mut self.batch));
        }
    }

    fn add(&mut self, flow: Flow, bytes: &[u8], is_sent: bool) {
        let Some(local) = self.mirror.ports.get(flow.listener) else { return };
        let (from, to) = if is_sent { (local.local, flow.peer) } else { (flow.peer, local.local) };
        let batch = &mut self.batch;
        batch.bytes.extend_from_slice(bytes);
        let (at, end) = (Clock::since_1970(), batch.bytes.len());
        batch.messages.push(Seen { at, from, to, transport: flow.transport, is_sent, end });
    }
}

/// Sends the selected messages until the queue is closed.
fn send(
    batches: &mpsc::Receiver<Batch>,
    mut selection: Selection,
    mut collector: Collector,
    shared: &Shared,
) {
    let mut packets = Packets::default();
    while let Ok(batch) = batches.recv() {
        for (message, is_sent) in batch.iter() {
            let is_written = selection.take(&message, is_sent, &mut packets);
            shared.counters.lost.fetch_add(u64::from(!is_written), Relaxed);
        }
        if !collector.send(&packets) {
            let rest: usize = batches.try_iter().map(|batch| batch.messages.len()).sum();
            shared.counters.lost.fetch_add(rest as u64, Relaxed);
            break;
        }
        packets.clear();
        shared.waiting.fetch_sub(batch.size(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{HepCalls, HepTarget};
    use node::Port;

    /// No collector listens, so nothing is sent. The threads are not delayed, and the queue stays bounded.
    #[test]
    fn a_dead_collector_costs_copies_only() {
        let to = HepTarget { is_tcp: true, host: "127.0.0.1".to_owned(), port: 9 };
        let (node, password) = (String::new(), String::new());
        let config = HepConfig { to, calls: HepCalls::All, share: 1.0, id: 0, node, password };
        let ports = Ports::from(vec![Port::udp(([127, 0, 0, 1], 5060).into())]);
        let mirror = Arc::new(Mirror::start(&config, &ports, None).expect("a thread"));
        let mut recorder = Recorder::new(Arc::clone(&mirror));
        let message =
            [b"OPTIONS sip:a SIP/2.0\r\nCall-ID: a\r\nCSeq: 1 OPTIONS\r\n\r\n".as_slice(), &[b'x'; 9_000]]
                .concat();
        let (flow, many) = (Flow::udp(0, ([127, 0, 0, 2], 5060).into()), 2 * WAITING_MAX / message.len());
        for _ in 0..many {
            recorder.received(flow, &message);
            recorder.sent(&Outbox::default());
        }
        let (lost, waiting) = (mirror.counts().lost, mirror.shared.waiting.load(Relaxed));
        assert!(
            lost as usize > many / 3 && waiting <= WAITING_MAX,
            "{lost} of {many} lost, {waiting} bytes wait"
        );
        assert_eq!(mirror.counts().sent, 0);
    }
}

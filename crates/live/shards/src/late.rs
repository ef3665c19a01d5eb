//! Messages that wait for room in the rings to other threads: messages for their connections, and reports of messages
//! that did not arrive. On a connection, a lost message is not retransmitted.

use super::handover::{Handed, Sender};
use base::Flow;
use std::collections::VecDeque;

/// Limit in bytes of each kind. Reports have their own limit, so that waiting messages never take their room.
const LATE_MOST: usize = 4 << 20;

/// A waiting message or report.
#[derive(Debug)]
struct Late {
    flow: Flow,
    bytes: Box<[u8]>,
    is_word: bool,
}

impl Late {
    /// Returns `None` for a kind that does not wait.
    fn of(handed: &Handed<'_>) -> Option<Self> {
        let (flow, is_word) = match *handed {
            Handed::Send { flow, .. } => (flow, false),
            Handed::Unreachable { to, .. } => (to, true),
            Handed::Message { .. } => return None,
        };
        Some(Self { flow, bytes: handed.bytes().into(), is_word })
    }

    fn handed(&self) -> Handed<'_> {
        let Self { flow, bytes, is_word } = self;
        if *is_word {
            Handed::Unreachable { to: *flow, quoted: bytes }
        } else {
            Handed::Send { flow: *flow, bytes }
        }
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

/// The messages and reports that wait for room.
#[derive(Debug, Default)]
pub(crate) struct LateHandovers {
    /// Waiting entries by thread, in order.
    waiting: Vec<VecDeque<Late>>,
    /// Bytes of messages and of reports.
    bytes: [usize; 2],
}

impl LateHandovers {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == [0; 2]
    }

    /// Hands a message over to a thread, or queues it behind others for the same thread. Returns `false` if there is no
    /// room.
    pub(super) fn push(&mut self, rings: &mut [Option<Sender>], thread: usize, handed: &Handed<'_>) -> bool {
        self.waiting.resize_with(rings.len(), VecDeque::new);
        let waiting = &mut self.waiting[thread];
        if waiting.is_empty() && rings[thread].as_mut().is_some_and(|ring| ring.push(handed)) {
            return true;
        }
        let Some(late) = Late::of(handed) else { return false };
        let bytes = &mut self.bytes[usize::from(late.is_word)];
        let fits = *bytes + late.size() <= LATE_MOST;
        if fits {
            *bytes += late.size();
            waiting.push_back(late);
        }
        fits
    }

    /// Hands over waiting messages as far as there is room now.
    pub(super) fn retry(&mut self, rings: &mut [Option<Sender>]) {
        for (waiting, ring) in self.waiting.iter_mut().zip(rings) {
            let Some(ring) = ring else { continue };
            while let Some(late) = waiting.pop_front_if(|late| ring.push(&late.handed())) {
                self.bytes[usize::from(late.is_word)] -= late.size();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::handover::ring;
    use super::*;
    use base::{Connection, Transport};
    use std::num::NonZeroU32;

    fn flow() -> Flow {
        let connection = NonZeroU32::new(3).map(Connection);
        Flow { transport: Transport::Tcp, connection, ..Flow::udp(0, "192.0.2.1:5060".parse().unwrap()) }
    }

    /// A thread that takes no messages does not delay the others, and gets its messages later.
    #[test]
    fn kept_messages_arrive_and_threads_wait_independently() {
        let (to_second, mut second) = ring();
        let (to_third, mut third) = ring();
        let mut rings = [None, Some(to_second), Some(to_third)];
        let mut late = LateHandovers::default();
        let bytes = vec![b'x'; 60_000];
        let send = Handed::Send { flow: flow(), bytes: &bytes };
        let word = Handed::Unreachable { to: flow(), quoted: b"BYE" };
        let mut sent = 0;
        while late.push(&mut rings, 1, &send) {
            sent += 1;
        }
        assert!(sent > LATE_MOST / bytes.len(), "{sent}");
        assert!(late.push(&mut rings, 1, &word), "a report has its own room");
        assert!(late.push(&mut rings, 2, &send));
        assert_eq!(third.pop(), Some(send));
        let send = Handed::Send { flow: flow(), bytes: &bytes };
        let mut taken = 0;
        while !late.is_empty() || !second.is_empty() {
            while let Some(handed) = second.pop() {
                taken += 1;
                assert_eq!(
                    handed,
                    if taken <= sent { Handed::Send { flow: flow(), bytes: &bytes } } else { word }
                );
            }
            late.retry(&mut rings);
        }
        assert_eq!(taken, sent + 1);
        assert!(late.push(&mut rings, 1, &send), "there is room again");
    }
}

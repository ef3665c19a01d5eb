//! The network card of a simulated host.

use base::Instant;
use core::time::Duration;
use std::collections::VecDeque;

/// A direction of a card. Each direction has its own queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CardSide {
    /// To the host.
    In,
    /// From the host.
    Out,
}

/// A network card that carries one message after another in each direction, in the order of arrival.
///
/// [`pass`](Self::pass) queues a message. When `pass` or [`through`](Self::through) returns an instant, call `through`
/// at that instant for the same side.
#[derive(Debug)]
pub struct Card<T> {
    /// Time for one message on a card that is not shared.
    message: Duration,
    /// Part of the card for this host, above 0.
    share: f64,
    /// Both directions, indexed by [`CardSide`].
    sides: [Side<T>; 2],
}

#[derive(Debug)]
struct Side<T> {
    /// The first message is being carried, the others wait.
    messages: VecDeque<T>,
    /// End of the first message. Without messages, the earliest start of the next one.
    due: Instant,
}

/// Maximum of waiting messages in each direction; more are dropped. Equal to a queue of Linux (`txqueuelen`).
const QUEUE: usize = 1_000;

impl<T> Card<T> {
    /// Returns a card that carries this number of messages per second in each direction.
    pub fn new(rate: f64) -> Self {
        let side = || Side { messages: VecDeque::new(), due: Instant::ZERO };
        Self { message: Duration::from_secs_f64(1.0 / rate), share: 1.0, sides: [side(), side()] }
    }

    /// Time for a message that starts now.
    fn time(&self) -> Duration {
        self.message.div_f64(self.share)
    }

    /// Queues a message. Returns the time of its end if it starts at once.
    ///
    /// # Errors
    /// Returns the message if the queue is full.
    pub fn pass(&mut self, now: Instant, side: CardSide, message: T) -> Result<Option<Instant>, T> {
        let time = self.time();
        let Side { messages, due } = &mut self.sides[side as usize];
        if messages.len() > QUEUE {
            return Err(message);
        }
        messages.push_back(message);
        if messages.len() > 1 {
            return Ok(None);
        }
        *due = (*due).max(now) + time;
        Ok(Some(*due))
    }

    /// Ends the first message of a side. Returns the message, unless the card has [stalled](Self::stall) meanwhile, and
    /// the time of the next call; `None` if no message waits.
    pub fn through(&mut self, now: Instant, side: CardSide) -> (Option<T>, Option<Instant>) {
        let time = self.time();
        let Side { messages, due } = &mut self.sides[side as usize];
        if now < *due {
            return (None, Some(*due));
        }
        let message = messages.pop_front();
        if messages.is_empty() {
            return (message, None);
        }
        *due += time;
        (message, Some(*due))
    }

    /// Sets the part of the card, above 0, for waiting and future messages. The message being carried is not affected.
    pub fn set_share(&mut self, share: f64) {
        self.share = share;
    }

    /// Stops the card for this time in both directions.
    pub fn stall(&mut self, now: Instant, length: Duration) {
        for Side { due, .. } in &mut self.sides {
            *due = (*due).max(now) + length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    /// Carries all messages of one side, starting at `next`. Returns the end of each message in microseconds.
    fn drain(card: &mut Card<u32>, side: CardSide, mut next: Option<Instant>) -> Vec<(u32, u64)> {
        let mut through = Vec::new();
        while let Some(now) = next {
            let (message, then) = card.through(now, side);
            through.extend(message.map(|message| (message, (now - Instant::ZERO).as_micros() as u64)));
            next = then;
        }
        through
    }

    /// Offers this many messages at once. Returns the end of the first, and the number of accepted messages.
    fn fill(card: &mut Card<u32>, count: u32) -> (Option<Instant>, usize) {
        let taken: Vec<_> =
            (0..count).filter_map(|number| card.pass(at(0), CardSide::Out, number).ok()).collect();
        (taken[0], taken.len())
    }

    #[test]
    fn messages_pass_one_after_another_each_way() {
        let mut card = Card::new(1_000.0);
        let first = card.pass(at(0), CardSide::In, 0).expect("room");
        assert_eq!(card.pass(at(0), CardSide::In, 1), Ok(None));
        assert_eq!(card.pass(at(0), CardSide::Out, 2), Ok(Some(at(1_000))));
        assert_eq!(drain(&mut card, CardSide::In, first), [(0, 1_000), (1, 2_000)]);
        assert_eq!(card.pass(at(5_000), CardSide::In, 3), Ok(Some(at(6_000))));
    }

    #[test]
    fn neighbours_take_a_share_or_the_whole_card() {
        let mut card = Card::new(1_000.0);
        card.set_share(0.25);
        let first = card.pass(at(0), CardSide::In, 0).expect("room");
        assert_eq!(first, Some(at(4_000)));
        card.set_share(1.0);
        card.stall(at(2_000), Duration::from_millis(10));
        assert_eq!(card.pass(at(2_000), CardSide::In, 1), Ok(None));
        assert_eq!(card.pass(at(2_000), CardSide::Out, 2), Ok(Some(at(13_000))));
        assert_eq!(drain(&mut card, CardSide::In, first), [(0, 14_000), (1, 15_000)]);
    }

    #[test]
    fn messages_beyond_the_queue_are_lost_and_delay_no_other() {
        let mut card = Card::new(1_000.0);
        let (first, taken) = fill(&mut card, 2_000);
        assert_eq!(taken, 1_001);
        assert_eq!(drain(&mut card, CardSide::Out, first).last(), Some(&(1_000, 1_001_000)));
    }

    /// A queue holds a thousand messages, however long they take.
    #[test]
    fn a_queue_has_as_much_room_on_any_part_of_a_card() {
        let mut card = Card::new(1_000.0);
        card.set_share(0.01);
        assert_eq!(fill(&mut card, 2_000).1, 1_001);
        let mut stalled = Card::new(1_000.0);
        stalled.stall(at(0), Duration::from_secs(5));
        assert_eq!(fill(&mut stalled, 2_000), (Some(at(5_001_000)), 1_001));
    }

    #[test]
    fn waiting_messages_leave_faster_after_the_share_rises() {
        let mut card = Card::new(1_000.0);
        card.set_share(0.01);
        let (first, _) = fill(&mut card, 1_001);
        card.set_share(1.0);
        let through = drain(&mut card, CardSide::Out, first);
        assert_eq!((through[0], through[1_000]), ((0, 100_000), (1_000, 1_100_000)));
    }
}

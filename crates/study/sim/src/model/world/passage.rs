//! The path of a message from one host to another: network cards, links, and the look-up of a new call.

use super::super::links::{RETRANSMISSION_TIMEOUT, place};
use super::super::message::{HostId, LinkMessage, ModelStart, Sent};
use super::{Event, World};
use crate::engine::CardSide;
use base::Instant;
use transaction::TransportKind;

impl World<'_> {
    pub(super) fn carry(&mut self, now: Instant, carried: LinkMessage) {
        if self.cards.is_empty() {
            return self.transmit(now, carried);
        }
        let from = carried.from;
        if let Some(carried) = self.pass_card(now, (from, CardSide::Out), carried, Event::Leaves) {
            self.transmit(now, carried);
        }
    }

    /// Passes a message to a network card. Returns the message if the host has no card. If the card drops a message
    /// over TCP, the event `again` follows.
    fn pass_card(
        &mut self,
        now: Instant,
        (host, side): (HostId, CardSide),
        carried: LinkMessage,
        again: fn(u32) -> Event,
    ) -> Option<LinkMessage> {
        let card = self.cards.get_mut(host.index()).and_then(Option::as_mut);
        let Some(card) = card.filter(|_| host != HostId::AGENTS) else { return Some(carried) };
        match card.pass(now, side, carried) {
            Ok(Some(at)) => self.queue.at(at, Event::Card(host, side)),
            Ok(None) => {}
            Err(carried) => {
                self.hosts[host.index()].element.results.dropped.add(now, 1.0);
                let Sent { to, message } = &carried.sent;
                if self.map.transport(carried.from, *to, message.stream) == TransportKind::Reliable {
                    let place = self.on_the_way.insert(carried);
                    self.queue.at(now + RETRANSMISSION_TIMEOUT, again(place));
                }
            }
        }
        None
    }

    /// The first message of a card's side may have passed the card.
    pub(super) fn through_card(&mut self, now: Instant, host: HostId, side: CardSide) {
        let card = self.cards[host.index()].as_mut().expect("only hosts with a card have messages at it");
        let (carried, next) = card.through(now, side);
        if let Some(next) = next {
            self.queue.at(next, Event::Card(host, side));
        }
        match (carried, side) {
            (Some(carried), CardSide::Out) => self.transmit(now, carried),
            (Some(carried), CardSide::In) => self.receive(now, carried),
            (None, _) => {}
        }
    }

    fn transmit(&mut self, now: Instant, carried: LinkMessage) {
        let Some(network) = &mut self.network else {
            return self.deliver(now, carried);
        };
        let LinkMessage { from, sent: Sent { to, message }, .. } = &carried;
        let (from, to) = (place(&self.map, *from, message.stream), place(&self.map, *to, message.stream));
        let arrivals = network.send(now, from, to);
        for at in arrivals {
            let place = self.on_the_way.insert(carried.clone());
            self.queue.at(at, Event::Arrives(place));
        }
    }

    pub(super) fn deliver(&mut self, now: Instant, carried: LinkMessage) {
        if self.cards.is_empty() {
            return self.receive(now, carried);
        }
        let to = carried.sent.to;
        if let Some(carried) = self.pass_card(now, (to, CardSide::In), carried, Event::Arrives) {
            self.receive(now, carried);
        }
    }

    fn receive(&mut self, now: Instant, carried: LinkMessage) {
        self.messages += 1;
        let Sent { to, message } = &carried.sent;
        let to = *to;
        let status = if let ModelStart::Response(status) = message.start { status } else { 0 };
        let kind = u32::from(status) << 8 | message.method as u32;
        self.trace.event(now, kind << 16 | u32::from(to.0), message.call.generation);
        if to == HostId::AGENTS {
            return self.agents.handle(now, to, message, &mut self.out);
        }
        // Only a look-up uses a turn of the databases.
        if message.is_initial_invite()
            && let Some(database) = self.database(to)
        {
            self.hosts[database.index()].look_up(now, carried);
            self.start(now, database);
        } else {
            self.hand_over(now, carried);
        }
    }

    /// Delivers a message that needs no look-up, or has had it.
    pub(super) fn hand_over(&mut self, now: Instant, carried: LinkMessage) {
        let LinkMessage { from, sent: Sent { to, message }, notices } = carried;
        self.hosts[to.index()].arrive(now, from, message, &notices, &self.agents);
        self.start(now, to);
    }

    /// Returns the next database that a host asks, in turn; `None` if the host asks none.
    fn database(&mut self, host: HostId) -> Option<HostId> {
        let group = usize::from(self.map.group_of[host.index()]);
        let databases = self.map.groups[self.scenario.groups[group].database?].clone();
        let last = &mut self.last_database[host.index()];
        *last = (*last + 1) % databases.len() as u16;
        Some(HostId(databases.start + *last))
    }
}

//! The path of a message through a server: network card, processor, database, and the card again.

use super::super::host::MESSAGES;
use super::super::machine::{Job, Machine};
use super::super::plan::Vantage;
use super::{AGAIN, Event, FIRST, HANGING_UP, LAST, Place, World};
use crate::engine::{CardSide, EnqueueOutcome, Finish, Priority, Ticket};
use base::Instant;
use core::time::Duration;
use wire::Method;

impl World<'_> {
    pub(super) fn machine(&mut self, place: Place) -> &mut Machine {
        match place {
            Place::Server(host) => &mut self.hosts[host as usize].machine,
            Place::Database(number) => &mut self.databases[number as usize],
        }
    }

    /// The front sends a message to a host.
    pub(super) fn receive(&mut self, now: Instant, index: u32, call: u32, message: u8) {
        match message {
            FIRST => self.hosts[index as usize].begin(Method::Invite),
            HANGING_UP => self.hosts[index as usize].begin(Method::Bye),
            _ => {}
        }
        self.come_in(now, Job { call, message, host: index, since: now });
    }

    pub(super) fn come_in(&mut self, now: Instant, job: Job) {
        if let Some(job) = self.pass_card(now, CardSide::In, job, Event::AtCard) {
            self.take(now, job);
        }
    }

    pub(super) fn go_out(&mut self, now: Instant, job: Job) {
        if let Some(job) = self.pass_card(now, CardSide::Out, job, Event::Leaving) {
            self.follow(now, job);
        }
    }

    /// Passes a message to its host's card. Returns the message if the host has no card. If the card drops the message,
    /// the event `again` follows.
    fn pass_card(&mut self, now: Instant, side: CardSide, job: Job, again: fn(Job) -> Event) -> Option<Job> {
        let Some(card) = &mut self.hosts[job.host as usize].machine.card else { return Some(job) };
        match card.pass(now, side, job) {
            Ok(Some(at)) => self.events.at(at, Event::Card(job.host, side)),
            Ok(None) => {}
            Err(job) => self.events.after(AGAIN, again(job)),
        }
        None
    }

    /// The first message of a card's side may have passed the card.
    pub(super) fn through_card(&mut self, now: Instant, host: u32, side: CardSide) {
        let Some(card) = &mut self.hosts[host as usize].machine.card else { return };
        let (job, next) = card.through(now, side);
        if let Some(next) = next {
            self.events.at(next, Event::Card(host, side));
        }
        match (job, side) {
            (Some(job), CardSide::In) => self.take(now, job),
            (Some(job), CardSide::Out) => self.follow(now, job),
            (None, _) => {}
        }
    }

    /// A message arrives at the processor of its host.
    fn take(&mut self, now: Instant, job: Job) {
        let job = Job { since: now, ..job };
        let host = &mut self.hosts[job.host as usize];
        if host.costs[job.message as usize].is_zero() {
            self.go_out(now, job);
            return;
        }
        if host.machine.cpu.enqueue(now, Priority::P2, job) == EnqueueOutcome::Queued {
            self.start(now, Place::Server(job.host));
            return;
        }
        match job.message {
            FIRST => self.give_up(now, job),
            message => {
                if message == HANGING_UP {
                    host.end(Method::Bye);
                }
                self.events.after(AGAIN, Event::Message(job.call, message));
            }
        }
    }

    /// Loses a new call for which a host or its database has no room.
    fn give_up(&mut self, now: Instant, job: Job) {
        let host = &mut self.hosts[job.host as usize];
        host.end(Method::Invite);
        host.calls -= 1;
        self.lose(now);
    }

    pub(super) fn start(&mut self, now: Instant, place: Place) {
        let (costs, look_up) = match place {
            Place::Server(host) => (self.hosts[host as usize].costs, None),
            Place::Database(_) => ([Duration::ZERO; MESSAGES as usize], self.look_up()),
        };
        while let Some(service) =
            self.machine(place).cpu.start(now, |job| look_up.unwrap_or(costs[job.message as usize]))
        {
            self.events.at(service.at, Event::Finish(place, service.ticket));
        }
    }

    /// Time of a look-up, if there is a database.
    fn look_up(&self) -> Option<Duration> {
        self.plan.database.as_ref().map(|of| Duration::from_secs_f64(1.0 / of.rate))
    }

    pub(super) fn finish(&mut self, now: Instant, place: Place, ticket: Ticket) {
        match self.machine(place).cpu.finish(now, ticket) {
            Finish::Done(served) => {
                self.start(now, place);
                let job = served.job;
                match (place, &self.plan.database) {
                    (Place::Server(host), Some(database)) if job.message == FIRST => {
                        self.ask_database(now, if database.is_shared { 0 } else { host }, job);
                    }
                    _ => self.leave(now, job),
                }
            }
            Finish::Later(at) => self.events.at(at, Event::Finish(place, ticket)),
            Finish::Void => {}
        }
    }

    fn ask_database(&mut self, now: Instant, number: u32, job: Job) {
        let place = Place::Database(number);
        if self.machine(place).cpu.enqueue(now, Priority::P2, job) == EnqueueOutcome::Queued {
            self.start(now, place);
            return;
        }
        self.give_up(now, job);
        // The server reports the loss.
        self.tell_queue(now, job.host, Some(self.calls[job.call as usize].sent));
    }

    /// A host has served a message, and sends it.
    fn leave(&mut self, now: Instant, job: Job) {
        if job.message == FIRST && self.plan.measured == Vantage::Server {
            self.hosts[job.host as usize].on_forwarded(now - job.since);
        }
        self.go_out(now, job);
    }

    /// A message has been forwarded.
    fn follow(&mut self, now: Instant, job: Job) {
        let (index, call) = (job.host, self.calls[job.call as usize]);
        let host = &mut self.hosts[index as usize];
        let mut answered = None;
        match job.message {
            FIRST => {
                answered = Some(call.sent);
                host.end(Method::Invite);
                if self.plan.measured == Vantage::Front {
                    host.on_forwarded(now - call.sent);
                }
                self.set_up(now, call);
            }
            // The work of a server for the BYE ends when the server has read the BYE. A proxy still waits for the
            // callee's response.
            HANGING_UP if host.costs[LAST as usize].is_zero() => host.end(Method::Bye),
            LAST => {
                if !host.costs[LAST as usize].is_zero() {
                    host.end(Method::Bye);
                }
                host.calls -= 1;
            }
            _ => {}
        }
        if job.message != LAST {
            let wait = self.wait(self.plan.calls, job.message);
            self.events.after(wait, Event::Message(job.call, job.message + 1));
        }
        if matches!(job.message, FIRST | HANGING_UP | LAST) {
            self.tell_queue(now, index, answered);
        }
    }
}

//! One pool and its driver, held against each other every few seconds.

use super::driver::{Listing, Server};
use super::fleet::{Fleet, Order};
use super::trouble::{Failed, Trouble};
use super::view::PoolView;
use base::Instant;
use elastic::scale::ServerId;

/// What people are to hear of a list of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListNews {
    /// It answers again.
    Again,
    /// It does not say what runs, for this reason. Told once, and not at each attempt.
    Fails(String),
}

/// One pool and its driver.
///
/// - Running: [`look`](Self::look) every few seconds.
/// - What the driver has answered: [`on_started`](Self::on_started), [`on_stopped`](Self::on_stopped),
///   [`on_listed`](Self::on_listed).
/// - Looking on: [`fleet`](Self::fleet), [`trouble`](Self::trouble).
pub struct Reconciler {
    fleet: Fleet,
    trouble: Trouble,
}

impl Reconciler {
    /// Nothing has been asked of the driver yet.
    pub fn new(now: Instant, fleet: Fleet) -> Self {
        Self { fleet, trouble: Trouble::new(now) }
    }

    /// Looks at the pool, and says what is to be done.
    pub fn look(&mut self, view: &PoolView, out: &mut Vec<Order>) {
        self.fleet.step(view, out);
        if self.trouble.asks_list(view.now) {
            out.push(Order::List);
        }
    }

    /// The driver has started a server, or says why not.
    pub fn on_started(&mut self, now: Instant, server: &Server, result: Result<(), String>) {
        let id = ServerId(server.index);
        self.fleet.on_started(now, id, result.is_ok());
        let name = self.fleet.name(id);
        let failed = |error| Failed { what: format!("start of {name}: {error}"), stop_again: None };
        self.trouble.done(result.map_err(failed));
    }

    /// The driver has stopped a server, or says why not.
    pub fn on_stopped(&mut self, now: Instant, server: &Server, result: Result<(), String>) {
        let id = ServerId(server.index);
        self.fleet.on_stopped(now, id, result.is_ok());
        let (name, stop_again) = (self.fleet.name(id), self.fleet.stopped_again(id));
        let failed = |error| Failed { what: format!("stop of {name}: {error}"), stop_again };
        self.trouble.done(result.map_err(failed));
    }

    /// The driver, which was asked at `at`, has said what runs, or why it cannot.
    pub fn on_listed(
        &mut self,
        now: Instant,
        at: Instant,
        result: Result<Listing, String>,
    ) -> Option<ListNews> {
        let was_failing = self.trouble.is_list_failing();
        self.trouble.listed(now, result.as_ref().map(|_| ()));
        match result {
            Ok(listing) => {
                self.fleet.on_listed(at, listing);
                was_failing.then_some(ListNews::Again)
            }
            Err(error) => {
                self.fleet.on_list_failed(at);
                (!was_failing).then_some(ListNews::Fails(error))
            }
        }
    }

    /// Which server is which member, and what has been asked about it.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// How the driver fails.
    pub fn trouble(&self) -> &Trouble {
        &self.trouble
    }
}

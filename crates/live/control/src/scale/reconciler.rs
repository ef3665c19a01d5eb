//! Compares a pool with its driver every few seconds.

use super::driver::{DriverServer, Listing};
use super::fleet::{Fleet, Order};
use super::trouble::{Failed, Trouble};
use super::view::PoolView;
use base::Instant;
use elastic::scale::ServerId;

/// News about the driver's lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListNews {
    /// Lists succeed again.
    Again,
    /// Lists fail for this reason. Reported once, not at each attempt.
    Fails(String),
}

/// A pool and its driver.
///
/// - Running: [`look`](Self::look) every few seconds.
/// - Results of the driver: [`on_started`](Self::on_started), [`on_stopped`](Self::on_stopped),
///   [`on_listed`](Self::on_listed).
/// - Reading: [`fleet`](Self::fleet), [`trouble`](Self::trouble).
pub struct Reconciler {
    fleet: Fleet,
    trouble: Trouble,
}

impl Reconciler {
    /// Creates a reconciler that has not asked the driver yet.
    pub fn new(now: Instant, fleet: Fleet) -> Self {
        Self { fleet, trouble: Trouble::new(now) }
    }

    /// Observes the pool and appends the requests that follow.
    pub fn look(&mut self, view: &PoolView, out: &mut Vec<Order>) {
        self.fleet.step(view, out);
        if self.trouble.asks_list(view.now) {
            out.push(Order::List);
        }
    }

    /// Takes the result of a start.
    pub fn on_started(&mut self, now: Instant, server: &DriverServer, result: Result<(), String>) {
        let id = ServerId(server.index);
        self.fleet.on_started(now, id, result.is_ok());
        let name = self.fleet.name(id);
        let failed = |error| Failed { cause: format!("start of {name}: {error}"), stop_again: None };
        self.trouble.done(result.map_err(failed));
    }

    /// Takes the result of a stop.
    pub fn on_stopped(&mut self, now: Instant, server: &DriverServer, result: Result<(), String>) {
        let id = ServerId(server.index);
        self.fleet.on_stopped(now, id, result.is_ok());
        let (name, stop_again) = (self.fleet.name(id), self.fleet.stopped_again(id));
        let failed = |error| Failed { cause: format!("stop of {name}: {error}"), stop_again };
        self.trouble.done(result.map_err(failed));
    }

    /// Takes the result of a list that was requested at `at`.
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

    /// Returns the fleet: the mapping of servers to members, and requests about them.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Returns the failures of the driver.
    pub fn trouble(&self) -> &Trouble {
        &self.trouble
    }
}

//! The admin interface: HTTP with a JSON API and metrics for Prometheus. `docs/api.md` describes it for users.
//!
//! It listens on loopback by default and requires a token if other machines can reach it. It refuses requests that a
//! web page in an operator's browser might send. It reads and changes the process only through a [`Handle`].
//!
//! - `api`: the answer of each path,
//! - `page`: the web page,
//! - `guard`: refusal of clients without a token and of web pages,
//! - [`token`]: the bearer token,
//! - `serve`: connections.
//!
//! The shapes of its JSON, and the page that Prometheus reads, are [`figures`](crate::figures).

mod api;
mod guard;
#[cfg(test)]
mod openapi;
mod page;
mod serve;
#[cfg(test)]
mod tests;
pub mod token;

use crate::Handle;
use crate::figures::history::{History, STEP};
use config::{AdminPage, Bearer};
use serve::Limits;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// The admin interface of a process. Another process can take it over for a time.
pub(crate) struct Interface {
    listener: Arc<TcpListener>,
    handle: Handle,
    rules: guard::Rules,
    history: Arc<Mutex<History>>,
    task: Option<JoinHandle<()>>,
}

impl Interface {
    pub(crate) fn new(
        listener: TcpListener,
        handle: Handle,
        (token, page): (Option<Bearer>, AdminPage),
    ) -> Self {
        let rules = guard::Rules { token: token.map(Arc::new), page };
        Self { listener: Arc::new(listener), handle, rules, history: Arc::default(), task: None }
    }

    pub(crate) fn start(&mut self) {
        self.abort();
        let guard = axum::middleware::from_fn_with_state(self.rules.clone(), guard::check);
        let app =
            api::routes(self.handle.clone(), Arc::clone(&self.history)).merge(page::routes(self.rules.page));
        let serve = serve::serve(Arc::clone(&self.listener), app.layer(guard), Limits::default());
        let watch = watch(self.handle.clone(), Arc::clone(&self.history));
        self.task = Some(tokio::spawn(async {
            tokio::join!(serve, watch);
        }));
    }

    /// Stops answering requests, but keeps the listener.
    pub(crate) fn abort(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Closes the listener and all connections. Afterwards another process can bind the address.
    pub(crate) async fn stop(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }
}

/// Keeps the curves up to date until the server has ended.
async fn watch(handle: Handle, history: Arc<Mutex<History>>) {
    let mut ticks = tokio::time::interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Ok(sample) = handle.sample().await else { return };
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        history.lock().unwrap_or_else(PoisonError::into_inner).add(at.as_secs_f64(), sample);
    }
}

/// Serves these routes without a token until the future is dropped, for data that anyone may read. Web pages of other
/// sites are refused nevertheless.
pub async fn serve_open(listener: TcpListener, routes: axum::Router) {
    let rules = guard::Rules { token: None, page: AdminPage::Off };
    let guard = axum::middleware::from_fn_with_state(rules, guard::check);
    serve::serve(Arc::new(listener), routes.layer(guard), Limits::default()).await;
}

//! The admin interface: HTTP with a JSON API and metrics for Prometheus. `docs/api.md` describes it for users.
//!
//! It listens on loopback by default and requires a token if other machines can reach it. It refuses requests that a
//! web page in an operator's browser might send. It reads and changes the process only through a [`Handle`].
//!
//! - `api`: the answer of each path,
//! - `guard`: refusal of clients without a token and of web pages,
//! - [`token`]: the bearer token,
//! - `serve`: connections.
//!
//! The shapes of its JSON, and the page that Prometheus reads, are [`figures`](crate::figures).

mod api;
mod guard;
#[cfg(test)]
mod openapi;
mod serve;
#[cfg(test)]
mod tests;
pub mod token;

use crate::Handle;
use config::Bearer;
use serve::Limits;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The admin interface of a process. Another process can take it over for a time.
pub(crate) struct Interface {
    listener: Arc<TcpListener>,
    handle: Handle,
    /// Token that requests must carry; `None`: no token is needed.
    token: Option<Arc<Bearer>>,
    task: Option<JoinHandle<()>>,
}

impl Interface {
    pub(crate) fn new(listener: TcpListener, handle: Handle, token: Option<Bearer>) -> Self {
        Self { listener: Arc::new(listener), handle, token: token.map(Arc::new), task: None }
    }

    pub(crate) fn start(&mut self) {
        self.abort();
        let guard = axum::middleware::from_fn_with_state(self.token.clone(), guard::check);
        let app = api::routes(self.handle.clone()).layer(guard);
        self.task = Some(tokio::spawn(serve::serve(Arc::clone(&self.listener), app, Limits::default())));
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

/// Serves these routes without a token until the future is dropped, for data that anyone may read. Web pages of other
/// sites are refused nevertheless.
pub async fn serve_open(listener: TcpListener, routes: axum::Router) {
    let guard = axum::middleware::from_fn_with_state(None::<Arc<Bearer>>, guard::check);
    serve::serve(Arc::new(listener), routes.layer(guard), Limits::default()).await;
}

//! The admin interface: HTTP with a JSON API and metrics for Prometheus. `docs/admin.md` describes it for users.
//!
//! It listens on loopback unless told otherwise, and asks for a token where other machines reach it. It refuses what
//! a web page in an operator's browser might send. All it knows and does goes through a [`Handle`].
//!
//! - `api`: what each path answers,
//! - `guard`: what keeps strangers and web pages out,
//! - [`token`]: what a request has to show,
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

/// The interface of a process, which can be left to another process for a time.
pub(crate) struct Interface {
    listener: Arc<TcpListener>,
    handle: Handle,
    /// What requests have to show.
    token: Option<Arc<Bearer>>,
    task: Option<JoinHandle<()>>,
}

impl Interface {
    pub(crate) fn new(listener: TcpListener, handle: Handle, token: Option<Bearer>) -> Self {
        Self { listener: Arc::new(listener), handle, token: token.map(Arc::new), task: None }
    }

    /// Answers requests from now on.
    pub(crate) fn start(&mut self) {
        self.abort();
        let guard = axum::middleware::from_fn_with_state(self.token.clone(), guard::check);
        let app = api::routes(self.handle.clone()).layer(guard);
        self.task = Some(tokio::spawn(serve::serve(Arc::clone(&self.listener), app, Limits::default())));
    }

    /// Leaves them unanswered.
    pub(crate) fn abort(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Ends all connections, so that whoever waits for it may bind the address again.
    pub(crate) async fn stop(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }
}

/// Answers requests by these routes until it is dropped, without a token: for what nobody has to be kept from. Web
/// pages of other sites are refused all the same.
pub async fn serve_open(listener: TcpListener, routes: axum::Router) {
    let guard = axum::middleware::from_fn_with_state(None::<Arc<Bearer>>, guard::check);
    serve::serve(Arc::new(listener), routes.layer(guard), Limits::default()).await;
}

//! The admin interface: HTTP with a JSON API and metrics for Prometheus. `docs/admin.md` describes it for users.
//!
//! It listens on loopback unless told otherwise, and asks for a token where other machines reach it. It refuses what a
//! web page in an operator's browser might send. All it knows and does goes through a [`Handle`].
//!
//! - [`view`]: the shapes of the JSON, for both sides of the connection,
//! - `api`: what each path answers,
//! - `guard`: what keeps strangers and web pages out,
//! - [`token`]: what a request has to show,
//! - `serve`: connections,
//! - `metrics`: the text that Prometheus reads.

mod api;
mod guard;
mod metrics;
#[cfg(test)]
mod openapi;
mod serve;
#[cfg(test)]
mod tests;
pub mod token;
pub mod view;

use crate::Handle;
use config::Bearer;
use serve::Limits;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Answers requests until the task is aborted; `token` is what they have to show.
pub(crate) async fn serve(listener: TcpListener, handle: Handle, token: Option<Bearer>) {
    let guard = axum::middleware::from_fn_with_state(token.map(Arc::new), guard::check);
    serve::serve(listener, api::routes(handle).layer(guard), Limits::default()).await;
}

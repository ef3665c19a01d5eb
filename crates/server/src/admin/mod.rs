//! The admin interface: HTTP with a JSON API and metrics for Prometheus. `docs/admin.md` describes it for users.
//!
//! It asks for no password, so it listens on loopback unless told otherwise, and refuses what a web page in an
//! operator's browser might send. All it knows and does goes through a [`Handle`].
//!
//! - [`view`]: the shapes of the JSON, for both sides of the connection,
//! - `api`: what each path answers,
//! - `guard`: what keeps web pages out,
//! - `metrics`: the text that Prometheus reads.

mod api;
mod guard;
mod metrics;
#[cfg(test)]
mod tests;
pub mod view;

use crate::Handle;
use std::io;
use tokio::net::TcpListener;

/// Answers requests until the task is aborted.
pub(crate) async fn serve(listener: TcpListener, handle: Handle) -> io::Result<()> {
    let app = api::routes(handle).layer(axum::middleware::from_fn(guard::check));
    axum::serve(listener, app.into_make_service_with_connect_info::<guard::Local>()).await
}

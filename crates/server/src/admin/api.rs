//! What each path answers. Success is JSON, failure a line of text.

use super::metrics;
use super::view::{Explanation, Health, Members, Reloaded, Session};
use crate::Handle;
use crate::handle::GONE;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};

/// Where an explained request comes from unless the query says otherwise; only members and sisters are special.
const SOME_CALLER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), config::SIP_PORT);

pub(super) fn routes(handle: Handle) -> Router {
    Router::new()
        .route("/api/health", get(health))
        .route("/api/members", get(members))
        .route("/api/sessions", get(sessions))
        .route("/api/drain", post(drain))
        .route("/api/undrain", post(undrain))
        .route("/api/reload", post(reload))
        .route("/api/stop", post(stop))
        .route("/api/explain", post(explain))
        .route("/metrics", get(scrape))
        .fallback(unknown)
        .with_state(handle)
}

/// A failed request: its status and what went wrong.
struct Failure(StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, self.1 + "\n").into_response()
    }
}

/// `status`, unless the server has ended, which every question can meet.
fn failure(status: StatusCode) -> impl Fn(String) -> Failure {
    move |text| Failure(if text == GONE { StatusCode::SERVICE_UNAVAILABLE } else { status }, text)
}

/// For questions that have no other way to fail.
fn gone(text: String) -> Failure {
    Failure(StatusCode::SERVICE_UNAVAILABLE, text)
}

async fn health(State(handle): State<Handle>) -> Result<(StatusCode, Json<Health>), Failure> {
    let health = Health::new(&handle.standing().await.map_err(gone)?);
    let status = if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(health)))
}

#[derive(Deserialize)]
struct OldestQuery {
    #[serde(default)]
    oldest: bool,
}

async fn members(
    State(handle): State<Handle>,
    Query(query): Query<OldestQuery>,
) -> Result<Json<Members>, Failure> {
    let figures = handle.figures(query.oldest).await.map_err(gone)?;
    Ok(Json(Members { members: figures.members.into_iter().map(|report| report.shown).collect() }))
}

#[derive(Deserialize)]
struct CallQuery {
    call_id: Option<String>,
}

async fn sessions(State(handle): State<Handle>, Query(query): Query<CallQuery>) -> Result<Response, Failure> {
    let Some(call_id) = query.call_id else {
        return Ok(Json(handle.standing().await.map_err(gone)?.sessions).into_response());
    };
    match handle.session(call_id.as_bytes()).await.map_err(gone)? {
        Some(session) => Ok(Json(Session::new(call_id, &session)).into_response()),
        None => Err(Failure(StatusCode::NOT_FOUND, format!("no session has the Call-ID {call_id:?}"))),
    }
}

#[derive(Deserialize)]
struct MemberQuery {
    member: String,
}

async fn drain(
    State(handle): State<Handle>,
    Query(query): Query<MemberQuery>,
) -> Result<Json<Members>, Failure> {
    set_draining(&handle, &query.member, true).await
}

async fn undrain(
    State(handle): State<Handle>,
    Query(query): Query<MemberQuery>,
) -> Result<Json<Members>, Failure> {
    set_draining(&handle, &query.member, false).await
}

async fn set_draining(handle: &Handle, member: &str, draining: bool) -> Result<Json<Members>, Failure> {
    handle.drain(member, draining).await.map_err(failure(StatusCode::NOT_FOUND))?;
    let all = handle.figures(true).await.map_err(gone)?.members.into_iter().map(|report| report.shown);
    let meant = all.filter(|shown| shown.name == member || shown.address.to_string() == member);
    Ok(Json(Members { members: meant.collect() }))
}

async fn reload(State(handle): State<Handle>) -> Result<Json<Reloaded>, Failure> {
    let needs_restart = handle.reload().await.map_err(failure(StatusCode::BAD_REQUEST))?;
    Ok(Json(Reloaded { needs_restart }))
}

async fn stop(State(handle): State<Handle>) -> Json<Value> {
    handle.stop();
    Json(json!({ "stopping": true }))
}

#[derive(Deserialize)]
struct FromQuery {
    from: Option<SocketAddr>,
}

async fn explain(
    State(handle): State<Handle>,
    Query(query): Query<FromQuery>,
    request: Bytes,
) -> Result<Json<Explanation>, Failure> {
    let from = query.from.unwrap_or(SOME_CALLER);
    let report = handle.explain(from, request.to_vec()).await.map_err(failure(StatusCode::BAD_REQUEST))?;
    Ok(Json(Explanation::from(report)))
}

async fn scrape(State(handle): State<Handle>) -> Result<Response, Failure> {
    let figures = handle.figures(false).await.map_err(gone)?;
    let kind = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    Ok(([kind], metrics::page(&figures)).into_response())
}

async fn unknown(uri: Uri) -> Failure {
    let known = "GET /api/health, /api/members, /api/sessions, /metrics; \
                 POST /api/drain, /api/undrain, /api/reload, /api/stop, /api/explain";
    Failure(StatusCode::NOT_FOUND, format!("nothing is at {}; there are: {known}", uri.path()))
}

//! The paths of the admin interface. Success is answered with JSON, failure with a line of text.

use crate::figures::history::History;
use crate::figures::{
    CapacityView, ConnectionsView, ContactsView, EndedCallsView, ExplanationView, FailuresView, HealthView,
    MembersView, OpenCallsView, ProxyView, RegistrarView, Reloaded, Restarting, ScaleView, ScalesView,
    Stopping,
};
use crate::registrations::GONE;
use crate::{ContactsError, FailureFilter, Handle};
use axum::body::Bytes;
use axum::extract::{Path as UrlPath, Query, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use base::{Peer, Transport};
use config::{ChangeError, MemberChange};
use shards::CallFilter;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Default sender of an explained request. Only members and peer balancers are treated differently.
const SOME_CALLER: Peer =
    Peer::new(Transport::Udp, SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), config::SIP_PORT));

pub(super) fn routes(handle: Handle, history: Arc<Mutex<History>>) -> Router {
    let history = async move |uri: Uri| {
        let [] = parameters(&uri, [])?;
        Ok::<_, Failure>(Json(history.lock().unwrap_or_else(PoisonError::into_inner).view()))
    };
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/api/health", get(health))
        .route("/api/members", get(members))
        .route("/api/history", get(history))
        .route("/api/sessions", get(sessions))
        .route("/api/calls", get(calls))
        .route("/api/calls", delete(end_calls))
        .route("/api/failures", get(failures))
        .route("/api/connections", get(connections))
        .route("/api/proxy", get(proxy))
        .route("/api/capacity", get(capacity))
        .route("/api/registrar", get(registrar))
        .route("/api/scale", get(scales))
        .route("/api/scale/{pool}", get(scale))
        .route("/api/registrations", get(registrations))
        .route("/api/registrations", delete(unregister))
        .route("/api/drain", post(drain))
        .route("/api/undrain", post(undrain))
        .route("/api/up", post(up))
        .route("/api/member/add", post(add_member))
        .route("/api/member/remove", post(remove_member))
        .route("/api/member/weight", post(set_weight))
        .route("/api/reload", post(reload))
        .route("/api/restart", post(restart))
        .route("/api/stop", post(stop))
        .route("/api/explain", post(explain))
        .route("/metrics", get(scrape))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .with_state(handle)
}

struct Failure(StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, self.1 + "\n").into_response()
    }
}

/// Returns a failure with `status`; 503 if the server has ended, which can happen to any request.
fn failure(status: StatusCode) -> impl Fn(String) -> Failure {
    move |text| Failure(if text == GONE { StatusCode::SERVICE_UNAVAILABLE } else { status }, text)
}

/// Failure of requests that fail only because the server has ended.
fn gone(text: String) -> Failure {
    Failure(StatusCode::SERVICE_UNAVAILABLE, text)
}

fn wrong(name: &str, value: &str, expected: &str) -> Failure {
    Failure(StatusCode::BAD_REQUEST, format!("{name}={value}: expected {expected}"))
}

/// Returns the values of these query parameters. An unknown or repeated parameter is an error.
fn parameters<const N: usize>(uri: &Uri, known: [&str; N]) -> Result<[Option<String>; N], Failure> {
    let bad = |text| Failure(StatusCode::BAD_REQUEST, text);
    let Query(given) = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|_| bad("the query cannot be read: expected NAME=VALUE, percent-encoded".to_owned()))?;
    let mut values = [const { None }; N];
    for (name, value) in given {
        let Some(at) = known.iter().position(|known| *known == name) else {
            let there_is = if N == 0 { "none".to_owned() } else { known.join(", ") };
            return Err(bad(format!("unknown parameter {name:?} of {}; there is: {there_is}", uri.path())));
        };
        if values[at].replace(value).is_some() {
            return Err(bad(format!("parameter {name:?} is given twice")));
        }
    }
    Ok(values)
}

async fn health(State(handle): State<Handle>, uri: Uri) -> Result<(StatusCode, Json<HealthView>), Failure> {
    let [] = parameters(&uri, [])?;
    let health = handle.standing().await.map_err(gone)?.health;
    let status = if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(health)))
}

/// Liveness probe: any answer shows that the process runs.
async fn alive() -> &'static str {
    "alive\n"
}

/// Readiness probe: whether new calls are taken.
async fn ready(State(handle): State<Handle>) -> Result<&'static str, Failure> {
    let is_ready = handle.standing().await.is_ok_and(|standing| standing.health.ready);
    is_ready.then_some("ready\n").ok_or_else(|| gone("no new calls are taken".to_owned()))
}

async fn members(State(handle): State<Handle>, uri: Uri) -> Result<Json<MembersView>, Failure> {
    let [oldest, brief, problems, search, pool] =
        parameters(&uri, ["oldest", "brief", "problems", "search", "pool"])?;
    let (oldest, brief) = (flag("oldest", oldest.as_deref())?, flag("brief", brief.as_deref())?);
    let problems = flag("problems", problems.as_deref())?;
    let mut shown = if brief && !oldest {
        handle.members().await.map_err(gone)?
    } else {
        handle.figures(oldest).await.map_err(gone)?.members
    };
    shown.members.retain(|member| {
        let has = |text: &str| {
            member.name.contains(text)
                || member.state.contains(text)
                || member.address.to_string().contains(text)
        };
        (!problems || member.state != "up")
            && search.as_deref().is_none_or(has)
            && pool.as_ref().is_none_or(|pool| member.pools.contains(pool))
    });
    if let (true, Some(pool)) = (shown.members.is_empty(), &pool) {
        let pools = handle.standing().await.map_err(gone)?.health.pools;
        known_pool(pool, pools.into_iter().map(|known| known.name))?;
    }
    Ok(Json(shown))
}

/// Fails if no pool has this name.
fn known_pool(pool: &str, names: impl Iterator<Item = String>) -> Result<(), Failure> {
    let names: Vec<_> = names.collect();
    if names.iter().any(|name| name == pool) {
        return Ok(());
    }
    let text = format!("no pool {pool:?}; there are: {}", names.join(", "));
    Err(Failure(StatusCode::NOT_FOUND, text))
}

/// Reads a parameter that is `true` or `false`, the default.
fn flag(name: &str, value: Option<&str>) -> Result<bool, Failure> {
    match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(wrong(name, other, "true or false")),
    }
}

async fn sessions(State(handle): State<Handle>, uri: Uri) -> Result<Response, Failure> {
    let [call_id] = parameters(&uri, ["call_id"])?;
    let Some(call_id) = call_id else {
        return Ok(Json(handle.standing().await.map_err(gone)?.sessions).into_response());
    };
    match handle.session(&call_id).await.map_err(gone)? {
        Some(session) => Ok(Json(session).into_response()),
        None => Err(Failure(StatusCode::NOT_FOUND, format!("no session has the Call-ID {call_id:?}"))),
    }
}

/// Calls that are listed unless another number is asked for.
const CALLS: usize = 100;

async fn calls(State(handle): State<Handle>, uri: Uri) -> Result<Json<OpenCallsView>, Failure> {
    let [text, pool, member, limit] = parameters(&uri, ["text", "pool", "member", "limit"])?;
    let address = |text: String| text.parse().map_err(|_| wrong("member", &text, "an address as IP:PORT"));
    let number = |text: String| text.parse().map_err(|_| wrong("limit", &text, "a number"));
    let filter = CallFilter {
        text,
        pool,
        member: member.map(address).transpose()?,
        limit: limit.map(number).transpose()?.unwrap_or(CALLS),
    };
    branch(
        handle.calls(filter).await.map_err(gone)?,
        "this process keeps no dialogs: no pool has forward = \"dialog\"",
    )
}

async fn end_calls(State(handle): State<Handle>, uri: Uri) -> Result<Json<EndedCallsView>, Failure> {
    let [call_id] = parameters(&uri, ["call_id"])?;
    let text = "missing parameter call_id: add ?call_id=CALL-ID";
    let call_id = call_id.ok_or_else(|| Failure(StatusCode::BAD_REQUEST, text.to_owned()))?;
    let ended = handle.end_calls(&call_id).await.map_err(gone)?;
    if ended.ended == 0 {
        return Err(Failure(
            StatusCode::NOT_FOUND,
            format!(
                "no call with the Call-ID {call_id:?} can be ended: it must be answered, in a pool with forward = \"dialog\", \
                 and have begun with `longest` in [calls]"
            ),
        ));
    }
    Ok(Json(ended))
}

async fn failures(State(handle): State<Handle>, uri: Uri) -> Result<Json<FailuresView>, Failure> {
    let [call_id, from, to, last, limit] = parameters(&uri, ["call_id", "from", "to", "last", "limit"])?;
    let number = |name: &str, given: Option<String>| {
        let parse = |text: String| text.parse::<u32>().map_err(|_| wrong(name, &text, "a number"));
        given.map(parse).transpose()
    };
    let last = number("last", last)?.map(|seconds| Duration::from_secs(seconds.into()));
    let limit = number("limit", limit)?.map(|limit| limit as usize);
    handle.failures(&FailureFilter { call_id, from, to, last, limit }).await.map(Json).map_err(gone)
}

async fn connections(State(handle): State<Handle>, uri: Uri) -> Result<Json<ConnectionsView>, Failure> {
    let [] = parameters(&uri, [])?;
    branch(handle.connections().await.map_err(gone)?, "this process has no listeners for connections")
}

async fn proxy(State(handle): State<Handle>, uri: Uri) -> Result<Json<ProxyView>, Failure> {
    let [] = parameters(&uri, [])?;
    branch(handle.standing().await.map_err(gone)?.proxy, "this process keeps no transactions")
}

async fn capacity(State(handle): State<Handle>, uri: Uri) -> Result<Json<CapacityView>, Failure> {
    let [] = parameters(&uri, [])?;
    branch(handle.standing().await.map_err(gone)?.capacity, "this process has no [capacity]")
}

async fn registrar(State(handle): State<Handle>, uri: Uri) -> Result<Json<RegistrarView>, Failure> {
    let [] = parameters(&uri, [])?;
    branch(handle.standing().await.map_err(gone)?.registrar, "this process has no [registrar]")
}

/// Returns a part of the figures that only some processes have; otherwise 404.
fn branch<T>(shown: Option<T>, without: &str) -> Result<Json<T>, Failure> {
    shown.map(Json).ok_or_else(|| Failure(StatusCode::NOT_FOUND, without.to_owned()))
}

async fn scales(State(handle): State<Handle>, uri: Uri) -> Result<Json<ScalesView>, Failure> {
    let [] = parameters(&uri, [])?;
    Ok(Json(handle.standing().await.map_err(gone)?.scale))
}

async fn scale(
    State(handle): State<Handle>,
    UrlPath(pool): UrlPath<String>,
    uri: Uri,
) -> Result<Json<ScaleView>, Failure> {
    let [] = parameters(&uri, [])?;
    let pools = handle.standing().await.map_err(gone)?.scale.pools;
    let names: Vec<_> = pools.iter().map(|known| known.pool.clone()).collect();
    let none = || {
        let there_are = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Failure(StatusCode::NOT_FOUND, format!("no pool {pool:?} has a `scale`; there are: {there_are}"))
    };
    pools.into_iter().find(|known| known.pool == pool).map(Json).ok_or_else(none)
}

async fn registrations(State(handle): State<Handle>, uri: Uri) -> Result<Json<ContactsView>, Failure> {
    let [user] = parameters(&uri, ["user"])?;
    let user = required_user(user)?;
    let found = handle.contacts(&user).await?;
    Ok(Json(ContactsView::new(user, &found)))
}

async fn unregister(State(handle): State<Handle>, uri: Uri) -> Result<Json<ContactsView>, Failure> {
    let [user, contact] = parameters(&uri, ["user", "contact"])?;
    let user = required_user(user)?;
    let found = handle.remove_contacts(&user, contact.as_deref()).await?;
    Ok(Json(ContactsView::new(user, &found)))
}

fn required_user(user: Option<String>) -> Result<String, Failure> {
    let text = "missing parameter user: add ?user=USER@DOMAIN";
    user.ok_or_else(|| Failure(StatusCode::BAD_REQUEST, text.to_owned()))
}

impl From<ContactsError> for Failure {
    fn from(error: ContactsError) -> Self {
        let status = match error {
            ContactsError::NotServed(_) => StatusCode::NOT_FOUND,
            ContactsError::Store(_) | ContactsError::Gone => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, error.to_string())
    }
}

async fn drain(State(handle): State<Handle>, uri: Uri) -> Result<Json<MembersView>, Failure> {
    set_draining(&handle, &uri, true).await
}

async fn undrain(State(handle): State<Handle>, uri: Uri) -> Result<Json<MembersView>, Failure> {
    set_draining(&handle, &uri, false).await
}

async fn up(State(handle): State<Handle>, uri: Uri) -> Result<Json<MembersView>, Failure> {
    let meant = handle.up(&required_member(&uri)?).await.map_err(failure(StatusCode::NOT_FOUND))?;
    shown(&handle, &meant).await
}

async fn set_draining(handle: &Handle, uri: &Uri, draining: bool) -> Result<Json<MembersView>, Failure> {
    let meant =
        handle.drain(&required_member(uri)?, draining).await.map_err(failure(StatusCode::NOT_FOUND))?;
    shown(handle, &meant).await
}

async fn add_member(State(handle): State<Handle>, uri: Uri) -> Result<Json<MembersView>, Failure> {
    let [pool, address, weight, name] = parameters(&uri, ["pool", "address", "weight", "name"])?;
    let change = MemberChange::Add { address: required("address", address)?, weight, name };
    change_member(&handle, pool, change).await
}

async fn remove_member(State(handle): State<Handle>, uri: Uri) -> Result<Json<MembersView>, Failure> {
    let [pool, member] = parameters(&uri, ["pool", "member"])?;
    change_member(&handle, pool, MemberChange::Remove { member: required("member", member)? }).await
}

async fn set_weight(State(handle): State<Handle>, uri: Uri) -> Result<Json<MembersView>, Failure> {
    let [pool, member, weight] = parameters(&uri, ["pool", "member", "weight"])?;
    let (member, weight) = (required("member", member)?, required("weight", weight)?);
    change_member(&handle, pool, MemberChange::Weight { member, weight }).await
}

async fn change_member(
    handle: &Handle,
    pool: Option<String>,
    change: MemberChange,
) -> Result<Json<MembersView>, Failure> {
    let meant = handle.change_member(required("pool", pool)?, change).await.map_err(|error| match error {
        None => gone(GONE.to_owned()),
        Some(ChangeError::Unknown(text)) => Failure(StatusCode::NOT_FOUND, text),
        Some(ChangeError::Wrong(text)) => Failure(StatusCode::BAD_REQUEST, text),
    })?;
    shown(handle, &meant).await
}

fn required(name: &str, value: Option<String>) -> Result<String, Failure> {
    value.ok_or_else(|| Failure(StatusCode::BAD_REQUEST, format!("missing parameter {name}")))
}

fn required_member(uri: &Uri) -> Result<String, Failure> {
    let [member] = parameters(uri, ["member"])?;
    member.ok_or_else(|| {
        let text =
            "missing parameter member: add ?member= with its address, or its name in the configuration";
        Failure(StatusCode::BAD_REQUEST, text.to_owned())
    })
}

/// Returns the current figures of the members that a command applied to.
async fn shown(handle: &Handle, peers: &[Peer]) -> Result<Json<MembersView>, Failure> {
    let MembersView { mut members, .. } = handle.figures(true).await.map_err(gone)?.members;
    members.retain(|member| peers.contains(&member.address.0));
    Ok(Json(MembersView { members, names: Vec::new() }))
}

async fn reload(State(handle): State<Handle>, uri: Uri) -> Result<Json<Reloaded>, Failure> {
    let [] = parameters(&uri, [])?;
    let needs_restart = handle.reload().await.map_err(failure(StatusCode::BAD_REQUEST))?;
    Ok(Json(Reloaded { needs_restart }))
}

async fn restart(State(handle): State<Handle>, uri: Uri) -> Result<Json<Restarting>, Failure> {
    let [] = parameters(&uri, [])?;
    handle.restart().await.map_err(failure(StatusCode::BAD_REQUEST))?;
    Ok(Json(Restarting { restarting: true }))
}

async fn stop(State(handle): State<Handle>, uri: Uri) -> Result<Json<Stopping>, Failure> {
    let [] = parameters(&uri, [])?;
    handle.stop();
    Ok(Json(Stopping { stopping: true }))
}

async fn explain(
    State(handle): State<Handle>,
    uri: Uri,
    request: Bytes,
) -> Result<Json<ExplanationView>, Failure> {
    let [from, listener] = parameters(&uri, ["from", "listener"])?;
    let parse = |name: &str, given: Option<String>| {
        let parse = |text: String| {
            text.parse().map_err(|_| wrong(name, &text, "an address as IP:PORT or IP:PORT;transport=tcp"))
        };
        given.map(parse).transpose()
    };
    let from = parse("from", from)?.unwrap_or(SOME_CALLER);
    let report = handle
        .explain(from, parse("listener", listener)?, request.to_vec())
        .await
        .map_err(failure(StatusCode::BAD_REQUEST))?;
    Ok(Json(report))
}

async fn scrape(State(handle): State<Handle>) -> Result<Response, Failure> {
    let figures = handle.figures(false).await.map_err(gone)?;
    let kind = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    Ok(([kind], figures.metrics()).into_response())
}

const PATHS: &str = "GET /healthz, /readyz, /api/health, /api/members, /api/history, /api/sessions, /api/calls, /api/failures, /api/connections, /api/proxy, /api/capacity, \
                     /api/registrar, /api/registrations, /api/scale, /api/scale/{pool}, /metrics; \
                     POST /api/drain, /api/undrain, /api/up, /api/member/add, /api/member/remove, /api/member/weight, /api/reload, /api/restart, /api/stop, /api/explain; \
                     DELETE /api/calls, /api/registrations";

async fn wrong_method(method: Method, uri: Uri) -> Failure {
    let text = format!("{method} is not allowed for {}; there are: {PATHS}", uri.path());
    Failure(StatusCode::METHOD_NOT_ALLOWED, text)
}

async fn unknown(uri: Uri) -> Failure {
    Failure(StatusCode::NOT_FOUND, format!("unknown path {}; there are: {PATHS}", uri.path()))
}

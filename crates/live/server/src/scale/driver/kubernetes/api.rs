//! A client of an API server over HTTP/1.1, with one connection for each request. The connection uses TLS, or plain
//! text to `kubectl proxy`.

use super::tls;
use axum::body::Body as RequestBody;
use config::{ApiServer, KubernetesConfig};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Limit of an answer in bytes: thousands of pods.
const MOST: usize = 64 << 20;
/// Limit of an API server's message in the log, in characters.
const SHOWN: usize = 200;

pub(super) struct Api {
    /// HOST:PORT, or why the address is unknown.
    authority: Result<String, String>,
    /// File of the trusted certificates; `None`: plain text.
    ca_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
    pub(super) timeout: Duration,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another client has changed the same object (409), which has to be read again.
    Conflict,
    /// The requested version is too old (410).
    Gone,
    /// Anything else, in words.
    Other(String),
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict => "the API server: another client keeps changing the same object".to_owned(),
            Refusal::Gone => "the API server: the version is too old".to_owned(),
            Refusal::Other(why) => why,
        }
    }
}

impl Api {
    pub(super) fn new(config: &KubernetesConfig, timeout: Duration) -> Self {
        let (authority, ca_file) = match &config.api_server {
            ApiServer::Plain { authority } => (Ok(authority.clone()), None),
            ApiServer::Tls { authority: Some(authority), ca_file } => {
                (Ok(authority.clone()), Some(ca_file.clone()))
            }
            ApiServer::Tls { authority: None, ca_file } => {
                (in_pod(|name| std::env::var(name).ok()), Some(ca_file.clone()))
            }
        };
        Self { authority, ca_file, token_file: config.token_file.clone(), timeout }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.whole(Method::GET, path, None).await
    }

    /// Changes an object by a JSON merge patch (RFC 7396).
    pub(super) async fn patch(&self, path: &str, change: &Value) -> Result<Value, Refusal> {
        self.whole(Method::PATCH, path, Some(change)).await
    }

    /// Sends a request whose answer has no end, and returns its lines. A server that sends nothing for `silence` counts
    /// as dead.
    pub(super) async fn lines(&self, path: &str, silence: Duration) -> Result<Lines, Refusal> {
        let response = self.in_time(self.answer(Method::GET, path, None)).await?;
        if response.status() == StatusCode::OK {
            return Ok(Lines { body: response.into_body(), read: Vec::new(), silence });
        }
        Err(self.in_time(async { Ok(self.refused(response).await) }).await?)
    }

    async fn whole(&self, method: Method, path: &str, change: Option<&Value>) -> Result<Value, Refusal> {
        self.in_time(async {
            let response = self.answer(method, path, change).await?;
            if response.status() != StatusCode::OK {
                return Err(self.refused(response).await);
            }
            let bytes = all(response.into_body()).await?;
            serde_json::from_slice(&bytes).map_err(|error| other("the answer is not JSON", error))
        })
        .await
    }

    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
        let late = || Refusal::Other(format!("the API server: no answer for {:?}", self.timeout));
        tokio::time::timeout(self.timeout, answer).await.unwrap_or_else(|_| Err(late()))
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        change: Option<&Value>,
    ) -> Result<Response<Incoming>, Refusal> {
        let authority = self.authority.as_ref().map_err(|why| Refusal::Other(why.clone()))?;
        let request = self.request(authority, method, path, change)?;
        let unreachable =
            |error| Refusal::Other(format!("the API server at {authority} cannot be reached: {error}"));
        let stream = TcpStream::connect(authority).await.map_err(unreachable)?;
        let Some(ca_file) = &self.ca_file else { return exchange(stream, request).await };
        let stream = tls::connect(stream, authority, ca_file).await.map_err(Refusal::Other)?;
        exchange(stream, request).await
    }

    fn request(
        &self,
        authority: &str,
        method: Method,
        path: &str,
        change: Option<&Value>,
    ) -> Result<Request<RequestBody>, Refusal> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, authority)
            .header(ACCEPT, "application/json");
        if let Some(file) = &self.token_file {
            // The token of a service account changes every hour.
            let token = std::fs::read_to_string(file).map_err(|error| {
                Refusal::Other(format!("the token {} cannot be read: {error}", file.display()))
            })?;
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.trim()));
        }
        if change.is_some() {
            request = request.header(CONTENT_TYPE, "application/merge-patch+json");
        }
        let body = change.map_or_else(RequestBody::empty, |change| RequestBody::from(change.to_string()));
        request.body(body).map_err(|error| other("the request cannot be built", error))
    }

    /// Returns the server's reason for a refusal, with a remedy.
    async fn refused(&self, response: Response<Incoming>) -> Refusal {
        let status = response.status();
        let remedy = match status {
            StatusCode::CONFLICT => return Refusal::Conflict,
            StatusCode::GONE => return Refusal::Gone,
            StatusCode::UNAUTHORIZED => match &self.token_file {
                Some(file) => format!("; it does not accept the token in {}", file.display()),
                None => "; no token is sent over http://: use `kubectl proxy`, which adds its own".to_owned(),
            },
            StatusCode::FORBIDDEN => {
                "; the account of the token lacks this right: bind a Role with it to the account".to_owned()
            }
            _ => String::new(),
        };
        let bytes = all(response.into_body()).await.unwrap_or_default();
        let said = serde_json::from_slice::<Value>(&bytes).ok();
        let said = said.as_ref().and_then(|said| said["message"].as_str()).unwrap_or_default();
        let said: String = said.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        let said = format!("the API server: {status}: {said}");
        Refusal::Other(format!("{}{remedy}", said.trim_end_matches(": ")))
    }
}

/// Returns the address of the API server from the environment of a pod.
fn in_pod(environment: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let known = |name: &str| {
        environment(name).filter(|text| !text.is_empty()).ok_or_else(|| {
            format!("the API server: {name} is not in the environment; outside of a pod, set `api_server`")
        })
    };
    let (host, port) = (known("KUBERNETES_SERVICE_HOST")?, known("KUBERNETES_SERVICE_PORT")?);
    // The variable has an IPv6 address without brackets.
    Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<RequestBody>,
) -> Result<Response<Incoming>, Refusal> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| other("the answer is not HTTP", error))?;
    // The task ends with the answer, which also reports errors.
    tokio::spawn(async move { drop(connection.await) });
    sender.send_request(request).await.map_err(|error| other("cut off", error))
}

fn other(fault: &str, error: impl std::fmt::Display) -> Refusal {
    Refusal::Other(format!("the API server: {fault}: {error}"))
}

async fn all(mut body: Incoming) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    while let Some(more) = next(&mut body).await? {
        bytes.extend_from_slice(&more);
        if bytes.len() > MOST {
            return Err(Refusal::Other("the API server: its answer is too long".to_owned()));
        }
    }
    Ok(bytes)
}

/// Returns the next piece of an answer; `None` at its end.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    // Trailers are ignored.
    let bytes = frame.transpose().map_err(|error| other("cut off", error))?;
    Ok(bytes.map(|frame| frame.into_data().unwrap_or_default()))
}

/// Lines of JSON that arrive as events happen.
pub(super) struct Lines {
    body: Incoming,
    read: Vec<u8>,
    silence: Duration,
}

impl Lines {
    /// Returns the next line; `None` when the server has ended the answer.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, Refusal> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map(Some)
                    .map_err(|error| other("a line is not JSON", error));
            }
            if self.read.len() > MOST {
                return Err(Refusal::Other("the API server: a line is too long".to_owned()));
            }
            let more = tokio::time::timeout(self.silence, next(&mut self.body)).await;
            let silent = || Refusal::Other(format!("the API server: silent for {:?}", self.silence));
            match more.map_err(|_| silent())?? {
                Some(more) => self.read.extend_from_slice(&more),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_finds_the_api_server_in_its_environment() {
        let found = |host: Option<&str>, port: Option<&str>| {
            in_pod(|name| match name {
                "KUBERNETES_SERVICE_HOST" => host.map(str::to_owned),
                "KUBERNETES_SERVICE_PORT" => port.map(str::to_owned),
                other => panic!("{other}"),
            })
        };
        assert_eq!(found(Some("10.96.0.1"), Some("443")).as_deref(), Ok("10.96.0.1:443"));
        assert_eq!(found(Some("fd00::1"), Some("6443")).as_deref(), Ok("[fd00::1]:6443"));
        let outside = "the API server: KUBERNETES_SERVICE_HOST is not in the environment; outside of a pod, set `api_server`";
        assert_eq!(found(None, None), Err(outside.to_owned()));
        assert!(found(Some("10.96.0.1"), Some("")).is_err());
    }
}

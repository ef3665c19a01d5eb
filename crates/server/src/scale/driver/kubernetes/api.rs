//! Asks an API server over HTTP/1.1, one connection a question. Nothing is encrypted: who speaks TLS with the API server is
//! `kubectl proxy` beside this process.

use axum::body::Body as RequestBody;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;
use tokio::net::TcpStream;

/// Bytes of an answer: thousands of pods.
const MOST: usize = 64 << 20;
/// Longest message of an API server that is shown, in characters.
const SHOWN: usize = 200;

/// Where an API server is asked.
pub(super) struct Api {
    pub(super) authority: String,
    pub(super) token_file: Option<PathBuf>,
    pub(super) timeout: Duration,
}

/// Why there is no answer that is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Somebody else has changed the same object (409): it is to be read again.
    Conflict,
    /// What was asked for is too long ago (410).
    Gone,
    /// Anything else, in words.
    Other(String),
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict => "the API server: somebody else keeps changing the same object".to_owned(),
            Refusal::Gone => "the API server: too old a version".to_owned(),
            Refusal::Other(why) => why,
        }
    }
}

impl Api {
    /// What is there.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.whole(Method::GET, path, None).await
    }

    /// Changes what is there, by a JSON merge patch (RFC 7396).
    pub(super) async fn patch(&self, path: &str, change: &Value) -> Result<Value, Refusal> {
        self.whole(Method::PATCH, path, Some(change)).await
    }

    /// What an endless answer says, as far as lines are complete. A server that says nothing for `silence` is gone.
    pub(super) async fn lines(&self, path: &str, silence: Duration) -> Result<Lines, Refusal> {
        let response = self.in_time(self.answer(Method::GET, path, None)).await?;
        if response.status() == StatusCode::OK {
            return Ok(Lines { body: response.into_body(), read: Vec::new(), silence });
        }
        Err(self.in_time(async { Ok(refused(response).await) }).await?)
    }

    async fn whole(&self, method: Method, path: &str, change: Option<&Value>) -> Result<Value, Refusal> {
        self.in_time(async {
            let response = self.answer(method, path, change).await?;
            if response.status() != StatusCode::OK {
                return Err(refused(response).await);
            }
            let bytes = all(response.into_body()).await?;
            serde_json::from_slice(&bytes).map_err(|error| other("its answer is no JSON", error))
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
        let request = self.request(method, path, change)?;
        let stream =
            TcpStream::connect(&self.authority).await.map_err(|error| other("cannot be reached", error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| other("no HTTP", error))?;
        // Ends with the answer, which says what went wrong.
        tokio::spawn(async move { drop(connection.await) });
        sender.send_request(request).await.map_err(|error| other("cut off", error))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        change: Option<&Value>,
    ) -> Result<Request<RequestBody>, Refusal> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(ACCEPT, "application/json");
        if let Some(file) = &self.token_file {
            // A token of a service account is another one every hour.
            let token = std::fs::read_to_string(file)
                .map_err(|error| Refusal::Other(format!("{}: {error}", file.display())))?;
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.trim()));
        }
        if change.is_some() {
            request = request.header(CONTENT_TYPE, "application/merge-patch+json");
        }
        let body = change.map_or_else(RequestBody::empty, |change| RequestBody::from(change.to_string()));
        request.body(body).map_err(|error| other("cannot be asked", error))
    }
}

fn other(what: &str, error: impl std::fmt::Display) -> Refusal {
    Refusal::Other(format!("the API server: {what}: {error}"))
}

/// Why it refuses, as it says itself.
async fn refused(response: Response<Incoming>) -> Refusal {
    let status = response.status();
    match status {
        StatusCode::CONFLICT => return Refusal::Conflict,
        StatusCode::GONE => return Refusal::Gone,
        _ => {}
    }
    let bytes = all(response.into_body()).await.unwrap_or_default();
    let said = serde_json::from_slice::<Value>(&bytes).ok();
    let said = said.as_ref().and_then(|said| said["message"].as_str()).unwrap_or_default();
    let said: String = said.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    Refusal::Other(format!("the API server: {status}: {said}").trim_end_matches(": ").to_owned())
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

/// The next piece of an answer; `None` at its end.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    // Trailers are of no interest.
    let bytes = frame.transpose().map_err(|error| other("cut off", error))?;
    Ok(bytes.map(|frame| frame.into_data().unwrap_or_default()))
}

/// Lines of JSON that come as things happen.
pub(super) struct Lines {
    body: Incoming,
    read: Vec<u8>,
    silence: Duration,
}

impl Lines {
    /// The next line; `None` when the server has ended the answer.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, Refusal> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(|error| other("no JSON", error));
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

//! Connections of the admin interface, limited in number and in time. An idle connection is closed when another one
//! needs its place, or the process needs a descriptor.

use super::guard::Local;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Number of connections: enough for some operators and some collectors of metrics.
    pub(super) connections: usize,
    /// Time for the head of a request to arrive, and for silence between two requests.
    pub(super) head: Duration,
    /// Time for the rest of a request to arrive and to be answered. Reading long tables takes seconds.
    pub(super) request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 32, head: Duration::from_secs(10), request: Duration::from_secs(30) }
    }
}

/// Limit of a request's head in bytes, all header fields included.
const HEAD: usize = 16 << 10;
/// Pause after the system refused a connection.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

struct Open {
    task: AbortHandle,
    /// Whether a request is being answered.
    busy: Arc<AtomicBool>,
}

/// Serves until the task is aborted.
pub(super) async fn serve(listener: Arc<TcpListener>, app: Router, limits: Limits) {
    let mut tasks = JoinSet::new();
    // The oldest connection first.
    let mut open: VecDeque<Open> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection to the admin interface was not accepted");
                close_idle(&mut open);
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= limits.connections && !close_idle(&mut open) {
            // All connections are answering requests, which takes limited time. Connections of clients without a token
            // close after the answer.
            let _ = tasks.join_next().await;
        }
        let busy = Arc::<AtomicBool>::default();
        let task = tasks.spawn(connection(stream, app.clone(), Arc::clone(&busy), limits));
        open.push_back(Open { task, busy });
    }
}

/// Closes the oldest idle connection. Returns whether there was one.
fn close_idle(open: &mut VecDeque<Open>) -> bool {
    let idle = open.iter().position(|connection| !connection.busy.load(Ordering::Relaxed));
    idle.and_then(|at| open.remove(at)).map(|connection| connection.task.abort()).is_some()
}

async fn connection(stream: TcpStream, app: Router, busy: Arc<AtomicBool>, limits: Limits) {
    let local = Local(stream.local_addr().ok());
    let app = TowerToHyperService::new(app.layer(Extension(local)));
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        busy.store(true, Ordering::Relaxed);
        let (answer, busy) = (app.call(request), Arc::clone(&busy));
        async move {
            let answer = tokio::time::timeout(limits.request, answer).await;
            busy.store(false, Ordering::Relaxed);
            // An error closes the connection.
            match answer {
                Ok(Ok(answer)) => Ok(answer),
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
            }
        }
    });
    // A client that disconnects or is silent for too long gets no response.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Answers "here" on `/`, and never on `/slow`.
    async fn start(limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let slow = get(std::future::pending::<String>);
        let app = Router::new().route("/", get(async || "here")).route("/slow", slow);
        tokio::spawn(serve(Arc::new(listener), app, limits));
        address
    }

    async fn send(address: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Reads until the other side closes.
    async fn rest(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        // A reset is also an end.
        let _ = stream.read_to_end(&mut bytes).await;
        String::from_utf8(bytes).unwrap()
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

    #[tokio::test]
    async fn idle_connections_make_room() {
        let limits = Limits { connections: 4, head: Duration::from_hours(1), ..Limits::default() };
        let address = start(limits).await;
        let mut idle = Vec::new();
        for _ in 0..20 {
            idle.push(send(address, "GET / HT").await);
            assert!(rest(send(address, GET).await).await.ends_with("here"));
        }
        assert_eq!(rest(idle.remove(0)).await, "", "the oldest idle connection is closed");
    }

    #[tokio::test]
    async fn a_request_whose_head_does_not_end_is_given_up() {
        let address = start(Limits { head: Duration::from_millis(50), ..Limits::default() }).await;
        assert!(!rest(send(address, "GET / HTTP/1.1\r\nHost: a\r\n").await).await.contains("200 OK"));
        assert_eq!(rest(send(address, "").await).await, "");
    }

    #[tokio::test]
    async fn a_request_that_takes_too_long_is_given_up() {
        let limits = Limits { connections: 1, request: Duration::from_millis(50), ..Limits::default() };
        let address = start(limits).await;
        let slow = send(address, &GET.replace("/ ", "/slow ")).await;
        // The slow request occupies the only connection.
        assert!(rest(send(address, GET).await).await.ends_with("here"));
        assert_eq!(rest(slow).await, "");
    }
}

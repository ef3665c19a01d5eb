//! Connections of the admin interface: a few at a time, and none for longer than it is of use. A connection that asks
//! for nothing is closed when another one needs its place, or a descriptor is needed.

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

/// What connections may take.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Most connections at a time: some operators, some collectors of metrics.
    pub(super) connections: usize,
    /// Longest time for the head of a request to come, and of silence between two requests.
    pub(super) head: Duration,
    /// Longest time for the rest of a request to come and to be answered; a walk of long tables takes seconds.
    pub(super) request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 32, head: Duration::from_secs(10), request: Duration::from_secs(30) }
    }
}

/// Bytes of a request's head, all its header fields together.
const HEAD: usize = 16 << 10;
/// Wait after the system has refused a connection, so that this is not tried all the time.
const BREATH: Duration = Duration::from_millis(100);

/// A connection that was accepted.
struct Open {
    task: AbortHandle,
    /// A request is being answered.
    busy: Arc<AtomicBool>,
}

/// Serves until the task is aborted.
pub(super) async fn serve(listener: Arc<TcpListener>, app: Router, limits: Limits) {
    let mut tasks = JoinSet::new();
    // In the order in which they came.
    let mut open: VecDeque<Open> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection to the admin interface was not accepted");
                close_idle(&mut open);
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= limits.connections && !close_idle(&mut open) {
            // Each is answering, which takes a limited time, and those of strangers end with it.
            let _ = tasks.join_next().await;
        }
        let busy = Arc::<AtomicBool>::default();
        let task = tasks.spawn(connection(stream, app.clone(), Arc::clone(&busy), limits));
        open.push_back(Open { task, busy });
    }
}

/// Closes the oldest connection that asks for nothing; says whether there is one.
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
    // Whoever breaks off, or is silent for too long, is closed without a word.
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

    /// What comes until the other side closes.
    async fn rest(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        // A reset is an end, too.
        let _ = stream.read_to_end(&mut bytes).await;
        String::from_utf8(bytes).unwrap()
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

    #[tokio::test]
    async fn connections_that_ask_for_nothing_make_room() {
        let limits = Limits { connections: 4, head: Duration::from_hours(1), ..Limits::default() };
        let address = start(limits).await;
        let mut idle = Vec::new();
        for _ in 0..20 {
            idle.push(send(address, "GET / HT").await);
            assert!(rest(send(address, GET).await).await.ends_with("here"));
        }
        assert_eq!(rest(idle.remove(0)).await, "", "the oldest is closed");
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
        // It has the only place, and is being answered.
        assert!(rest(send(address, GET).await).await.ends_with("here"));
        assert_eq!(rest(slow).await, "");
    }
}

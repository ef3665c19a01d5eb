//! Tests of the driver with an API server that gives recorded answers in order and records the requests.

use super::*;

use config::ApiServer;
use control::scale::ListedState;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Answers from the API reference of Kubernetes 1.31, shortened to the parts that are read.
mod recorded {
    pub(super) const UNAUTHORIZED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
    pub(super) const CONFLICT: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on statefulsets.apps \"pbx\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"pbx","group":"apps","kind":"statefulsets"},"code":409}"#;
    pub(super) const GONE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 100 (5000)","reason":"Expired","code":410}"#;

    pub(super) fn scale(replicas: u32, version: u32) -> String {
        format!(
            r#"{{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{{"name":"pbx","namespace":"voice","uid":"0f7e","resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{"replicas":{replicas}}},"status":{{"replicas":{replicas},"selector":"app=pbx"}}}}"#
        )
    }

    /// Returns a pod from words such as "pbx-0 10.1.0.5 True", optionally with a deletion cost. A pod without an
    /// address has "-".
    pub(super) fn pod(words: &str, version: u32) -> String {
        let words: Vec<_> = words.split(' ').collect();
        let [name, ip, ready, cost @ ..] = &words[..] else { panic!("{words:?}") };
        let annotations = cost.first().map_or_else(String::new, |cost| {
            format!(r#","annotations":{{"controller.kubernetes.io/pod-deletion-cost":"{cost}"}}"#)
        });
        let ips = match *ip {
            "-" => String::new(),
            ip => format!(r#","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}},{{"ip":"fd00::{}"}}]"#, &ip[7..]),
        };
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"voice","resourceVersion":"{version}","labels":{{"app":"pbx"}}{annotations}}},"status":{{"phase":"Running"{ips},"conditions":[{{"type":"Initialized","status":"True"}},{{"type":"Ready","status":"{ready}"}}]}}}}"#
        )
    }

    pub(super) fn pods(all: &[&str], version: u32) -> String {
        let items: Vec<_> = all.iter().map(|words| pod(words, version)).collect();
        format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
            items.join(",")
        )
    }

    pub(super) fn event(kind: &str, object: &str) -> String {
        format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
    }
}

enum Reply {
    Whole(u16, String),
    /// The beginning of an endless answer, which then ends regularly.
    Events(String),
    /// The beginning of an endless answer, cut off in the middle of a line.
    Cut(String),
    /// The beginning of an endless answer, then silence.
    Silent(String),
}

fn config(workload: Workload, api_server: ApiServer, token_file: Option<PathBuf>) -> KubernetesConfig {
    KubernetesConfig { workload, namespace: Some("voice".to_owned()), api_server, token_file }
}

/// Returns the folder of the certificates, which also explains how they were made.
fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls")
}

/// A server that answers requests with these beginnings, each once and in this order. Further requests get no answer.
struct Recorded {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    /// Tokens of the requests.
    shown: Arc<Mutex<Vec<String>>>,
}

impl Recorded {
    async fn start(replies: Vec<(&'static str, Reply)>) -> Self {
        Self::listen(replies, None).await
    }

    /// Starts such a server with TLS and the certificate of the tests.
    async fn start_tls(replies: Vec<(&'static str, Reply)>) -> Self {
        let folder = certificates();
        let chain = CertificateDer::pem_file_iter(folder.join("server.pem")).expect("the file exists");
        let chain = chain.collect::<Result<Vec<_>, _>>().expect("PEM");
        let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).expect("PEM");
        let settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("key and certificate match");
        Self::listen(replies, Some(TlsAcceptor::from(Arc::new(settings)))).await
    }

    async fn listen(replies: Vec<(&'static str, Reply)>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("the listener is bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::new(Mutex::new(Vec::new()));
        let script =
            Script { replies: Mutex::new(replies), asked: Arc::clone(&asked), shown: Arc::clone(&shown) };
        let script = Arc::new(script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, tls) = (Arc::clone(&script), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => answer(stream, &script).await,
                        // A client that rejects the certificate closes the connection.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                answer(stream, &script).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, asked, shown }
    }

    /// Returns a driver that does not watch and knows these pods.
    fn still(&self, pods: Pods) -> KubernetesDriver {
        let mut driver = self.driver(any(), LONG);
        driver.watching.abort();
        driver.pods = tokio::sync::watch::channel(Some(Ok(pods))).1;
        driver
    }

    fn driver(&self, workload: Workload, timeout: Duration) -> KubernetesDriver {
        let api_server = ApiServer::Plain { authority: self.address.to_string() };
        KubernetesDriver::new(&config(workload, api_server, None), timeout)
    }

    /// Returns a driver that uses TLS, with this name or address of the server.
    fn tls_driver(&self, host: &str, ca: &str, token_file: Option<PathBuf>) -> KubernetesDriver {
        let authority = Some(format!("{host}:{}", self.address.port()));
        let api_server = ApiServer::Tls { authority, ca_file: certificates().join(ca) };
        KubernetesDriver::new(&config(set(), api_server, token_file), LONG)
    }

    /// Returns the requests with this method, without heads.
    fn asked(&self, method: &str) -> Vec<String> {
        let asked = self.asked.lock().expect("no thread panics");
        asked.iter().filter(|request| request.starts_with(method)).cloned().collect()
    }
}

/// Answers to give, and requests received.
struct Script {
    replies: Mutex<Vec<(&'static str, Reply)>>,
    asked: Arc<Mutex<Vec<String>>>,
    shown: Arc<Mutex<Vec<String>>>,
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, script: &Script) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let text = loop {
        let length = stream.read(&mut buffer).await.expect("a request");
        bytes.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8(bytes.clone()).expect("text");
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
        if text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length) {
            break text;
        }
        assert!(!bytes.is_empty(), "the connection was closed");
    };
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let line = head.lines().next().expect("a line").trim_end_matches(" HTTP/1.1");
    script.asked.lock().expect("no thread panics").push(format!("{line} {body}").trim_end().to_owned());
    let token = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
    script.shown.lock().expect("no thread panics").extend(token.map(str::to_owned));
    let reply = {
        let mut replies = script.replies.lock().expect("no thread panics");
        let is_watch = |line: &str| line.contains("watch=true");
        let fits = |begin: &str| line.starts_with(begin) && is_watch(line) == is_watch(begin);
        let place = replies.iter().position(|(begin, _)| fits(begin));
        place.map(|place| replies.remove(place).1)
    };
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let (written, then) = match reply {
        Some(Reply::Whole(status, body)) => {
            let length = body.len();
            (format!("HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\n\r\n{body}"), false)
        }
        Some(Reply::Events(events)) => (format!("{head}{}0\r\n\r\n", chunk(&events)), false),
        Some(Reply::Cut(events)) => (format!("{head}{}", chunk(&format!("{events}{{\"type\":\"AD"))), false),
        Some(Reply::Silent(events)) if events.is_empty() => (head.to_owned(), true),
        Some(Reply::Silent(events)) => (format!("{head}{}", chunk(&events)), true),
        None => (String::new(), true),
    };
    stream.write_all(written.as_bytes()).await.expect("the driver reads");
    stream.flush().await.expect("the driver reads");
    if then {
        // Waits until the other side closes the connection.
        let _ = stream.read(&mut buffer).await;
    }
}

const LONG: Duration = Duration::from_mins(5);
const SCALE: &str = "/apis/apps/v1/namespaces/voice/statefulsets/pbx/scale";
const GET_SCALE: &str = "GET /apis/apps/v1/namespaces/voice/statefulsets/pbx/scale";
const PATCH_SCALE: &str = "PATCH /apis/apps/v1/namespaces/voice/statefulsets/pbx/scale";
const GET_ANY: &str = "GET /apis/apps/v1/namespaces/voice/deployments/media/scale";
const PATCH_ANY: &str = "PATCH /apis/apps/v1/namespaces/voice/deployments/media/scale";
const LIST: &str = "GET /api/v1/namespaces/voice/pods?labelSelector=app%3Dpbx";
const WATCH: &str = "GET /api/v1/namespaces/voice/pods?labelSelector=app%3Dpbx&watch=true";

fn set() -> Workload {
    Workload::StatefulSet("pbx".to_owned())
}

fn any() -> Workload {
    Workload::Deployment("media".to_owned())
}

fn server(index: u32, count: usize) -> DriverServer {
    let address = format!("10.1.0.{}:5060", index + 5).parse().ok();
    DriverServer { index, name: format!("pbx-{index}.pbx"), address, others: Vec::new(), count }
}

fn whole(body: String) -> Reply {
    Reply::Whole(200, body)
}

/// Waits until the driver reports these running servers.
async fn until(driver: &KubernetesDriver, expected: Result<ServerSet, &str>) {
    let expected = expected.map_err(str::to_owned);
    let waits = async {
        while running(driver).await != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // The time-out only bounds a hang.
    let is_so = tokio::time::timeout(Duration::from_secs(30), waits).await.is_ok();
    assert!(is_so, "{:?}, and not {expected:?}", running(driver).await);
}

async fn running(driver: &KubernetesDriver) -> Result<ServerSet, String> {
    driver.list().await.map(|listing| listing.running)
}

fn numbered(numbers: &[u32]) -> ServerSet {
    ServerSet::Numbered(numbers.to_vec())
}

#[tokio::test]
async fn a_set_starts_up_to_the_ordinal_and_stops_its_last_pod() {
    let scales = |count, version| (GET_SCALE, whole(recorded::scale(count, version)));
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Silent(String::new())),
        (LIST, whole(recorded::pods(&["pbx-0 10.1.0.5 True", "pbx-1 10.1.0.6 True"], 100))),
        scales(2, 10),
        scales(2, 10),
        (PATCH_SCALE, whole(recorded::scale(4, 11))),
        scales(4, 11),
        scales(4, 11),
        (PATCH_SCALE, whole(recorded::scale(3, 12))),
        scales(4, 12),
        scales(2, 12),
    ])
    .await;
    let driver = server_side.driver(set(), LONG);
    until(&driver, Ok(numbered(&[0, 1]))).await;
    assert_eq!(driver.start(&server(3, 3)).await, Ok(()));
    assert_eq!(driver.start(&server(1, 3)).await, Ok(()), "the server runs already");
    assert_eq!(driver.stop(&server(3, 4)).await, Ok(()));
    let error = driver.stop(&server(1, 4)).await;
    assert_eq!(error, Err("the pod with ordinal 3 has to stop before the pod with 1".to_owned()));
    assert_eq!(driver.stop(&server(3, 4)).await, Ok(()), "the server has stopped already");
    assert_eq!(
        server_side.asked("PATCH"),
        [
            format!(r#"PATCH {SCALE} {{"metadata":{{"resourceVersion":"10"}},"spec":{{"replicas":4}}}}"#),
            format!(r#"PATCH {SCALE} {{"metadata":{{"resourceVersion":"11"}},"spec":{{"replicas":3}}}}"#),
        ]
    );
}

#[tokio::test]
async fn a_conflict_is_retried_a_limited_number_of_times() {
    let conflict = || (PATCH_SCALE, Reply::Whole(409, recorded::CONFLICT.to_owned()));
    let scales = |count, version| (GET_SCALE, whole(recorded::scale(count, version)));
    let mut replies = vec![(WATCH, Reply::Silent(String::new())), (LIST, whole(recorded::pods(&[], 100)))];
    replies.extend([
        scales(1, 10),
        scales(1, 10),
        conflict(),
        scales(2, 11),
        (PATCH_SCALE, whole(recorded::scale(3, 12))),
    ]);
    replies.extend((0..ATTEMPTS).flat_map(|_| [scales(3, 12), conflict()]));
    let server_side = Recorded::start(replies).await;
    let driver = server_side.driver(set(), LONG);
    until(&driver, Ok(numbered(&[]))).await;
    assert_eq!(driver.start(&server(2, 3)).await, Ok(()));
    let patches = server_side.asked("PATCH");
    assert!(patches[1].contains(r#""resourceVersion":"11""#), "{patches:?}");
    let error = driver.start(&server(3, 4)).await;
    assert_eq!(error, Err("the API server: another client keeps changing the same object".to_owned()));
}

#[tokio::test]
async fn pod_events_are_followed() {
    let come = recorded::event("ADDED", &recorded::pod("pbx-1 10.1.0.6 False", 101));
    let go = recorded::event("DELETED", &recorded::pod("pbx-0 10.1.0.5 True", 102));
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Events(come)),
        (WATCH, Reply::Silent(go)),
        (LIST, whole(recorded::pods(&["pbx-0 10.1.0.5 True"], 100))),
        (GET_SCALE, whole(recorded::scale(1, 10))),
    ])
    .await;
    let driver = server_side.driver(set(), LONG);
    until(&driver, Ok(numbered(&[1]))).await;
    let watches = server_side.asked(WATCH);
    assert!(
        watches[0].ends_with("resourceVersion=100") && watches[1].ends_with("resourceVersion=101"),
        "{watches:?}"
    );
}

/// 410 comes in two ways: as a status, and as an event.
#[tokio::test]
async fn pods_are_listed_again_if_the_version_is_too_old() {
    let scales = |version| (GET_SCALE, whole(recorded::scale(1, version)));
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Whole(410, recorded::GONE.to_owned())),
        (WATCH, Reply::Events(recorded::event("ERROR", recorded::GONE))),
        (WATCH, Reply::Silent(String::new())),
        (LIST, whole(recorded::pods(&["pbx-0 10.1.0.5 True"], 100))),
        (LIST, whole(recorded::pods(&["pbx-0 10.1.0.5 True", "pbx-1 10.1.0.6 True"], 5000))),
        (LIST, whole(recorded::pods(&["pbx-2 10.1.0.7 True"], 6000))),
        scales(10),
        scales(11),
        scales(12),
    ])
    .await;
    let driver = server_side.driver(set(), LONG);
    until(&driver, Ok(numbered(&[2]))).await;
    // The driver knows the list before it asks for the next watch.
    let waits = async {
        while server_side.asked(WATCH).len() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waits).await.expect("the driver asks");
    assert!(server_side.asked(WATCH)[2].ends_with("resourceVersion=6000"));
}

#[tokio::test]
async fn a_watch_that_is_cut_off_continues() {
    let come = recorded::event("ADDED", &recorded::pod("pbx-1 10.1.0.6 True", 101));
    let scales = |version| (GET_SCALE, whole(recorded::scale(2, version)));
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Cut(come)),
        (WATCH, Reply::Silent(String::new())),
        (LIST, whole(recorded::pods(&["pbx-0 10.1.0.5 True"], 100))),
        (LIST, whole(recorded::pods(&["pbx-0 10.1.0.5 True", "pbx-2 10.1.0.7 True"], 200))),
        scales(10),
        scales(11),
    ])
    .await;
    let driver = server_side.driver(set(), LONG);
    until(&driver, Ok(numbered(&[0, 1]))).await;
    until(&driver, Ok(numbered(&[0, 2]))).await;
}

#[tokio::test]
async fn a_refused_client_reports_it_and_retries() {
    let server_side = Recorded::start(vec![
        (GET_SCALE, Reply::Whole(401, recorded::UNAUTHORIZED.to_owned())),
        (GET_SCALE, whole(recorded::scale(1, 10))),
        (WATCH, Reply::Silent(String::new())),
        (LIST, whole(recorded::pods(&["pbx-0 10.1.0.5 True"], 100))),
        (GET_SCALE, Reply::Whole(403, r#"{"message":"statefulsets.apps \"pbx\" is forbidden"}"#.to_owned())),
    ])
    .await;
    let driver = server_side.driver(set(), LONG);
    until(
        &driver,
        Err("the API server: 401 Unauthorized: Unauthorized; no token is sent over http://: use `kubectl proxy`, \
            which adds its own"),
    )
    .await;
    until(&driver, Ok(numbered(&[0]))).await;
    let error = driver.start(&server(3, 2)).await;
    assert_eq!(
        error,
        Err(r#"the API server: 403 Forbidden: statefulsets.apps "pbx" is forbidden; the account of the token lacks this right: bind a Role with it to the account"#.to_owned())
    );
}

#[tokio::test]
async fn a_silent_api_server_times_out() {
    let server_side = Recorded::start(Vec::new()).await;
    let driver = server_side.driver(set(), Duration::from_millis(100));
    until(&driver, Err("the API server: no answer for 100ms")).await;
    assert_eq!(driver.start(&server(1, 2)).await, Err("the API server: no answer for 100ms".to_owned()));
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("loopback")
        .local_addr()
        .expect("the listener is bound");
    let server_side = Recorded { address: closed, ..server_side };
    let error = server_side.driver(set(), LONG).start(&server(1, 2)).await.expect_err("no server listens");
    assert!(error.starts_with(&format!("the API server at {closed} cannot be reached: ")), "{error}");
}

/// The pod of the drained server is deleted, but only while no other pod would be deleted instead.
#[tokio::test]
async fn the_drained_pod_of_a_deployment_is_deleted() {
    let scales = |count, version| (GET_ANY, whole(recorded::scale(count, version)));
    let all = ["media-x 10.1.0.5 True", "media-y 10.1.0.6 True", "media-z 10.1.0.7 True"];
    let late = recorded::event("MODIFIED", &recorded::pod("media-z 10.1.0.7 False", 101));
    let well = recorded::event("MODIFIED", &recorded::pod("media-z 10.1.0.7 True", 102));
    let pod = "PATCH /api/v1/namespaces/voice/pods/media-y";
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Events(late)),
        (WATCH, Reply::Silent(well)),
        (LIST, whole(recorded::pods(&all, 100))),
        scales(3, 10),
        // A repeated request for a start.
        scales(3, 10),
        (PATCH_ANY, whole(recorded::scale(4, 11))),
        scales(4, 11),
        // A stop before the pod of that start exists, and one after the start was undone.
        scales(4, 11),
        scales(3, 12),
        (pod, whole(recorded::pod("media-y 10.1.0.6 True", 103))),
        scales(3, 12),
        (PATCH_ANY, whole(recorded::scale(2, 13))),
    ])
    .await;
    let driver = server_side.driver(any(), LONG);
    until(&driver, Ok(ServerSet::At(addresses(&[5, 6, 7])))).await;
    assert_eq!(driver.start(&server(9, 4)).await, Ok(()));
    assert_eq!(driver.start(&server(9, 4)).await, Ok(()));
    let ready = |pods: &Option<Result<Pods, String>>| {
        pods.as_ref().is_some_and(|pods| pods.as_ref().is_ok_and(|pods| pods.version == "102"))
    };
    let mut pods = driver.pods.clone();
    pods.wait_for(ready).await.expect("the pods are watched");
    let error = driver.stop(&server(1, 4)).await;
    assert_eq!(error, Err("there are 3 pods, and 4 are requested: a change is in progress".to_owned()));
    assert_eq!(driver.stop(&server(1, 3)).await, Ok(()));
    assert_eq!(driver.stop(&server(200, 3)).await, Ok(()), "the pod does not exist");
    let patches = server_side.asked("PATCH");
    assert_eq!(patches.len(), 3, "{patches:?}");
    assert_eq!(patches[1], format!("{pod} {}", cost(r#""-2147483647""#)));
    assert!(patches[2].ends_with(r#""spec":{"replicas":2}}"#), "{patches:?}");
}

fn cost(text: &str) -> String {
    format!(r#"{{"metadata":{{"annotations":{{"controller.kubernetes.io/pod-deletion-cost":{text}}}}}}}"#)
}

/// Returns addresses of both families, as in the recorded pods.
fn addresses(hosts: &[u16]) -> Vec<IpAddr> {
    let of = |host: u16| [format!("10.1.0.{host}"), format!("fd00::{host}")];
    hosts.iter().copied().flat_map(of).map(|ip| ip.parse().expect("an address")).collect()
}

/// The next stop must delete another pod, or none.
#[tokio::test]
async fn deletion_costs_are_reset() {
    let scales = |count, version| (GET_ANY, whole(recorded::scale(count, version)));
    // The first pod was to be deleted, but another one was.
    let all = ["media-x 10.1.0.5 True -2147483647", "media-y 10.1.0.6 True", "media-z 10.1.0.7 True 5"];
    let (x, y) =
        ("PATCH /api/v1/namespaces/voice/pods/media-x", "PATCH /api/v1/namespaces/voice/pods/media-y");
    let patched = |pod| (pod, whole(recorded::pod("media-x 10.1.0.5 True", 103)));
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Silent(String::new())),
        (LIST, whole(recorded::pods(&all, 100))),
        scales(3, 10),
        // Costs are not changed while that pod may still be deleted.
        scales(2, 10),
        // A stop that finally fails.
        scales(3, 11),
        patched(x),
        patched(y),
        scales(2, 12),
        patched(y),
        // A start resets the cost, too.
        scales(3, 13),
        patched(x),
        scales(3, 13),
        (PATCH_ANY, whole(recorded::scale(4, 14))),
    ])
    .await;
    let driver = server_side.driver(any(), LONG);
    until(&driver, Ok(ServerSet::At(addresses(&[5, 6, 7])))).await;
    let changing =
        |shall| Err(format!("there are 3 pods, and {shall} are requested: a change is in progress"));
    assert_eq!(driver.stop(&server(1, 3)).await, changing(2));
    assert_eq!(server_side.asked("PATCH"), [""; 0]);
    assert_eq!(driver.stop(&server(1, 3)).await, changing(2));
    let least = cost(r#""-2147483647""#);
    let none = cost("null");
    let expected = [format!("{x} {none}"), format!("{y} {least}"), format!("{y} {none}")];
    assert_eq!(server_side.asked("PATCH"), expected);
    assert_eq!(driver.start(&server(9, 4)).await, Ok(()));
    assert_eq!(server_side.asked("PATCH")[3], format!("{x} {none}"));
}

/// If this pod stayed, no other server could be stopped.
#[tokio::test]
async fn a_pod_that_was_given_up_without_an_address_is_deleted() {
    let scales = |count, version| (GET_ANY, whole(recorded::scale(count, version)));
    let all = ["media-x 10.1.0.5 True", "media-y 10.1.0.6 False", "media-z - False"];
    let pod = "PATCH /api/v1/namespaces/voice/pods/media-z";
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Silent(String::new())),
        (LIST, whole(recorded::pods(&all, 100))),
        scales(3, 10),
        scales(3, 11),
        (pod, whole(recorded::pod("media-z - False", 103))),
        scales(3, 11),
        (PATCH_ANY, whole(recorded::scale(2, 12))),
    ])
    .await;
    let driver = server_side.driver(any(), LONG);
    until(&driver, Ok(ServerSet::At(addresses(&[5, 6])))).await;
    let given_up = |others: &[u32]| DriverServer {
        address: None,
        others: others.iter().filter_map(|index| server(*index, 3).address).collect(),
        ..server(9, 3)
    };
    // A pod that is not ready at the moment may have calls, and could be deleted, too.
    let error = driver.stop(&given_up(&[0, 1])).await;
    assert_eq!(error, Err("pod media-y is not ready, and would be deleted instead of media-z".to_owned()));
    assert_eq!(server_side.asked("PATCH"), [""; 0]);
    let ready = Pods::listed(
        &serde_json::from_str(&recorded::pods(
            &["media-x 10.1.0.5 True", "media-y 10.1.0.6 True", "media-z - False"],
            101,
        ))
        .expect("JSON"),
    );
    let driver = server_side.still(ready);
    assert_eq!(driver.stop(&given_up(&[0, 1])).await, Ok(()));
    let patches = server_side.asked("PATCH");
    assert!(patches[0].starts_with(pod) && patches[1].ends_with(r#""spec":{"replicas":2}}"#), "{patches:?}");
}

/// A pod that was requested and never came up, for lack of resources or rights, is no longer requested.
#[tokio::test]
async fn a_pod_that_never_came_up_is_no_longer_requested() {
    let scales = |count, version| (GET_ANY, whole(recorded::scale(count, version)));
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Silent(String::new())),
        (LIST, whole(recorded::pods(&["media-x 10.1.0.5 True"], 100))),
        scales(2, 10),
        scales(2, 10),
        scales(2, 10),
        (PATCH_ANY, whole(recorded::scale(1, 11))),
        scales(1, 11),
    ])
    .await;
    let driver = server_side.driver(any(), LONG);
    until(&driver, Ok(ServerSet::At(addresses(&[5])))).await;
    let given_up =
        DriverServer { address: None, others: server(0, 2).address.into_iter().collect(), ..server(1, 2) };
    assert_eq!(driver.stop(&given_up).await, Ok(()));
    assert!(server_side.asked("PATCH")[0].ends_with(r#""spec":{"replicas":1}}"#));
    assert_eq!(driver.stop(&given_up).await, Ok(()), "the pod is no longer requested");
    assert_eq!(server_side.asked("PATCH").len(), 1);
}

#[tokio::test]
async fn a_pod_is_found_by_an_address_of_either_family() {
    let scales = |count, version| (GET_ANY, whole(recorded::scale(count, version)));
    let pod = "PATCH /api/v1/namespaces/voice/pods/media-y";
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Silent(String::new())),
        (LIST, whole(recorded::pods(&["media-x 10.1.0.5 True", "media-y 10.1.0.6 True"], 100))),
        scales(2, 10),
        scales(2, 10),
        (pod, whole(recorded::pod("media-y 10.1.0.6 True", 103))),
        scales(2, 10),
        (PATCH_ANY, whole(recorded::scale(1, 11))),
    ])
    .await;
    let driver = server_side.driver(any(), LONG);
    let server = DriverServer { address: "[fd00::6]:5060".parse().ok(), ..server(1, 2) };
    assert_eq!(
        driver.list().await.map(|listing| listing.of(&server, &server.name)),
        Ok(Some(ListedState::Runs))
    );
    assert_eq!(driver.stop(&server).await, Ok(()));
    assert_eq!(server_side.asked("PATCH").len(), 2);
}

/// A pod that is being deleted exists and answers for a while.
#[tokio::test]
async fn a_pod_being_deleted_is_listed_as_ending() {
    let mut ending: Value = serde_json::from_str(&recorded::pod("pbx-1 10.1.0.6 True", 101)).expect("JSON");
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Silent(recorded::event("MODIFIED", &ending.to_string()))),
        (LIST, whole(recorded::pods(&["pbx-0 10.1.0.5 True", "pbx-1 10.1.0.6 True"], 100))),
        (GET_SCALE, whole(recorded::scale(2, 10))),
    ])
    .await;
    let driver = server_side.driver(set(), LONG);
    until(&driver, Ok(numbered(&[0]))).await;
    let listing = driver.list().await.expect("the pods are known");
    assert_eq!(
        [0, 1, 2].map(|index| listing.of(&server(index, 2), "")),
        [ListedState::Runs, ListedState::Ends, ListedState::Absent].map(Some)
    );
}

#[tokio::test]
async fn no_pod_of_a_deployment_is_deleted_while_another_is_not_ready() {
    let server_side = Recorded::start(vec![
        (WATCH, Reply::Silent(String::new())),
        (LIST, whole(recorded::pods(&["media-x 10.1.0.5 False", "media-y 10.1.0.6 True"], 100))),
        (GET_ANY, whole(recorded::scale(2, 10))),
    ])
    .await;
    let driver = server_side.driver(any(), LONG);
    let error = driver.stop(&server(1, 2)).await;
    assert_eq!(error, Err("pod media-x is not ready, and would be deleted instead of media-y".to_owned()));
    assert_eq!(server_side.asked("PATCH"), [""; 0]);
}

#[tokio::test]
async fn pods_are_watched_over_tls_and_a_replaced_token_is_used() {
    let folder = std::env::temp_dir().join(format!("sarabande-token-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let token = folder.join("token");
    std::fs::write(&token, "first\n").expect("a file");
    let come = recorded::event("ADDED", &recorded::pod("pbx-1 10.1.0.6 True", 101));
    let server_side = Recorded::start_tls(vec![
        (WATCH, Reply::Silent(come)),
        (LIST, whole(recorded::pods(&["pbx-0 10.1.0.5 True"], 100))),
        (GET_SCALE, whole(recorded::scale(2, 10))),
        (GET_SCALE, whole(recorded::scale(2, 10))),
        (PATCH_SCALE, whole(recorded::scale(3, 11))),
        (GET_SCALE, Reply::Whole(401, recorded::UNAUTHORIZED.to_owned())),
    ])
    .await;
    let driver = server_side.tls_driver("127.0.0.1", "ca.pem", Some(token.clone()));
    until(&driver, Ok(numbered(&[0, 1]))).await;
    std::fs::write(&token, "second\n").expect("a file");
    assert_eq!(driver.start(&server(2, 3)).await, Ok(()));
    let shown = server_side.shown.lock().expect("no thread panics").clone();
    assert_eq!(shown, ["first", "first", "first", "second", "second"]);
    let error = driver.start(&server(3, 4)).await.expect_err("the token is not accepted");
    let expected = "the API server: 401 Unauthorized: Unauthorized; it does not accept the token in ";
    assert_eq!(error, format!("{expected}{}", token.display()));
    std::fs::remove_dir_all(&folder).expect("the folder belongs to this test");
    let error = driver.start(&server(3, 4)).await.expect_err("there is no token");
    assert!(
        error.starts_with(&format!("the token {} cannot be read: No such file", token.display())),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_with_a_wrong_certificate_gets_no_request() {
    let server_side = Recorded::start_tls(vec![(GET_SCALE, whole(recorded::scale(2, 10)))]).await;
    let asked = async |host: &str, ca: &str| {
        server_side
            .tls_driver(host, ca, None)
            .start(&server(1, 2))
            .await
            .expect_err("the certificate is not trusted")
    };
    let at = format!("127.0.0.1:{}", server_side.address.port());
    let other = certificates().join("other-ca.pem");
    assert_eq!(
        asked("127.0.0.1", "other-ca.pem").await,
        format!(
            "the API server: the certificate of {at} is not signed by one in {}; expected those of this cluster",
            other.display()
        )
    );
    let error = asked("localhost", "ca.pem").await;
    assert!(error.starts_with("the API server: the certificate is not for localhost:"), "{error}");
    let error = asked("127.0.0.1", "make.sh").await;
    assert!(
        error.ends_with("make.sh: no certificate in it; expected certificates of authorities, in PEM"),
        "{error}"
    );
    let error = asked("127.0.0.1", "absent.pem").await;
    assert!(error.starts_with("the certificates of the pod: ") && error.contains("absent.pem: "), "{error}");
    assert_eq!(server_side.asked(""), [""; 0]);
}

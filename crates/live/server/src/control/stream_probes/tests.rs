//! Tests of probes over TCP to a server of the test.

use super::*;
use tokio::net::TcpListener;

const PROBE: &[u8] = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n";
const NEXT: &[u8] = b"OPTIONS sip:b SIP/2.0\r\nContent-Length: 0\r\n\r\n";
const ANSWER: &[u8] = b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";

fn local() -> IpAddr {
    [127, 0, 0, 1].into()
}

async fn server() -> (TcpListener, Peer) {
    let listener = TcpListener::bind((local(), 0)).await.unwrap();
    let peer = Peer::new(Transport::Tcp, listener.local_addr().unwrap());
    (listener, peer)
}

async fn reads(stream: &mut TcpStream, wanted: &[u8]) {
    let mut bytes = vec![0; wanted.len()];
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(bytes, wanted);
}

async fn hears(probes: &mut StreamProbes, wanted: &[u8]) {
    match probes.heard().await {
        ProbeNews::Message { bytes, .. } => assert_eq!(bytes, wanted),
        ProbeNews::NoConnection { to, why, .. } => panic!("{to}: {why}"),
    }
}

#[tokio::test]
async fn probes_and_answers_share_a_connection() {
    let (listener, peer) = server().await;
    let mut probes = StreamProbes::new();
    probes.send(peer, local(), PROBE, None);
    let (mut stream, _) = listener.accept().await.unwrap();
    reads(&mut stream, PROBE).await;
    // A retransmission is not sent, since a connection loses nothing. An answer may come in pieces and after a
    // keep-alive.
    probes.send(peer, local(), PROBE, None);
    stream.write_all(b"\r\n\r\n").await.unwrap();
    reads(&mut stream, b"\r\n").await;
    stream.write_all(&ANSWER[..20]).await.unwrap();
    stream.write_all(&ANSWER[20..]).await.unwrap();
    hears(&mut probes, ANSWER).await;
    probes.send(peer, local(), NEXT, None);
    reads(&mut stream, NEXT).await;
}

#[tokio::test]
async fn a_probe_is_sent_again_after_its_connection_closed() {
    let (listener, peer) = server().await;
    let mut probes = StreamProbes::new();
    probes.send(peer, local(), PROBE, None);
    let (mut stream, _) = listener.accept().await.unwrap();
    reads(&mut stream, PROBE).await;
    drop(stream);
    // The end of the connection must be read first.
    let mut stream = loop {
        probes.send(peer, local(), PROBE, None);
        let accepted = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        if let Ok(accepted) = accepted {
            break accepted.unwrap().0;
        }
    };
    reads(&mut stream, PROBE).await;
    // Bytes that are no SIP end the connection.
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_refused_connection_is_reported_at_once_with_its_probe() {
    let (listener, peer) = server().await;
    drop(listener);
    let mut probes = StreamProbes::new();
    probes.send(peer, local(), PROBE, None);
    match probes.heard().await {
        ProbeNews::NoConnection { to, why, refused } => {
            assert_eq!((to, refused.as_deref()), (peer, Some(PROBE)));
            assert!(why.contains("refused"), "{why}");
        }
        ProbeNews::Message { .. } => panic!("no server listens there"),
    }
}

//! A blind relay, as the lower bound: batch receive, look-up of the peer by address, batch send. It does not read the
//! datagrams.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use clap::Parser;
use rustix::event::{PollFd, PollFlags, poll};
use sockets::{BATCH, ReceiveBatch, SendBatch, UdpSocket, read_errors};

/// Relays datagrams between fixed pairs of addresses without reading them.
#[derive(Parser)]
struct Arguments {
    /// Address to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// Threads, each with a socket of its own.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Pair of addresses: datagrams of CALLER go to SERVER, and back.
    #[arg(long = "pair", value_name = "CALLER=SERVER", required = true, value_parser = parse_pair)]
    pairs: Vec<(SocketAddr, SocketAddr)>,
}

fn parse_pair(text: &str) -> Result<(SocketAddr, SocketAddr)> {
    let (caller, server) = text.split_once('=').context("expected CALLER=SERVER")?;
    Ok((caller.parse()?, server.parse()?))
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let pairs = &arguments.pairs;
    let peers: Vec<_> =
        pairs.iter().flat_map(|(caller, server)| [(*caller, *server), (*server, *caller)]).collect();
    let sockets = (0..arguments.threads)
        .map(|_| UdpSocket::bind(arguments.listen, arguments.threads > 1, 4 << 20))
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = sockets.iter().map(|socket| scope.spawn(|| relay(socket, &peers))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a relay thread panicked"))
    })
}

/// Relays forever.
fn relay(socket: &UdpSocket, peers: &[(SocketAddr, SocketAddr)]) -> Result<()> {
    let (mut receiving, mut sending) = (ReceiveBatch::new(), SendBatch::new());
    loop {
        let mut ready = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
        poll(&mut ready, None)?;
        if ready[0].revents().contains(PollFlags::ERR) {
            read_errors(socket, |_, _, _| ())?;
        }
        loop {
            let count = receiving.receive(socket)?;
            // Datagrams of unknown senders are dropped.
            let known = receiving.iter().filter_map(|(datagram, from)| Some((datagram, peer(peers, from)?)));
            sending.send_each(socket, known);
            if count < BATCH {
                break;
            }
        }
    }
}

fn peer(peers: &[(SocketAddr, SocketAddr)], from: SocketAddr) -> Option<SocketAddr> {
    peers.iter().find(|(address, _)| *address == from).map(|(_, peer)| *peer)
}

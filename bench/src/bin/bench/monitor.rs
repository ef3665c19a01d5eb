//! Costs of the monitor's pure part for the packets of calls: instructions a packet, packets a second on one core, and
//! memory.

use anyhow::{Result, ensure};
use base::Instant;
use clap::Args;
use monitor::{LinkLayer, Monitor, MonitorSettings, Pairing, Servers};
use sarabande_bench::bed::request;
use sarabande_bench::callgrind;
use sarabande_bench::hot::Length;
use sarabande_bench::process::resident;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Calls through a proxy (INVITE, 100, 180, 200, ACK, BYE, 200; 13 packets with what goes on), whose packets go to
/// the monitor. Prints instructions a packet for each way of pairing, and time and memory at a rate of calls.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Calls a second, in the time of the packets.
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    /// Seconds of calls.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Does only the work of this length, to be counted from outside, and prints the number of packets.
    #[arg(long, requires = "pair")]
    length: Option<Length>,
    #[arg(long, hide = true)]
    pair: Option<Pairing>,
}

const CALLER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 5060);
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5060);
const CALLEE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 3), 5060);

const WAYS: [&str; 5] = ["invite", "provisional", "final", "header:Call-ID", "time"];
/// Calls whose packets are made beforehand.
const PREPARED: u64 = 4_000;
/// Calls that the short run measures.
const SHORT: u64 = 1_000;

/// Makes a UDP datagram over IPv4, without checksums.
fn packet(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend((length + 28).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    for field in [from.port(), to.port(), length + 8, 0] {
        packet.extend(field.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// Returns a request as forwarded by a proxy: with its Via on top.
fn passed_on(request: &[u8], branch: &str) -> Vec<u8> {
    let end = request.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let via = format!("Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK{branch}\r\n");
    [&request[..end], via.as_bytes(), &request[end..]].concat()
}

/// Makes a response with the necessary header lines of the request.
fn response(status: u16, request: &[u8]) -> Vec<u8> {
    let mut text = format!("SIP/2.0 {status} Whatever\r\n").into_bytes();
    let names: [&[u8]; 5] = [b"Via", b"From", b"To:", b"Call", b"CSeq"];
    for line in request.split_inclusive(|&byte| byte == b'\n') {
        if names.iter().any(|name| line.starts_with(name)) {
            text.extend(line);
        }
    }
    text.extend(b"Content-Length: 0\r\n\r\n");
    text
}

/// Returns all packets of a call, as the server's interface sees them.
fn call(number: u64) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (method, cseq, answers) in
        [("INVITE", 1, &[100, 180, 200][..]), ("ACK", 1, &[][..]), ("BYE", 2, &[200][..])]
    {
        let within = (method != "INVITE").then_some(&b"<sip:127.0.0.1;lr>"[..]);
        let request = request(number, method, cseq, within);
        let on = passed_on(&request, &format!("{number}-{method}"));
        packets.push(packet(CALLER, SERVER, &request));
        packets.push(packet(SERVER, CALLEE, &on));
        for status in answers {
            if *status > 100 {
                packets.push(packet(CALLEE, SERVER, &response(*status, &on)));
            }
            packets.push(packet(SERVER, CALLER, &response(*status, &request)));
        }
    }
    packets
}

fn monitor(pairing: Pairing) -> Monitor {
    Monitor::new(MonitorSettings::new(Servers::new(vec![SocketAddr::V4(SERVER)]), pairing))
}

/// Gives packets of calls to a monitor. All are made first, whatever the length. Returns the number of packets.
fn counted(pairing: Pairing, length: Length) -> Result<u64> {
    let calls: Vec<_> = (0..PREPARED).map(call).collect();
    let measured = if length == Length::Short { SHORT } else { PREPARED };
    let mut monitor = monitor(pairing);
    let (mut now, mut packets, mut latencies) = (Instant::from_millis(1), 0, 0);
    for call in &calls[..measured as usize] {
        for packet in call {
            now += Duration::from_micros(4);
            monitor.advance(now, |report| latencies += report.window.count);
            monitor.packet(now, LinkLayer::Ip, packet);
            packets += 1;
        }
    }
    monitor.finish(now, |report| latencies += report.window.count);
    ensure!(latencies >= measured, "{latencies} latencies of {measured} calls");
    Ok(packets)
}

/// Measures calls at a rate, whose packets are made meanwhile. The time for making them is subtracted.
fn timed(rate: u64, seconds: u64) -> Result<()> {
    let mut monitor = monitor(Pairing::Invite);
    let (mut busy, mut packets, mut latencies, mut forgotten) = (Duration::ZERO, 0_u64, 0, 0);
    let before = resident()?;
    for second in 0..seconds {
        let calls = rate.div_ceil(100);
        for part in 0..100 {
            let first = (second * 100 + part) * calls;
            let made: Vec<_> = (first..first + calls).map(call).collect();
            let start = Instant::from_millis(second * 1000 + part * 10);
            let started = std::time::Instant::now();
            for (number, call) in (0..).zip(&made) {
                for (place, packet) in (0..).zip(call) {
                    let at = start + Duration::from_nanos(number * 10_000_000 / calls + place * 1_000);
                    monitor.advance(at, |report| {
                        latencies += report.window.count;
                        forgotten += report.counts.evicted;
                    });
                    monitor.packet(at, LinkLayer::Ip, packet);
                    packets += 1;
                }
            }
            busy += started.elapsed();
        }
        if (second + 1).is_multiple_of(10) {
            let memory = resident()?.saturating_sub(before) >> 10;
            println!("{:>4} s: {packets} packets, {memory} KiB", second + 1);
        }
    }
    let a_second = packets as f64 / busy.as_secs_f64();
    let load = busy.as_secs_f64() / seconds as f64 * 100.0;
    println!(
        "{a_second:.0} packets/s, {:.0} calls/s on one core; {rate} calls/s take {load:.0} % of it; {latencies} latencies, \
         {forgotten} forgotten early",
        a_second / packets as f64 * (rate * seconds) as f64
    );
    Ok(())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let (Some(length), Some(pairing)) = (arguments.length, arguments.pair.clone()) {
        println!("{}", counted(pairing, length)?);
        return Ok(());
    }
    timed(arguments.rate, arguments.seconds)?;
    for way in WAYS {
        let instructions = callgrind::measure(&["monitor", "--pair", way].map(str::to_owned))?;
        println!("{way:16} {instructions:>6} instructions a packet");
    }
    Ok(())
}

//! `sarabande monitor`: measures the latency of a SIP server from its packets, and estimates its capacity.

mod capacity;
mod page;

use super::load::{duration, random};
use crate::address;
use crate::{notify, print};
use ::monitor::{Counts, Latency, LinkLayer, Monitor, MonitorSettings, Pairing, Servers, WindowReport, file};
use anyhow::{Context as _, Result, anyhow, bail};
use base::{Instant, UnixTime};
use elastic::estimate;
use instruments::latency::view::WindowView;
use instruments::latency::{self, CapacityEstimate, Estimated, MonitorOptions, RunningMonitor, Source};
use instruments::sender::{Reporting, Telling};
use page::Shown;
use std::fmt::Write as _;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The interface whose packets are captured, or `any`.
    #[arg(long, default_value = "any", value_name = "NAME")]
    interface: String,
    /// An address at which the server takes requests; by default all addresses of this host that listen at `--port`.
    #[arg(long, value_name = "IP:PORT", value_parser = server_address)]
    server: Vec<SocketAddr>,
    /// Port of the server, if its addresses are not given.
    #[arg(long, default_value_t = 5060, conflicts_with = "server")]
    port: u16,
    /// Port of next hops to which the server opens TCP connections, if it is not the server's own port.
    #[arg(long, default_value = "5060", value_name = "PORT")]
    next_port: Vec<u16>,
    /// Read a capture file (pcap or pcapng) instead of capturing; `-` is standard input.
    #[arg(long, value_name = "FILE", requires = "server", conflicts_with_all = ["hep", "listen", "write", "report"])]
    read: Option<PathBuf>,
    /// Receive HEP version 3 over UDP at this address instead of capturing; this needs no capability.
    #[arg(long, value_name = "IP:PORT", value_parser = address::socket, requires = "server", conflicts_with = "write")]
    hep: Option<SocketAddr>,
    /// The pair of messages between which time is measured. `invite`: an INVITE, until it is forwarded. `provisional`:
    /// an INVITE, until its first response. `final` or `final:METHOD`: a request, until its final response.
    /// `header:NAME`: an INVITE, until one with the same value of this header field leaves. `time`: an INVITE, until
    /// the next one leaves.
    #[arg(long, default_value_t = Pairing::Invite, value_name = "WAY")]
    pair: Pairing,
    /// Length of a window.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = window)]
    window: Duration,
    /// Time after which a request counts as unanswered. Default: 32s, 3m for `final` with INVITEs, 1s for `time`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Largest number of requests that are remembered at a time; each takes up to 64 bytes.
    #[arg(long, default_value_t = MonitorSettings::TABLE, value_name = "REQUESTS")]
    table: usize,
    /// Answer HTTP at this address: `/metrics` for Prometheus, `/api/windows` as JSON, `/healthz` while the monitor
    /// runs.
    #[arg(long, value_name = "IP:PORT", value_parser = address::socket)]
    listen: Option<SocketAddr>,
    /// Write all captured packets to this file, as pcap.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    capacity: capacity::CapacityArguments,
    /// Print each window as a line of JSON.
    #[arg(long)]
    json: bool,
}

/// Shortest and longest window.
const WINDOWS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_hours(24));

fn window(text: &str) -> Result<Duration, String> {
    let window = duration(text)?;
    let (least, most) = WINDOWS;
    if window < least || window > most { Err("write 10ms to 24h".to_owned()) } else { Ok(window) }
}

fn server_address(text: &str) -> Result<SocketAddr, String> {
    let address = address::socket(text)?;
    if address.ip().is_unspecified() {
        return Err("expected an address of the server that appears in packets, or no --server".to_owned());
    }
    Ok(address)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let settings = settings(arguments)?;
    let estimate = arguments.capacity.estimate(&arguments.pair)?;
    let mut printer = Printer::new(arguments, &settings, estimate.is_some());
    if let Some(path) = &arguments.read {
        read(path, settings, estimate, &mut printer)?;
    } else {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(watch(arguments, settings, estimate, &mut printer))?;
    }
    printer.end();
    Ok(())
}

fn settings(arguments: &Arguments) -> Result<MonitorSettings> {
    let mut servers = arguments.server.clone();
    if servers.is_empty() {
        let port = arguments.port;
        servers = latency::listening(port).context("the addresses of this host cannot be listed")?;
        if servers.is_empty() {
            bail!(
                "nothing listens at port {port} of this host: start the server first, or give its port with --port \
                 or its addresses with --server"
            );
        }
    }
    let mut settings = MonitorSettings::new(Servers::new(servers), arguments.pair.clone());
    settings.window = arguments.window;
    settings.table = arguments.table;
    settings.key = [random(), random()];
    if let Some(timeout) = arguments.timeout {
        settings.timeout = timeout;
    }
    Ok(settings)
}

/// Measures the packets of a file.
fn read(
    path: &Path,
    settings: MonitorSettings,
    estimate: Option<estimate::EstimatorSettings>,
    printer: &mut Printer,
) -> Result<()> {
    let name = path.display();
    let source: Box<dyn std::io::Read + Send> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).with_context(|| format!("{name}: cannot be opened"))?)
    };
    let mut monitor = Monitor::new(settings);
    let mut estimate = estimate.map(CapacityEstimate::new);
    let mut estimated = |report: &WindowReport| {
        let capacity = estimate.as_mut().map(|estimate| estimate.take(report));
        Estimated { report: *report, capacity }
    };
    let (mut last, mut printed) = (None, Ok(()));
    let packet = |at: Instant, link: LinkLayer, bytes: &[u8]| {
        // After a failed write there is no reader, and nothing left to do.
        if printed.is_ok() {
            last = last.max(Some(at));
            monitor.advance(at, |report| printed = printer.print_after(&mut printed, &estimated(report)));
            monitor.packet(at, link, bytes);
        }
    };
    let outcome = file::read(source, packet);
    // A file that is no capture file has no windows to print.
    if let Some(last) = last.or(outcome.is_ok().then_some(Instant::ZERO)) {
        monitor.finish(last, |report| printed = printer.print_after(&mut printed, &estimated(report)));
    }
    printed?;
    outcome.map_err(|error| anyhow!("{name}: {error}"))
}

/// Measures captured packets until a signal ends it.
async fn watch(
    arguments: &Arguments,
    settings: MonitorSettings,
    estimate: Option<estimate::EstimatorSettings>,
    printer: &mut Printer,
) -> Result<()> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut interrupt, mut terminate, mut hangup) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?, listen(SignalKind::hangup())?);
    let interface = Some(arguments.interface.clone()).filter(|name| name != "any");
    let source = arguments.hep.map_or(Source::Interface(interface), Source::Hep);
    let reporting = arguments.capacity.reporting(settings.servers.addresses())?;
    let telling = reporting.as_ref().map(|to| Telling::start(to, settings.window)).transpose()?;
    let targets = telling.as_ref().map(Telling::targets).unwrap_or_default();
    let shown = Arc::new(Shown::new(&settings, targets));
    let options = MonitorOptions {
        next_ports: arguments.next_port.clone(),
        write: arguments.write.clone(),
        estimate,
        telling,
    };
    let servers: Vec<_> = settings.servers.addresses().iter().map(ToString::to_string).collect();
    let seen = Arc::clone(&shown);
    let mut running: RunningMonitor =
        latency::start(source, settings, options, move |estimated| seen.add(estimated))?;
    let http = match arguments.listen {
        Some(address) => Some(page::start(address, shown).await?),
        None => None,
    };
    print_note!("measuring {} ({})", servers.join(", "), arguments.pair);
    if let Some(Reporting { to, server, .. }) = reporting {
        print_note!("reporting the capacity of {server} to {}", to.join(", "));
    }
    if let Some(address) = http {
        print_note!("metrics at http://{address}/metrics, windows at http://{address}/api/windows");
    }
    if let Err(error) = notify::ready() {
        print_note!(
            "NOTIFY_SOCKET cannot be written, so systemd does not know that the service is ready: {error}"
        );
    }
    loop {
        let report = tokio::select! {
            report = running.report() => report,
            _ = interrupt.recv() => { running.end(); continue }
            _ = terminate.recv() => { running.end(); continue }
            _ = hangup.recv() => { running.end(); continue }
        };
        match report {
            Some(estimated) => printer.print(&estimated)?,
            None => return Ok(running.stop()?),
        }
    }
}

/// Prints windows as they end.
struct Printer {
    json: bool,
    /// Windows do not start at full seconds, so times have milliseconds.
    milliseconds: bool,
    /// Whether there is a column with the capacity.
    has_capacity: bool,
    servers: Vec<SocketAddr>,
    pairing: Pairing,
    last: Option<WindowReport>,
    unpaired: Unpaired,
}

/// Detects that requests arrive but none of them is measured.
#[derive(Default)]
struct Unpaired {
    /// Start of the first window with such requests.
    since: Option<Instant>,
    is_reported: bool,
}

impl Unpaired {
    /// Longer than a server takes to forward an INVITE.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// Takes a window. Returns `true` once, when it is time for a note.
    fn take(&mut self, report: &WindowReport, pairing: &Pairing) -> bool {
        let Counts { requests, measured, .. } = report.totals;
        // The final response to an INVITE may come only when the callee answers.
        if self.is_reported || measured > 0 || requests == 0 || matches!(pairing, Pairing::Final(_)) {
            return false;
        }
        let since = *self.since.get_or_insert(report.window.start);
        self.is_reported = report.window.end.saturating_since(since) >= Self::PATIENCE;
        self.is_reported
    }
}

impl Printer {
    fn new(arguments: &Arguments, settings: &MonitorSettings, has_capacity: bool) -> Self {
        Self {
            json: arguments.json,
            milliseconds: settings.window.subsec_nanos() != 0,
            has_capacity,
            servers: settings.servers.addresses().to_vec(),
            pairing: settings.pairing.clone(),
            last: None,
            unpaired: Unpaired::default(),
        }
    }

    /// Prints a window, unless an earlier line could not be printed.
    fn print_after(&mut self, before: &mut Result<()>, estimated: &Estimated) -> Result<()> {
        std::mem::replace(before, Ok(())).and_then(|()| self.print(estimated))
    }

    /// Prints a window that is over. Each window is printed once.
    fn print(&mut self, estimated: &Estimated) -> Result<()> {
        let is_first = self.last.replace(estimated.report).is_none();
        if self.unpaired.take(&estimated.report, &self.pairing) {
            let (requests, pairing) = (estimated.report.totals.requests, &self.pairing);
            let other = match pairing {
                Pairing::Provisional => "",
                _ => {
                    "a server that does not forward INVITEs needs --pair provisional, which measures responses; "
                }
            };
            print_note!(
                "nothing is measured: {requests} INVITEs arrived, and no message that left belongs to one by --pair \
                 {pairing}: {other}messages that leave must be captured here, and come from an address of --server; \
                 with --hep the server must send copies of both directions"
            );
        }
        if self.json {
            return print::line(serde_json::to_string(&WindowView::from(estimated))?);
        }
        if is_first {
            let time = if self.milliseconds { "time (UTC)  " } else { "UTC     " };
            let capacity = if self.has_capacity { " call/s" } else { "" };
            print_line!("{time} measured     min  median    mean     dev     p95     p99  max ms{capacity}")?;
        }
        print::line(self.row(estimated))
    }

    fn row(&self, Estimated { report, capacity }: &Estimated) -> String {
        let date = UnixTime::from_millis(report.window.start.as_nanos() / 1_000_000).rfc3339();
        let mut row = date[11..if self.milliseconds { 23 } else { 19 }].to_owned();
        write!(row, " {:>8}", report.window.count).expect("writing to a String cannot fail");
        let times = report.window.latency.map(|latency| {
            let Latency { min, mean, deviation, median, p95, p99, max } = latency;
            [min, median, mean, deviation, p95, p99, max].map(milliseconds)
        });
        let times = match times {
            // Keeps the last column in its place.
            None if self.has_capacity => [const { String::new() }; 7].to_vec(),
            times => times.map(Vec::from).unwrap_or_default(),
        };
        for time in times {
            write!(row, " {time:>7}").expect("writing to a String cannot fail");
        }
        if let Some(capacity) = capacity {
            let digits = usize::from(*capacity < 1_000.0);
            write!(row, " {capacity:>6.digits$}").expect("writing to a String cannot fail");
        }
        for (name, count) in notable(report) {
            write!(row, "  {name} {count}").expect("writing to a String cannot fail");
        }
        // A server that has stopped answering is not idle.
        if let Some(oldest) = report.oldest.filter(|_| report.window.latency.is_none()) {
            write!(row, "  {} waiting, for {} ms", report.waiting, milliseconds(oldest))
                .expect("writing to a String cannot fail");
        }
        row
    }

    /// Says why nothing was measured.
    fn end(&self) {
        let Some(report) = self.last.filter(|report| report.totals.requests == 0) else { return };
        let servers: Vec<_> = self.servers.iter().map(ToString::to_string).collect();
        print_note!(
            "nothing was measured: of {} SIP messages none was a request to {} that starts a measurement by --pair {}",
            report.totals.messages,
            servers.join(" or "),
            self.pairing
        );
    }
}

/// Counts that are not 0 and of interest to an operator.
fn notable(report: &WindowReport) -> impl Iterator<Item = (&'static str, u64)> {
    let usual = ["messages", "requests", "measured", "repeated"];
    let counts = report.counts.all().map(|(name, _, count)| (name, count));
    counts.filter(move |(name, count)| *count > 0 && !usual.contains(name))
}

/// Three digits after the point, none for long numbers.
fn milliseconds(time: Duration) -> String {
    let value = time.as_secs_f64() * 1e3;
    let digits = if value < 1_000.0 { 3 } else { 0 };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::monitor::Window;

    #[test]
    fn requests_without_a_measurement_are_reported_once() {
        let reported = |pairing: &Pairing, totals: Counts| {
            let mut unpaired = Unpaired::default();
            let report = |second: u64| {
                let at = |second: u64| Instant::from_millis(1_000 * second);
                let window = Window { start: at(second), end: at(second + 1), ..Window::default() };
                WindowReport { window, totals, ..WindowReport::default() }
            };
            let reported = (0..60).filter(|second| unpaired.take(&report(*second), pairing));
            reported.collect::<Vec<_>>()
        };
        let waits = Counts { requests: 10, ..Counts::default() };
        assert_eq!(reported(&Pairing::Invite, waits), [4], "after five seconds");
        assert!(reported(&Pairing::Final(None), waits).is_empty(), "a call may ring for long");
        assert!(reported(&Pairing::Invite, Counts { measured: 1, ..waits }).is_empty());
        assert!(reported(&Pairing::Invite, Counts::default()).is_empty());
    }

    #[test]
    fn rows_fit_a_terminal_and_show_unusual_counts() {
        let us = Duration::from_micros;
        let latency = Latency {
            min: us(80),
            mean: us(121),
            deviation: us(33),
            median: us(120),
            p95: us(250),
            p99: us(999_999),
            max: us(5_000_000),
        };
        let at = |ms: u64| Instant::from_millis(1_700_000_000_000 + ms);
        let report = WindowReport {
            window: Window { start: at(0), end: at(1_000), count: 20_000, latency: Some(latency) },
            counts: Counts { requests: 20_001, measured: 20_000, unanswered: 1, ..Counts::default() },
            ..WindowReport::default()
        };
        let printer = Printer {
            json: false,
            milliseconds: false,
            has_capacity: false,
            servers: Vec::new(),
            pairing: Pairing::Invite,
            last: None,
            unpaired: Unpaired::default(),
        };
        let row = printer.row(&Estimated { report, capacity: None });
        assert_eq!(
            row,
            "22:13:20    20000   0.080   0.120   0.121   0.033   0.250 999.999    5000  unanswered 1"
        );
        assert!(row.split("  unanswered").next().is_some_and(|row| row.len() <= 80));
        let empty = WindowReport {
            window: Window { start: at(250), ..Window::default() },
            ..WindowReport::default()
        };
        let stopped = WindowReport { waiting: 3, oldest: Some(Duration::from_millis(3_100)), ..empty };
        let stopped = Estimated { report: stopped, capacity: None };
        let empty = Estimated { report: empty, capacity: None };
        let printer = Printer { milliseconds: true, ..printer };
        assert_eq!(printer.row(&empty), "22:13:20.250        0");
        assert_eq!(printer.row(&stopped), "22:13:20.250        0  3 waiting, for 3100 ms");
        let printer = Printer { milliseconds: false, has_capacity: true, ..printer };
        let row = printer.row(&Estimated { report, capacity: Some(312.52) });
        assert_eq!(
            row,
            "22:13:20    20000   0.080   0.120   0.121   0.033   0.250 999.999    5000  312.5  unanswered 1"
        );
        assert!(row.split("  unanswered").next().is_some_and(|row| row.len() <= 80));
        let row = printer.row(&Estimated { capacity: Some(1.0), ..empty });
        assert_eq!((row.len(), row.ends_with("    1.0")), (80, true), "below the others: {row}");
    }
}

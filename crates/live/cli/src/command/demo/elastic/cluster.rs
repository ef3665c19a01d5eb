//! The servers of the demo, the balancer that starts and stops them, and the callers.

use super::scene::{Moment, Seen};
use super::story::{Pace, Story};
use crate::command::demo::stage::{ANY, Element, Folder, SEED, call, free_port};
use anyhow::{Context, Result, anyhow};
use base::Rng;
use instruments::agents::RunningAgent;
use load::CallResults;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Largest number of servers.
pub(super) const COUNT: usize = 6;
/// Index of the server with the neighbour.
pub(super) const DISTURBED: usize = 0;
/// Service time of a BYE. An INVITE takes 1.75 times as long, so a server without a neighbour carries 72 calls/s.
pub(super) const SERVICE: Duration = Duration::from_millis(5);
/// Upper bound of the estimated capacity, in calls/s: more than a server can carry. The estimate starts at half of it.
pub(super) const MOST: f64 = 100.0;
/// Time within which 95 % of the first responses should arrive: more than a busy machine keeps a process waiting.
pub(super) const THRESHOLD: Duration = Duration::from_millis(50);
/// Mean duration of calls. It is short, so that a drained server soon has none.
const HOLD: Duration = Duration::from_secs(1);
/// Time after the end of the story at which servers end by themselves, in case this process is killed.
const BEYOND: Duration = Duration::from_mins(1);

/// Name of a server in the output.
pub(super) fn name(index: usize) -> String {
    format!("pbx-{}", index + 1)
}

/// The balancer, and the servers that it starts.
pub(super) struct Cluster {
    servers: Vec<SocketAddr>,
    balancer: Element,
    _processes: Processes,
}

/// A folder with a file for each running server: its name is the address, its content the process id.
/// Only this user can write there, because the processes named in it are killed.
struct Processes(Folder);

impl Drop for Processes {
    /// Kills the running servers.
    fn drop(&mut self) {
        let kill = ["-c", "kill $(cat \"$0\"/*) 2>/dev/null"];
        let _ = Command::new("sh").args(kill).arg(&self.0.0).status();
    }
}

impl Cluster {
    /// Starts the balancer, which starts the servers.
    pub(super) async fn open(story: &Story) -> Result<Self> {
        let servers = addresses()?;
        let program = std::env::current_exe()
            .context("the path of this program cannot be found, to run it as a server")?;
        let program = program.to_str().context("the path of this program is not UTF-8")?;
        let life = Duration::from_secs_f64(story.total) + BEYOND;
        let processes = Processes(Folder::new("")?);
        let tables = pool(&servers, &scale(program, &processes.0.0, &story.pace, life), &story.pace);
        Ok(Self { servers, balancer: Element::start(ANY.ip(), &tables, None).await?, _processes: processes })
    }

    /// Starts the callers.
    pub(super) fn call(&self, story: &Story) -> Result<RunningAgent<CallResults>> {
        let (target, rng) = (self.balancer.address, Rng::from_seed(SEED).fork("caller"));
        call(target, format!("sip:service@{target}"), story.plan(), HOLD, rng)
    }

    pub(super) fn disturbed(&self) -> SocketAddr {
        self.servers[DISTURBED]
    }

    /// Returns the state that the balancer knows.
    pub(super) async fn look(&self) -> Result<Moment> {
        let figures = self.balancer.handle.figures(false).await.map_err(|error| anyhow!(error))?;
        let scale = figures.standing.scale.pools.first().context("the pool is scaled")?;
        let queue = figures.standing.health.pools[0].queue.as_ref().context("the pool has a queue")?;
        let seen = |(index, &address): (usize, &SocketAddr)| {
            let member = figures.members.members.iter().find(|member| member.address.0.address == address);
            let announced = queue.members.iter().find(|member| member.address == address.to_string());
            Ok(Seen {
                // Before the scaler has looked for the first time no state is known.
                state: scale.servers.get(index).map_or("off", |server| &*server.state).to_owned(),
                announced: announced.map_or(0.0, |member| member.calls_per_second),
                member: member.context("each server is a member")?.clone(),
            })
        };
        let servers = self.servers.iter().enumerate().map(seen).collect::<Result<_>>()?;
        Ok(Moment {
            servers,
            // The sum of an empty list is -0.0.
            capacity: scale.capacity.max(0.0),
            wanted: scale.wanted,
            waiting: queue.waiting,
            cluster_latency: scale.cluster_latency,
            trouble: scale.trouble.clone(),
        })
    }

    /// Stops everything.
    pub(super) async fn close(self) -> Result<()> {
        self.balancer.close().await
    }
}

/// An address for each server, with a port that was free a moment ago.
fn addresses() -> Result<Vec<SocketAddr>> {
    let address = |index: usize| free_port(IpAddr::from([127, 0, 84, index as u8 + 1]));
    (0..COUNT).map(address).collect()
}

/// The programs that start, stop and list servers. A server is this program with `load answer`, after its start time.
fn scale(program: &str, folder: &Path, pace: &Pace, life: Duration) -> String {
    let folder = folder.to_string_lossy();
    // The shell waits for the time that a machine would take to boot.
    let boot = format!(
        "(sleep {}; exec \"$@\") >/dev/null 2>&1 & echo $! > \"$0/$SARABANDE_SERVER\"",
        pace.boot.as_secs_f64()
    );
    let service = format!("{}us", SERVICE.as_micros());
    let life = format!("{}s", life.as_secs());
    let answer = ["load", "answer", "--listen", "{server}", "--service", &service, "--duration", &life];
    let start = [&["sh", "-c", &boot, &folder, program], &answer[..]].concat();
    let stop = "kill $(cat \"$0/$SARABANDE_SERVER\"); rm \"$0/$SARABANDE_SERVER\"";
    let stop = ["sh", "-c", stop, &folder];
    format!("start = {start:?}\nstop = {stop:?}\nlist = {:?}", ["ls", &folder])
}

/// The table of the pool.
fn pool(servers: &[SocketAddr], scale: &str, pace: &Pace) -> String {
    let members: Vec<_> = servers.iter().map(ToString::to_string).collect();
    let [boot, calm, idle] = [pace.boot, pace.calm, pace.idle].map(|time| time.as_millis());
    let (capacity, threshold) = (MOST / 2.0, THRESHOLD.as_millis());
    format!(
        r#"
        [pool.pbx]
        members = {members:?}
        forward = "transaction"
        probe = {{ interval = "500ms", timeout = "500ms", fall = 6 }}
        [pool.pbx.queue]
        source = "responses"
        capacity = {MOST}
        threshold = "{threshold}ms"
        wait = "2s"
        [pool.pbx.scale]
        driver = "command"
        {scale}
        capacity = {capacity}
        calm = "{calm}ms"
        idle = "{idle}ms"
        start_time = "{boot}ms"
        "#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::demo::stage::configuration;

    #[test]
    fn the_configuration_is_valid() {
        let servers = addresses().expect("addresses");
        for story in [Story::of(85.0), Story::quick()] {
            let scale = scale("/usr/bin/sarabande", Path::new("/tmp/demo"), &story.pace, BEYOND);
            let config =
                configuration("127.0.0.1:5060".parse().unwrap(), &pool(&servers, &scale, &story.pace))
                    .unwrap();
            assert_eq!(config.members().len(), COUNT);
        }
    }
}

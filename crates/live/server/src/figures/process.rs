//! Resources that the process uses, under the names that Prometheus's client libraries give them.

use super::text::Page;
use rustix::process::{Resource, getrlimit};
use shards::{
    proc::{self, ProcessStatus},
    processor_time,
};
use std::io;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Adds the resources to the page. Values that the system does not report (no `/proc`) are missing.
pub fn put(page: &mut Page, uptime_seconds: f64) {
    if let Ok(usage) = Usage::now() {
        usage.put(page);
    }
    page.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.")
        .sample(&[], start_time(uptime_seconds));
}

/// Start time of the process. It stays the same after the clock was set, since another value would mean another
/// process.
fn start_time(uptime_seconds: f64) -> f64 {
    static START: OnceLock<f64> = OnceLock::new();
    *START.get_or_init(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_secs_f64() - uptime_seconds
    })
}

struct Usage {
    processor_seconds: f64,
    status: ProcessStatus,
    open_files: usize,
    /// Limit of open files; `None` for no limit.
    most_files: Option<u64>,
}

impl Usage {
    fn now() -> io::Result<Self> {
        Ok(Self {
            processor_seconds: processor_time().as_secs_f64(),
            status: ProcessStatus::now()?,
            open_files: proc::open_files()?,
            most_files: getrlimit(Resource::Nofile).current,
        })
    }

    fn put(&self, page: &mut Page) {
        page.counter("process_cpu_seconds_total", "Total user and system CPU time in seconds.")
            .sample(&[], self.processor_seconds);
        page.gauge("process_resident_memory_bytes", "Resident memory size in bytes.")
            .sample(&[], self.status.resident_bytes);
        page.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.")
            .sample(&[], self.status.virtual_bytes);
        page.gauge("process_threads", "Threads.").sample(&[], self.status.threads);
        page.gauge("process_open_fds", "Number of open file descriptors.").sample(&[], self.open_files);
        let mut most = page.gauge("process_max_fds", "Limit of open file descriptors.");
        match self.most_files {
            Some(count) => most.sample(&[], count),
            None => most.sample(&[], "+Inf"),
        }
    }
}

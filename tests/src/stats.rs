//! Statistics of SIPp, from the CSV files that it writes every second and at its end.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Totals since SIPp started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls in either direction. Each probe of a server is one too, see [`Stats::calls`].
    pub created: u64,
    /// Calls in progress.
    pub current: u64,
    /// Calls that completed the scenario.
    pub successful: u64,
    /// Calls that did not complete it.
    pub failed: u64,
    /// Calls failed because of an unexpected message, also one of an unknown call.
    pub unexpected: u64,
    /// Received messages by method or status code ("BYE", "200"), without retransmissions.
    pub received: BTreeMap<String, u64>,
}

impl Stats {
    /// Reads `stat.csv` and `*counts.csv` of `folder`; zeros before SIPp has written them.
    pub(crate) fn read(folder: &Path) -> Self {
        let row = last_row(&folder.join("stat.csv"));
        let get = |key: &str| row.get(key).copied().unwrap_or(0);
        let counts = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.to_string_lossy().ends_with("_counts.csv"));
        let mut received = BTreeMap::new();
        for (column, count) in counts.map(|path| last_row(&path)).unwrap_or_default() {
            // Column names such as "5_BYE_Recv": place in the scenario, message, counter.
            let mut parts = column.split('_').skip(1);
            if let (Some(message), Some("Recv")) = (parts.next(), parts.next()) {
                *received.entry(message.to_owned()).or_insert(0) += count;
            }
        }
        Self {
            created: get("TotalCallCreated"),
            current: get("CurrentCall"),
            successful: get("SuccessfulCall(C)"),
            failed: get("FailedCall(C)"),
            unexpected: get("FailedUnexpectedMessage(C)"),
            received,
        }
    }

    /// Returns the number of received messages with this method or status.
    pub fn received(&self, message: &str) -> u64 {
        self.received.get(message).copied().unwrap_or(0)
    }

    /// Returns the number of calls, without OPTIONS probes of the balancer.
    pub fn calls(&self) -> u64 {
        self.created.saturating_sub(self.received("OPTIONS"))
    }
}

/// Returns the numbers of a CSV file's last complete row, by column.
fn last_row(path: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let (Some(head), Some(row)) = (lines.next(), lines.next_back()) else { return BTreeMap::new() };
    let cells = head.trim_end().split(';').zip(row.trim_end().split(';'));
    cells.filter_map(|(column, cell)| Some((column.to_owned(), cell.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_still_being_written_is_not_read() {
        let path = std::env::temp_dir().join(format!("sarabande-stats-{}", std::process::id()));
        fs::write(&path, "A;B;\n1;2;\n3;").unwrap();
        let row = last_row(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(row, BTreeMap::from([("A".to_owned(), 1), ("B".to_owned(), 2)]));
    }
}

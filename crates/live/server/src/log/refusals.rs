//! Requests that this process has refused, summed up each minute.

use crate::Handle;
use std::collections::BTreeMap;
use std::time::Duration;

/// Interval of the lines.
const PERIOD: Duration = Duration::from_mins(1);

/// Number of reasons in a line.
const REASONS_MAX: usize = 10;

/// Logs the refusals of each minute, if there were any, until the server has ended.
pub(crate) async fn report(handle: Handle) {
    let (mut ticks, mut before) = (tokio::time::interval(PERIOD), BTreeMap::new());
    loop {
        ticks.tick().await;
        let Ok(standing) = handle.standing().await else { return };
        let now = standing.health.refused;
        if let Some((refused, reasons)) = since(&before, &now) {
            tracing::info!(refused, "requests refused here in the last minute: {reasons}");
        }
        before = now;
    }
}

/// Returns the number of refusals between two counts, and the reasons, the most frequent first.
fn since(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> Option<(u64, String)> {
    let more = now.iter().map(|(reason, count)| (count - before.get(reason).unwrap_or(&0), reason));
    let mut more: Vec<_> = more.filter(|(count, _)| *count > 0).collect();
    let sum = more.iter().map(|(count, _)| count).sum();
    more.sort_by(|one, other| other.cmp(one));
    let others = more.len().saturating_sub(REASONS_MAX);
    more.truncate(REASONS_MAX);
    let mut texts: Vec<_> =
        more.into_iter().map(|(count, reason)| format!("{count} with {reason}")).collect();
    if others > 0 {
        texts.push(format!("{others} further reasons"));
    }
    (sum > 0).then(|| (sum, texts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_refusals_of_its_minute() {
        let counts = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
        };
        let before: BTreeMap<_, _> = counts(&[("404 No Route", 5), ("503 Overloaded", 7)]);
        assert_eq!(since(&before, &before), None);
        let now = counts(&[("403 Forbidden", 9), ("404 No Route", 8), ("503 Overloaded", 7)]);
        let line = "9 with 403 Forbidden, 3 with 404 No Route".to_owned();
        assert_eq!(since(&before, &now), Some((12, line)));
        let many = (0..12_u64).map(|each| (format!("40{each} No"), each + 1)).collect();
        let (sum, line) = since(&BTreeMap::new(), &many).unwrap();
        assert_eq!(sum, 78);
        assert!(
            line.starts_with("12 with 4011 No, 11 with 4010 No,") && line.ends_with(", 2 further reasons"),
            "{line}"
        );
    }
}

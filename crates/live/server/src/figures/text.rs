//! The text format of Prometheus, version 0.0.4.

use hdrhistogram::Histogram;
use std::fmt::{Display, Write as _};

/// Labels of a sample: names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of metric families.
#[derive(Default)]
pub struct Page(String);

/// A metric family that samples are added to.
pub struct Family<'a> {
    page: &'a mut String,
    name: &'a str,
}

impl Page {
    /// Starts a counter.
    pub fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family("counter", name, help)
    }

    /// Starts a gauge.
    pub fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family("gauge", name, help)
    }

    /// Returns the text of the page.
    pub fn finish(self) -> String {
        self.0
    }

    pub(super) fn family<'a>(&'a mut self, kind: &str, name: &'a str, help: &str) -> Family<'a> {
        put(&mut self.0, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        self.more(name)
    }

    /// Returns the family that was started last, whose name must be `name`, for more samples.
    pub(super) fn more<'a>(&'a mut self, name: &'a str) -> Family<'a> {
        Family { page: &mut self.0, name }
    }
}

impl Family<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Adds a histogram. `bounds` and the recorded values have the same unit; `unit` of it make one unit of the metric.
    /// A value and a bound that differ by less than the histogram's resolution (1 %) count as equal.
    pub fn buckets(&mut self, labels: Labels<'_>, values: &Histogram<u32>, bounds: &[u64], unit: f64) {
        for &bound in bounds {
            let bucket = (bound as f64 / unit).to_string();
            self.line("_bucket", labels, Some(("le", &bucket)), values.count_between(0, bound));
        }
        self.line("_bucket", labels, Some(("le", "+Inf")), values.len());
        // Summed as whole numbers: a sum that falls by a rounding error would look like a restart.
        let middle = |value| values.median_equivalent(value);
        let sum =
            values.iter_recorded().map(|at| middle(at.value_iterated_to()) * at.count_at_value() as u64);
        self.line("_sum", labels, None, sum.sum::<u64>() as f64 / unit);
        self.line("_count", labels, None, values.len());
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, last: Option<(&str, &str)>, value: impl Display) {
        let Self { page, name } = self;
        put(page, format_args!("{name}{suffix}"));
        // An empty label is the same as none.
        let mut end = "";
        for (label, value) in labels.iter().copied().chain(last).filter(|(_, value)| !value.is_empty()) {
            let start = if end.is_empty() { '{' } else { ',' };
            put(page, format_args!("{start}{label}=\"{}\"", escape(value)));
            end = "}";
        }
        put(page, format_args!("{end} {value}\n"));
    }
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to a String cannot fail");
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_in_the_metrics_unit() {
        let mut micros = Histogram::new_with_bounds(1, 200_000_000, 2).unwrap();
        for (value, times) in [(100, 3), (250, 1), (100_000, 2), (150_000_000, 1)] {
            micros.record_n(value, times).unwrap();
        }
        let mut page = Page::default();
        page.family("histogram", "x_seconds", "Help.").buckets(
            &[("a", "1")],
            &micros,
            &[250, 1_000, 100_000, 1_000_000],
            1e6,
        );
        let page = page.finish();
        let (head, sum_and_count) = page.split_once("x_seconds_sum{a=\"1\"} ").unwrap();
        assert_eq!(
            head,
            "# HELP x_seconds Help.\n# TYPE x_seconds histogram\n\
             x_seconds_bucket{a=\"1\",le=\"0.00025\"} 4\nx_seconds_bucket{a=\"1\",le=\"0.001\"} 4\n\
             x_seconds_bucket{a=\"1\",le=\"0.1\"} 6\nx_seconds_bucket{a=\"1\",le=\"1\"} 6\n\
             x_seconds_bucket{a=\"1\",le=\"+Inf\"} 7\n"
        );
        let (sum, count) = sum_and_count.split_once('\n').unwrap();
        assert_eq!(count, "x_seconds_count{a=\"1\"} 7\n");
        let (sum, exact) = (sum.parse::<f64>().unwrap(), 150.200_55);
        assert!((sum - exact).abs() < 0.01 * exact, "{sum}");
    }

    #[test]
    fn label_values_are_escaped() {
        let mut page = Page::default();
        page.gauge("x", "Help.").sample(&[("a", "q\"b\\n\nl")], 1);
        assert_eq!(page.finish(), "# HELP x Help.\n# TYPE x gauge\nx{a=\"q\\\"b\\\\n\\nl\"} 1\n");
    }
}

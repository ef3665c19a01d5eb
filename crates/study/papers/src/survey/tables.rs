//! Results as tables of text and sentences, equal in the terminal and on the page.

use super::{HostSurvey, Intervals, Judged, Mean, Shares, StreamSurvey, Survey, Sweep, TooWide};
use crate::report::ReportTable;

impl Survey {
    /// Returns one line above the tables.
    pub fn headline(&self) -> String {
        let runs = if self.replications == 1 { "run" } else { "runs" };
        format!("{}: {} {runs}, {} messages", self.title, self.replications, self.messages)
    }

    /// Returns tables of the streams, of their calls' outcomes, and of the hosts.
    pub fn tables(&self) -> Vec<ReportTable> {
        let columns = ["calls", "offered/s", "completed/s", "response", "response p99", "setup", "setup p99"];
        let mut streams = ReportTable::new(columns);
        let mut endings = ReportTable::new([
            "ended",
            "completed",
            "refused",
            "abandoned",
            "answered late",
            "INVITE unanswered",
            "BYE failed",
        ]);
        for stream in &self.streams {
            let mut row =
                vec![stream.name.clone(), show(&stream.offered, 1.0, 1), show(&stream.goodput, 1.0, 1)];
            row.extend(stream.times().map(|time| show_any(time, 1e3, 1, "ms")));
            streams.rows.push(row);
            let shares = stream.ended.as_ref().map(|ended| {
                let Shares { completed, refused, abandoned, answered_late, invite_timeouts, bye_failures } =
                    ended;
                [completed, refused, abandoned, answered_late, invite_timeouts, bye_failures]
            });
            let shares = (0..6).map(|at| show_any(shares.map(|shares| shares[at]), 100.0, 2, "%"));
            endings.rows.push([stream.name.clone()].into_iter().chain(shares).collect());
        }
        let mut hosts = ReportTable::new(["host", "utilisation", "sent again/s", "dropped/s", "rejected/s"]);
        for HostSurvey { name, utilisation, resends, dropped, rejected } in &self.hosts {
            hosts.rows.push(vec![
                name.clone(),
                format!("{} %", show(utilisation, 100.0, 1)),
                show(resends, 1.0, 1),
                show(dropped, 1.0, 1),
                show(rejected, 1.0, 1),
            ]);
        }
        vec![streams, endings, hosts]
    }

    /// Returns remarks on the tables, one sentence each.
    pub fn remarks(&self) -> Vec<String> {
        [self.about_intervals(), self.about_unfinished(), self.about_too_wide()].concat()
    }

    fn about_intervals(&self) -> Vec<String> {
        let remark = match self.intervals {
            Intervals::Replications => "± is half of a 95 % interval, over the runs",
            Intervals::BatchMeans => {
                "one run: ± is half of a 95 % interval by batch means; set run.replications for intervals \
                  of the other figures"
            }
            Intervals::None => "one run: no intervals; set run.replications",
        };
        vec![remark.to_owned()]
    }

    fn about_unfinished(&self) -> Vec<String> {
        let remark = |unfinished: &super::Unfinished| {
            format!(
                "{}: calls last {:?} in the mean, too long for this run: some {:.0} % of those offered end after it and \
                 are missing in completed/s; lengthen run.warm_up to three times that, and run.duration with it",
                unfinished.stream,
                unfinished.lifetime,
                100.0 * unfinished.share
            )
        };
        self.unfinished.iter().map(remark).collect()
    }

    fn about_too_wide(&self) -> Vec<String> {
        let remark = |TooWide { stream, figure }: &TooWide| {
            let figure = match figure {
                Judged::Goodput => "completed calls",
                Judged::SetupSeconds => "setup time",
            };
            format!("{stream}: the interval of the {figure} is too wide; run longer or more often")
        };
        self.too_wide.iter().map(remark).collect()
    }
}

impl StreamSurvey {
    /// Times in the order of the tables.
    fn times(&self) -> [Option<&Mean>; 4] {
        let Self { response_seconds, response_p99_seconds, setup_seconds, setup_p99_seconds, .. } = self;
        [response_seconds, response_p99_seconds, setup_seconds, setup_p99_seconds].map(Option::as_ref)
    }
}

impl Sweep {
    /// Returns one line above the table.
    pub fn headline(&self) -> String {
        format!("{}: {} of {} values", self.points[0].survey.title, self.key, self.points.len())
    }

    /// Returns a table with a row for each value and stream.
    pub fn table(&self) -> ReportTable {
        let several = self.points[0].survey.streams.len() > 1;
        let columns = [
            &*self.key,
            "calls",
            "offered/s",
            "completed/s",
            "completed",
            "response",
            "response p99",
            "setup",
            "setup p99",
            "busiest host",
            "utilisation",
        ];
        let mut table = ReportTable::new(columns.into_iter().filter(|column| several || *column != "calls"));
        for point in &self.points {
            let busiest = point.survey.busiest();
            for (at, stream) in point.survey.streams.iter().enumerate() {
                let StreamSurvey { name, offered, goodput, ended, .. } = stream;
                let mut row = vec![point.value.to_string()];
                if several {
                    row.push(name.clone());
                }
                row.extend([
                    show(offered, 1.0, 1),
                    show(goodput, 1.0, 1),
                    show_any(ended.as_ref().map(|ended| &ended.completed), 100.0, 2, "%"),
                ]);
                row.extend(stream.times().map(|time| show_any(time, 1e3, 1, "ms")));
                row.extend([busiest.name.clone(), format!("{} %", show(&busiest.utilisation, 100.0, 1))]);
                // Values that are equal for all streams are shown once.
                if at > 0 {
                    let hosts = row.len() - 2;
                    row[hosts..].fill_with(String::new);
                    row[0].clear();
                }
                table.rows.push(row);
            }
        }
        table
    }

    /// Returns remarks on the table, one sentence each, with the values that a remark is about unless it is about all.
    pub fn remarks(&self) -> Vec<String> {
        let groups: [fn(&Survey) -> Vec<String>; 3] =
            [Survey::about_intervals, Survey::about_unfinished, Survey::about_too_wide];
        groups.into_iter().flat_map(|about| self.grouped(about)).collect()
    }

    fn grouped(&self, about: fn(&Survey) -> Vec<String>) -> Vec<String> {
        let mut remarks: Vec<(String, Vec<String>)> = Vec::new();
        for point in &self.points {
            for remark in about(&point.survey) {
                let value = point.value.to_string();
                match remarks.iter_mut().find(|known| known.0 == remark) {
                    Some((_, values)) => values.push(value),
                    None => remarks.push((remark, vec![value])),
                }
            }
        }
        let told = |(remark, values): (String, Vec<String>)| {
            if values.len() == self.points.len() {
                remark
            } else {
                format!("{} = {}: {remark}", self.key, values.join(", "))
            }
        };
        remarks.into_iter().map(told).collect()
    }
}

/// Formats a mean with its unit; a dash if there is none.
fn show_any(value: Option<&Mean>, factor: f64, digits: usize, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{} {unit}", show(value, factor, digits)))
}

/// Formats a mean, with the half width of its interval if there is one.
fn show(value: &Mean, factor: f64, digits: usize) -> String {
    let mean = format!("{:.digits$}", value.mean * factor);
    match value.half_width {
        Some(half) => format!("{mean} ± {:.digits$}", half * factor),
        None => mean,
    }
}

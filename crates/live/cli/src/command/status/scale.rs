//! The part of `status` about servers that are started and stopped.

use crate::admin::Target;
use crate::command::text::span;
use anyhow::Result;
use server::figures::{ScaleView, ScalesView};

/// Returns the pools that are scaled; none if the server does not have this path.
pub(super) fn ask(target: &Target) -> Result<Vec<ScaleView>> {
    Ok(target.find::<ScalesView>("/api/scale")?.map_or_else(Vec::new, |all| all.pools))
}

/// Returns some lines, each after a line end.
pub(super) fn text(scales: &[ScaleView]) -> String {
    scales.iter().map(of_pool).collect()
}

fn of_pool(scale: &ScaleView) -> String {
    let ScaleView { pool, driver, rate, capacity, wanted, .. } = scale;
    let count = |state: &str| scale.servers.iter().filter(|server| server.state == state).count();
    let states =
        ["ready", "starting", "draining", "stopping", "gone", "off"].map(|state| (state, count(state)));
    let states =
        states.iter().filter(|(_, count)| *count > 0).map(|(state, count)| format!("{count} {state}"));
    let states: Vec<_> = states.collect();
    let states = if states.is_empty() { "none known".to_owned() } else { states.join(", ") };
    let states = if driver == "none" { "started by an external autoscaler".to_owned() } else { states };
    let unknown = if scale.ready {
        ""
    } else {
        "\n  the running servers are not known yet: no server is started or stopped"
    };
    let latency = if scale.cluster_latency {
        "\n  most servers carry much less than usual, for a common cause"
    } else {
        ""
    };
    let most = scale.most;
    let short = scale.short.map(|needed| format!("\n  {needed} are needed, and at most {most} are allowed"));
    let trouble = scale.trouble.as_ref().map(|why| {
        let wait = scale.retry_seconds;
        let again = if wait > 0.0 { format!("; next attempt in {}", span(wait)) } else { String::new() };
        format!("\n  the driver fails: {why}{again}")
    });
    format!(
        "\nservers of {pool} ({driver}): {states}; {wanted} wanted; {rate:.1} of {capacity:.1} calls/s{unknown}{latency}{}{}",
        short.unwrap_or_default(),
        trouble.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::figures::ScaledServer;

    #[test]
    fn servers_are_counted_by_state_and_problems_are_shown() {
        let server = |state: &str| ScaledServer {
            name: "a".to_owned(),
            address: None,
            state: state.to_owned(),
            since_seconds: 0.0,
            capacity: 0.0,
            work: 0,
        };
        let scale = ScaleView {
            pool: "pbx".to_owned(),
            driver: "command".to_owned(),
            ready: true,
            rate: 150.25,
            capacity: 240.0,
            wanted: 3,
            most: 4,
            servers: ["ready", "starting", "ready", "off", "gone"].map(server).to_vec(),
            ..ScaleView::default()
        };
        let line = "\nservers of pbx (command): 2 ready, 1 starting, 1 gone, 1 off; 3 wanted; 150.2 of 240.0 calls/s";
        assert_eq!(text(std::slice::from_ref(&scale)), line);
        let worse = ScaleView {
            short: Some(7),
            trouble: Some("no quota".to_owned()),
            retry_seconds: 20.0,
            ..scale.clone()
        };
        let lines =
            "\n  7 are needed, and at most 4 are allowed\n  the driver fails: no quota; next attempt in 20s";
        assert_eq!(text(std::slice::from_ref(&worse)), format!("{line}{lines}"));
        let unasked = text(&[ScaleView { retry_seconds: 0.0, ..worse }]);
        assert!(unasked.ends_with("\n  the driver fails: no quota"), "{unasked}");
        assert_eq!(text(&[]), "");
        let advice = ScaleView { driver: "none".to_owned(), servers: Vec::new(), ..scale };
        assert!(
            text(&[advice])
                .starts_with("\nservers of pbx (none): started by an external autoscaler; 3 wanted")
        );
    }
}

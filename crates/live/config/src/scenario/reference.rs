//! The reference of a scenario's keys, in Markdown.

use super::raw::RawScenario;
use crate::document;

const INTRODUCTION: &str = r#"# Scenarios

<!-- Made from crates/live/config/src/scenario/raw.rs; a failing test of this crate prints the command that updates it. -->

`sarabande sim` reads one TOML file: the hosts, the calls, and the faults. This file is complete; every other key has
the default given below:

```toml
[run]
duration = "20m"

[host.edge]
count = 4
capacity = 160

[host.core]
count = 2
capacity = 160
overload = { local = "occupancy" }

[calls.main]
path = ["edge", "core", "edge"]
rate = 200

[[fault]]
host = "core.2"
at = "10m"
restart = "30s"
```

`sarabande check FILE.toml` lists the errors of a scenario. If there are none, it prints which share of each host's
capacity the calls need. More scenarios are in [examples/scenarios](../examples/scenarios).
[scenario-schema.json](scenario-schema.json) is the JSON schema, for editors.

- **Durations** are text, a whole number and a unit: `ms`, `s`, `m`, `h`, `d`. **Short durations** have `ns`, `us`, `ms`
  or `s`.
- **Distributions** of times are a duration (always the same), `"exp:100s"` (exponential with this mean) or
  `"normal:60s,30s"` (mean and standard deviation, cut at zero).
- **Shares** are a number from 0 to 1, or percent: `0.05`, `"5%"`.
- A key **without a default** is required.
"#;

/// The text of `docs/scenario.md`.
pub fn reference() -> String {
    crate::reference::of(INTRODUCTION, &document::schema::<RawScenario>())
}

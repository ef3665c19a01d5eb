//! The reference of a topology's keys, in Markdown.

use super::raw::RawTopology;
use crate::document;

const INTRODUCTION: &str = r#"# Topologies

<!-- Made from crates/live/config/src/topology/raw.rs; a failing test of this crate prints the command that updates it. -->

`sarabande plan` reads one TOML file: the proxies, how many calls they carry, and the paths of the calls. This file is
complete; every other key has the default given below:

```toml
[node.edge]
stateful = 4700
stateless = 5700
next = { core-a = 0.75, core-b = 0.25 }

[node.core-a]
stateful = 4700
stateless = 5700

[node.core-b]
stateful = 2000
stateless = 2400
```

[plan.md](plan.md) explains the result. [topology-schema.json](topology-schema.json) is the JSON schema, for editors.

- **Shares** are a number from 0 to 1, or percent: `0.05`, `"5%"`. Shares that should add up to 1 may be off by 0.0015.
- A key **without a default** is required.
"#;

/// The text of `docs/topology.md`.
pub fn reference() -> String {
    crate::reference::of(INTRODUCTION, &document::schema::<RawTopology>())
}

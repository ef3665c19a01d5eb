//! The reference of a topology's keys, in Markdown.

use super::raw::RawTopology;
use crate::document;

const INTRODUCTION: &str = r#"# Topologies

<!-- Made from crates/live/config/src/topology/raw.rs; a test of that crate says how to make it anew. -->

What `sarabande plan` plans for is one TOML file: proxies, what they carry, and how calls pass them. This is a complete
one; everything that it leaves out has the default given below:

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

[plan.md](plan.md) says what comes of it. [topology-schema.json](topology-schema.json) is the JSON schema, for editors.

- **Shares** are a number from 0 to 1, or percent: `0.05`, `"5%"`. Those that should add up to 1 may be off by 0.0015.
- A key **without a default** must be there.
"#;

/// The text of `docs/topology.md`.
pub fn reference() -> String {
    crate::reference::of(INTRODUCTION, &document::schema::<RawTopology>())
}

//! Topologies for `sarabande plan`: keys, typed values and errors.
//!
//! ```
//! let text = r#"
//!     [node.edge]
//!     stateful = 4700
//!     stateless = 5700
//!     next = ["core"]
//!
//!     [node.core]
//!     stateful = 4700
//!     stateless = 5700
//! "#;
//! let topology = config::topology::parse(text, "two.toml").unwrap();
//! assert_eq!(topology.nodes()[0].name, "edge");
//!
//! let errors = config::topology::parse(&text.replace("[\"core", "[\"cor"), "two.toml").unwrap_err();
//! assert!(errors.to_string().ends_with("did you mean \"core\"?"));
//! ```

mod check;
mod raw;
mod reference;

use std::path::Path;

pub use reference::reference;

use crate::{Errors, document};
use plan::Topology;
use raw::RawTopology;

/// Reads and checks a topology. Its nodes are in the order of the file.
///
/// # Errors
/// All problems of the file. A file that cannot be read is a single problem without a line.
pub fn load(path: &Path) -> Result<Topology, Errors> {
    parse(&document::text(path)?, &path.display().to_string())
}

/// Checks the text of a topology. `file` is its name in messages.
///
/// # Errors
/// All problems, in the order of the text. Text that is not TOML is not checked further.
pub fn parse(text: &str, file: &str) -> Result<Topology, Errors> {
    document::parse(text, file, None, |raw: &RawTopology, report| check::check(raw, report))
}

/// Whether the text of a file is a topology, right or wrong: it has a table that only topologies have.
pub fn is_topology(text: &str) -> bool {
    let (document, _) = toml::de::DeTable::parse_recoverable(text);
    let schema = document::schema::<RawTopology>();
    document.get_ref().keys().any(|key| schema["properties"].get(key.get_ref().as_ref()).is_some())
}

/// JSON schema (draft 2020-12) of a topology, for editors: the text of `docs/topology-schema.json`.
pub fn schema() -> String {
    format!("{:#}\n", document::schema::<RawTopology>())
}

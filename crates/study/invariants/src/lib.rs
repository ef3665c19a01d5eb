//! Properties for any input, as functions for fuzz targets and property tests. They panic on a violation.
//!
//! They use only the public interfaces of the crates under test. `fuzz/README.md` lists the targets. [`store`] is for
//! tests of the stores of bindings.
#![forbid(unsafe_code)]

mod authentication;
mod captures;
mod messages;
mod registers;
pub mod store;
mod updates;
mod websocket;

pub use authentication::headers;
pub use captures::capture;
pub use messages::{message, proxy_header, stream};
pub use registers::registers;
pub use updates::updates;
pub use websocket::websocket;

/// Returns the hand-written inputs of a fuzz target with their names.
#[cfg(test)]
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = format!("{}/../../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let seed = |file: std::io::Result<std::fs::DirEntry>| {
        let file = file.expect("a file of the folder");
        (file.file_name().to_string_lossy().into_owned(), std::fs::read(file.path()).expect("a seed"))
    };
    files.map(seed).collect()
}

/// Returns one of these inputs.
#[cfg(test)]
fn seed(target: &str, name: &str) -> Vec<u8> {
    let found = seeds(target).into_iter().find(|(found, _)| found == name);
    found.unwrap_or_else(|| panic!("no {name} of {target}")).1
}

//! Makes the reference of all keys, in Markdown, from the declarations that the parser uses.

use std::fmt::Write;

use serde_json::Value;

use crate::document;
use crate::raw::RawConfig;
use crate::structure::{is_table, shapes};

/// Longest line of prose, as in the other pages.
const WIDTH: usize = 120;

const INTRODUCTION: &str = r#"# Configuration

<!-- Made from crates/live/config/src/raw.rs; a failing test of this crate prints the command that updates it. -->

The configuration is one TOML file. This file is complete; every other key has the default given below:

```toml
[listen]
udp = ["0.0.0.0:5060"]

[pool.servers]
policy  = "tlwl"
members = ["10.0.0.1:5060", "10.0.0.2:5060", "10.0.0.3:5060"]
```

`sarabande check FILE.toml` lists all errors of a file: file, line and column, key, the value read, and the values
allowed. An unknown key is an error. It also checks, without using the network, the directories of stores and records,
the file of users, certificates and their keys, and URLs. [schema.json](schema.json) is the JSON schema, for editors.

- **Durations** are text, a whole number and a unit (`ms`, `s`, `m`, `h`, `d`): `"500ms"`, `"30s"`, `"4h"`.
- **Sizes** are a number of bytes, or text with `KiB`, `MiB` or `GiB`: `65536`, `"4MiB"`.
- **Addresses** are `IPv4:port` or `[IPv6]:port`. **Networks** are an address with or without a length: `10.0.0.0/8`.
- A key **without a default** is required.
"#;

/// The text of `docs/configuration.md`.
pub fn reference() -> String {
    of(INTRODUCTION, &document::schema::<RawConfig>())
}

/// `introduction`, then a section for each table of the file.
pub(crate) fn of(introduction: &str, schema: &Value) -> String {
    let mut text = introduction.to_owned();
    // The file itself is not a table with a header.
    for (key, table) in properties(schema) {
        match tables(table).next() {
            Some(item) => section(&mut text, &format!("[{key}]"), item),
            None => section(&mut text, key, table),
        }
    }
    text
}

/// A table's own keys, then the tables inside it.
fn section(text: &mut String, path: &str, table: &Value) {
    if let Some(any) = table.get("additionalProperties").filter(|any| is_table(any)) {
        return section(text, &format!("{path}.<name>"), any);
    }
    // Tables inside an array are named without the brackets of their headers.
    let inside =
        path.strip_prefix('[').and_then(|path| path.split_once(']')).filter(|(_, key)| !key.is_empty());
    let inside = inside.map(|(table, key)| format!("{table}{key}"));
    let path = inside.as_deref().unwrap_or(path);
    let heading = match path.strip_suffix("[]") {
        Some(arrays) => format!(
            "Items of {}",
            arrays.split("[]").map(|array| format!("`{array}`")).collect::<Vec<_>>().join(", ")
        ),
        None => format!("`[{path}]`"),
    };
    write!(text, "\n## {heading}\n\n{}\n\n", wrapped(&prose(table)))
        .expect("writing to a String cannot fail");
    text.push_str("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
    let mut inner: Vec<(String, &Value)> = Vec::new();
    for (key, schema) in properties(table) {
        if properties(schema).next().is_some() {
            inner.push((format!("{path}.{key}"), schema));
            continue;
        }
        for item in tables(schema) {
            let array = format!("{path}.{key}[]");
            match inner.last_mut() {
                Some((arrays, last)) if *last == item => *arrays = format!("{arrays}{array}"),
                _ => inner.push((array, item)),
            }
        }
        let row = [format!("`{key}`"), kind(schema), default(schema), prose(schema)];
        writeln!(text, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "))
            .expect("writing to a String cannot fail");
    }
    for (path, table) in inner {
        section(text, &path, table);
    }
}

/// The tables that may be items of an array.
fn tables(array: &Value) -> impl Iterator<Item = &Value> {
    let items = shapes(array).into_iter().filter_map(|shape| shape.get("items"));
    items.flat_map(shapes).filter(|item| is_table(item))
}

fn properties(table: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let properties = table.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(key, schema)| (key.as_str(), schema))
}

/// The doc comment on one line.
fn prose(schema: &Value) -> String {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    description.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A paragraph in lines of at most [`WIDTH`] characters.
fn wrapped(paragraph: &str) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for word in paragraph.split_whitespace() {
        let width = word.chars().count();
        if column > 0 {
            let fits = column + 1 + width <= WIDTH;
            text.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        text.push_str(word);
        column += width;
    }
    text
}

fn kind(schema: &Value) -> String {
    if let Some(title) = schema.get("title").and_then(Value::as_str) {
        return title.to_owned();
    }
    if let Some(items) = schema.get("items") {
        return format!("array of: {}", kind(items));
    }
    if schema.get("anyOf").is_some() {
        return shapes(schema).into_iter().map(kind).collect::<Vec<_>>().join("; or ");
    }
    match schema.get("additionalProperties").filter(|any| any.is_object()) {
        Some(any) => format!("table of: {}", kind(any)),
        None => "table, see below".to_owned(),
    }
}

fn default(schema: &Value) -> String {
    match (schema.get("x-default").and_then(Value::as_str), schema.get("default")) {
        (Some(words), _) => words.to_owned(),
        (None, Some(value)) => format!("`{value}`"),
        (None, None) => String::new(),
    }
}

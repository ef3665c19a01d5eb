//! Compares the parsed text with the schema: unknown keys, and arrays or tables in the wrong place.
//!
//! Wrong parts are reported and removed, so that later steps do not meet them.

use std::collections::BTreeMap;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use crate::kind::{Refusal, quoted};
use crate::nearest::nearest;
use crate::report::Report;
use crate::table::Node;

/// Keeps the parts of `table` that the schema allows.
pub(crate) fn prune<'t>(table: DeTable<'t>, schema: &Value, report: &mut Report<'_>) -> DeTable<'t> {
    Pruner { root: schema, report }.table(table, schema, "")
}

struct Pruner<'r, 't> {
    root: &'r Value,
    report: &'r mut Report<'t>,
}

impl Pruner<'_, '_> {
    fn table<'t>(&mut self, table: DeTable<'t>, schema: &Value, parent: &str) -> DeTable<'t> {
        let mut kept = DeTable::new();
        for (key, value) in table {
            let path = join(parent, key.get_ref());
            let is_table = value.get_ref().is_table();
            self.report.note(&path, key.span().start, value.span().start);
            match member(schema, key.get_ref(), is_table) {
                None => self.unknown(&path, parent, &key, schema),
                // TOML reads a name with dots as nested tables.
                Some(any)
                    if value.get_ref().as_table().is_some_and(|named| names_values(schema, any, named)) =>
                {
                    let remedy = "expected quotes around a name with dots: \"sip.example.com\" = ...";
                    self.report.key_problem(&path, remedy);
                }
                Some(schema) => {
                    if let Some(value) = self.value(value, schema, &path, key.span().start) {
                        kept.insert(key, value);
                    }
                }
            }
        }
        kept
    }

    fn value<'t>(
        &mut self,
        value: Node<'t>,
        schema: &Value,
        path: &str,
        key_start: usize,
    ) -> Option<Node<'t>> {
        let span = value.span();
        let shapes = shapes(schema);
        let table = shapes.iter().find(|shape| is_table(shape));
        let items = shapes.iter().find_map(|shape| shape.get("items"));
        let has_leaf = shapes.iter().any(|shape| !is_table(shape) && shape.get("items").is_none());
        // Secrets are not shown in messages, even if they are in the wrong place.
        let any = schema.get("additionalProperties");
        let are_secret = |schema: &Value| self::shapes(schema).into_iter().any(is_secret);
        let secret = are_secret(schema) || items.or(any).is_some_and(are_secret);
        let shown = if secret { 0..0 } else { span.clone() };
        let refusal = match value.into_inner() {
            DeValue::Table(members) => match table {
                Some(schema) => {
                    return Some(Spanned::new(span, DeValue::Table(self.table(members, schema, path))));
                }
                None if has_leaf => return Some(Spanned::new(span, DeValue::Table(members))),
                None => no_array(path, items),
            },
            DeValue::Array(array) => match items {
                Some(schema) => {
                    return Some(Spanned::new(span, DeValue::Array(self.array(array, schema, path))));
                }
                None if has_leaf => return Some(Spanned::new(span, DeValue::Array(array))),
                None => no_table(path, schema),
            },
            DeValue::Datetime(_) => Refusal::new("no key has a date or a time as its value"),
            DeValue::Integer(number) if i64::from_str_radix(number.as_str(), number.radix()).is_err() => {
                Refusal::new("expected a number of at most 64 bits")
            }
            leaf if has_leaf => return Some(Spanned::new(span, leaf)),
            DeValue::String(text) if items.is_some_and(|items| !is_table(items)) && !secret => {
                Refusal::new("expected an array").meant(format!("[{}]", quoted(&text)))
            }
            _ if items.is_some() => no_array(path, items),
            _ => no_table(path, schema),
        };
        // The place of a table, and of its key, is its header.
        self.report.shape_problem(path, span.start.max(key_start), &shown, refusal);
        None
    }

    fn array<'t>(&mut self, array: DeArray<'t>, schema: &Value, parent: &str) -> DeArray<'t> {
        let mut kept = DeArray::default();
        for (index, item) in array.into_iter().enumerate() {
            let path = format!("{parent}[{index}]");
            let start = item.span().start;
            self.report.note(&path, start, start);
            if let Some(item) = self.value(item, schema, &path, start) {
                kept.push(item);
            }
        }
        kept
    }

    fn unknown(&mut self, path: &str, parent: &str, key: &Spanned<DeString<'_>>, schema: &Value) {
        let known: Vec<&str> = members(schema).collect();
        let mut meant = nearest(key.get_ref(), known.iter().copied()).map(str::to_owned);
        if let Some(near) = &meant {
            self.report.explain(join(parent, near));
        } else {
            meant = find(self.root, key.get_ref(), "");
        }
        let place = match parent {
            _ if known.is_empty() => format!("`{parent}` contains tables only"),
            "" => format!("the file has {}", known.join(", ")),
            _ => format!("`{parent}` has {}", known.join(", ")),
        };
        let meant = meant.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default();
        let remedy = if parent == "listen" && &**key.get_ref() == "sctp" {
            "listeners exist for UDP, TCP, TLS and WebSocket, not for SCTP; remove this key".to_owned()
        } else {
            format!("unknown key; {place}{meant}")
        };
        self.report.key_problem(path, remedy);
    }
}

/// Text if an array of `items` is expected. An array of tables is written with headers.
fn no_array(path: &str, items: Option<&Value>) -> Refusal {
    Refusal::new(if items.is_some_and(is_table) && !path.contains('.') {
        format!("expected an array of tables: each under its own [[{path}]]")
    } else {
        "expected an array: [ ... ]".to_owned()
    })
}

/// Text if a table is expected.
fn no_table(path: &str, schema: &Value) -> Refusal {
    let named_by_user = schema.get("additionalProperties").is_some_and(is_table);
    Refusal::new(if path.ends_with(']') {
        "expected a table: { ... }".to_owned()
    } else if named_by_user {
        format!("expected a table with a name: [{path}.<name>]")
    } else {
        format!("expected a table: [{path}]")
    })
}

/// Dotted path of a key, quoted as TOML requires.
pub(crate) fn join(parent: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let key = if bare { key.to_owned() } else { quoted(key) };
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}

/// The tables below `parent` in the order of the file, with their paths.
pub(crate) fn in_order<'r, T>(
    parent: &str,
    tables: &'r BTreeMap<String, T>,
    report: &mut Report<'_>,
) -> Vec<(&'r str, String, &'r T)> {
    let mut tables: Vec<_> =
        tables.iter().map(|(name, table)| (name.as_str(), join(parent, name), table)).collect();
    tables.sort_by_key(|(_, path, _)| report.place(path));
    for (name, path, _) in &tables {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            report.key_problem(path, "expected a name of letters, digits, - and _");
        }
    }
    tables
}

/// The alternatives of a schema, usually one.
pub(crate) fn shapes(schema: &Value) -> Vec<&Value> {
    match schema.get("anyOf").and_then(Value::as_array) {
        Some(alternatives) => alternatives.iter().collect(),
        None => vec![schema],
    }
}

pub(crate) fn is_table(shape: &Value) -> bool {
    shape.get("type").is_some_and(|kind| kind == "object")
}

/// Whether the user chooses the keys of a table, and its entries are plain values. `value` is the schema of an entry. A
/// table counts as a plain value if it stands for a secret and has none of the keys of `read`.
fn names_values(table: &Value, value: &Value, read: &DeTable<'_>) -> bool {
    let is_named = table.get("additionalProperties").is_some_and(Value::is_object);
    let has_secret = shapes(value).into_iter().any(is_secret);
    let is_other =
        |shape: &Value| read.iter().all(|(key, _)| members(shape).all(|known| known != &**key.get_ref()));
    is_named && shapes(value).into_iter().all(|shape| !is_table(shape) || (has_secret && is_other(shape)))
}

fn is_secret(shape: &Value) -> bool {
    shape.get("writeOnly").is_some()
}

/// Schema of a table's key. If the user chooses the names of tables, `key` may be one whose name was forgotten.
fn member<'s>(schema: &'s Value, key: &str, is_table: bool) -> Option<&'s Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(key));
    let any = schema.get("additionalProperties").filter(|any| any.is_object());
    named.or_else(|| any.filter(|any| is_table || members(any).all(|known| known != key)))
}

fn members(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key.as_str())
}

/// Another place in the file where `key` would be right.
fn find(schema: &Value, key: &str, path: &str) -> Option<String> {
    if members(schema).any(|known| known == key) {
        return Some(join(path, key));
    }
    let named = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let any = schema.get("additionalProperties").filter(|any| is_table(any));
    named
        .map(|(name, child)| (join(path, name), child))
        .chain(any.map(|child| (format!("{path}.<name>"), child)))
        .find_map(|(path, child)| find(child, key, &path))
}

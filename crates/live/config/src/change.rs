//! A single value that is set in a file before it is checked, as `--vary` does.

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde_json::Value as Schema;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::nearest::nearest;
use crate::structure::{is_table, join, shapes};
use crate::table::Node;

/// A TOML value from outside a file, such as from a command line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Value(toml::Value);

impl Value {
    /// Reads a value in the notation of TOML. Other text is a string, which needs no quotes here.
    ///
    /// # Errors
    /// The text is empty, or is the start of a string, an array or a table without an end.
    pub fn read(written: &str) -> Result<Self, String> {
        let written = written.trim();
        match written.parse() {
            Ok(value) => Ok(Self(value)),
            Err(_) if written.is_empty() => Err("expected a value".to_owned()),
            Err(mistake) if written.starts_with(['"', '\'', '[', '{']) => {
                Err(format!("{written} is not valid TOML: {}", mistake.message()))
            }
            Err(_) => Ok(Self(written.into())),
        }
    }

    /// The number and its unit, which is empty for a plain number: `"10ms"` is 10 and `ms`. `None` if the value is not
    /// a quantity.
    pub fn quantity(&self) -> Option<(f64, &str)> {
        match &self.0 {
            toml::Value::Integer(number) => Some((*number as f64, "")),
            toml::Value::Float(number) if number.is_finite() => Some((*number, "")),
            toml::Value::String(text) => {
                let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
                let (number, unit) = text.split_at(end);
                let is_unit = unit == "%" || unit.bytes().all(|byte| byte.is_ascii_alphabetic());
                Some((number.parse().ok()?, unit)).filter(|_| is_unit)
            }
            _ => None,
        }
    }

    /// The value in the notation of TOML.
    pub fn toml(&self) -> String {
        self.0.to_string()
    }
}

/// Text without quotes, as [`Value::read`] reads it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            toml::Value::String(text) => f.write_str(text),
            other => other.fmt(f),
        }
    }
}

/// A key and its new value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'c> {
    /// Dotted path, as in [`Problem::key`](crate::Problem::key).
    pub(crate) key: &'c str,
    pub(crate) value: &'c Value,
}

/// The reason why a value has no place in a file: a key, and the remedy.
pub(crate) type Refused = (String, String);

impl Change<'_> {
    /// A line of TOML with the value.
    pub(crate) fn line(&self) -> String {
        format!("value = {}", self.value.toml())
    }

    /// Puts the value of a parsed [`line`](Self::line) into the document, over an existing one. Missing tables are
    /// created, unless the user chooses their names: then the name is probably misspelled.
    pub(crate) fn apply<'t>(
        &self,
        document: DeTable<'t>,
        mut line: DeTable<'t>,
        schema: &Schema,
    ) -> Result<DeTable<'t>, Refused> {
        let steps = steps(self.key).ok_or_else(|| {
            let remedy = "expected names separated by dots, and [0], [1], ... for items of arrays";
            (self.key.to_owned(), remedy.to_owned())
        })?;
        let value = line.remove("value").expect("the line has the key `value`");
        let mut root = Spanned::new(0..0, DeValue::Table(document));
        let span = value.span();
        *place(&mut root, schema, &steps, &span)? = value;
        match root.into_inner() {
            DeValue::Table(document) => Ok(document),
            _ => unreachable!("a key starts with a name, so the root stays a table"),
        }
    }
}

/// A part of a key.
#[derive(Debug, PartialEq)]
enum Step {
    Name(String),
    Item(usize),
}

/// The parts of a key; `None` if it is malformed. Names may be quoted, as in TOML.
fn steps(key: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = key;
    loop {
        let name;
        (name, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return None;
        }
        steps.push(Step::Name(name.to_owned()));
        while let Some(item) = rest.strip_prefix('[') {
            let (index, after) = item.split_once(']')?;
            steps.push(Step::Item(index.parse().ok()?));
            rest = after;
        }
        if rest.is_empty() {
            return Some(steps);
        }
        rest = rest.strip_prefix('.')?;
    }
}

/// The place of a key's value, which is created if the document does not have it. Tables that are created for it get
/// the position of the value in the text.
fn place<'n, 't>(
    mut node: &'n mut Node<'t>,
    mut schema: &Schema,
    steps: &[Step],
    span: &Range<usize>,
) -> Result<&'n mut Node<'t>, Refused> {
    let mut path = String::new();
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Name(name) => {
                let table = match node.get_mut() {
                    DeValue::Table(table) => table,
                    DeValue::Array(_) => {
                        return Err((
                            join(&path, name),
                            format!("expected an item: `{}`", join(&format!("{path}[0]"), name)),
                        ));
                    }
                    _ => return Err((join(&path, name), format!("`{path}` is a value and has no keys"))),
                };
                let next = steps.get(at + 1);
                path = join(&path, name);
                if !table.contains_key(name.as_str()) {
                    may_be_made(&path, name, next, table, schema)?;
                    let made = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
                    table.insert(Spanned::new(span.clone(), DeString::Owned(name.clone())), made);
                }
                schema = member(schema, name);
                node = table.get_mut(name.as_str()).expect("inserted above if it was absent");
            }
            Step::Item(index) => {
                let items = match node.get_mut() {
                    DeValue::Array(items) => items.as_mut(),
                    _ => &mut [],
                };
                let held = items.len();
                node = items.get_mut(*index).ok_or_else(|| refused_item(&path, *index, held))?;
                path = format!("{path}[{index}]");
                schema = shapes(schema).iter().find_map(|shape| shape.get("items")).unwrap_or(&Schema::Null);
            }
        }
    }
    if names_are_the_users(schema) {
        return Err((
            path,
            "expected a key of one of its tables: all of them are more than one value".to_owned(),
        ));
    }
    Ok(node)
}

/// Whether the user chooses the keys of a table.
fn names_are_the_users(schema: &Schema) -> bool {
    schema.get("additionalProperties").is_some_and(is_table)
}

/// Whether a missing key may be created in a table, with `next` below it.
fn may_be_made(
    path: &str,
    name: &str,
    next: Option<&Step>,
    table: &DeTable<'_>,
    schema: &Schema,
) -> Result<(), Refused> {
    match next {
        None => Ok(()),
        Some(Step::Item(index)) => Err(refused_item(path, *index, 0)),
        Some(Step::Name(_)) => {
            if !names_are_the_users(schema) {
                return Ok(());
            }
            let known: Vec<&str> = table.keys().map(|key| key.get_ref().as_ref()).collect();
            let meant = nearest(name, known.iter().copied());
            let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            Err((path.to_owned(), format!("unknown name; the file has {}{meant}", known.join(", "))))
        }
    }
}

fn refused_item(array: &str, index: usize, held: usize) -> Refused {
    let remedy = match held {
        0 => format!("the file has no array `{array}`"),
        1 => format!("the file has `{array}[0]` alone"),
        _ => format!("the file has `{array}[0]` to `{array}[{}]`", held - 1),
    };
    (format!("{array}[{index}]"), remedy)
}

/// Schema of a table's key; `null` if the table has no such key.
fn member<'s>(schema: &'s Schema, name: &str) -> &'s Schema {
    let table = shapes(schema).into_iter().find(|shape| is_table(shape));
    table
        .and_then(|table| {
            table.get("properties").and_then(|keys| keys.get(name)).or(table.get("additionalProperties"))
        })
        .unwrap_or(&Schema::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_names_and_indices() {
        let name = |name: &str| Step::Name(name.to_owned());
        assert_eq!(steps("run"), Some(vec![name("run")]));
        let deep = vec![name("calls"), name("a-b_1"), name("load"), Step::Item(12), name("rate")];
        assert_eq!(steps("calls.a-b_1.load[12].rate"), Some(deep));
        assert_eq!(steps("host.\"a.b\".x"), Some(vec![name("host"), name("a.b"), name("x")]));
        assert_eq!(steps("a[0][1]"), Some(vec![name("a"), Step::Item(0), Step::Item(1)]));
        for wrong in ["", ".", "a.", ".a", "a..b", "[0]", "a[", "a[]", "a[x]", "a[-1]", "a[0]b", "\"a", "a b"]
        {
            assert_eq!(steps(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn text_needs_no_quotes() {
        let toml = |written| Value::read(written).unwrap().toml();
        assert_eq!(
            ["300", " 2.5 ", "true", "5%", "10ms"].map(toml),
            ["300", "2.5", "true", "\"5%\"", "\"10ms\""]
        );
        assert_eq!(["exp:100s", "\"300\"", "'a'"].map(toml), ["\"exp:100s\"", "\"300\"", "\"a\""]);
        assert_eq!(toml("[100, 60]"), "[100, 60]");
        assert_eq!(toml("{ local = \"delay\" }"), "{ local = \"delay\" }");
        assert_eq!(Value::read("tlwl").unwrap().to_string(), "tlwl");
        for wrong in ["", " ", "\"a", "[1, 2", "{ a = }"] {
            assert!(Value::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_quantity_is_a_number_and_a_unit() {
        let value = |written| Value::read(written).unwrap();
        for (written, number, unit) in
            [("300", 300.0, ""), ("2.5", 2.5, ""), ("5%", 5.0, "%"), ("10ms", 10.0, "ms")]
        {
            assert_eq!(value(written).quantity(), Some((number, unit)));
        }
        for other in ["tlwl", "true", "exp:100s", "[1]", "nan", "%", "1.2.3s", "3:4"] {
            assert_eq!(value(other).quantity(), None, "{other}");
        }
    }
}

//! The tables of a file as data: [`table!`] declares each key once; reading, schema, reference and defaults are made
//! from it.
//!
//! ```text
//! table! {
//!     let StopSettings { wait } = StopSettings::default();       // The source of the defaults.
//!
//!     /// Effect of SIGTERM.                                      // The text of the reference about the table ...
//!     struct RawStop {
//!         /// Longest wait for calls in progress.                 // ... and about a key.
//!         wait: Setting<Time<0, DAY>> = wait,                     // A key with a default, as a typed value.
//!         /// Receiver of a notice.
//!         tell: Option<Setting<Text>> => "none",                  // A key without: the meaning of its absence.
//!         /// Where to go.
//!         to: Vec<Setting<Text>> where { "minItems": 1 } => REQUIRED, // A required key, with a limit.
//!     }
//! }
//! ```
//!
//! A declaration becomes a struct with these fields, its `Default`, and its [`Table`]. A key that is a Rust keyword is
//! written `r#move`. A table for several ports is `struct RawListener<PORT>`. The code that is generated for a key is
//! one call; everything else is written once, in functions of this file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toml::de::{DeString, DeTable, DeValue};

use crate::kind::Schema;
use crate::report::Report;

/// A part of the file, with its place.
pub(crate) type Node<'t> = toml::Spanned<DeValue<'t>>;

/// Pattern of the names of tables that the user chooses.
pub(crate) const NAME: &str = "^[-_0-9A-Za-z]+$";

/// The form of a key's value: one value, several, or a table.
pub(crate) trait Shape: Sized {
    /// JSON schema of the value.
    fn schema() -> Schema;

    /// Reads the value of a key, whose form the schema has checked already. A wrong value is reported.
    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self;

    /// The value in the notation of the file, if it is a default; `None` if there is nothing to write.
    fn written(&self) -> Option<Value> {
        None
    }
}

/// A shape whose default is made from a typed value.
pub(crate) trait Defaulted: Shape {
    /// Type of the value in the program.
    type Value;

    /// Makes the default.
    fn of(value: Self::Value) -> Self;
}

/// A table whose keys are known.
pub(crate) trait Table: Default {
    /// JSON schema of the table.
    fn schema() -> Schema;

    /// Reads the value of one key.
    fn set(&mut self, key: &str, node: Node<'_>, report: &mut Report<'_>);

    /// Reads the keys that `table` has; all others get their defaults.
    fn from_keys(table: DeTable<'_>, report: &mut Report<'_>) -> Self {
        let mut read = Self::default();
        for (key, node) in table {
            read.set(key.get_ref(), node, report);
        }
        read
    }
}

/// The meaning of an absent key without a default value.
pub(crate) enum Absent {
    /// The key is required.
    Required,
    /// The meaning, as text.
    Means(Cow<'static, str>),
}

/// The key is required.
pub(crate) const REQUIRED: Absent = Absent::Required;

impl From<&'static str> for Absent {
    fn from(words: &'static str) -> Self {
        Self::Means(words.into())
    }
}

impl From<String> for Absent {
    fn from(words: String) -> Self {
        Self::Means(words.into())
    }
}

/// A key in the schema of its table.
pub(crate) struct Key {
    /// Rust name of the field: the key, with `r#` if it is a keyword.
    pub(crate) field: &'static str,
    /// Doc comment of the key; empty if its value is a table, which has its own.
    pub(crate) about: &'static str,
    /// Schema of its value.
    pub(crate) schema: Schema,
    /// Default of the key; ignored if `absent` is set.
    pub(crate) default: Option<Value>,
    /// Further limits as schema keywords, such as `minItems`.
    pub(crate) limits: Option<Value>,
    /// Meaning of its absence, if that is not the default.
    pub(crate) absent: Option<Absent>,
}

/// Whether `key` is the key of a field.
pub(crate) fn is_key(field: &str, key: &str) -> bool {
    bare(field) == key
}

fn bare(field: &str) -> &str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Makes the schema of a table with these keys; `more` has further keywords.
pub(crate) fn schema(about: &str, more: Option<Value>, keys: Vec<Key>) -> Schema {
    let mut required = Vec::new();
    let mut properties = Map::new();
    for key in keys {
        let name = bare(key.field).to_owned();
        if let Some(Absent::Required) = key.absent {
            required.push(name.clone());
        }
        properties.insert(name, property(key));
    }
    let mut table = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    extend(&mut table, more);
    described(table, about)
}

fn property(key: Key) -> Schema {
    let mut schema = described(key.schema, key.about);
    extend(&mut schema, key.limits);
    match (key.absent, key.default) {
        (Some(Absent::Means(words)), _) => schema["x-default"] = json!(words),
        (None, Some(default)) => schema["default"] = default,
        (Some(Absent::Required), _) | (None, None) => {}
    }
    schema
}

fn extend(schema: &mut Schema, more: Option<Value>) {
    if let (Some(schema), Some(Value::Object(more))) = (schema.as_object_mut(), more) {
        schema.extend(more);
    }
}

/// Moves title and description of `schema` to its start. If `about` is empty, its own description stays.
fn described(mut schema: Schema, about: &str) -> Schema {
    let mut words = Map::new();
    if let Some(rest) = schema.as_object_mut() {
        words.extend(rest.shift_remove_entry("title"));
        let own = rest.shift_remove_entry("description");
        match about.trim() {
            "" => words.extend(own),
            about => words.extend([("description".to_owned(), about.into())]),
        }
        words.append(rest);
    }
    Value::Object(words)
}

/// A table is a shape, too.
impl<T: Table> Shape for T {
    fn schema() -> Schema {
        T::schema()
    }

    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self {
        match node.into_inner() {
            DeValue::Table(table) => T::from_keys(table, report),
            _ => T::default(),
        }
    }
}

/// An array.
impl<T: Shape> Shape for Vec<T> {
    fn schema() -> Schema {
        json!({ "type": "array", "items": T::schema() })
    }

    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self {
        match node.into_inner() {
            DeValue::Array(items) => items.into_iter().map(|item| T::read(item, report)).collect(),
            _ => Self::new(),
        }
    }

    fn written(&self) -> Option<Value> {
        Some(self.iter().filter_map(T::written).collect())
    }
}

/// A table whose keys the user chooses.
impl<T: Shape> Shape for BTreeMap<String, T> {
    fn schema() -> Schema {
        json!({ "type": "object", "additionalProperties": T::schema() })
    }

    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self {
        match node.into_inner() {
            DeValue::Table(table) => {
                let member = |(key, node): (toml::Spanned<DeString<'_>>, _)| {
                    (key.into_inner().into_owned(), T::read(node, report))
                };
                table.into_iter().map(member).collect()
            }
            _ => Self::new(),
        }
    }
}

/// A key that may be absent.
impl<T: Shape> Shape for Option<T> {
    fn schema() -> Schema {
        T::schema()
    }

    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self {
        Some(T::read(node, report))
    }

    fn written(&self) -> Option<Value> {
        self.as_ref().and_then(T::written)
    }
}

impl<T: Defaulted> Defaulted for Vec<T> {
    type Value = Vec<T::Value>;

    fn of(values: Vec<T::Value>) -> Self {
        values.into_iter().map(T::of).collect()
    }
}

/// Declares tables; this file's first lines show how.
macro_rules! table {
    (@default $Shape:ty) => { <$Shape as Default>::default() };
    (@default $Shape:ty, $value:expr) => { <$Shape as $crate::table::Defaulted>::of($value) };
    (@json) => { None };
    (@json $more:tt) => { Some(serde_json::json!($more)) };
    (@absent) => { None };
    (@absent $absent:expr) => { Some($crate::table::Absent::from($absent)) };
    ($(
        $(let $pattern:pat = $owner:expr;)*
        $(#[doc = $about:literal])+
        struct $Table:ident $(<$PORT:ident>)? $(where $more:tt)? {$(
            $(#[doc = $doc:literal])*
            $key:ident: $Shape:ty $(where $limits:tt)? $(= $default:expr)? $(=> $absent:expr)?,
        )+}
    )+) => {$(
        $(#[doc = $about])+
        pub(crate) struct $Table $(<const $PORT: u16>)? {$(
            $(#[doc = $doc])*
            pub(crate) $key: $Shape,
        )+}

        impl $(<const $PORT: u16>)? Default for $Table $(<$PORT>)? {
            fn default() -> Self {
                $(let $pattern = $owner;)*
                Self {$( $key: table!(@default $Shape $(, $default)?), )+}
            }
        }

        impl $(<const $PORT: u16>)? $crate::table::Table for $Table $(<$PORT>)? {
            fn schema() -> $crate::kind::Schema {
                let usual = Self::default();
                let keys = vec![$( $crate::table::Key {
                    field: stringify!($key),
                    about: concat!($($doc),*),
                    schema: <$Shape as $crate::table::Shape>::schema(),
                    default: $crate::table::Shape::written(&usual.$key),
                    limits: table!(@json $($limits)?),
                    absent: table!(@absent $($absent)?),
                }, )+];
                $crate::table::schema(concat!($($about),+), table!(@json $($more)?), keys)
            }

            fn set(&mut self, key: &str, node: $crate::table::Node<'_>, report: &mut $crate::report::Report<'_>) {
                $(if $crate::table::is_key(stringify!($key), key) {
                    self.$key = $crate::table::Shape::read(node, report);
                    return;
                })+
                // The schema has no other key, and keys that it does not have were removed.
                drop(node);
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Count, Flag, SECOND, Text, Time};
    use crate::setting::Setting;
    use std::time::Duration;

    table! {
        let usual = Duration::from_millis(250);

        /// A table
        /// of a test.
        struct Trial where { "title": "trial" } {
            /// How long.
            wait: Setting<Time<0, SECOND>> = usual,
            /// Target of the move.
            r#move: Option<Setting<Text>> => "none",
            /// How many.
            several: Vec<Setting<Count<0, 9>>> where { "minItems": 1 } => REQUIRED,
            inner: Inner,
            named: BTreeMap<String, Inner>,
        }

        /// A table in it.
        struct Inner {
            /// Whether.
            flag: Setting<Flag> = true,
        }
    }

    fn read(text: &str) -> Trial {
        let document = DeTable::parse(text).expect("the test's text is TOML");
        Table::from_keys(document.into_inner(), &mut Report::new(text, text.len()))
    }

    #[test]
    fn a_schema_has_all_facts_of_each_declaration() {
        let flag = json!({
            "description": "A table in it.",
            "type": "object",
            "properties": {
                "flag": { "title": "true or false", "description": "Whether.", "type": "boolean", "default": true },
            },
            "additionalProperties": false,
        });
        let schema = <Trial as Table>::schema();
        assert_eq!(schema["title"], "trial");
        assert_eq!(schema["description"], "A table of a test.");
        assert_eq!(schema["required"], json!(["several"]));
        let keys: Vec<_> = schema["properties"].as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["wait", "move", "several", "inner", "named"]);
        assert_eq!(schema["properties"]["wait"]["default"], "250ms");
        assert_eq!(schema["properties"]["move"]["x-default"], "none");
        assert_eq!(schema["properties"]["several"]["minItems"], 1);
        assert_eq!(schema["properties"]["several"].get("default"), None);
        assert_eq!(schema["properties"]["inner"], flag);
        assert_eq!(schema["properties"]["named"]["additionalProperties"], flag);
    }

    #[test]
    fn absent_keys_have_their_defaults() {
        let trial = read("move = \"a\"\nseveral = [1, 2]\n[inner]\nflag = false\n[named.x]");
        assert_eq!(trial.wait.value(), Some(Duration::from_millis(250)));
        assert!(!trial.wait.is_set());
        assert_eq!(
            trial.r#move.map(|setting| (setting.value(), setting.span)),
            Some((Some("a".to_owned()), 7..10))
        );
        assert_eq!(trial.several.iter().map(Setting::value).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert_eq!(trial.inner.flag.value(), Some(false));
        assert_eq!(trial.named["x"].flag.value(), Some(true));
    }
}

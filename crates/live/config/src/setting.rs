//! One value as the file has it, with its place, before anyone has judged it.
//!
//! A wrong type must not stop the reading at the first mistake, so a [`Setting`] takes any TOML value; its
//! [`Kind`] judges it later, when all the others are at hand too.

use std::marker::PhantomData;
use std::ops::Range;

use serde_json::{Value, json};
use toml::de::{DeArray, DeValue};

use crate::document::Node;
use crate::kind::{Kind, Written};
use crate::table::{Defaulted, Schema, Shape};

/// A TOML value that is neither array nor table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Leaf {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    /// An array or a table: wrong for every kind.
    Other,
}

impl Leaf {
    /// The value of a key or of an array's item. A number of more than 64 bits has been reported before.
    fn read(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).map_or(Self::Other, Self::Integer)
            }
            DeValue::Float(number) => number.as_str().parse().map_or(Self::Other, Self::Float),
            DeValue::Boolean(flag) => Self::Flag(*flag),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => Self::Other,
        }
    }

    /// As JSON has it.
    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Integer(number) => json!(number),
            Self::Float(number) => json!(number),
            Self::Flag(flag) => json!(flag),
            Self::Other => Value::Null,
        }
    }
}

impl From<&str> for Leaf {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Leaf {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for Leaf {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Leaf {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// A leaf and the bytes of the file that hold it; the range is empty for a default.
pub(crate) struct Setting<K> {
    pub(crate) leaf: Leaf,
    pub(crate) span: Range<usize>,
    kind: PhantomData<K>,
}

impl<K> Setting<K> {
    fn new(leaf: Leaf, span: Range<usize>) -> Self {
        Self { leaf, span, kind: PhantomData }
    }

    /// Whether the file has it; otherwise it is a default.
    pub(crate) fn is_set(&self) -> bool {
        !self.span.is_empty()
    }
}

/// An array item: either one value, or a table that says more about it.
pub(crate) enum Entry<K, T> {
    Plain(Setting<K>),
    Table(T),
}

/// One value, or an array of values that may be of another kind.
pub(crate) enum Several<K, I = K> {
    One(Setting<K>),
    Many(Vec<Setting<I>>),
}

/// One value, an array of values, or a table that says more.
pub(crate) enum Listed<K, T, I = Setting<K>> {
    One(Setting<K>),
    Many(Vec<I>),
    Table(T),
}

impl<K: Kind> Shape for Setting<K> {
    fn schema() -> Schema {
        K::schema()
    }

    fn read(node: Node<'_>) -> Self {
        Self::new(Leaf::read(node.get_ref()), node.span())
    }

    fn written(&self) -> Option<Value> {
        Some(self.leaf.json())
    }
}

impl<K: Written> Defaulted for Setting<K> {
    type Value = K::Value;

    fn of(value: K::Value) -> Self {
        Self::new(K::written(value), 0..0)
    }
}

fn items<I: Shape>(array: DeArray<'_>) -> Vec<I> {
    array.into_iter().map(I::read).collect()
}

fn any_of<const N: usize>(shapes: [Schema; N]) -> Schema {
    json!({ "anyOf": Vec::from(shapes) })
}

fn array_of<I: Shape>() -> Schema {
    json!({ "type": "array", "minItems": 1, "items": I::schema() })
}

impl<K: Kind, T: Shape> Shape for Entry<K, T> {
    fn schema() -> Schema {
        any_of([K::schema(), T::schema()])
    }

    fn read(node: Node<'_>) -> Self {
        match node.get_ref() {
            DeValue::Table(_) => Self::Table(T::read(node)),
            _ => Self::Plain(Setting::read(node)),
        }
    }

    fn written(&self) -> Option<Value> {
        None
    }
}

impl<K: Kind, I: Kind> Shape for Several<K, I> {
    fn schema() -> Schema {
        any_of([K::schema(), array_of::<Setting<I>>()])
    }

    fn read(node: Node<'_>) -> Self {
        let span = node.span();
        match node.into_inner() {
            DeValue::Array(array) => Self::Many(items(array)),
            value => Self::One(Setting::new(Leaf::read(&value), span)),
        }
    }

    fn written(&self) -> Option<Value> {
        match self {
            Self::One(setting) => setting.written(),
            Self::Many(settings) => settings.written(),
        }
    }
}

impl<K: Written, I: Kind> Defaulted for Several<K, I> {
    type Value = K::Value;

    fn of(value: K::Value) -> Self {
        Self::One(Setting::of(value))
    }
}

impl<K: Kind, T: Shape, I: Shape> Shape for Listed<K, T, I> {
    fn schema() -> Schema {
        any_of([K::schema(), array_of::<I>(), T::schema()])
    }

    fn read(node: Node<'_>) -> Self {
        let span = node.span();
        match node.into_inner() {
            DeValue::Array(array) => Self::Many(items(array)),
            table @ DeValue::Table(_) => Self::Table(T::read(Node::new(span, table))),
            value => Self::One(Setting::new(Leaf::read(&value), span)),
        }
    }

    fn written(&self) -> Option<Value> {
        None
    }
}

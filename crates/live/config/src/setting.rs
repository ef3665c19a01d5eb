//! One value of the file, with its place and its typed value by its [`Kind`].
//!
//! Reading must not stop at the first mistake. So a [`Setting`] takes any TOML value, and reports a value that its kind
//! refuses.

use std::ops::Range;

use serde_json::{Value, json};
use toml::de::{DeArray, DeValue};

use crate::kind::{Kind, Leaf, Schema, Written};
use crate::report::{Placed, Report};
use crate::table::{Defaulted, Node, Shape, Table};

/// A value of the kind `K`, and its place in the file, in bytes; the range is empty for a default.
pub(crate) struct Setting<K: Kind> {
    pub(crate) leaf: Leaf,
    pub(crate) span: Range<usize>,
    /// `None` if the value is not of its kind, which has been reported.
    value: Option<K::Value>,
}

impl<K: Kind> Setting<K> {
    fn read(leaf: Leaf, span: Range<usize>, report: &mut Report<'_>) -> Self {
        let value = report.judge::<K>(&leaf, &span);
        Self { leaf, span, value }
    }

    /// Returns the typed value; `None` if it is wrong, which has been reported.
    pub(crate) fn value(&self) -> Option<K::Value> {
        self.value.clone()
    }

    /// Whether the value is from the file; otherwise it is a default.
    pub(crate) fn is_set(&self) -> bool {
        !self.span.is_empty()
    }
}

/// The typed value of an optional key: `Some(None)` if it is absent, `None` if it is wrong.
#[expect(clippy::option_option, reason = "`None`: the value is wrong; `Some(None)`: the key is absent")]
pub(crate) fn given<K: Kind>(setting: Option<&Setting<K>>) -> Option<Option<K::Value>> {
    setting.map_or(Some(None), |setting| setting.value().map(Some))
}

impl<K: Kind> Placed for Setting<K> {
    fn span(&self) -> &Range<usize> {
        &self.span
    }
}

/// One value, or a table in its place.
pub(crate) enum Entry<K: Kind, T> {
    Plain(Setting<K>),
    Table(T),
}

/// A table with a short form: one of its values alone.
pub(crate) trait Short: Table {
    /// Kind of the short form.
    type Main: Kind;

    fn main(&mut self) -> &mut Option<Setting<Self::Main>>;
}

/// An array item: a table, or its short form.
pub(crate) struct Item<T>(pub(crate) T);

/// One value, or an array of values that may be of another kind.
pub(crate) enum Several<K: Kind, I: Kind = K> {
    One(Setting<K>),
    Many(Vec<Setting<I>>),
}

/// One value, an array of values, or a table.
pub(crate) enum Listed<K: Kind, T, I = Setting<K>> {
    One(Setting<K>),
    Many(Vec<I>),
    Table(T),
}

impl<K: Kind> Shape for Setting<K> {
    fn schema() -> Schema {
        K::schema()
    }

    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self {
        Self::read(Leaf::read(node.get_ref()), node.span(), report)
    }

    fn written(&self) -> Option<Value> {
        Some(self.leaf.json())
    }
}

impl<K: Written> Defaulted for Setting<K> {
    type Value = K::Value;

    fn of(value: K::Value) -> Self {
        let leaf = K::written(value.clone());
        debug_assert!(K::read(&leaf).is_ok(), "{leaf:?} is the default of a key that does not take it");
        Self { leaf, span: 0..0, value: Some(value) }
    }
}

fn items<I: Shape>(array: DeArray<'_>, report: &mut Report<'_>) -> Vec<I> {
    array.into_iter().map(|item| I::read(item, report)).collect()
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

    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self {
        match node.get_ref() {
            DeValue::Table(_) => Self::Table(T::read(node, report)),
            _ => Self::Plain(Shape::read(node, report)),
        }
    }
}

impl<T: Short> Shape for Item<T> {
    fn schema() -> Schema {
        any_of([T::Main::schema(), <T as Shape>::schema()])
    }

    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self {
        let mut table = T::default();
        match node.get_ref() {
            DeValue::Table(_) => table = T::read(node, report),
            _ => *table.main() = Some(Shape::read(node, report)),
        }
        Self(table)
    }
}

impl<K: Kind, I: Kind> Shape for Several<K, I> {
    fn schema() -> Schema {
        any_of([K::schema(), array_of::<Setting<I>>()])
    }

    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self {
        let span = node.span();
        match node.into_inner() {
            DeValue::Array(array) => Self::Many(items(array, report)),
            value => Self::One(Setting::read(Leaf::read(&value), span, report)),
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

    fn read(node: Node<'_>, report: &mut Report<'_>) -> Self {
        let span = node.span();
        match node.into_inner() {
            DeValue::Array(array) => Self::Many(items(array, report)),
            table @ DeValue::Table(_) => Self::Table(T::read(Node::new(span, table), report)),
            value => Self::One(Setting::read(Leaf::read(&value), span, report)),
        }
    }
}

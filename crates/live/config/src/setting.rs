//! One value as the file has it, with its place, before anyone has judged it.
//!
//! A wrong type must not stop the reading at the first mistake, so a [`Setting`] takes any TOML value; its
//! [`Kind`] judges it later, when all the others are at hand too.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::kind::{Kind, Written};

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
#[derive(Debug, Clone)]
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

impl<K: Written> Setting<K> {
    /// A default that something else than this file owns.
    pub(crate) fn of(value: K::Value) -> Self {
        K::written(value).into()
    }
}

/// A default value.
impl<K, L: Into<Leaf>> From<L> for Setting<K> {
    fn from(leaf: L) -> Self {
        Self::new(leaf.into(), 0..0)
    }
}

/// An array item: either one value, or a table that says more about it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged, bound(serialize = "T: Serialize"))]
pub(crate) enum Entry<K, T> {
    Plain(Setting<K>),
    Table(T),
}

/// One value, or an array of values that may be of another kind.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged, bound(serialize = ""))]
pub(crate) enum Several<K, I = K> {
    One(Setting<K>),
    Many(Vec<Setting<I>>),
}

/// One value, an array of values, or a table that says more.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged, bound(serialize = "T: Serialize, I: Serialize"))]
pub(crate) enum Listed<K, T, I = Setting<K>> {
    One(Setting<K>),
    Many(Vec<I>),
    Table(T),
}

impl<'de, K> Deserialize<'de> for Setting<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<Leaf>::deserialize(deserializer)?;
        let span = spanned.span();
        Ok(Self::new(spanned.into_inner(), span))
    }
}

impl<'de> Deserialize<'de> for Leaf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LeafVisitor)
    }
}

struct LeafVisitor;

impl<'de> Visitor<'de> for LeafVisitor {
    type Value = Leaf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a TOML value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Leaf, E> {
        Ok(text.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Leaf, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Leaf, E> {
        Ok(number.into())
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Leaf, E> {
        Ok(flag.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Leaf, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Leaf::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Leaf, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Leaf::Other)
    }
}

/// What [`Entry`] and [`Several`] hold while its place is still outside.
enum Item<T, A> {
    Plain(Leaf),
    Table(T),
    Array(A),
}

impl<'de, T: Deserialize<'de>, A: Deserialize<'de>> Deserialize<'de> for Item<T, A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor(PhantomData))
    }
}

struct ItemVisitor<T, A>(PhantomData<(T, A)>);

impl<'de, T: Deserialize<'de>, A: Deserialize<'de>> Visitor<'de> for ItemVisitor<T, A> {
    type Value = Item<T, A>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LeafVisitor.expecting(f)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Item<T, A>, E> {
        LeafVisitor.visit_str(text).map(Item::Plain)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Item<T, A>, E> {
        LeafVisitor.visit_i64(number).map(Item::Plain)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Item<T, A>, E> {
        LeafVisitor.visit_f64(number).map(Item::Plain)
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<Item<T, A>, E> {
        LeafVisitor.visit_bool(flag).map(Item::Plain)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, items: S) -> Result<Item<T, A>, S::Error> {
        A::deserialize(SeqAccessDeserializer::new(items)).map(Item::Array)
    }

    fn visit_map<M: MapAccess<'de>>(self, members: M) -> Result<Item<T, A>, M::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(Item::Table)
    }
}

impl<'de, K, T: Deserialize<'de>> Deserialize<'de> for Entry<K, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<Item<T, IgnoredAny>>::deserialize(deserializer)?;
        let span = spanned.span();
        Ok(match spanned.into_inner() {
            Item::Plain(leaf) => Self::Plain(Setting::new(leaf, span)),
            Item::Array(_) => Self::Plain(Setting::new(Leaf::Other, span)),
            Item::Table(table) => Self::Table(table),
        })
    }
}

impl<'de, K, I> Deserialize<'de> for Several<K, I> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<Item<IgnoredAny, Vec<Setting<I>>>>::deserialize(deserializer)?;
        let span = spanned.span();
        Ok(match spanned.into_inner() {
            Item::Plain(leaf) => Self::One(Setting::new(leaf, span)),
            Item::Table(_) => Self::One(Setting::new(Leaf::Other, span)),
            Item::Array(items) => Self::Many(items),
        })
    }
}

impl<'de, K, T: Deserialize<'de>, I: Deserialize<'de>> Deserialize<'de> for Listed<K, T, I> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<Item<T, Vec<I>>>::deserialize(deserializer)?;
        let span = spanned.span();
        Ok(match spanned.into_inner() {
            Item::Plain(leaf) => Self::One(Setting::new(leaf, span)),
            Item::Array(items) => Self::Many(items),
            Item::Table(table) => Self::Table(table),
        })
    }
}

/// Only defaults are ever written: into the schema.
impl<K> Serialize for Setting<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.leaf {
            Leaf::Text(text) => serializer.serialize_str(text),
            Leaf::Integer(number) => serializer.serialize_i64(*number),
            Leaf::Float(number) => serializer.serialize_f64(*number),
            Leaf::Flag(flag) => serializer.serialize_bool(*flag),
            Leaf::Other => serializer.serialize_none(),
        }
    }
}

impl<K: Kind> JsonSchema for Setting<K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Setting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        K::schema()
    }
}

impl<K: Kind, T: JsonSchema> JsonSchema for Entry<K, T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Entry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "anyOf": [K::schema(), generator.subschema_for::<T>()] })
    }
}

impl<K: Kind, T: JsonSchema, I: JsonSchema> JsonSchema for Listed<K, T, I> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Listed".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<I>();
        let array = schemars::json_schema!({ "type": "array", "minItems": 1, "items": items });
        schemars::json_schema!({ "anyOf": [K::schema(), array, generator.subschema_for::<T>()] })
    }
}

impl<K: Kind, I: Kind> JsonSchema for Several<K, I> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Several".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let array = schemars::json_schema!({ "type": "array", "minItems": 1, "items": I::schema() });
        schemars::json_schema!({ "anyOf": [K::schema(), array] })
    }
}

//! A TOML value before its kind reads it.

use serde_json::{Value, json};
use toml::de::DeValue;

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
    /// Reads the value of a key or an array item. A number of more than 64 bits has been reported already.
    pub(crate) fn read(value: &DeValue<'_>) -> Self {
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

    /// The value as JSON.
    pub(crate) fn json(&self) -> Value {
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

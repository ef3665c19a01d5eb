//! The `figures!` macro: declares a part of the figures once, with its JSON, the source of its values and its metrics.

use super::text::{Family, Labels, Page};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::fmt::Display;

/// Declares a part of the figures, one line a figure:
///
/// ```text
/// figures! {
///     /// One sentence about the part.
///     ProxyView as "Proxy" from (report: &ProxyReport) {
///         /// The meaning of the figure, which becomes its text in docs/openapi.json.
///         transactions: usize = report.transactions
///             => [gauge "sarabande_proxy_transactions" "Transactions that are kept."],
///     }
/// }
/// ```
///
/// - `as` names the part in docs/openapi.json.
/// - `from` and the values make its `new`. Without them the part is built by hand. `of TYPE` instead gives metrics to a
///   type that is declared elsewhere and is in no JSON.
/// - `=> [KIND NAME (LABEL = "VALUE") HELP |part| VALUE]` makes a metric of the field, or of another value. The value
///   of a label without `= "VALUE"` is the key of a map. A metric without HELP continues the family of the previous
///   metric.
macro_rules! figures {
    (
        $(#[$meta:meta])*
        $name:ident as $shown:tt from ($($from:ident: $type_from:ty),+ $(,)?) {
            $($(#[$doc:meta])* $field:ident: $type:ty = $value:expr $(=> $metric:tt)*),+ $(,)?
        }
    ) => {
        figures! {
            $(#[$meta])*
            $name as $shown { $($(#[$doc])* $field: $type $(=> $metric)*),+ }
        }

        impl $name {
            pub(crate) fn new($($from: $type_from),+) -> Self {
                Self { $($field: $value),+ }
            }
        }
    };
    (
        $(#[$meta:meta])*
        $name:ident as $shown:tt {
            $($(#[$doc:meta])* $field:ident: $type:ty $(=> $metric:tt)*),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[cfg_attr(test, schemars(rename = $shown))]
        pub struct $name { $($(#[$doc])* pub $field: $type),+ }

        figures! { of $name { $($field $(=> $metric)*),+ } }
    };
    (of $name:ident { $($field:ident $(=> $metric:tt)*),+ $(,)? }) => {
        impl crate::figures::metric::Measured for $name {
            const METRICS: &'static [crate::figures::metric::Metric<Self>] =
                &[$($(figures!(@metric $field $metric),)*)+];
        }
    };
    (@metric $field:ident [
        $kind:ident $name:literal $(($($label:ident $(= $text:literal)?),+))? $($help:literal)? $(|$it:ident| $value:expr)?
    ]) => {
        crate::figures::metric::Metric {
            kind: stringify!($kind),
            name: $name,
            help: concat!($($help)?),
            labels: &[$($((stringify!($label), figures!(@text $($text)?))),+)?],
            put: |part, samples| figures!(@put part samples $field $(|$it| $value)?),
        }
    };
    (@text) => { None };
    (@text $text:literal) => { Some($text) };
    (@put $part:ident $samples:ident $field:ident) => {
        crate::figures::metric::Value::put(&$part.$field, $samples)
    };
    (@put $part:ident $samples:ident $field:ident |$it:ident| $value:expr) => {{
        let $it = $part;
        crate::figures::metric::Value::put(&$value, $samples)
    }};
}

/// A part of the figures that has metrics.
pub(crate) trait Measured: Sized + 'static {
    /// All metrics of the part, grouped by family.
    const METRICS: &'static [Metric<Self>];
}

/// One metric of a part.
pub(crate) struct Metric<T> {
    /// `gauge`, `counter` or `histogram`.
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    /// Help text; empty if the metric continues the family of the previous one.
    pub(crate) help: &'static str,
    /// Labels of the metric, which follow the labels of the part. `None`: the value is the key of a map.
    pub(crate) labels: &'static [(&'static str, Option<&'static str>)],
    pub(crate) put: fn(&T, &mut Samples<'_>),
}

/// Collects the samples of one metric.
pub(crate) struct Samples<'a> {
    family: Family<'a>,
    labels: Labels<'a>,
    own: &'a [(&'static str, Option<&'static str>)],
}

impl Samples<'_> {
    /// Adds a sample. `keys` are the values of the labels without a value.
    fn sample(&mut self, keys: &[String], value: impl Display) {
        let mut keys = keys.iter();
        let mut key = || keys.next().map_or("", String::as_str);
        let own = self.own.iter().map(|(name, value)| (*name, value.unwrap_or_else(&mut key)));
        let labels: Vec<_> = self.labels.iter().copied().chain(own).collect();
        self.family.sample(&labels, value);
    }
}

/// A type whose values can be the value of a metric.
pub(crate) trait Value {
    fn put(&self, samples: &mut Samples<'_>);
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Value for $number {
            fn put(&self, samples: &mut Samples<'_>) {
                samples.sample(&[], self);
            }
        })+
    };
}
numbers!(u32, u64, usize, f64);

impl Value for bool {
    fn put(&self, samples: &mut Samples<'_>) {
        samples.sample(&[], u8::from(*self));
    }
}

/// `None` adds no sample.
impl<V: Value> Value for Option<V> {
    fn put(&self, samples: &mut Samples<'_>) {
        if let Some(value) = self {
            value.put(samples);
        }
    }
}

/// A key of a map, which gives the values of labels.
pub(crate) trait Key {
    fn labels(&self) -> Vec<String>;
}

macro_rules! keys {
    ($($key:ty),+) => {
        $(impl Key for $key {
            fn labels(&self) -> Vec<String> {
                vec![self.to_string()]
            }
        })+
    };
}
keys!(String, &str, u16);

impl Key for (u16, &str) {
    fn labels(&self) -> Vec<String> {
        vec![self.0.to_string(), self.1.to_owned()]
    }
}

impl<K: Key, V: Display> Value for BTreeMap<K, V> {
    fn put(&self, samples: &mut Samples<'_>) {
        for (key, value) in self {
            samples.sample(&key.labels(), value);
        }
    }
}

/// A histogram. Bounds and recorded values have the same unit; `unit` of it make one unit of the metric.
pub(crate) struct Buckets<'a> {
    pub(crate) values: &'a Histogram<u32>,
    pub(crate) bounds: &'static [u64],
    pub(crate) unit: f64,
}

impl Value for Buckets<'_> {
    fn put(&self, samples: &mut Samples<'_>) {
        samples.family.buckets(samples.labels, self.values, self.bounds, self.unit);
    }
}

impl Page {
    /// Adds the metrics of one part.
    pub(crate) fn part<T: Measured>(&mut self, part: &T) {
        self.parts::<T, 0>(&[([], part)]);
    }

    /// Adds the metrics of all parts of a kind, each part with its labels.
    pub(crate) fn parts<T: Measured, const N: usize>(&mut self, parts: &[([(&str, &str); N], &T)]) {
        self.parts_if(parts, |_| true);
    }

    /// Like [`parts`](Self::parts), with only the kinds of metrics that `has` selects.
    pub(crate) fn parts_if<T: Measured, const N: usize>(
        &mut self,
        parts: &[([(&str, &str); N], &T)],
        has: impl Fn(&str) -> bool,
    ) {
        for metric in T::METRICS.iter().filter(|metric| has(metric.kind)) {
            if !metric.help.is_empty() {
                self.family(metric.kind, metric.name, metric.help);
            }
            for (labels, part) in parts {
                let family = self.more(metric.name);
                (metric.put)(part, &mut Samples { family, labels, own: metric.labels });
            }
        }
    }
}

pub(crate) use figures;

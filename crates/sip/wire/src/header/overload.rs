//! Overload control parameters of a Via: `oc`, `oc-algo`, `oc-validity` and `oc-seq` (RFC 7339 §4 and §9, RFC 7415 §5).

use crate::Span;
use crate::chars::number;
use crate::header::{Name, via};
use crate::line::{self, Lines};
use crate::text::push_decimal;
use crate::{Via, ViaParam};

/// Parameters that a client with overload control appends to its Via (RFC 7339 §4.1 and §4.2). This client prefers
/// `rate`.
pub const OVERLOAD_OFFER: &[u8] = b";oc;oc-algo=\"rate,loss\"";

/// Default validity of feedback, in milliseconds (RFC 7339 §4.3).
pub const OVERLOAD_VALIDITY: u32 = 500;

/// Class of algorithms that limit the requests of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverloadAlgorithm {
    /// `loss`: `oc` is the percentage of requests that the client must not send (RFC 7339 §7).
    Loss,
    /// `rate`: `oc` is the number of requests that the client may send in a second (RFC 7415 §3).
    Rate,
}

impl OverloadAlgorithm {
    /// Token in `oc-algo`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Rate => "rate",
        }
    }
}

/// Feedback of a server on overload, in the topmost Via of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverloadFeedback {
    /// Algorithm, which gives the unit of `value`.
    pub algorithm: OverloadAlgorithm,
    /// `oc`: 0 to 100 for `loss`, requests a second for `rate`.
    pub value: u32,
    /// `oc-validity` in milliseconds. 0 means no limit, whatever the value (RFC 7339 §5.7).
    pub validity: u32,
    /// `oc-seq` in units of its fifth decimal. `None`: absent or malformed.
    pub sequence: Option<u64>,
}

impl OverloadFeedback {
    /// Appends the parameters, with their semicolons.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b";oc=");
        push_decimal(self.value, out);
        out.extend_from_slice(b";oc-algo=\"");
        out.extend_from_slice(self.algorithm.name().as_bytes());
        out.extend_from_slice(b"\";oc-validity=");
        push_decimal(self.validity, out);
        if let Some(sequence) = self.sequence {
            out.extend_from_slice(b";oc-seq=");
            let (whole, decimals) = (sequence / SEQUENCE_UNITS % WHOLE, sequence % SEQUENCE_UNITS);
            out.extend_from_slice(whole.to_string().as_bytes());
            out.push(b'.');
            (0..SEQUENCE_DECIMALS).rev().for_each(|place| {
                out.push(b'0' + (decimals / 10_u64.pow(place) % 10) as u8);
            });
        }
    }
}

/// Most decimals of `oc-seq` (RFC 7339 §9).
const SEQUENCE_DECIMALS: u32 = 5;
const SEQUENCE_UNITS: u64 = 10_u64.pow(SEQUENCE_DECIMALS);
/// Maximum number of digits before the point of `oc-seq`.
const SEQUENCE_DIGITS: usize = 12;
const WHOLE: u64 = 10_u64.pow(SEQUENCE_DIGITS as u32);

/// State of the parameter `oc`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Oc {
    #[default]
    Absent,
    /// The parameter has no value: the client supports overload control.
    Flag,
    Value(u32),
    /// The parameter is repeated, or its value is not a number.
    Malformed,
}

/// Algorithms that an `oc-algo` lists.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Listed {
    loss: bool,
    rate: bool,
    all: u32,
}

/// Overload control parameters of a Via. A malformed or repeated parameter is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OverloadParams {
    oc: Oc,
    algorithms: Option<Listed>,
    validity: Option<u32>,
    sequence: Option<u64>,
}

impl OverloadParams {
    /// Reads the parameters of a Via; `bytes` is its message.
    pub fn of(via: &Via<'_>, bytes: &[u8]) -> Self {
        let mut seen = [0_u8; 4];
        let mut params = Self::default();
        for param in via.params(bytes) {
            let Some(field) = Field::of(param.name) else { continue };
            seen[field as usize] = seen[field as usize].saturating_add(1);
            let digits = || param.value.and_then(|value| number(value, u32::MAX));
            match field {
                Field::Oc if param.value.is_none() => params.oc = Oc::Flag,
                Field::Oc => params.oc = digits().map_or(Oc::Malformed, Oc::Value),
                Field::Algorithms => params.algorithms = param.value.and_then(listed),
                Field::Validity => params.validity = digits(),
                Field::Sequence => params.sequence = param.value.and_then(sequence),
            }
        }
        // If there are two values, elements would differ in the value that they use.
        if seen[Field::Oc as usize] > 1 {
            params.oc = Oc::Malformed;
        }
        let is_single = |field: Field| seen[field as usize] <= 1;
        params.algorithms = params.algorithms.filter(|_| is_single(Field::Algorithms));
        params.validity = params.validity.filter(|_| is_single(Field::Validity));
        params.sequence = params.sequence.filter(|_| is_single(Field::Sequence));
        params
    }

    /// Algorithm for the client that sent these parameters: the first of `preferred` that it supports. `None` if the
    /// client does not support overload control, or supports none of `preferred`. Every client with overload control
    /// supports `loss` (RFC 7339 §4.2).
    pub fn common(&self, preferred: &[OverloadAlgorithm]) -> Option<OverloadAlgorithm> {
        if self.oc == Oc::Absent {
            return None;
        }
        let listed = self.algorithms.unwrap_or(Listed { loss: true, rate: false, all: 1 });
        let is_listed = |algorithm: &OverloadAlgorithm| match algorithm {
            OverloadAlgorithm::Loss => true,
            OverloadAlgorithm::Rate => listed.rate,
        };
        preferred.iter().copied().find(is_listed)
    }

    /// Feedback of the server; `None` if the response has no feedback, for example if the server has no overload
    /// control.
    pub fn feedback(&self) -> Option<OverloadFeedback> {
        let Self { oc, algorithms, validity, sequence } = *self;
        // RFC 7339 §4.2: the server returns one algorithm; `loss` is the default.
        let algorithm = match algorithms {
            None | Some(Listed { loss: true, all: 1, .. }) => OverloadAlgorithm::Loss,
            Some(Listed { rate: true, all: 1, .. }) => OverloadAlgorithm::Rate,
            Some(_) if validity == Some(0) => OverloadAlgorithm::Loss,
            Some(_) => return None,
        };
        let value = match oc {
            Oc::Value(value) => value,
            // §5.7: the value of `oc` then does not matter.
            Oc::Absent | Oc::Flag | Oc::Malformed if validity == Some(0) => 0,
            Oc::Absent | Oc::Flag | Oc::Malformed => return None,
        };
        let is_right = algorithm == OverloadAlgorithm::Rate || value <= 100 || validity == Some(0);
        let validity = validity.unwrap_or(OVERLOAD_VALIDITY);
        is_right.then_some(OverloadFeedback { algorithm, value, validity, sequence })
    }
}

/// The overload control parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Oc,
    Algorithms,
    Validity,
    Sequence,
}

impl Field {
    fn of(name: &[u8]) -> Option<Self> {
        // Almost no other parameter begins with `oc`.
        if !name.get(..2)?.eq_ignore_ascii_case(b"oc") {
            return None;
        }
        let is = |text: &[u8]| name.eq_ignore_ascii_case(text);
        match name.len() {
            2 => Some(Self::Oc),
            _ if is(b"oc-algo") => Some(Self::Algorithms),
            _ if is(b"oc-validity") => Some(Self::Validity),
            _ if is(b"oc-seq") => Some(Self::Sequence),
            _ => None,
        }
    }
}

/// Reads `"loss,rate"`; the quotes may be missing.
fn listed(value: &[u8]) -> Option<Listed> {
    let inner = match value {
        [b'"', inner @ .., b'"'] => inner,
        bare => bare,
    };
    let mut listed = Listed::default();
    for token in inner.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        if token.is_empty() || !token.iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        listed.all += 1;
        listed.loss |= token.eq_ignore_ascii_case(b"loss");
        listed.rate |= token.eq_ignore_ascii_case(b"rate");
    }
    Some(listed)
}

/// Reads `1282321615.782`. RFC 7339 §4.4 calls it an unsigned integer, so a number without a point is also accepted.
fn sequence(value: &[u8]) -> Option<u64> {
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let (whole, decimals) = (parts.next()?, parts.next());
    let digits = |text: &[u8], most: usize| {
        let fits = !text.is_empty() && text.len() <= most && text.iter().all(u8::is_ascii_digit);
        fits.then(|| text.iter().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0')))
    };
    let decimals = match decimals {
        None => 0,
        Some(text) => {
            let missing = SEQUENCE_DECIMALS.checked_sub(text.len() as u32)?;
            digits(text, SEQUENCE_DECIMALS as usize)? * 10_u64.pow(missing)
        }
    };
    Some(digits(whole, SEQUENCE_DIGITS)? * SEQUENCE_UNITS + decimals)
}

/// Change of the overload control parameters in the topmost Via of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverloadEdit {
    /// Leaves the parameters unchanged.
    Keep,
    /// Removes the parameters that a server may write, and keeps those that a client offers.
    Withdraw,
    /// Replaces the parameters by this feedback.
    Set(OverloadFeedback),
}

/// Edits the overload control parameters in the topmost Via of a response, the bytes of `out` from `start` on. `decide`
/// gets the present parameters and returns the edit. A response without a Via stays unchanged. A response with a
/// malformed topmost Via also stays unchanged: after an edit, unreadable text in it could be read as a parameter.
pub fn edit_overload(out: &mut Vec<u8>, start: usize, decide: impl FnOnce(&OverloadParams) -> OverloadEdit) {
    let bytes = &out[start..];
    let Some(via) = top_via(bytes) else { return };
    let edit = decide(&OverloadParams::of(&via, bytes));
    let is_unwanted = |param: &ViaParam<'_>| match (edit, Field::of(param.name)) {
        (OverloadEdit::Keep, _) | (_, None) => false,
        (OverloadEdit::Set(_), Some(_)) => true,
        (OverloadEdit::Withdraw, Some(Field::Oc)) => param.value.is_some(),
        (OverloadEdit::Withdraw, Some(field)) => field != Field::Algorithms,
    };
    let mut text = Vec::new();
    let mut done = via.value.start as usize;
    for param in via.params(bytes).filter(is_unwanted) {
        text.extend_from_slice(&bytes[done..param.whole.start as usize]);
        done = param.whole.end as usize;
    }
    let is_clean = done == via.value.start as usize;
    if let OverloadEdit::Set(feedback) = edit {
        text.extend_from_slice(&bytes[done..via.value.end as usize]);
        feedback.write(&mut text);
    } else if is_clean {
        return;
    } else {
        text.extend_from_slice(&bytes[done..via.value.end as usize]);
    }
    out.splice(start + via.value.start as usize..start + via.value.end as usize, text);
}

/// Reads only the topmost Via of a message. `None` if it is absent or malformed.
fn top_via(bytes: &[u8]) -> Option<Via<'_>> {
    let first = line::physical_end(bytes, 0)?.next;
    let line = Lines::new(bytes, first as u32).named(Name::Via).next()?;
    let span: Span = line.trimmed(bytes);
    via::parse(bytes, span).ok().filter(|parsed| parsed.clean).map(|parsed| parsed.via)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> OverloadParams {
        let text = format!("SIP/2.0/UDP h;branch=z9hG4bKx{text}");
        let (via, _) = via::parse_strict(text.as_bytes(), Span::new(0, text.len())).expect("a Via");
        OverloadParams::of(&via, text.as_bytes())
    }

    const LOSS: OverloadAlgorithm = OverloadAlgorithm::Loss;
    const RATE: OverloadAlgorithm = OverloadAlgorithm::Rate;

    #[test]
    fn algorithms_offered_by_a_client_are_read() {
        let common = |text, preferred: &[_]| params(text).common(preferred);
        assert_eq!(common("", &[RATE, LOSS]), None);
        assert_eq!(
            common(";oc-algo=\"rate\"", &[RATE, LOSS]),
            None,
            "without `oc` the client has no overload control"
        );
        assert_eq!(common(";oc", &[RATE, LOSS]), Some(LOSS), "`loss` is the default");
        assert_eq!(common(";oc", &[RATE]), None);
        for text in [
            ";oc;oc-algo=\"loss,rate\"",
            ";oc-algo=\"A, RATE ,loss\";x=y;OC",
            core::str::from_utf8(OVERLOAD_OFFER).expect("text"),
        ] {
            assert_eq!(common(text, &[RATE, LOSS]), Some(RATE), "{text}");
            assert_eq!(common(text, &[LOSS]), Some(LOSS), "{text}");
        }
        for text in [";oc;oc-algo=\"loss;rate\"", ";oc;oc-algo=\"\"", ";oc;oc-algo=\"loss\";oc-algo=\"rate\""]
        {
            assert_eq!(common(text, &[RATE, LOSS]), Some(LOSS), "{text}: a malformed list is ignored");
        }
    }

    #[test]
    fn feedback_of_a_server_is_read() {
        let of = |text| params(text).feedback().map(|f| (f.algorithm, f.value, f.validity, f.sequence));
        assert_eq!(
            of(";oc=20;oc-algo=\"loss\";oc-validity=500;oc-seq=1282321615.782"),
            Some((LOSS, 20, 500, Some(128_232_161_578_200)))
        );
        assert_eq!(of(";oc-seq=1.00001;oc-algo=rate;oc=0"), Some((RATE, 0, 500, Some(100_001))));
        assert_eq!(of(";oc=20"), Some((LOSS, 20, 500, None)));
        assert_eq!(
            of(";oc=150;oc-algo=\"rate\";oc-validity=0;oc-seq=7"),
            Some((RATE, 150, 0, Some(700_000)))
        );
        assert_eq!(
            of(";oc;oc-algo=\"loss,rate\";oc-validity=0"),
            Some((LOSS, 0, 0, None)),
            "a validity of 0 ends the limit"
        );
        for text in [
            "",
            ";oc;oc-algo=\"rate,loss\"",
            ";oc=20;oc-algo=\"loss,rate\"",
            ";oc=20;oc-algo=\"A\"",
            ";oc=101;oc-algo=\"loss\"",
            ";oc=-1",
            ";oc=99999999999",
            ";oc=1;oc=2",
            ";oc-validity=500",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(of(";oc=20;oc-validity=soon;oc-seq=x.1"), Some((LOSS, 20, 500, None)));
        for text in ["", ".1", "1.", "1.123456", "1234567890123.1", "1.2.3", "-1"] {
            assert_eq!(sequence(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn an_edit_of_feedback_changes_nothing_else() {
        let response = |via: &str| {
            format!(
                "before SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z{via}, SIP/2.0/UDP k;oc=9\r\nX: y\r\n\r\n;oc"
            )
        };
        let edited = |via: &str, edit: OverloadEdit| {
            let mut out = response(via).into_bytes();
            edit_overload(&mut out, "before ".len(), |_| edit);
            String::from_utf8(out).expect("text")
        };
        let feedback =
            OverloadFeedback { algorithm: RATE, value: 150, validity: 1_000, sequence: Some(123_456) };
        let told = ";oc=150;oc-algo=\"rate\";oc-validity=1000;oc-seq=1.23456";
        assert_eq!(
            edited(";oc;x;oc-algo=\"rate\"", OverloadEdit::Set(feedback)),
            response(&format!(";x{told}"))
        );
        assert_eq!(edited("", OverloadEdit::Set(feedback)), response(told));
        let offer = ";oc;oc-algo=\"loss\";rport=5";
        assert_eq!(edited(offer, OverloadEdit::Keep), response(offer));
        assert_eq!(edited(offer, OverloadEdit::Withdraw), response(offer));
        assert_eq!(
            edited(&format!("{told};rport=5"), OverloadEdit::Withdraw),
            response(";oc-algo=\"rate\";rport=5")
        );
        // If `oc-seq` were removed, the remaining text would be `;oc=0`.
        let malformed = ";oc;oc-seq=\"\"=0";
        assert_eq!(edited(malformed, OverloadEdit::Withdraw), response(malformed));
        let mut none = b"SIP/2.0 200 OK\r\nX: y\r\n\r\n".to_vec();
        let before = none.clone();
        edit_overload(&mut none, 0, |_| OverloadEdit::Set(feedback));
        assert_eq!(none, before);
    }
}

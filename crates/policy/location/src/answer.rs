//! What a registrar answers.

/// A final response, but for what every response copies from its request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// 200, or 400 to 599: a registrar has no 6xx. [10.3-1]
    pub status: u16,
    /// The reason phrase.
    pub reason: &'static str,
    /// Header fields in order: name and value.
    pub headers: Vec<(&'static str, Vec<u8>)>,
}

impl Answer {
    /// Without header fields.
    pub(crate) fn bare(status: u16, reason: &'static str) -> Self {
        Self { status, reason, headers: Vec::new() }
    }

    /// With one header field.
    pub(crate) fn with(status: u16, reason: &'static str, name: &'static str, value: Vec<u8>) -> Self {
        Self { status, reason, headers: vec![(name, value)] }
    }

    /// The values of all header fields called `name`.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| &value[..])
    }
}

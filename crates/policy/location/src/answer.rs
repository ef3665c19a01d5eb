//! Responses of a registrar.

/// Final response, without the header fields that every response copies from its request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistrarResponse {
    /// Status: 200, or 400 to 599. A registrar sends no 6xx. [10.3-1]
    pub status: u16,
    /// Reason phrase.
    pub reason: &'static str,
    /// Header fields in order: name and value.
    pub headers: Vec<(&'static str, Vec<u8>)>,
}

impl RegistrarResponse {
    /// Creates a response without header fields.
    pub(crate) fn bare(status: u16, reason: &'static str) -> Self {
        Self { status, reason, headers: Vec::new() }
    }

    /// Creates a response with one header field.
    pub(crate) fn with(status: u16, reason: &'static str, name: &'static str, value: Vec<u8>) -> Self {
        Self { status, reason, headers: vec![(name, value)] }
    }

    /// Values of all header fields named `name`.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| &value[..])
    }
}

//! Request methods.

/// Request method: the methods of the RFCs by name, all others as [`Method::Other`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Method {
    /// RFC 3261 §13.
    Invite,
    /// RFC 3261 §13.2.2.4 and §17.1.1.3.
    Ack,
    /// RFC 3261 §15.
    Bye,
    /// RFC 3261 §9.
    Cancel,
    /// RFC 3261 §10.
    Register,
    /// RFC 3261 §11.
    Options,
    /// RFC 3428.
    Message,
    /// RFC 6665.
    Subscribe,
    /// RFC 6665.
    Notify,
    /// RFC 3903.
    Publish,
    /// RFC 3515.
    Refer,
    /// RFC 6086.
    Info,
    /// RFC 3311.
    Update,
    /// RFC 3262.
    Prack,
    /// A method not in this list; its text is in the message.
    Other,
}

impl Method {
    /// Every method in the order of its discriminant, for tables indexed by `method as usize`.
    pub const ALL: [Self; 15] = [
        Self::Invite,
        Self::Ack,
        Self::Bye,
        Self::Cancel,
        Self::Register,
        Self::Options,
        Self::Message,
        Self::Subscribe,
        Self::Notify,
        Self::Publish,
        Self::Refer,
        Self::Info,
        Self::Update,
        Self::Prack,
        Self::Other,
    ];

    /// Method with this name. Methods are case-sensitive (RFC 3261 §7.1), so `invite` is [`Method::Other`].
    pub fn parse(text: &[u8]) -> Self {
        match text {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"REGISTER" => Self::Register,
            b"OPTIONS" => Self::Options,
            b"MESSAGE" => Self::Message,
            b"SUBSCRIBE" => Self::Subscribe,
            b"NOTIFY" => Self::Notify,
            b"PUBLISH" => Self::Publish,
            b"REFER" => Self::Refer,
            b"INFO" => Self::Info,
            b"UPDATE" => Self::Update,
            b"PRACK" => Self::Prack,
            _ => Self::Other,
        }
    }

    /// The name on the wire; `OTHER` for [`Method::Other`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Invite => "INVITE",
            Self::Ack => "ACK",
            Self::Bye => "BYE",
            Self::Cancel => "CANCEL",
            Self::Register => "REGISTER",
            Self::Options => "OPTIONS",
            Self::Message => "MESSAGE",
            Self::Subscribe => "SUBSCRIBE",
            Self::Notify => "NOTIFY",
            Self::Publish => "PUBLISH",
            Self::Refer => "REFER",
            Self::Info => "INFO",
            Self::Update => "UPDATE",
            Self::Prack => "PRACK",
            Self::Other => "OTHER",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back_and_case_counts() {
        for (i, method) in Method::ALL.into_iter().enumerate() {
            assert_eq!(method as usize, i);
            assert_eq!(Method::parse(method.name().as_bytes()), method);
            assert_eq!(Method::parse(method.name().to_lowercase().as_bytes()), Method::Other);
        }
    }
}

//! Classes of messages, in the order in which an overloaded server serves them.

use wire::Method;

/// Class of a message at an overloaded server. The classes are declared in the order of service: messages that finish
/// work come before messages that start new work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum MessageClass {
    /// A transaction timer: without it, state is never cleared.
    Timer,
    /// A response: its work is already done.
    Response,
    /// ACK, CANCEL or BYE: they end work, and are retransmitted if refused.
    Closing,
    /// Any other request within a dialog.
    InDialog,
    /// The retransmission of an accepted request. It takes little work, and is repeated if it gets no answer.
    Repeat,
    /// A new request of an emergency call, or with a Resource-Priority above routine (RFC 4412; RFC 7339 §5.10.1).
    Priority,
    /// An INVITE of a new call.
    NewInvite,
    /// A new request outside a dialog other than INVITE (REGISTER, MESSAGE, SUBSCRIBE, ...). No person listens to a
    /// ringing tone meanwhile, and its sender retransmits it only every 4 s, for 32 s (Timer E, RFC 3261 §17.1.2.2).
    NewOther,
    /// An OPTIONS outside a dialog: a health check. It can wait, since a late answer correctly shows the load.
    Probe,
}

/// Facts of a request that a classifier needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestInfo {
    /// Its method.
    pub method: Method,
    /// Whether it has a To tag.
    pub in_dialog: bool,
    /// Whether it belongs to an accepted transaction.
    pub repeat: bool,
    /// Whether it is an emergency call (RFC 5031), or has a Resource-Priority that the host honours.
    pub priority: bool,
}

/// Order in which classes are rejected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Tier {
    /// New requests.
    First,
    /// New requests with priority, rejected after all of the first tier.
    Later,
    /// Requests within dialogs, rejected last. Only a neighbour's feedback can make it necessary to reject them.
    Last,
    /// Messages that are never rejected, since a refusal takes more work than the message.
    Never,
}

impl MessageClass {
    /// Every class, in the order of service.
    pub const ALL: [Self; 9] = [
        Self::Timer,
        Self::Response,
        Self::Closing,
        Self::InDialog,
        Self::Repeat,
        Self::Priority,
        Self::NewInvite,
        Self::NewOther,
        Self::Probe,
    ];

    /// Class of a request.
    pub const fn of(facts: RequestInfo) -> Self {
        match facts {
            RequestInfo { method: Method::Ack | Method::Cancel | Method::Bye, .. } => Self::Closing,
            RequestInfo { repeat: true, .. } => Self::Repeat,
            RequestInfo { in_dialog: true, .. } => Self::InDialog,
            RequestInfo { priority: true, .. } => Self::Priority,
            RequestInfo { method: Method::Invite, .. } => Self::NewInvite,
            RequestInfo { method: Method::Options, .. } => Self::Probe,
            _ => Self::NewOther,
        }
    }

    /// Lane of a triage queue, 0 served first: timers; responses and requests within dialogs; retransmissions of
    /// accepted requests; new requests with priority; new calls; other new requests; health checks.
    pub const fn lane(self) -> usize {
        match self {
            Self::Timer => 0,
            Self::Response | Self::Closing | Self::InDialog => 1,
            Self::Repeat => 2,
            Self::Priority => 3,
            Self::NewInvite => 4,
            Self::NewOther => 5,
            Self::Probe => 6,
        }
    }

    /// Number of lanes ([`lane`](Self::lane)).
    pub const LANES: usize = 7;

    /// Longest wait of a new request, in terms of that of a new call. A request other than INVITE may wait 8 s, a quarter
    /// of the time after which its sender gives up.
    pub const fn patience(self) -> u32 {
        match self {
            Self::Priority => 2,
            Self::NewOther => 64,
            _ => 1,
        }
    }

    /// Tier in which it is rejected.
    pub const fn tier(self) -> Tier {
        match self {
            Self::NewInvite | Self::NewOther | Self::Probe => Tier::First,
            Self::Priority => Tier::Later,
            Self::InDialog => Tier::Last,
            Self::Timer | Self::Response | Self::Closing | Self::Repeat => Tier::Never,
        }
    }

    /// Whether the class is one of new requests. Local controllers decide only about new requests.
    pub const fn is_new(self) -> bool {
        matches!(self.tier(), Tier::First | Tier::Later)
    }
}

/// Whether a request is an emergency call or text (RFC 5031 §4.1): an INVITE or MESSAGE to `urn:service:sos` or a
/// service below it.
pub fn is_emergency(method: Method, uri: &[u8]) -> bool {
    const SOS: &[u8] = b"urn:service:sos";
    matches!(method, Method::Invite | Method::Message)
        && uri.len() >= SOS.len()
        && uri[..SOS.len()].eq_ignore_ascii_case(SOS)
        && matches!(uri.get(SOS.len()), None | Some(b'.'))
}

/// Whether a Resource-Priority has a value above routine (RFC 4412 §3.1, §10). One such `namespace.priority` is enough.
pub fn is_above_routine(resource_priority: &[u8]) -> bool {
    resource_priority.split(|byte| *byte == b',').any(|value| {
        let dot = value.iter().rposition(|byte| *byte == b'.');
        let priority = dot.map_or(&[][..], |dot| value[dot + 1..].trim_ascii());
        !priority.is_empty() && !priority.eq_ignore_ascii_case(b"routine")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVITE: RequestInfo =
        RequestInfo { method: Method::Invite, in_dialog: false, repeat: false, priority: false };

    #[test]
    fn messages_that_finish_work_are_never_rejected_and_served_first() {
        assert_eq!(MessageClass::of(INVITE), MessageClass::NewInvite);
        assert_eq!(MessageClass::of(RequestInfo { priority: true, ..INVITE }), MessageClass::Priority);
        assert_eq!(
            MessageClass::of(RequestInfo { repeat: true, priority: true, ..INVITE }),
            MessageClass::Repeat
        );
        assert_eq!(MessageClass::of(RequestInfo { in_dialog: true, ..INVITE }), MessageClass::InDialog);
        assert_eq!(
            MessageClass::of(RequestInfo { method: Method::Register, ..INVITE }),
            MessageClass::NewOther
        );
        for method in [Method::Ack, Method::Cancel, Method::Bye] {
            assert_eq!(MessageClass::of(RequestInfo { method, ..INVITE }).tier(), Tier::Never);
        }
        let lanes = MessageClass::ALL.map(MessageClass::lane);
        assert!(lanes.is_sorted() && lanes[8] == MessageClass::LANES - 1);
    }

    #[test]
    fn only_the_service_sos_and_its_subservices_are_emergencies() {
        for yes in ["urn:service:sos", "URN:Service:SOS.fire", "urn:service:sos.police"] {
            assert!(is_emergency(Method::Invite, yes.as_bytes()), "{yes}");
        }
        assert!(is_emergency(Method::Message, b"urn:service:sos"));
        assert!(!is_emergency(Method::Options, b"urn:service:sos"), "an OPTIONS is no call for help");
        for no in ["urn:service:sosial", "urn:service:counseling", "sip:sos@example.com", ""] {
            assert!(!is_emergency(Method::Invite, no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn a_routine_resource_priority_does_not_count() {
        for yes in ["ets.0", "dsn.flash", "dsn.routine, wps.4", "x.y.Priority"] {
            assert!(is_above_routine(yes.as_bytes()), "{yes}");
        }
        for no in ["", "dsn.routine", "drsn.Routine , dsn.routine", "ets", "ets."] {
            assert!(!is_above_routine(no.as_bytes()), "{no}");
        }
    }
}

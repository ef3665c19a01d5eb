//! Counts of messages and of their results.

/// One table: each count with its name in JSON and metrics, and its description.
macro_rules! counts {
    ($($name:ident: $help:literal,)*) => {
        /// Counts since the start, or of one window.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Counts {
            $(#[doc = $help] pub $name: u64,)*
        }

        impl Counts {
            /// Returns all counts with their names and descriptions.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), $help, self.$name),)*].into_iter()
            }

            /// Returns the difference to the earlier counts `before`.
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(before.$name),)* }
            }
        }
    };
}

counts! {
    messages: "SIP messages of any kind that were read",
    requests: "Incoming requests of the measured kind, each counted once",
    measured: "Requests whose latency was measured",
    refused: "Requests that the server answered instead of forwarding them",
    unanswered: "Requests whose timeout expired before a message left",
    repeated: "Retransmissions, and branches of a fork after the first",
    unmatched: "Outgoing messages that match no incoming request",
    without_key: "INVITEs without the header field that pairs them",
    evicted: "Requests removed early because the table was full",
    malformed: "Relevant messages that cannot be parsed",
    not_sip: "Datagrams without a SIP message, keep-alives not counted",
    not_hep: "HEP packets that are not version 3 with SIP",
    wrong_time: "HEP packets whose time differs by more than a minute from the clock of this host",
    truncated: "Packets that were captured only in part",
    fragments_lost: "Datagrams with a missing fragment, or discarded for lack of room",
    stream_gaps: "Gaps in TCP streams, after which the next message was searched for",
    streams_evicted: "TCP streams removed early because there were too many",
    dropped: "Packets that the kernel dropped because they were not read in time",
}

impl Counts {
    pub(crate) fn add_gone(&mut self, unanswered: u64, evicted: u64) {
        self.unanswered += unanswered;
        self.evicted += evicted;
    }
}

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
    messages: "SIP messages that were read, whatever they were",
    requests: "Requests of the kind that is measured that came in, each once",
    measured: "Requests whose latency was measured",
    refused: "Requests that the server answered itself instead of passing them on",
    unanswered: "Requests whose time was over before anything went out",
    repeated: "Repetitions, and branches of a fork after the first",
    unmatched: "Messages that went out and belong to nothing that came in",
    without_key: "INVITEs without the header field that pairs them",
    evicted: "Requests that were forgotten early, because the table was full",
    malformed: "Messages that would have mattered and cannot be read",
    not_sip: "Datagrams that are no SIP message, keep-alives left out",
    not_hep: "HEP packets that are none of version 3 with SIP in it",
    wrong_time: "HEP packets whose time is more than a minute off the clock of this host",
    truncated: "Packets of which a part was not captured",
    fragments_lost: "Datagrams of which a fragment was missing, or that were thrown away for want of room",
    stream_gaps: "Places where a part of a TCP stream was missing, and what follows was searched for the next message",
    streams_evicted: "TCP streams that were forgotten early, because there were too many",
    dropped: "Packets that the kernel threw away because they were not fetched in time",
}

impl Counts {
    pub(crate) fn add_gone(&mut self, unanswered: u64, evicted: u64) {
        self.unanswered += unanswered;
        self.evicted += evicted;
    }
}

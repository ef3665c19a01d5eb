//! Keys of `[hep]`.

use crate::kind::{Choice, Count, HepAddress, Password, Share, Text};
use crate::setting::Setting;
use crate::table::REQUIRED;
use crate::typed::HepCalls;

table! {
    /// Copies of all SIP messages for a collector such as Homer, by HEP version 3 (docs/hep.md). Without this table none
    /// are sent.
    struct RawHep {
        /// The collector: `"udp:HOST:PORT"` or `"tcp:HOST:PORT"`; the default port is 9060.
        to: Option<Setting<HepAddress>> => REQUIRED,
        /// Calls that are copied: `"all"`, or only those that get a refusal of 400 or more other than 401, 407 and 487.
        /// With `"failed"` up to 64 MiB of messages wait for the outcome of their calls.
        calls: Setting<Choice<HepCalls>> = HepCalls::All,
        /// Share of the calls that are copied, chosen by Call-ID and so the same calls at all nodes. Set it lower if
        /// the collector cannot store all calls.
        share: Setting<Share<0, 1000>> = 1.0,
        /// Number by which the collector knows this node as a capture agent.
        id: Setting<Count<0, { u32::MAX }>> = 0,
        /// Name of this node, as the collector shows it.
        node: Option<Setting<Text>> => "none",
        /// Password of the collector, which is sent unencrypted. Set it if the collector requires one.
        password: Option<Setting<Password>> => "none",
    }
}

//! Call agents: [`Caller`]s start calls in an open loop, [`Answerer`]s take them.
//!
//! Pure: time is an argument of type [`base::Instant`], randomness comes from a seed, and messages to send go to the
//! caller's [`base::Outbox`]. The server runs the agents on sockets, tests and the simulator in virtual time.
//!
//! Both agents work the same way: pass each message and each due [`deadline`](Caller::deadline) to `handle`, send the
//! messages in the outbox, and read [`results`](Caller::results) at any time. The same seed and the same input give the
//! same output, byte for byte.
//!
//! Response times are measured from the instant at which a call *should* have started, not from the instant at which
//! the agent started it. A stall of an agent or a server therefore shows in the times of the calls that waited (no
//! coordinated omission).
#![forbid(unsafe_code)]

mod alarms;
mod answerer;
mod arrivals;
mod caller;
mod dialog;
mod random_time;
mod results;
mod service;
mod timers;
pub mod user_agent;

pub use answerer::{Answerer, AnswererConfig};
pub use arrivals::{ArrivalPlan, ArrivalProcess, Arrivals, RateStep};
pub use base::INVITE_WORK;
pub use caller::{Caller, CallerConfig};
pub use random_time::{RandomTime, RandomTimeError};
pub use results::{AnswererResults, CallResults, Times};
pub use service::ServiceModel;
pub use transaction::Timers;

use base::{Flow, Transport};
use std::net::SocketAddr;

/// Input of an agent.
#[derive(Clone, Copy, Debug)]
pub enum AgentInput<'a> {
    /// A message was received: a datagram, or one message of a stream.
    Message {
        /// Flow by which it was received.
        from: Flow,
        /// The whole message.
        bytes: &'a [u8],
    },
    /// The agent's deadline may have passed.
    Tick,
}

/// An event of an agent, in addition to its results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentEvent {
    /// A caller's call is over.
    CallEnded {
        /// Number of the call, counted from zero in the order of scheduled starts.
        call: u64,
        /// Outcome of the call.
        outcome: CallOutcome,
    },
    /// A message of a call arrived at a server other than the server of the call.
    WrongServer {
        /// The Call-ID.
        call_id: Box<str>,
    },
}

/// Outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallOutcome {
    /// Answered, held, and hung up by either side.
    Completed,
    /// Final response of this status, 300 or more, to the INVITE.
    Refused(u16),
    /// Given up before an answer, then refused: usually with 487 because of the CANCEL.
    Abandoned,
    /// Answered after the caller had given up, and hung up at once.
    AnsweredLate,
    /// No final response to the INVITE, whether or not the caller gave up.
    InviteTimeout,
    /// No final response to the BYE.
    ByeTimeout,
    /// Final response of this status, 300 or more, to the BYE.
    ByeRefused(u16),
}

/// Prefix of each branch (RFC 3261 §8.1.1.7).
const COOKIE: &str = "z9hG4bK";

/// Maximum number of due arrivals and alarms that one step handles, in about a millisecond. Further ones wait for the
/// next step, so that a delayed agent reads datagrams in between.
const WORK_MAX: usize = 256;

/// Returns the destination of a response: over UDP from the Via, otherwise the connection (RFC 3261 §18.2.2).
fn way_back(request: &wire::Message<'_>, from: Flow) -> Option<Flow> {
    match from.transport {
        Transport::Udp => {
            Some(Flow { peer: wire::request_source_target(request.top_via(), from.peer)?, ..from })
        }
        _ => Some(from),
    }
}

/// Session description of an offer or answer: one PCMU stream (RFC 4566). No socket listens at its port.
fn session(user: &str, local: SocketAddr) -> String {
    let (ip, family) = (local.ip(), if local.is_ipv4() { "IP4" } else { "IP6" });
    format!(
        "v=0\r\no={user} 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\n\
         m=audio 49170 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    )
}

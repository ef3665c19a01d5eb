//! Call agents: [`Caller`]s that start calls in an open loop, [`Answerer`]s that take them.
//!
//! Pure: time is an argument of type [`base::Instant`], randomness comes from a seed, messages to send go to the
//! caller's [`base::Outbox`]. The server runs the agents on sockets, tests and the simulator in virtual time.
//!
//! Both agents work the same way: hand each message and each due [`deadline`](Caller::deadline) to `handle`, send
//! what is in the outbox, read [`results`](Caller::results) at any time. The same seed and the same input give the
//! same output, byte for byte.
//!
//! Response times are measured from the instant at which a call *should* have started, not from when the agent
//! got round to it. An agent or a server that stalls thus cannot hide the calls that it made wait (coordinated
//! omission).
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

/// What an agent is told.
#[derive(Clone, Copy, Debug)]
pub enum AgentInput<'a> {
    /// A message came in: a datagram, or one of a stream.
    Message {
        /// The way it came.
        from: Flow,
        /// All of it.
        bytes: &'a [u8],
    },
    /// The agent's deadline may have passed.
    Tick,
}

/// What an agent tells besides its results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentEvent {
    /// A caller's call is over.
    CallEnded {
        /// Its number, counted from zero in the order of scheduled starts.
        call: u64,
        /// How it ended.
        outcome: CallOutcome,
    },
    /// A message of a call met another server than the call belongs to.
    WrongServer {
        /// The Call-ID.
        call_id: Box<str>,
    },
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallOutcome {
    /// Answered, held, and hung up by either side.
    Completed,
    /// Final response of this status, 300 or more, to the INVITE.
    Refused(u16),
    /// Given up before anybody answered, and refused then: with 487 as a rule, the CANCEL's doing.
    Abandoned,
    /// Answered all the same after the caller had given up, and hung up at once.
    AnsweredLate,
    /// No final response to the INVITE, whether it was given up or not.
    InviteTimeout,
    /// No final response to the BYE.
    ByeTimeout,
    /// Final response of this status, 300 or more, to the BYE.
    ByeRefused(u16),
}

/// What each branch begins with (RFC 3261 §8.1.1.7).
const COOKIE: &str = "z9hG4bK";

/// How many due arrivals and alarms one step works off; the rest is left to the next one, so that an agent that
/// was held up answers datagrams in between. About a millisecond's work.
const WORK_MAX: usize = 256;

/// Where the response to a request goes: over UDP as its Via says, otherwise back by its connection (RFC 3261
/// §18.2.2).
fn way_back(request: &wire::Message<'_>, from: Flow) -> Option<Flow> {
    match from.transport {
        Transport::Udp => {
            Some(Flow { peer: wire::request_source_target(request.top_via(), from.peer)?, ..from })
        }
        _ => Some(from),
    }
}

/// The session of an offer or answer: one PCMU stream (RFC 4566). Nothing listens there.
fn session(user: &str, local: SocketAddr) -> String {
    let (ip, family) = (local.ip(), if local.is_ipv4() { "IP4" } else { "IP6" });
    format!(
        "v=0\r\no={user} 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\n\
         m=audio 49170 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    )
}

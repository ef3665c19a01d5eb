//! What refusals for overload mean, and to whom overload control is offered and told, as seen from outside.

use super::balancer::{RequestKey, key};
use crate::call::begins;
use crate::plan::{FeedbackPlan, SITES};
use crate::{RunRule, Sent};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use wire::{Method, OverloadParams};

/// The reason phrases of what is refused since somebody has too much to do: this process, all members, a neighbour.
const OVERLOADED: [&[u8]; 3] =
    [b"SIP/2.0 503 Overloaded", b"SIP/2.0 503 Servers Busy", b"SIP/2.0 503 Next Hop Overloaded"];

/// Of one process since it started.
#[derive(Default)]
struct Life {
    /// INVITEs that were refused for overload.
    refused: BTreeSet<RequestKey>,
    /// Where INVITEs that begin calls were sent first.
    went: BTreeMap<RequestKey, SocketAddr>,
}

/// Of the processes of one site.
pub(super) struct Overload {
    lives: Vec<Life>,
    /// How many INVITEs a process has refused since it, or all that is behind it, has too much to do.
    turned_away: u64,
    feedback: FeedbackPlan,
}

impl Overload {
    pub(super) fn new(processes: u16, feedback: FeedbackPlan) -> Self {
        Self { lives: (0..processes).map(|_| Life::default()).collect(), turned_away: 0, feedback }
    }

    pub(super) fn turned_away(&self) -> u64 {
        self.turned_away
    }

    /// A process has ended: the next one knows nothing.
    pub(super) fn ended(&mut self, process: u16) {
        self.lives[usize::from(process)] = Life::default();
    }

    /// A process got a datagram and sent `sent`. `is_up`: whether a member lives, as far as it knows.
    pub(super) fn datagram(
        &mut self,
        process: u16,
        bytes: &[u8],
        sent: &[Sent],
        is_up: impl Fn(SocketAddr) -> bool,
    ) -> Result<(), String> {
        let Ok(request) = wire::scan(bytes) else { return Ok(()) };
        if !begins(&request) {
            return Ok(());
        }
        let life = &mut self.lives[usize::from(process)];
        let (key, call) = (key(&request, Method::Invite), request.call_id().escape_ascii().to_string());
        let mut goes_on = None;
        for one in sent {
            if OVERLOADED.iter().any(|start| one.bytes.starts_with(start)) {
                if let Some(first) = life.went.get(&key).filter(|first| is_up(**first)) {
                    return Err(
                        RunRule::AdmittedRefused.broken(format_args!("call {call}, first to {first}"))
                    );
                }
                let is_first = life.refused.insert(key.clone());
                self.turned_away += u64::from(is_first && one.bytes.starts_with(OVERLOADED[0]));
            } else if wire::scan(&one.bytes).is_ok_and(|message| begins(&message)) {
                goes_on = Some(one.to);
            }
        }
        let Some(to) = goes_on else { return Ok(()) };
        if life.refused.contains(&key) {
            return Err(RunRule::RefusedReached.broken(format_args!("call {call} to {to}")));
        }
        life.went.entry(key).or_insert(to);
        Ok(())
    }

    /// To whom a process says what: only the other sites are neighbours, and only where the file says so.
    pub(super) fn sent(&self, sent: &[Sent]) -> Result<(), String> {
        let is_neighbour =
            |to: SocketAddr| self.feedback != FeedbackPlan::None && to.ip() == IpAddr::from(SITES);
        for one in sent.iter().filter(|one| !is_neighbour(one.to)) {
            let Ok(message) = wire::scan(&one.bytes) else { continue };
            let params = OverloadParams::of(message.top_via(), message.bytes());
            let is_said = if message.status().is_some() {
                params.feedback().is_some()
            } else {
                message.top_via().params(message.bytes()).any(|param| param.name == b"oc")
            };
            if is_said {
                return Err(RunRule::FeedbackStray.broken(format_args!("to {}", one.to)));
            }
        }
        Ok(())
    }
}

//! Rules for overload control: a refused request is not forwarded, and only neighbours get feedback.

use super::balancer::{RequestKey, key};
use crate::call::is_initial_invite;
use crate::plan::{FeedbackPlan, SITES};
use crate::{RunRule, Sent};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use wire::{Method, OverloadParams};

/// Start of refusals for overload of this process, of all members, and of a neighbour.
const OVERLOADED: [&[u8]; 3] =
    [b"SIP/2.0 503 Overloaded", b"SIP/2.0 503 Servers Busy", b"SIP/2.0 503 Next Hop Overloaded"];

/// Observations of one process since it started.
#[derive(Default)]
struct Life {
    /// INVITEs refused for overload.
    refused: BTreeSet<RequestKey>,
    /// First destinations of INVITEs outside dialogs.
    went: BTreeMap<RequestKey, SocketAddr>,
}

/// Observations of the processes of one site.
pub(super) struct Overload {
    lives: Vec<Life>,
    /// INVITEs refused because a process, or every destination behind it, was overloaded.
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

    /// A process ended. The next one starts without state.
    pub(super) fn ended(&mut self, process: u16) {
        self.lives[usize::from(process)] = Life::default();
    }

    /// A process got a datagram and sent `sent`. `is_up`: whether the process takes a member to be alive.
    pub(super) fn datagram(
        &mut self,
        process: u16,
        bytes: &[u8],
        sent: &[Sent],
        is_up: impl Fn(SocketAddr) -> bool,
    ) -> Result<(), String> {
        let Ok(request) = wire::scan(bytes) else { return Ok(()) };
        if !is_initial_invite(&request) {
            return Ok(());
        }
        let life = &mut self.lives[usize::from(process)];
        let (key, call) = (key(&request, Method::Invite), request.call_id().escape_ascii().to_string());
        let mut goes_on = None;
        for one in sent {
            if OVERLOADED.iter().any(|start| one.bytes.starts_with(start)) {
                if let Some(first) = life.went.get(&key).filter(|first| is_up(**first)) {
                    return Err(
                        RunRule::ForwardedRefused.broken(format_args!("call {call}, first to {first}"))
                    );
                }
                let is_first = life.refused.insert(key.clone());
                self.turned_away += u64::from(is_first && one.bytes.starts_with(OVERLOADED[0]));
            } else if wire::scan(&one.bytes).is_ok_and(|message| is_initial_invite(&message)) {
                goes_on = Some(one.to);
            }
        }
        let Some(to) = goes_on else { return Ok(()) };
        if life.refused.contains(&key) {
            return Err(RunRule::RefusedForwarded.broken(format_args!("call {call} to {to}")));
        }
        life.went.entry(key).or_insert(to);
        Ok(())
    }

    /// Checks the recipients of feedback: only the other sites are neighbours, and only if the file says so.
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
                return Err(RunRule::FeedbackTarget.broken(format_args!("to {}", one.to)));
            }
        }
        Ok(())
    }
}

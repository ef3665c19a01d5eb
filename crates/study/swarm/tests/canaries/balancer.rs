//! Balancers that break rules.

use crate::canary::*;
use balance::Load;
use base::Instant;
use sim::engine::{FaultEffect, FaultRule as Fault};
use std::time::Duration;
use swarm::{BalancerState, Destination, Plan, PlannedAction, RunRule, Shown, SiteRole, answerer_address};
use swarm::{ProcessInput, ProcessRule, Sent};
use wire::Method;

fn breaks(rule: ProcessRule) -> Canary {
    Canary::new(rule.text(), balancer)
}

fn breaks_run(rule: RunRule) -> Canary {
    Canary::new(rule.text(), balancer)
}

fn is_invite(bytes: &[u8]) -> bool {
    is(bytes, "INVITE")
}

fn is_ack(bytes: &[u8]) -> bool {
    is(bytes, "ACK")
}

/// Violations on responses.
pub(crate) fn of_responses() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::ResponseCopies).on(is_any_response, |_, _, _, _, sent| sent.extend(sent.clone())),
        breaks(ProcessRule::ResponseStatus).tampers(
            |bytes| is_response(bytes, Method::Invite, 180..181),
            |one| restatus(&mut one.bytes, 183),
        ),
        breaks(ProcessRule::ResponseTarget).tampers(is_any_response, elsewhere),
        breaks(ProcessRule::UnexpectedResponse)
            .hears(|_, bytes| {
                if is_any_response(bytes) {
                    line(bytes, "Call-ID", 0, |call| format!("{call}x"));
                }
            })
            .on(is_any_response, |_, _, bytes, _, sent| sent.extend(passed_on(bytes))),
    ]
}

/// Violations on requests.
pub(crate) fn of_requests() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::NotSip).tampers(is_request, |one| one.bytes.truncate(9)),
        breaks(ProcessRule::ExtraBytes).tampers(is_request, |one| one.bytes.push(b'x')),
        breaks(ProcessRule::SipsOverUdp)
            .tampers(is_request, |one| replace(&mut one.bytes, " sip:", " sips:")),
        breaks(ProcessRule::Malformed)
            .hears(|_, bytes| {
                if is_invite(bytes) {
                    replace(bytes, "\r\n", "\r\nnonsense\r\n");
                }
            })
            .on(is_invite, |_, _, _, _, sent| sent.iter_mut().for_each(elsewhere)),
        breaks(ProcessRule::RequestCopies).on(is_invite, |_, _, _, _, sent| {
            *sent = sent.iter().flat_map(|one| vec![one.clone(); 10]).collect();
        }),
        breaks(ProcessRule::OtherCallId).tampers(is_request, |one| {
            line(&mut one.bytes, "Call-ID", 0, |call| format!("{call}x"));
        }),
        breaks(ProcessRule::OwnResponseTarget).on(is_invite, |_, _, bytes, from, sent| {
            *sent = vec![response(bytes, from, 486)];
            elsewhere(&mut sent[0]);
        }),
        breaks(ProcessRule::OwnSuccess)
            .on(is_invite, |_, _, bytes, from, sent| *sent = vec![response(bytes, from, 200)]),
        breaks(ProcessRule::ResponseTooLong).on(is_invite, |_, _, bytes, from, sent| {
            *sent = vec![response(bytes, from, 486)];
            add(&mut sent[0].bytes, "CSeq", &format!("Unsupported: {}", "x".repeat(2_000)));
        }),
        breaks(ProcessRule::AckAnswered)
            .on(is_ack, |_, _, bytes, from, sent| *sent = vec![response(bytes, from, 486)]),
        breaks(ProcessRule::NotANode)
            .tampers(is_request, |one| one.to = "192.0.2.1:5060".parse().expect("a caller's address")),
    ]
}

/// Violations in the choice of node and branch.
pub(crate) fn of_ways() -> Vec<Canary> {
    vec![
        // One BYE of fifty.
        breaks_run(RunRule::WrongAnswerer).says(|memory, _, _, sent| {
            for bye in sent.iter_mut().filter(|one| is(&one.bytes, "BYE")) {
                if memory.turn(50) {
                    elsewhere(bye);
                }
            }
        }),
        Canary::new(RunRule::WrongNode.text(), balancer_first).on(
            |bytes| is(bytes, "BYE"),
            |memory, at, _, _, sent| {
                let node = |one: &Sent| one.to.ip() == own(at).ip() && one.to != own(at);
                for bye in sent.iter_mut().filter(|one| node(one)) {
                    if let Some(other) = memory.kept.iter().find(|kept| kept.to != bye.to) {
                        bye.to = other.to;
                    }
                    memory.kept.push(bye.clone());
                }
            },
        ),
        // A copy goes to the node of another call.
        breaks_run(RunRule::NodeChanged).says(|memory, _, _, sent| {
            for invite in sent.iter_mut().filter(|one| is_invite(&one.bytes)) {
                if !memory.seen.insert(invite.bytes.clone())
                    && let Some(other) = memory.kept.iter().find(|kept| kept.to != invite.to)
                {
                    invite.to = other.to;
                }
                memory.kept.push(invite.clone());
            }
        }),
        breaks_run(RunRule::BranchChanged).says(|memory, _, _, sent| {
            for invite in sent.iter_mut().filter(|one| is_invite(&one.bytes)) {
                if memory.turn(10) {
                    rebranch(&mut invite.bytes, 0);
                }
            }
        }),
        // The second process of a site makes branches of its own, and the processes take over the address in turn.
        Canary::new(RunRule::BranchChangedLater.text(), |plan| balancer(plan) && plan.sites[0].processes > 1)
            .prepare(|plan| {
                calm(plan);
                let when = Instant::ZERO..plan.end;
                let rule = |effect| Fault { from: None, to: None, when: when.clone(), effect };
                plan.rules = vec![
                    rule(FaultEffect::Duplicate(1.0)),
                    rule(FaultEffect::Jitter(Duration::from_millis(100))),
                ];
                for turn in 0..300 {
                    act(plan, turn * 50, PlannedAction::TakeOver((turn % 2) as u16));
                }
            })
            .says(|_, at, _, sent| {
                if at.process == 1 {
                    for one in sent.iter_mut().filter(|one| is_invite(&one.bytes)) {
                        rebranch(&mut one.bytes, 0);
                    }
                }
            }),
        breaks_run(RunRule::ClosedNode)
            .prepare(|plan| act(plan, 0, PlannedAction::Drain(Destination::Answerer(0), true)))
            .tampers(is_invite, |one| one.to = answerer_address(0)),
        breaks_run(RunRule::SentWithoutInput).says(|memory, at, cause, sent| {
            if matches!(cause, ProcessInput::Timer) {
                sent.extend(memory.invite(at, Stage::Answered));
            }
        }),
        Canary::new(RunRule::WaitTooLong.text(), queueing)
            .says(|_, _, _, sent| sent.retain(|one| !is_invite(&one.bytes))),
        Canary::new(RunRule::OtherShard.text(), several_shards).keeps(),
    ]
}

fn several_shards(plan: &Plan) -> bool {
    plan.sites.iter().all(|site| matches!(&site.role, SiteRole::Balancer(file) if file.shards > 1))
}

/// Falsifies the reported state.
fn falsifies(rule: RunRule, falsify: fn(&mut BalancerState)) -> Canary {
    breaks_run(rule).shows(move |_, shown| {
        if let Shown::Balancer(state) = shown {
            falsify(state);
        }
    })
}

/// Violations in the reported state.
pub(crate) fn of_reported_state() -> Vec<Canary> {
    vec![
        falsifies(RunRule::Leases, |state| state.audit = Err("one too many".to_owned())),
        falsifies(RunRule::CallsCounted, |state| state.loads[0].calls += 1),
        falsifies(RunRule::SessionsCounted, |state| state.counts.active += 1),
        falsifies(RunRule::TooManySessions, |state| {
            state.counts.expired += 1_000_000;
            state.sessions += 1_000_000;
        }),
        falsifies(RunRule::TooManyTransactions, |state| state.transactions += 1_000_000),
        falsifies(RunRule::LoadLeft, |state| state.loads[0] += Load { work: 1, ..Load::default() }),
        // Reports a session that never ends, of a balancer without faults.
        breaks_run(RunRule::TableLeft)
            .prepare(|plan| {
                calm(plan);
                plan.sites[0].processes = 1;
            })
            .shows(|memory, shown| {
                if let Shown::Balancer(state) = shown {
                    memory.count |= u32::from(state.transactions > 0);
                    state.transactions = state.transactions.max(memory.count as usize);
                }
            }),
    ]
}

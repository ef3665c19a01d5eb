//! The four machines as a table to read: what the tests compare is what the documentation shows.

use crate::client;
use crate::machine::{
    Life, MachineStep, Pace, Send, StatusClass, Tell, Timer, TransactionEvent, TransportKind,
};
use crate::server;
use core::fmt::{Debug, Write};

/// All states, events and transports with what follows from them, as text. Events that a state ignores are left out,
/// and where both transports lead to the same there is one line.
pub fn table() -> String {
    use {client::invite as ci, client::non_invite as cn, server::invite as si, server::non_invite as sn};
    let mut out = String::new();
    section(&mut out, "Client, INVITE", ci::start, &ci::ClientInviteState::ALL, ci::ClientInviteState::on);
    section(
        &mut out,
        "Client, non-INVITE",
        cn::start,
        &cn::ClientNonInviteState::ALL,
        cn::ClientNonInviteState::on,
    );
    section(
        &mut out,
        "Server, INVITE",
        |_| si::start(),
        &si::ServerInviteState::ALL,
        si::ServerInviteState::on,
    );
    section(
        &mut out,
        "Server, non-INVITE",
        |_| sn::start(),
        &sn::ServerNonInviteState::ALL,
        sn::ServerNonInviteState::on,
    );
    out
}

fn section<S: Copy + PartialEq + Debug>(
    out: &mut String,
    name: &str,
    start: impl Fn(TransportKind) -> MachineStep<S>,
    states: &[S],
    on: impl Fn(S, TransactionEvent, TransportKind) -> MachineStep<S>,
) {
    let gap = if out.is_empty() { "" } else { "\n" };
    writeln!(out, "{gap}# {name}").expect("a String takes any write");
    lines(out, "", "begins", start);
    for &state in states {
        for event in events() {
            let ignored = |t| on(state, event, t) == MachineStep::to(state);
            if !ignored(TransportKind::Unreliable) || !ignored(TransportKind::Reliable) {
                lines(out, &format!("{state:?}"), &format!("{event:?}"), |t| on(state, event, t));
            }
        }
    }
}

/// One line for both transports, or one for each.
fn lines<S: PartialEq + Debug>(
    out: &mut String,
    state: &str,
    event: &str,
    step: impl Fn(TransportKind) -> MachineStep<S>,
) {
    let (unreliable, reliable) = (step(TransportKind::Unreliable), step(TransportKind::Reliable));
    if unreliable == reliable {
        line(out, state, event, "", &unreliable);
    } else {
        line(out, state, event, "unreliable", &unreliable);
        line(out, state, event, "reliable", &reliable);
    }
}

fn line<S: Debug>(out: &mut String, state: &str, event: &str, transport: &str, step: &MachineStep<S>) {
    let next = format!("{:?}", step.next);
    let mut text = format!("{state:<10} | {event:<22} | {transport:<10} | {next:<10} |");
    if step.send != Send::Nothing {
        write!(text, " send {:?}", step.send).expect("a String takes any write");
    }
    if step.tell != Tell::Nothing {
        write!(text, " tell {:?}", step.tell).expect("a String takes any write");
    }
    if step.pace != Pace::Keep {
        write!(text, " pace {:?}", step.pace).expect("a String takes any write");
    }
    if step.life != Life::Keep {
        write!(text, " life {:?}", step.life).expect("a String takes any write");
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

/// Every event there is.
fn events() -> impl Iterator<Item = TransactionEvent> {
    let responses = StatusClass::ALL.map(TransactionEvent::Response);
    let answers = StatusClass::ALL.map(TransactionEvent::Respond);
    let timers = Timer::ALL.map(TransactionEvent::Timer);
    let single = [
        TransactionEvent::Request,
        TransactionEvent::Ack,
        TransactionEvent::Cancel,
        TransactionEvent::TransportError,
    ];
    responses.into_iter().chain(answers).chain(timers).chain(single)
}

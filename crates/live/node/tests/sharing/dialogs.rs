//! The state of dialogs is shared out, too: exactly one proxy of a chain watches each call and writes its record.

use super::{CALLEE, Chain, DISTRIBUTED, PROXIES, via_with};
use crate::common::{records, *};
use dialog::session_timer::SessionTimer;
use dialog::{CallRecord, CallSettings, Cause};
use distribute::{Function, Mark};

const DIALOG: Service = Service::Calls(Spread::Found);

/// Utilisation of the proxies with which the first, the second or the last one keeps most calls.
const BUSY: [[f64; 3]; 4] = [[0.1, 0.1, 0.1], [0.96, 0.1, 0.1], [0.96, 0.96, 0.1], [0.96, 0.95, 0.9]];

fn keep_dialogs(proxy: &mut ProxyBed, calls: CallSettings) {
    let session = SessionTimer { expires: Some(1800), least: 90 };
    let settings = DialogSettings { calls, session, ..DialogSettings::default() };
    proxy.set(|setup| setup.settings.dialogs = Some(Arc::new(settings)));
    proxy.set(|setup| setup.settings.distribution.as_mut().expect("state is shared out").dialogs = true);
}

/// Proxies in series that share out dialogs.
fn chain(length: usize) -> Chain {
    let mut chain = Chain::new(length);
    for proxy in &mut chain.proxies {
        keep_dialogs(proxy, CallSettings::default());
    }
    chain
}

/// INVITE, its copy, 200 and ACK.
fn call(chain: &mut Chain, call_id: &str) -> Dialog {
    let invite = Req::new("INVITE", call_id, client());
    let at_callee = chain.by_client(&invite).at_callee.remove(0);
    assert_eq!(chain.by_client(&invite).at_callee, [], "the copy is absorbed");
    let ok = chain.answered(&at_callee, 200).at_client.remove(0);
    let call = Dialog::of(&at_callee, &ok);
    assert_eq!(chain.by_client(&call.by_caller("ACK", 1)).at_callee.len(), 1);
    call
}

/// A request within the dialog arrives, and its answer comes back.
fn ask(chain: &mut Chain, call: &Dialog, by_caller: bool, method: &'static str, cseq: u32) {
    let is_asked = |sent: &&Sent| sent.message().method().is_some();
    if by_caller {
        let arrived = chain.by_client(&call.by_caller(method, cseq)).at_callee;
        let request = arrived.iter().find(is_asked).expect("the request arrives");
        if method != "ACK" {
            assert_eq!(chain.answered(request, 200).at_client[0].status(), 200);
        }
    } else {
        let arrived = chain.by_callee(&call.by_callee(method, cseq).bytes()).at_client;
        let request = arrived.iter().find(is_asked).expect("the request arrives");
        if method != "ACK" {
            let ok = answer(&request.bytes, addr(PROXIES[0]), 200, client());
            assert_eq!(chain.send(client(), 0, &ok).at_callee[0].status(), 200);
        }
    }
}

/// Returns how many answered calls each proxy watches.
fn answered(chain: &Chain) -> Vec<usize> {
    let calls = |proxy: &ProxyBed| proxy.shard.proxy_report().and_then(|report| report.calls);
    chain.proxies.iter().map(|proxy| calls(proxy).map_or(0, |calls| calls.answered)).collect()
}

/// Takes the records of each proxy so far.
fn written(chain: &mut Chain) -> Vec<Vec<CallRecord>> {
    chain.proxies.iter_mut().map(records).collect()
}

/// Returns the only record of all proxies, after more than the time for which a call is watched.
fn one_record(chain: &mut Chain) -> CallRecord {
    chain.proxies.iter_mut().for_each(|proxy| drop(proxy.wait(Duration::from_hours(25))));
    let mut all: Vec<_> = written(chain).into_iter().flatten().collect();
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

/// Moves the shares as far as they go.
fn settle(chain: &mut Chain, utilisation: &[f64]) {
    for second in 0..14 {
        for number in 0..10 {
            let invite = Req::new("INVITE", &format!("settle-{second}-{number}"), client());
            let at_callee = chain.by_client(&invite).at_callee.remove(0);
            chain.answered(&at_callee, 486);
            chain.by_client(&invite.same_branch("ACK", Some("bob")));
        }
        chain.period(utilisation);
    }
    let refused: usize = written(chain).iter().map(Vec::len).sum();
    assert_eq!(refused, 140, "each refused call has one record");
}

#[test]
fn each_call_has_one_dialog_and_one_record() {
    for length in [1, 2, 3] {
        let mut keepers = [0; 3];
        for (round, utilisation) in BUSY.iter().enumerate() {
            let mut chain = chain(length);
            settle(&mut chain, &utilisation[..length]);
            for number in 0..6 {
                let by_caller = number % 2 == 0;
                let call = call(&mut chain, &format!("call-{round}-{number}"));
                let watching = answered(&chain);
                assert_eq!(watching.iter().sum::<usize>(), 1, "{watching:?}");
                for (cseq, by_caller) in [(2, true), (2, false), (4, !by_caller)] {
                    ask(&mut chain, &call, by_caller, "INVITE", cseq);
                    ask(&mut chain, &call, by_caller, "ACK", cseq);
                    ask(&mut chain, &call, by_caller, "INFO", cseq + 1);
                }
                assert_eq!(answered(&chain), watching, "the call is watched at its keeper");
                ask(&mut chain, &call, by_caller, "BYE", 9);
                assert_eq!(answered(&chain).iter().sum::<usize>(), 0);
                let written = written(&mut chain);
                let counts: Vec<_> = written.iter().map(Vec::len).collect();
                assert_eq!(counts, watching, "the keeper of the call writes its record");
                let record = written.iter().flatten().next().expect("one");
                assert_eq!((record.cause, record.is_final), (Some(Cause::Bye), true));
                let keeper = watching.iter().position(|count| *count == 1).expect("one");
                keepers[keeper] += 1;
            }
        }
        assert!(keepers[..length].iter().all(|kept| *kept > 0), "every proxy keeps calls: {keepers:?}");
    }
}

/// A failed call has one record as well.
#[test]
fn an_abandoned_call_has_one_record() {
    for utilisation in &BUSY {
        let mut chain = chain(3);
        settle(&mut chain, utilisation);
        let invite = Req::new("INVITE", "given-up", client());
        let at_callee = chain.by_client(&invite).at_callee.remove(0);
        chain.answered(&at_callee, 180);
        chain.by_client(&invite.same_branch("CANCEL", None));
        chain.answered(&at_callee, 487);
        chain.by_client(&invite.same_branch("ACK", Some("bob")));
        assert_eq!(one_record(&mut chain).cause, Some(Cause::Cancelled));
    }
}

/// A call is forked behind the chain, and two callees answer it. Its keeper watches both dialogs, like a proxy that
/// keeps all calls.
#[test]
fn both_dialogs_of_a_forked_call_are_at_one_proxy() {
    let written_by = |chain: &mut Chain| {
        let at_callee = chain.by_client(&Req::new("INVITE", "forked", client())).at_callee.remove(0);
        let mut calls = Vec::new();
        for tag in ["bob", "carol"] {
            let ok = answer(&at_callee.bytes, chain.last(), 200, addr(CALLEE));
            let ok = String::from_utf8(ok).expect("text").replace("tag=bob", &format!("tag={tag}"));
            let ok = chain.by_callee(ok.as_bytes()).at_client.remove(0);
            let call = Dialog::of(&at_callee, &ok);
            chain.by_client(&call.by_caller("ACK", 1));
            calls.push(call);
        }
        assert_eq!(answered(chain).iter().filter(|calls| **calls > 0).count(), 1);
        (2..).zip(&calls).for_each(|(cseq, call)| ask(chain, call, true, "BYE", cseq));
        chain.proxies.iter_mut().for_each(|proxy| drop(proxy.wait(Duration::from_hours(25))));
        let all = written(chain).into_iter().flatten();
        all.map(|record| (record.cause, record.is_final)).collect::<Vec<_>>()
    };
    let mut alone = chain(1);
    alone.proxies[0].set_services([DIALOG]);
    let expected = written_by(&mut alone);
    for utilisation in &BUSY {
        let mut chain = chain(3);
        settle(&mut chain, utilisation);
        assert_eq!(written_by(&mut chain), expected);
    }
}

/// A proxy without room for another call leaves it to the next one, and only the last one refuses.
#[test]
fn a_proxy_without_room_for_a_call_passes_it_on() {
    let mut chain = Chain::new(2);
    for proxy in &mut chain.proxies {
        keep_dialogs(proxy, CallSettings { most: 1, ..CallSettings::default() });
    }
    let first = call(&mut chain, "first");
    assert_eq!(answered(&chain), [1, 0]);
    call(&mut chain, "second");
    assert_eq!(answered(&chain), [1, 1]);
    let arrived = chain.by_client(&Req::new("INVITE", "third", client()));
    assert_eq!(arrived.at_callee, []);
    assert!(arrived.at_client.iter().any(|sent| sent.status() == 503));
    ask(&mut chain, &first, true, "BYE", 2);
    call(&mut chain, "fourth");
    assert_eq!(answered(&chain), [1, 1]);
}

/// Only the keeper of a call ends it at its time limit: each party gets one BYE.
#[test]
fn one_proxy_ends_a_call_at_its_time_limit() {
    for utilisation in &BUSY {
        let mut chain = chain(3);
        settle(&mut chain, utilisation);
        for proxy in &mut chain.proxies {
            let longest = Some(Duration::from_mins(1));
            keep_dialogs(proxy, CallSettings { longest, ..CallSettings::default() });
        }
        call(&mut chain, "long");
        let sent = chain.proxies.iter_mut().map(|proxy| proxy.wait(Duration::from_millis(60_100)));
        let byes = sent.flatten().filter(|sent| sent.message().method() == Some(Method::Bye)).count();
        assert_eq!(byes, 2);
        assert_eq!(one_record(&mut chain).cause, Some(Cause::TimeLimit));
    }
}

/// Only the keeper of a call refuses a session that is too short.
#[test]
fn the_keeper_of_a_call_refuses_a_too_short_session() {
    for utilisation in &BUSY {
        let mut chain = chain(3);
        settle(&mut chain, utilisation);
        let invite = Req::new("INVITE", "short", client()).line("Session-Expires: 60");
        let arrived = chain.by_client(&invite.line("Supported: timer"));
        let statuses = statuses(&arrived.at_client);
        assert_eq!((arrived.at_callee.len(), statuses), (0, vec![422]));
    }
}

/// A restarted process knows by the token alone that it keeps a dialog, and the others that they do not.
#[test]
fn after_a_restart_a_call_has_one_final_record() {
    for utilisation in &BUSY {
        for restarted in 0..3 {
            let mut chain = chain(3);
            settle(&mut chain, utilisation);
            let call = call(&mut chain, "call");
            let watching = answered(&chain);
            chain.restart(restarted);
            keep_dialogs(&mut chain.proxies[restarted], CallSettings::default());
            ask(&mut chain, &call, restarted == 1, "BYE", 2);
            chain.proxies.iter_mut().for_each(|proxy| drop(proxy.wait(Duration::from_hours(25))));
            // An unproved end after a restart is written before the final record.
            let is_final = |of: &Vec<CallRecord>| of.iter().filter(|record| record.is_final).count();
            let written = written(&mut chain);
            assert_eq!(
                written.iter().map(is_final).collect::<Vec<_>>(),
                watching,
                "{utilisation:?} {restarted}"
            );
            let has_any: Vec<_> = written.iter().map(|of| usize::from(!of.is_empty())).collect();
            assert_eq!(has_any, watching);
        }
    }
}

/// Proxies that share out only transactions, keep all dialogs, or keep nothing, in one chain with one that shares out
/// dialogs: there is still one record.
#[test]
fn proxies_that_share_out_different_things_write_one_record() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Way {
        Dialogs,
        Transactions,
        AllDialogs,
        Nothing,
    }
    let ways = [Way::Dialogs, Way::Transactions, Way::AllDialogs, Way::Nothing];
    for first in ways {
        for second in ways {
            let keeps = |way| matches!(way, Way::Dialogs | Way::AllDialogs);
            // A proxy that keeps nothing makes those behind appear to share out the same functions.
            let is_kept_before = keeps(second) || (keeps(first) && second != Way::Nothing);
            let lasts = [(Way::Dialogs, BUSY[1]), (Way::AllDialogs, BUSY[2]), (Way::Transactions, BUSY[2])];
            for (last, utilisation) in lasts.into_iter().filter(|(last, _)| keeps(*last) || is_kept_before) {
                let mut chain = chain(3);
                for (proxy, way) in chain.proxies.iter_mut().zip([first, second, last]) {
                    match way {
                        Way::Dialogs => proxy.set_services([DISTRIBUTED]),
                        Way::AllDialogs => proxy.set_services([DIALOG]),
                        Way::Nothing => proxy.set_services([STATELESS]),
                        Way::Transactions => proxy.set(|setup| {
                            setup.settings.dialogs = None;
                            setup.settings.distribution.as_mut().expect("state is shared out").dialogs =
                                false;
                        }),
                    };
                }
                settle(&mut chain, &utilisation);
                let call = call(&mut chain, "mixed");
                assert_eq!(answered(&chain).iter().sum::<usize>(), 1, "{first:?} {second:?} {last:?}");
                ask(&mut chain, &call, false, "BYE", 2);
                assert_eq!(one_record(&mut chain).cause, Some(Cause::Bye));
            }
        }
    }
}

/// A stranger's mark saves no record, and neither does a neighbour's mark for transactions alone.
#[test]
fn a_mark_without_dialog_state_saves_no_record() {
    let state = Mark::default().with(Function::State);
    let all = state.with(Function::Dialog);
    let neighbour = addr("127.0.0.77:5060");
    for (from, mark, records) in [(client(), all, 1), (neighbour, state, 1), (neighbour, all, 0)] {
        for mode in [DISTRIBUTED, DIALOG] {
            let mut chain = chain(1);
            chain.proxies[0].set_services([mode]);
            let via = via_with(&format!("{}={mark}", Mark::PARAMETER));
            let via = via.replace(&client().to_string(), &from.to_string());
            let request = Req::new("INVITE", "call", client()).via(&via);
            let at_callee =
                chain.proxies[0].receive(0, from, &request.bytes()).pop().expect("the INVITE is forwarded");
            let refusal = answer_with(&at_callee.bytes, chain.last(), 486, addr(CALLEE), &[]);
            chain.proxies[0].receive(0, addr(CALLEE), &refusal);
            let written = written(&mut chain);
            assert_eq!(written[0].len(), records, "{from} {mark} {mode:?}");
        }
    }
}

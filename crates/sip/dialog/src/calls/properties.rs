//! Properties for any sequence of events.

use super::tests::{ENDS, PEER, TARGET, WAY, about, at, invite, pass, records};
use super::*;
use crate::call::Proof;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Call-ID and tag of a dialog.
type Name = (Box<[u8]>, Box<[u8]>);

/// For one name: the number of dialogs that were answered, the number that ended for good, and the last end that was
/// written as not final.
#[derive(Default)]
struct Ledger {
    begun: usize,
    ended: usize,
    last: Option<Instant>,
}

impl Ledger {
    fn note(&mut self, record: &CallRecord) -> Result<(), TestCaseError> {
        if record.is_final {
            self.ended += 1;
            self.last = None;
        } else {
            prop_assert!(self.last <= Some(record.ended), "an unproved end never shortens a call");
            self.last = Some(record.ended);
        }
        Ok(())
    }
}

/// Events of two calls with two callees each.
#[derive(Clone, Copy, Debug)]
enum Step {
    Invite,
    Ring(u64),
    Accept(u64, Option<u8>),
    Fail(u16),
    Cancel,
    Bye(u64, bool, Proof),
    ByeAnswered(u64, u16),
    GoesOn(u64),
    TookOurBye(u64, bool),
    Refresh(u64, Option<u8>),
    Found(u64),
    Wait(u16),
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let tag = 1..3_u64;
    let step = prop_oneof![
        Just(Step::Invite),
        tag.clone().prop_map(Step::Ring),
        (tag.clone(), prop::option::of(any::<u8>())).prop_map(|(tag, session)| Step::Accept(tag, session)),
        prop::sample::select(vec![407, 486, 487, 503]).prop_map(Step::Fail),
        Just(Step::Cancel),
        (tag.clone(), any::<bool>(), prop::sample::select(vec![TARGET, Proof::Tags]))
            .prop_map(|(tag, by_caller, proof)| Step::Bye(tag, by_caller, proof)),
        tag.clone().prop_map(Step::GoesOn),
        (tag.clone(), any::<bool>()).prop_map(|(tag, by_caller)| Step::TookOurBye(tag, by_caller)),
        (tag.clone(), prop::sample::select(vec![200, 401, 481, 500]))
            .prop_map(|(tag, status)| Step::ByeAnswered(tag, status)),
        (tag.clone(), prop::option::of(any::<u8>())).prop_map(|(tag, session)| Step::Refresh(tag, session)),
        tag.prop_map(Step::Found),
        (0..400_u16).prop_map(Step::Wait),
    ];
    (7..9_u64, step)
}

proptest! {
    /// Each answered dialog has one final record, other dialogs have none, no dialog stays for ever, and the counters
    /// are right.
    #[test]
    fn each_answered_dialog_has_one_final_record(steps in prop::collection::vec(step(), 0..120)) {
        let settings = CallSettings {
            longest: Some(Duration::from_mins(15)),
            silence: Duration::from_secs(2000),
            ..CallSettings::default()
        };
        let mut calls = Calls::new(settings);
        let mut now = at(1);
        let mut answered: BTreeMap<Name, Ledger> = BTreeMap::new();
        let mut byes = BTreeMap::new();
        let there = |calls: &Calls| calls.counts().answered + calls.counts().watched;
        for (call, step) in steps {
            let key = |tag| DialogKey { call, tag };
            let name = [b'c', call as u8];
            let tag_of = |tag: u64| [tag as u8];
            let side = |by_caller| DialogSide::of(by_caller);
            let before = there(&calls);
            let mut began = None;
            match step {
                Step::Invite => {
                    let _ = calls.invited(now, call, &invite(&name));
                }
                Step::Ring(tag) => calls.provisional(now, key(tag), true),
                Step::Accept(tag, session) => {
                    let session = session.map(|session| Duration::from_secs(session.into()));
                    let by = (&tag_of(tag)[..], PEER.into(), [Some(WAY); 2]);
                    calls.accepted(now, key(tag), by, Some(&invite(&name)), session, ENDS);
                    began = Some(tag);
                }
                Step::Fail(status) => calls.failed(now, (call, &invite(&name)), status, (None, b"")),
                Step::Cancel => calls.cancelled(call, DialogSide::Caller, b""),
                Step::Bye(tag, by_caller, proof) => {
                    let bye = calls.bye(now, key(tag), side(by_caller), b"", proof);
                    byes.insert((call, tag), bye);
                }
                Step::ByeAnswered(tag, status) => {
                    if let Some(&bye) = byes.get(&(call, tag)) {
                        calls.bye_answered(now, key(tag), status, bye);
                    }
                }
                Step::GoesOn(tag) => calls.request_accepted(now, key(tag)),
                Step::TookOurBye(tag, by_caller) => calls.accepted_our_bye(key(tag), side(by_caller)),
                Step::Refresh(tag, session) => {
                    let session = session.map(|session| Duration::from_secs(session.into()));
                    calls.refreshed(now, key(tag), session, (DialogSide::Caller, TARGET), [None; 2]);
                }
                Step::Found(tag) => {
                    if calls.heard(now, key(tag), DialogSide::Caller, 1).is_none() {
                        calls.found(now, key(tag), about(&name), &tag_of(tag), 1);
                        began = Some(tag);
                    }
                }
                Step::Wait(secs) => {
                    now += Duration::from_secs(secs.into());
                    pass(&mut calls, now);
                }
            }
            if let Some(tag) = began {
                answered.entry((name.into(), tag_of(tag).into())).or_default().begun += there(&calls) - before;
            }
            for record in records(&mut calls) {
                prop_assert!(record.cause.is_some() && record.ended <= now);
                if let Some(accepted) = &record.accepted {
                    prop_assert!(accepted.at.is_none_or(|at| at <= record.ended));
                    let name = (record.about.call_id().into(), accepted.tag.clone());
                    answered.entry(name).or_default().note(&record)?;
                } else {
                    prop_assert!(record.is_final);
                }
            }
            let open: usize = answered.values().map(|of| of.begun - of.ended).sum();
            prop_assert_eq!(there(&calls), open);
            let going_on = calls.table.iter().filter(|(_, call)| call.goes_on()).count();
            prop_assert_eq!(calls.open, going_on, "active calls");
        }
        pass(&mut calls, now + Duration::from_secs(10_000));
        for record in records(&mut calls) {
            if let Some(accepted) = &record.accepted {
                let name = (record.about.call_id().into(), accepted.tag.clone());
                answered.entry(name).or_default().note(&record)?;
            }
        }
        for (name, of) in answered {
            prop_assert_eq!(of.begun, of.ended, "{:?}", name);
        }
        prop_assert!(calls.open == 0 && calls.is_empty() && calls.deadline().is_none(), "no call and no timer is left");
    }
}

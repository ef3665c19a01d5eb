//! A call that its member leaves unanswered goes on to another one, with a queue as without, on bytes.

use crate::common::*;
use dialog::RecordEvent;
use proptest::prelude::*;
use route::BudgetSettings;
use std::collections::{BTreeMap, BTreeSet};

const MODE: Service = Service::BalanceTransactions;
const BOUND: Duration = Duration::from_millis(100);
/// Until the timer has fired.
const A_WHILE: Duration = Duration::from_millis(102);

fn setup(capacity: f64, source: CapacitySource) -> QueueSetup {
    let mut setup = QueueSetup { source, ..queue(capacity) };
    // A member may have some unanswered calls at a time.
    setup.capacity.threshold = Duration::from_millis(50);
    setup
}

/// Three members with this capacity in calls per second.
fn bed_of(mode: Service, setup: QueueSetup) -> Bed {
    let mut bed = Bed::new(Site::plain());
    bed.set(|all| {
        let pool = PoolSetup { service: mode, queue: Some(Arc::new(setup)), ..all.pools[0].clone() };
        all.pools = [PoolSetup { invite_timeout: BOUND, ..pool }].into();
    });
    bed
}

fn bed() -> Bed {
    bed_of(MODE, setup(10.0, CapacitySource::Fixed))
}

fn is_request(sent: &Sent, method: Method) -> bool {
    sent.message().method() == Some(method)
}

/// A call that a member has left unanswered, as that member and the next one got it.
fn moved(bed: &mut Bed) -> (Sent, Sent) {
    let first = invited(bed, "call");
    let mut sent = bed.wait(A_WHILE);
    assert_eq!(sent.len(), 1, "{sent:#?}");
    let second = sent.remove(0);
    assert!(
        is_request(&second, Method::Invite) && second.to != first.to && second.branch() != first.branch()
    );
    (first, second)
}

/// The receiver of `request` answers. Returns the messages sent.
fn answered(bed: &mut Bed, request: &Sent, status: u16) -> Vec<Sent> {
    let response = Resp { tag: tag(bed, request.to), ..Resp::new(status, request.to) };
    bed.receive(0, request.to, &response.bytes_from(&request.bytes, addr(PROXY)))
}

/// Each member has its own tag, so their responses are of different dialogs.
fn tag(bed: &Bed, at: SocketAddr) -> &'static str {
    ["one", "two", "three"][usize::from(bed.slot(at))]
}

/// Methods of the requests to this member.
fn asked(sent: &[Sent], at: SocketAddr) -> Vec<Option<Method>> {
    sent.iter().filter(|sent| sent.to == at).map(|sent| sent.message().method()).collect()
}

fn load_of(bed: &Bed, at: SocketAddr) -> Load {
    bed.shard.balancer().load(Slot(bed.slot(at))).own
}

fn moves(bed: &Bed) -> u64 {
    (0..3).map(|slot| bed.shard.balancer().stats(Slot(slot)).moved).sum()
}

/// The caller acknowledges and hangs up, and no state is left. The call counts as one arrival, whichever member had it.
fn finish(mut bed: Bed, at_member: &Sent, ok: &Sent) {
    let stats = (0..3).map(|slot| bed.shard.balancer().stats(Slot(slot)));
    assert_eq!(stats.map(|stats| stats.assigned - stats.moved).sum::<u64>(), 1);
    let call = Dialog::of(at_member, ok);
    call.caller_asks(&mut bed, "ACK", 1);
    call.caller_asks(&mut bed, "BYE", 2);
    nothing_is_left(bed);
}

fn nothing_is_left(mut bed: Bed) {
    bed.wait(Duration::from_secs(100));
    let report = bed.shard.proxy_report().expect("the pool keeps transactions");
    assert_eq!((report.transactions, report.unanswered, report.memory), (0, 0, 0));
    bed.assert_idle();
    bed.assert_forgets();
}

#[test]
fn a_stalled_members_call_is_answered_by_another_one() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    assert_eq!((load_of(&bed, first.to), moves(&bed)), (Load::default(), 1), "the session has left");
    assert_eq!((load_of(&bed, second.to).calls, load_of(&bed, second.to).transactions), (1, 1));
    assert_eq!(statuses(&answered(&mut bed, &second, 180)), [180]);
    let ok = answered(&mut bed, &second, 200).remove(0);
    assert_eq!((load_of(&bed, second.to).calls, load_of(&bed, second.to).transactions), (1, 0));
    // The first member gets two copies, in case its response was lost, and its late responses are not forwarded.
    let copies = bed.wait(Duration::from_secs(20));
    assert_eq!(asked(&copies, first.to), [Some(Method::Invite); 2]);
    assert!(copies.iter().all(|sent| sent.to != second.to), "{copies:#?}");
    let late = answered(&mut bed, &first, 180);
    assert_eq!((late.len(), asked(&late, first.to)), (1, vec![Some(Method::Cancel)]));
    let ended = answered(&mut bed, &first, 487);
    assert_eq!(asked(&ended, first.to), [Some(Method::Ack)]);
    assert_eq!((load_of(&bed, second.to).calls, statuses(&ended)), (1, vec![]));
    finish(bed, &second, &ok);
}

#[test]
fn a_late_answer_of_the_first_member_wins_the_call() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    assert_eq!(statuses(&answered(&mut bed, &first, 180)), [180]);
    assert_eq!((load_of(&bed, first.to).calls, load_of(&bed, second.to)), (1, Load::default()));
    let cancelled = answered(&mut bed, &second, 180);
    assert_eq!(asked(&cancelled, second.to), [Some(Method::Cancel)]);
    answered(&mut bed, &second, 487);
    assert_eq!((load_of(&bed, first.to).calls, load_of(&bed, first.to).transactions), (1, 1));
    let ok = answered(&mut bed, &first, 200).remove(0);
    assert_eq!((load_of(&bed, first.to).calls, load_of(&bed, first.to).transactions), (1, 0));
    finish(bed, &first, &ok);
}

/// The first member to respond is not the one that has accepted the call.
#[test]
fn the_call_counts_with_the_first_2xx() {
    for first_tries in [true, false] {
        let mut bed = bed();
        let (first, second) = moved(&mut bed);
        let (tries, has_it) = if first_tries { (&first, &second) } else { (&second, &first) };
        answered(&mut bed, tries, 100);
        assert_eq!((load_of(&bed, tries.to).calls, load_of(&bed, has_it.to)), (1, Load::default()));
        let sent = answered(&mut bed, has_it, 200);
        assert_eq!((statuses(&sent), asked(&sent, tries.to)), (vec![200], vec![Some(Method::Cancel)]));
        assert_eq!((load_of(&bed, tries.to), load_of(&bed, has_it.to).calls), (Load::default(), 1));
        answered(&mut bed, tries, 487);
        assert_eq!((load_of(&bed, has_it.to).calls, load_of(&bed, has_it.to).transactions), (1, 0));
        finish(bed, has_it, sent.iter().find(|sent| sent.to == client()).expect("the 200"));
    }
}

/// Other calls may have reached its limit of calls since.
#[test]
fn the_first_member_keeps_its_call_above_its_limit() {
    let mut bed = bed_of(MODE, setup(100.0, CapacitySource::Fixed));
    bed.set_members(&[0, 1]);
    let (first, second) = moved(&mut bed);
    let mut nodes = bed.shard.balancer().nodes().to_vec();
    nodes[usize::from(bed.slot(first.to))].max_calls = 1;
    bed.set(|setup| setup.nodes = nodes.into());
    (0..3).for_each(|number| drop(invited(&mut bed, &format!("other{number}"))));
    let at_second = load_of(&bed, second.to).calls;
    assert_eq!(load_of(&bed, first.to).calls, 1);
    answered(&mut bed, &first, 180);
    assert_eq!((load_of(&bed, first.to).calls, load_of(&bed, second.to).calls), (2, at_second - 1));
}

/// A missing member is not searched for every few milliseconds.
#[test]
fn a_half_open_member_gets_no_moved_call() {
    let mut bed = bed();
    bed.set_members(&[0, 1]);
    bed.probed(1, false);
    invited(&mut bed, "call");
    assert_eq!((bed.wait(A_WHILE), moves(&bed)), (Vec::new(), 0));
    let (begin, mut looks) = (bed.now, 0);
    while let Some(deadline) = bed.shard.deadline().filter(|&at| at < begin + Duration::from_secs(30)) {
        let time = deadline - bed.now;
        bed.wait(time);
        looks += 1;
    }
    assert!(looks < 40, "15 looks, copies and ticks of wheels, where all the time it would be 300: {looks}");
}

/// A member that answers nothing at all is reported, although others have its calls.
#[test]
fn a_member_that_answers_nothing_is_reported() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    let ok = answered(&mut bed, &second, 200).remove(0);
    bed.wait(Duration::from_secs(33));
    let at = Slot(bed.slot(first.to));
    let is_it = |event: &&ShardEvent| matches!(event, ShardEvent::Sign(balance::Sign::NoAnswer { slot, silent: true }) if *slot == at);
    assert_eq!(bed.events.iter().filter(is_it).count(), 1, "{:?}", bed.events);
    finish(bed, &second, &ok);
    // A member that has answered is not.
    let mut bed = self::bed();
    let (first, second) = moved(&mut bed);
    answered(&mut bed, &first, 180);
    answered(&mut bed, &second, 100);
    bed.wait(Duration::from_secs(33));
    let is_any = |event: &ShardEvent| matches!(event, ShardEvent::Sign(balance::Sign::NoAnswer { .. }));
    assert!(!bed.events.iter().any(is_any), "{:?}", bed.events);
}

/// The call was cancelled while both members were silent. It stays cancelled at the member that answers, even if the
/// second one has refused it before or after.
#[test]
fn a_cancelled_call_stays_cancelled_at_every_member() {
    for (first_answers, refused) in
        [(true, None), (false, None), (true, Some("before")), (true, Some("after"))]
    {
        let mut bed = bed();
        bed.set_members(&[0, 1]);
        let cancel = Req::new("INVITE", "call", client()).same_branch("CANCEL", None).bytes();
        let (first, second) = moved(&mut bed);
        if refused == Some("before") {
            answered(&mut bed, &second, 503);
        }
        bed.receive(0, client(), &cancel);
        if refused == Some("after") {
            answered(&mut bed, &second, 503);
        }
        let answers = if first_answers { &first } else { &second };
        let sent = answered(&mut bed, answers, 180);
        assert_eq!(asked(&sent, answers.to), [Some(Method::Cancel)]);
        assert_eq!(load_of(&bed, answers.to).calls, 1);
        // It never sends a 487.
        bed.wait(Duration::from_secs(65));
        assert_eq!(bed.load(), Load::default());
        nothing_is_left(bed);
    }
}

fn two_retries() -> Failover {
    let mut failover = Failover::default();
    failover.budget = BudgetSettings { ratio: 0.0, least: 2, window: Duration::from_secs(10) };
    failover
}

/// Moves and failover share the budget of retries.
#[test]
fn moves_are_a_part_of_the_retry_budget() {
    let mut bed = bed_of(MODE, setup(100.0, CapacitySource::Fixed));
    let target = Target::Pools(Pools { failover: two_retries(), ..Pools::one(0) });
    set_rules(&mut bed, [Rule { target, ..Rule::default() }]);
    let known = invited(&mut bed, "first");
    answered(&mut bed, &known, 200);
    bed.wait(BOUND);
    (0..6).for_each(|number| drop(invited(&mut bed, &format!("call{number}"))));
    let sent = bed.wait(A_WHILE);
    assert_eq!((sent.len(), moves(&bed)), (2, 2));
}

/// The record of a call names the member that has answered it.
#[test]
fn the_record_is_of_the_member_that_answered() {
    for first_wins in [true, false] {
        let mut bed = bed_of(Service::Calls(Spread::Counted), setup(10.0, CapacitySource::Fixed));
        keep_dialogs(&mut bed, DialogSettings::default());
        let (first, second) = moved(&mut bed);
        let (winner, loser) = if first_wins { (&first, &second) } else { (&second, &first) };
        answered(&mut bed, winner, 180);
        answered(&mut bed, loser, 180);
        answered(&mut bed, loser, 487);
        let ok = answered(&mut bed, winner, 200).remove(0);
        let call = Dialog::of(winner, &ok);
        call.caller_asks(&mut bed, "ACK", 1);
        call.caller_asks(&mut bed, "BYE", 2);
        let records: Vec<_> = bed
            .events
            .iter()
            .filter_map(|event| if let ShardEvent::Record(record) = event { Some(record) } else { None })
            .collect();
        assert_eq!(records.len(), 1, "{records:#?}");
        let peer = records[0].peer;
        assert_eq!((records[0].event, peer), (RecordEvent::Ended, Some(winner.to)));
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A new INVITE, or a copy.
    Call(u8),
    Cancel(u8),
    /// The receiver of one of the INVITEs answers it.
    Answer(usize, u16),
    /// An ICMP error for one of them.
    Lost(usize),
    /// Limit of a member's calls.
    Limit(u16, u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![
        3 => Just(100),
        3 => Just(180),
        3 => Just(200),
        1 => Just(486),
        3 => Just(503),
        2 => Just(487),
        1 => Just(603),
    ];
    prop_oneof![
        2 => (0..3_u8).prop_map(Step::Call),
        1 => (0..3_u8).prop_map(Step::Cancel),
        8 => (any::<usize>(), status).prop_map(|(which, status)| Step::Answer(which, status)),
        1 => any::<usize>().prop_map(Step::Lost),
        1 => (0..3_u16, prop_oneof![Just(0), 1..3_u32]).prop_map(|(slot, most)| Step::Limit(slot, most)),
        4 => prop_oneof![0..150_u64, 0..2_000_u64, Just(32_000)].prop_map(Step::Wait),
    ]
}

/// Messages that the callers and members of a random run have seen.
#[derive(Default)]
struct Seen {
    /// INVITEs at members without copies, with their final responses.
    at_members: Vec<(Sent, Option<u16>)>,
    /// The first final response to each call, with its sender if it is a 2xx.
    answers: BTreeMap<String, (u16, Option<SocketAddr>)>,
    /// Established dialogs by call.
    dialogs: BTreeMap<String, Vec<(Dialog, SocketAddr)>>,
}

impl Seen {
    /// Returns the number of established calls of each member.
    fn up(&self) -> BTreeMap<SocketAddr, u32> {
        let mut up = BTreeMap::new();
        for at in self.answers.values().filter_map(|(_, at)| *at) {
            *up.entry(at).or_default() += 1;
        }
        up
    }

    fn note(&mut self, sent: Vec<Sent>, by: Option<&Sent>) {
        for sent in sent {
            let message = sent.message();
            let call = string(message.call_id());
            let is_copy = self.at_members.iter().any(|(known, _)| known.branch() == sent.branch());
            match message.status() {
                None if message.method() == Some(Method::Invite) && !is_copy => {
                    self.at_members.push((sent, None));
                }
                Some(status) if status >= 200 && message.cseq().method == Method::Invite => {
                    assert_eq!(sent.to, client());
                    let from = by.filter(|_| status < 300).map(|by| by.to);
                    let (is_up, _) = self.answers.entry(call.clone()).or_insert((status, from));
                    // A caller that got a failure acknowledges no 2xx.
                    if let (Some(by), Some(at), 200) = (by, from, *is_up) {
                        let known = self.dialogs.entry(call.clone()).or_default();
                        if known.iter().all(|(_, member)| *member != at) {
                            known.push((Dialog::of(by, &sent), at));
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

proptest! {
    /// With any responses, cancellations, losses and delays, each caller gets a final response. An established call
    /// counts with the member of the first 2xx, a failed one counts nowhere. No state is left after all BYEs.
    #[test]
    fn each_call_counts_at_its_member(steps in prop::collection::vec(step(), 1..60), capacity in 2.0..100.0_f64) {
        let mut bed = bed_of(MODE, setup(capacity, CapacitySource::Responses));
        let (mut seen, mut called) = (Seen::default(), BTreeSet::new());
        for step in steps {
            let (sent, by) = match step {
                // After a final response a caller sends no copies.
                Step::Call(number) if !seen.answers.contains_key(&format!("call{number}")) => {
                    called.insert(number);
                    let invite = Req::new("INVITE", &format!("call{number}"), client());
                    (bed.receive(0, client(), &invite.bytes()), None)
                }
                Step::Cancel(number) if called.contains(&number) => {
                    let invite = Req::new("INVITE", &format!("call{number}"), client());
                    (bed.receive(0, client(), &invite.same_branch("CANCEL", None).bytes()), None)
                }
                Step::Answer(which, status) if !seen.at_members.is_empty() => {
                    let at = which % seen.at_members.len();
                    let (request, last) = &mut seen.at_members[at];
                    if status >= 200 {
                        last.get_or_insert(status);
                    }
                    let (request, status) = (request.clone(), last.unwrap_or(status));
                    (answered(&mut bed, &request, status), Some(request))
                }
                Step::Lost(which) if !seen.at_members.is_empty() => {
                    let (request, last) = &seen.at_members[which % seen.at_members.len()];
                    if last.is_some() {
                        continue;
                    }
                    (bed.unreachable(request.to, &request.bytes), None)
                }
                Step::Limit(slot, most) => {
                    let mut nodes = bed.shard.balancer().nodes().to_vec();
                    nodes[usize::from(slot)].max_calls = most;
                    (bed.set(|setup| setup.nodes = nodes.into()), None)
                }
                Step::Wait(millis) => (bed.wait(Duration::from_millis(millis)), None),
                Step::Call(_) | Step::Cancel(_) | Step::Answer(..) | Step::Lost(_) => continue,
            };
            seen.note(sent, by.as_ref());
            for (at, calls) in seen.up() {
                prop_assert!(load_of(&bed, at).calls >= calls, "before the ACK: {:?}", seen.answers);
            }
            // A 2xx is acknowledged at once, so that its call stays.
            for (dialog, _) in seen.dialogs.values().flatten() {
                dialog.caller_asks(&mut bed, "ACK", 1);
            }
        }
        // Longer than any INVITE may ring.
        let sent = bed.wait(Duration::from_secs(400));
        seen.note(sent, None);
        prop_assert_eq!(seen.answers.len(), called.len(), "{:?}", seen.answers);
        let up = seen.up();
        for (address, _) in bed.site.nodes.clone() {
            let calls = up.get(&addr(address)).copied().unwrap_or_default();
            prop_assert_eq!(load_of(&bed, addr(address)).calls, calls, "{}: {:?}", address, seen.answers);
        }
        for (dialog, _) in seen.dialogs.values().flatten() {
            let bye = dialog.caller_asks(&mut bed, "BYE", 2);
            let ok = answer(&bye.bytes, addr(PROXY), 200, bye.to);
            bed.receive(0, bye.to, &ok);
        }
        nothing_is_left(bed);
    }
}

//! State distribution on bytes: proxies in series, of which one keeps the transactions of each call.

mod authentication;
mod dialogs;
mod home;

use crate::common::*;
use node::{Decisions, Distribution, SharingReport};

const PROXIES: [&str; 3] = ["127.0.0.1:5060", "127.0.0.2:5060", "127.0.0.3:5060"];
const CALLEE: &str = "127.0.1.1:5060";

const DISTRIBUTED: Service = Service::Distribute { record_route: true };

/// Proxies in series, before the callee.
struct Chain {
    proxies: Vec<ProxyBed>,
    /// All messages between the proxies and to the parties.
    wire: Vec<(SocketAddr, Sent)>,
}

/// Messages that reached the parties.
#[derive(Default)]
struct Arrived {
    at_client: Vec<Sent>,
    at_callee: Vec<Sent>,
}

/// Delivers a datagram to a proxy, and all messages that follow. `receive` stands for the proxy with this number.
fn carried(
    from: SocketAddr,
    to: usize,
    bytes: &[u8],
    mut receive: impl FnMut(usize, SocketAddr, &[u8]) -> Vec<Sent>,
) -> Arrived {
    let mut arrived = Arrived::default();
    let mut under_way = vec![(from, addr(PROXIES[to]), bytes.to_vec())];
    while !under_way.is_empty() {
        let (from, to, bytes) = under_way.remove(0);
        let at = PROXIES.iter().position(|proxy| addr(proxy) == to).expect("a proxy");
        for sent in receive(at, from, &bytes) {
            if sent.to == client() {
                arrived.at_client.push(sent);
            } else if sent.to == addr(CALLEE) {
                arrived.at_callee.push(sent);
            } else {
                under_way.push((to, sent.to, sent.bytes));
            }
        }
    }
    arrived
}

fn proxy(index: usize, length: usize) -> ProxyBed {
    let next = if index + 1 < length { PROXIES[index + 1] } else { CALLEE };
    let tokens = Tokens::new(TokenKey([index as u8; 16]), &[], LIFETIME);
    let mut bed = ProxyBed::with_tokens(&[PROXIES[index]], &[(next, 0)], tokens).with_mode(DISTRIBUTED);
    let neighbours = vec!["127.0.0.0/24".parse().expect("a network")];
    bed.set(|setup| setup.settings.limits = ProxyLimits::default());
    // The settings of the paper's server, so that the tests know how fast shares move.
    let distribution = Distribution {
        neighbours,
        settings: distribute::DistributionSettings::default(),
        ..Distribution::default()
    };
    bed.set(|setup| setup.settings.distribution = Some(distribution));
    bed
}

impl Chain {
    fn new(length: usize) -> Self {
        Self { proxies: (0..length).map(|index| proxy(index, length)).collect(), wire: Vec::new() }
    }

    /// The process dies and restarts.
    fn restart(&mut self, index: usize) {
        let now = self.proxies[index].now;
        self.proxies[index] = proxy(index, self.proxies.len()).at(now);
    }

    /// Delivers a datagram, and all messages that follow.
    fn send(&mut self, from: SocketAddr, to: usize, bytes: &[u8]) -> Arrived {
        carried(from, to, bytes, |at, from, bytes| {
            let sent = self.proxies[at].receive(0, from, bytes);
            self.wire.extend(sent.iter().map(|sent| (addr(PROXIES[at]), sent.clone())));
            sent
        })
    }

    fn by_client(&mut self, request: &Req) -> Arrived {
        self.send(client(), 0, &request.bytes())
    }

    fn by_callee(&mut self, bytes: &[u8]) -> Arrived {
        self.send(addr(CALLEE), self.proxies.len() - 1, bytes)
    }

    fn last(&self) -> SocketAddr {
        addr(PROXIES[self.proxies.len() - 1])
    }

    fn answered(&mut self, request: &Sent, status: u16) -> Arrived {
        let last = self.last();
        self.by_callee(&answer(&request.bytes, last, status, addr(CALLEE)))
    }

    /// INVITE and 200. The 100 comes at once if the first proxy keeps the call.
    fn call(&mut self, call_id: &str) -> Dialog {
        let before = self.kept();
        let arrived = self.by_client(&Req::new("INVITE", call_id, client()));
        let [invite] = &arrived.at_callee[..] else { panic!("{:?}", arrived.at_callee) };
        let kept = self.kept();
        let statuses = statuses(&arrived.at_client);
        let expected: &[u16] = if kept[0] > before[0] { &[100] } else { &[] };
        assert_eq!(statuses, expected);
        assert_eq!(
            kept.iter().sum::<u64>(),
            before.iter().sum::<u64>() + 1,
            "one proxy keeps the transaction"
        );
        let ok = self.answered(invite, 200).at_client.remove(0);
        Dialog::of(invite, &ok)
    }

    /// Ends a period of one second.
    fn period(&mut self, utilisation: &[f64]) {
        for (proxy, &utilisation) in self.proxies.iter_mut().zip(utilisation) {
            proxy.wait(Duration::from_secs(1));
            let length = Duration::from_secs(1);
            proxy.input(ShardInput::Period { length, utilisation });
        }
    }

    fn reports(&self) -> Vec<SharingReport> {
        let report = |proxy: &ProxyBed| proxy.shard.proxy_report().and_then(|report| report.sharing);
        self.proxies.iter().map(|proxy| report(proxy).expect("state is shared out")).collect()
    }

    fn kept(&self) -> Vec<u64> {
        self.reports().iter().map(|report| report.state.kept).collect()
    }

    /// Calls for some seconds, with this utilisation of the proxies.
    fn run(&mut self, name: &str, seconds: usize, utilisation: &[f64]) {
        for second in 0..seconds {
            for call in 0..20 {
                self.call(&format!("{name}-{second}-{call}"));
            }
            self.period(utilisation);
        }
    }
}

fn hang_up(chain: &mut Chain, call: &Dialog, by_caller: bool) {
    if by_caller {
        let bye = call.by_caller("BYE", 2);
        let at_callee = chain.by_client(&bye).at_callee;
        assert_eq!(
            chain.by_client(&bye).at_callee.len(),
            0,
            "the proxy that keeps the call absorbs a retransmission"
        );
        assert_eq!(chain.answered(&at_callee[0], 200).at_client[0].status(), 200);
    } else {
        let bye = chain.by_callee(&call.by_callee("BYE", 2).bytes()).at_client.remove(0);
        let ok = answer(&bye.bytes, addr(PROXIES[0]), 200, client());
        let back = chain.send(client(), 0, &ok).at_callee;
        assert_eq!(back[0].status(), 200);
    }
}

/// A proxy without room for another transaction leaves the state to the proxies behind, and only the last one refuses.
#[test]
fn a_proxy_without_room_passes_calls_on() {
    let mut chain = Chain::new(2);
    chain.call("first");
    assert_eq!(chain.kept(), [1, 0]);
    let full = ProxyLimits { transactions: 2, ..ProxyLimits::default() };
    chain.proxies[0].set(|setup| setup.settings.limits = full);
    chain.call("second");
    assert_eq!(chain.kept(), [1, 1], "the first proxy is full with two transactions");
    chain.proxies[1].set(|setup| setup.settings.limits = full);
    let arrived = chain.by_client(&Req::new("INVITE", "third", client()));
    let statuses = statuses(&arrived.at_client);
    assert_eq!((statuses, arrived.at_callee.len()), (vec![503], 0));
}

/// With any load, exactly one proxy keeps the transactions of each call, with its BYE's.
#[test]
fn each_call_is_kept_once() {
    for length in [1, 2, 3] {
        let mut chain = Chain::new(length);
        let busy =
            [[0.5, 0.5, 0.5], [0.96, 0.2, 0.5], [0.95, 0.95, 0.95], [0.96, 0.96, 0.2], [0.2, 0.96, 0.9]];
        for (round, utilisation) in busy.iter().enumerate() {
            chain.run(&format!("round-{round}"), 4, &utilisation[..length]);
            for by_caller in [true, false] {
                let call = chain.call(&format!("whole-{round}-{by_caller}"));
                assert_eq!(chain.by_client(&call.by_caller("ACK", 1)).at_callee.len(), 1);
                hang_up(&mut chain, &call, by_caller);
            }
        }
        let calls = busy.len() as u64 * (4 * 20 + 2);
        let kept = chain.kept();
        assert_eq!(kept.iter().sum::<u64>(), calls, "{kept:?}");
        let used = kept.iter().filter(|kept| **kept > calls / 20).count();
        assert_eq!(used, length, "every proxy keeps calls: {kept:?}");
        for (report, proxy) in chain.reports().iter().zip(&chain.proxies) {
            let Decisions { kept, passed_open, passed_kept } = report.state;
            assert_eq!(kept + passed_open + passed_kept, calls);
            let counters = proxy.shard.counters();
            assert_eq!((counters.drops.len(), counters.tokens_refused), (0, 0));
        }
        for proxy in &mut chain.proxies {
            proxy.assert_forgets();
        }
    }
}

/// A proxy that keeps a call passed on by another one sends no 100 at once. It does so if no other response is sent
/// within 200 ms.
#[test]
fn a_call_that_was_passed_on_gets_its_100_late() {
    let mut chain = Chain::new(2);
    chain.run("busy", 12, &[0.96, 0.3]);
    for is_answered in [true, false] {
        let invite = Req::new("INVITE", &format!("call-{is_answered}"), client());
        let arrived = chain.by_client(&invite);
        assert_eq!(arrived.at_client, []);
        if is_answered {
            assert_eq!(chain.answered(&arrived.at_callee[0], 180).at_client[0].status(), 180);
        }
        let late = chain.proxies[1].wait(Duration::from_millis(199));
        assert_eq!(late, []);
        let late = chain.proxies[1].wait(Duration::from_millis(2));
        let statuses: Vec<_> = late.iter().map(Sent::status).collect();
        assert_eq!(statuses, if is_answered { vec![] } else { vec![100] });
        for trying in late {
            let back = chain.send(addr(PROXIES[1]), 0, &trying.bytes).at_client;
            assert_eq!(back[0].status(), 100, "the first proxy has no state to stop it");
        }
    }
}

/// A CANCEL finds the keeper of its INVITE, through proxies that keep no state.
#[test]
fn a_cancel_meets_its_invite() {
    for utilisation in [[0.1, 0.1, 0.1], [0.96, 0.1, 0.1], [0.96, 0.96, 0.1]] {
        let mut chain = Chain::new(3);
        chain.run("before", 20, &utilisation);
        let before = chain.kept();
        let invite = Req::new("INVITE", "cancelled", client());
        let at_callee = chain.by_client(&invite).at_callee.remove(0);
        let kept: Vec<_> = chain.kept().iter().zip(&before).map(|(now, before)| now - before).collect();
        assert_eq!(kept.iter().sum::<u64>(), 1);
        chain.answered(&at_callee, 180);
        let arrived = chain.by_client(&invite.same_branch("CANCEL", None));
        assert_eq!(arrived.at_client[0].status(), 200, "{kept:?}");
        let [cancel] = &arrived.at_callee[..] else { panic!("{:?}", arrived.at_callee) };
        assert_eq!((cancel.message().method(), cancel.branch()), (Some(Method::Cancel), at_callee.branch()));
        let ended = chain.answered(&at_callee, 487);
        assert_eq!(ended.at_client[0].status(), 487);
        let ack = ended.at_callee.iter().map(|sent| sent.message().method()).collect::<Vec<_>>();
        let by_client = chain.by_client(&invite.same_branch("ACK", Some("bob"))).at_callee;
        assert_eq!(ack.len() + by_client.len(), 1, "the callee gets one ACK");
    }
}

fn via_with(param: &str) -> String {
    format!("SIP/2.0/UDP {};branch=z9hG4bKstranger;rport;{param}", client())
}

/// A stranger's mark saves no state, and no mark is shown to strangers.
#[test]
fn the_mark_of_a_stranger_is_ignored() {
    for mark in ["done=1", "DONE=3", "done=0"] {
        let mut chain = Chain::new(2);
        let arrived = chain.by_client(&Req::new("INVITE", "call", client()).via(&via_with(mark)));
        assert_eq!(chain.kept(), [1, 0]);
        let (_, between) = chain
            .wire
            .iter()
            .find(|(_, sent)| sent.to == addr(PROXIES[1]))
            .expect("the INVITE was forwarded");
        let top = String::from_utf8_lossy(&between.bytes).lines().nth(1).expect("a Via").to_owned();
        assert!(top.ends_with(";done=1"), "{top}");
        let at_callee = arrived.at_callee[0].message();
        let ours = at_callee.top_via();
        assert!(ours.params(at_callee.bytes()).all(|param| param.name != b"done"));
    }
    let mut chain = Chain::new(1);
    for call in ["call", "another"] {
        let via = via_with("done=1").replace("stranger", call);
        chain.by_client(&Req::new("INVITE", call, client()).via(&via));
    }
    assert_eq!(chain.kept(), [2], "the last proxy keeps both calls");
    // It may be a proxy that only one side regards as a neighbour.
    let notices = chain.proxies[0].events.iter();
    assert_eq!(notices.filter(|event| matches!(event, ShardEvent::MarkOfStranger(_))).count(), 1);
}

/// A call that a neighbour has marked is not kept again. An invalid mark counts as none.
#[test]
fn the_mark_of_a_neighbour_counts() {
    let neighbour = addr("127.0.0.77:5060");
    for (mark, kept) in [("done=1", 0), ("Done=1", 0), ("done=0", 1), ("done", 1), ("done=1;done=0", 1)] {
        let mut chain = Chain::new(1);
        let via = format!("SIP/2.0/UDP {neighbour};branch=z9hG4bKneighbour;rport;{mark}");
        let arrived = chain.send(client(), 0, &Req::new("OPTIONS", "other", client()).bytes());
        assert_eq!((arrived.at_callee.len(), chain.kept()[0]), (1, 1));
        let sent =
            chain.proxies[0].receive(0, neighbour, &Req::new("MESSAGE", "call", client()).via(&via).bytes());
        assert_eq!((sent.len(), chain.kept()[0]), (1, 1 + kept), "{mark}");
    }
}

/// Only a neighbour's notice throttles: neither one in this proxy's Via nor one in the previous proxy's counts.
#[test]
fn the_notice_of_a_stranger_is_removed() {
    let forged = "room=t.1000.1000.18446744073709551615";
    let mut chain = Chain::new(2);
    for round in 0..3 {
        for call in 0..20 {
            let invite = Req::new("INVITE", &format!("call-{round}-{call}"), client());
            let at_callee = chain.by_client(&invite).at_callee.remove(0);
            let ok = answer(&at_callee.bytes, chain.last(), 200, addr(CALLEE));
            let text = String::from_utf8(ok).expect("text");
            // In every Via.
            let text = text.replace(";branch=", &format!(";{forged};ROOM-AUTH=\"x;\";branch="));
            chain.wire.clear();
            let at_client = chain.by_callee(text.as_bytes()).at_client;
            assert_eq!((at_client.len(), at_client[0].status()), (1, 200));
            let notices_of = |sent: &Sent| {
                let (message, bytes) = (sent.message(), &sent.bytes);
                let notices = message
                    .top_via()
                    .params(bytes)
                    .filter(|it| it.name.to_ascii_lowercase().starts_with(b"room"));
                notices
                    .map(|it| String::from_utf8_lossy(it.value.unwrap_or_default()).into_owned())
                    .collect::<Vec<_>>()
            };
            let [(_, between), (_, out)] = &chain.wire[..] else { panic!("{:?}", chain.wire) };
            // A period has one notice, which some responses carry.
            let has_notice = call < 4 || (call + 1) % 8 == 0;
            let is_ours = |notices: &Vec<String>| notices.iter().all(|one| one.starts_with("u."));
            let notices = notices_of(between);
            assert!(notices.len() == usize::from(has_notice) && is_ours(&notices), "{between:?}");
            assert_eq!(notices_of(out), [""; 0]);
            let via = out.message().top_via().branch.map(<[u8]>::to_vec);
            assert_eq!(via, Some(format!("z9hG4bK-call-{round}-{call}-1").into_bytes()));
        }
        chain.period(&[0.96, 0.1]);
    }
    let before = chain.kept();
    chain.run("after", 12, &[0.96, 0.1]);
    assert!(chain.kept()[1] > before[1] + 100, "the first proxy still passes calls on: {:?}", chain.kept());
}

/// A process in between restarts: the calls that it passed on continue, those that it kept end, and new ones are kept
/// once.
#[test]
fn a_restart_in_between_loses_no_call() {
    for busy in [[0.1, 0.1, 0.1], [0.96, 0.1, 0.1], [0.96, 0.96, 0.1]] {
        for restarted in 0..3 {
            let mut chain = Chain::new(3);
            chain.run("before", 20, &busy);
            let calls: Vec<_> = (0..6).map(|n| chain.call(&format!("running-{n}"))).collect();
            let before = chain.kept();
            let ringing = chain.by_client(&Req::new("INVITE", "ringing", client())).at_callee.remove(0);
            let is_keeper = chain.kept()[restarted] > before[restarted];
            chain.restart(restarted);
            let back = chain.answered(&ringing, 200).at_client;
            // The keeper of the transaction would have sent the response back (RFC 3261 §16.7 step 1).
            assert_eq!(back.len(), usize::from(!is_keeper), "{busy:?} {restarted}");
            for (index, call) in calls.iter().enumerate() {
                assert_eq!(chain.by_client(&call.by_caller("ACK", 1)).at_callee.len(), 1);
                hang_up(&mut chain, call, index % 2 == 0);
            }
            let before: u64 = chain.kept().iter().sum();
            (0..5).for_each(|n| drop(chain.call(&format!("new-{n}"))));
            assert_eq!(chain.kept().iter().sum::<u64>(), before + 5);
        }
    }
}

/// Two fixed proxies: one always keeps and marks, and one never keeps and passes the mark on.
#[test]
fn proxies_of_fixed_shares_take_part() {
    for (first, kept) in [(Service::HOPS, [0, 0, 0]), (STATELESS, [0, 0, 1])] {
        let mut chain = Chain::new(3);
        for (index, mode) in [(0, first), (1, STATELESS)] {
            chain.proxies[index].set_services([mode]);
        }
        let arrived = chain.by_client(&Req::new("INVITE", "call", client()));
        assert_eq!((arrived.at_callee.len(), chain.kept()), (1, kept.to_vec()));
        assert_eq!(chain.proxies.iter().map(|proxy| transactions(proxy)).sum::<usize>(), 2);
    }
}

/// A notice leaves the rest of the neighbour's Via unchanged.
#[test]
fn the_other_parts_of_a_via_stay_as_they_are() {
    let neighbour = addr("127.0.0.77:5060");
    let mut chain = Chain::new(1);
    let via = format!("SIP/2.0/UDP {neighbour} ;x=\"a;room=1\";branch=z9hG4bKn;rport=5060;done=0");
    let request = Req::new("MESSAGE", "call", client()).via(&via).bytes();
    let sent = chain.proxies[0].receive(0, neighbour, &request);
    let ok = answer(&sent[0].bytes, addr(PROXIES[0]), 200, addr(CALLEE));
    let back = chain.proxies[0].receive(0, addr(CALLEE), &ok).remove(0);
    assert_eq!(back.to, neighbour);
    let message = back.message();
    let value = message.top_via().value.of(&back.bytes);
    let expected = via.replace(";done=0", ";done=0;received=127.0.0.77;room=u.0.0.0");
    let expected = expected.replace(";received=127.0.0.77", "");
    assert_eq!(String::from_utf8_lossy(value).replace(";received=127.0.0.77", ""), expected);
}

/// A mark holds only for copies of its request. A stranger has the first proxy keep an OPTIONS, and sends an INVITE
/// with the same Call-ID, tag and CSeq directly to the second and last proxy. That call has to be kept there.
#[test]
fn a_mark_holds_only_for_copies_of_its_request() {
    for (method, branch) in [("OPTIONS", "1"), ("OPTIONS", "2"), ("INVITE", "2")] {
        let mut chain = Chain::new(2);
        let request = |method: &str, branch: &str| Req::new(method, "call", client()).via(&via(branch));
        assert_eq!(chain.by_client(&request(method, "1")).at_callee.len(), 1);
        assert_eq!(chain.kept(), [1, 0]);
        let arrived = chain.send(client(), 1, &request("INVITE", branch).bytes());
        assert_eq!((arrived.at_callee.len(), chain.kept()), (1, vec![1, 1]), "{method} {branch}");
    }
    // Elements behind know the Via of the first proxy, but they cannot send from its address.
    let mut chain = Chain::new(2);
    chain.by_client(&Req::new("INVITE", "call", client()));
    let (_, between) = chain
        .wire
        .iter()
        .find(|(_, sent)| sent.to == addr(PROXIES[1]))
        .expect("the INVITE was forwarded")
        .clone();
    let sent = chain.proxies[1].receive(0, client(), &between.bytes);
    assert!(sent.iter().any(|sent| sent.to == addr(CALLEE)), "{sent:?}");
    assert_eq!(chain.kept(), [1, 1]);
}

/// Offers new calls from a client. Returns how many were accepted, and the Retry-After of the refused ones.
fn offer(chain: &mut Chain, name: &str, calls: usize) -> (usize, Vec<u64>) {
    let (mut taken, mut pauses) = (0, Vec::new());
    for call in 0..calls {
        let arrived = chain.by_client(&Req::new("INVITE", &format!("{name}-{call}"), client()));
        taken += arrived.at_callee.len();
        for invite in &arrived.at_callee {
            // The response carries the notice of the proxy behind.
            chain.answered(invite, 180);
        }
        for refusal in arrived.at_client.iter().filter(|sent| sent.status() == 503) {
            let pause = refusal.message().header("Retry-After").expect("a pause");
            pauses.push(core::str::from_utf8(pause).expect("ASCII").parse().expect("seconds"));
        }
    }
    (taken, pauses)
}

/// Refusals of overload control say how much state has to move: after one period, all of it is with the second proxy.
#[test]
fn refusals_of_overload_control_move_state_at_once() {
    let after_a_period = |refused: usize| {
        let mut chain = Chain::new(2);
        chain.run("idle", 2, &[0.3, 0.3]);
        chain.run("busy", 1, &[0.3, 0.3]);
        for call in 0..refused {
            waited(&mut chain.proxies[0], Duration::from_millis(126));
            let refusal = chain.by_client(&Req::new("INVITE", &format!("refused-{call}"), client()));
            assert_eq!(refusal.at_client[0].status(), 503);
        }
        waited(&mut chain.proxies[0], Duration::ZERO);
        chain.run("full", 1, &[1.0, 0.3]);
        let before = chain.kept();
        chain.run("after", 1, &[1.0, 0.3]);
        chain.kept()[1] - before[1]
    };
    // A twelfth of 20 calls, by their keys.
    assert!(after_a_period(0) < 5);
    assert_eq!(after_a_period(40), 20);
}

/// If all proxies are full, the first refuses a part of the new calls, with different Retry-After values. The second
/// refuses none of the accepted calls.
#[test]
fn if_no_proxy_has_room_the_entry_refuses() {
    let mut chain = Chain::new(2);
    for second in 0..12 {
        offer(&mut chain, &format!("full-{second}"), 20);
        chain.period(&[1.0, 1.0]);
    }
    let (taken, mut pauses) = offer(&mut chain, "late", 200);
    assert_eq!(taken + pauses.len(), 200);
    // In 11 of 12 periods the second proxy is known to throttle; each period takes a twentieth.
    assert!((95..130).contains(&taken), "{taken}");
    let reports = chain.reports();
    assert!((0.5..0.65).contains(&reports[0].taken), "{reports:?}");
    pauses.sort_unstable();
    pauses.dedup();
    assert_eq!(pauses, [1, 2, 3, 4, 5]);
    for probe in 0..50 {
        let options = Req::new("OPTIONS", &format!("probe-{probe}"), client());
        assert_eq!(chain.by_client(&options).at_callee.len(), 1, "a 503 to a probe would count as dead");
    }
    // Room behind suffices to accept everything again.
    for second in 0..12 {
        offer(&mut chain, &format!("room-{second}"), 20);
        chain.period(&[0.5, 0.5]);
    }
    assert_eq!(offer(&mut chain, "again", 50).0, 50);
}

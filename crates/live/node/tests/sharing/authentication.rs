//! Shared-out verification of credentials: exactly one proxy of a chain verifies the caller, and no caller gets past
//! all of them.

use super::{CALLEE, DISTRIBUTED, PROXIES, carried, via_with};
use crate::common::*;
use crate::domain::{Bed, PASSWORD, authorized, authorized_for, call};
use distribute::{Function, Mark};
use node::{Decisions, Distribution, RegistrarSettings, ShardIdentity};

/// Utilisation of the proxies with which the first, the second or the last one does most of the work.
const BUSY: [[f64; 3]; 3] = [[0.1, 0.1, 0.1], [0.96, 0.1, 0.1], [0.96, 0.95, 0.1]];

/// A rule for all calls, with or without authentication of the callers.
fn rule(authenticate: bool) -> Rule {
    Rule { authenticate, ..to_pool(0, Conditions { origin: Origin::Anyone, ..Conditions::default() }) }
}

fn proxy(index: usize, length: usize, mode: Service) -> Bed {
    proxy_of(0, index, length, mode)
}

/// A process of its own. `life` differs after a restart.
fn proxy_of(life: u8, index: usize, length: usize, mode: Service) -> Bed {
    let ports = vec![Port::udp(addr(PROXIES[index]))];
    let mut bed = Bed::with_ports(ports, true, Reach::Source);
    let identity = ShardIdentity::only([index as u8 + 10 * life; 16], 77);
    bed.inner = testbed::Bed::with_identity(identity, bed.inner.setup.clone());
    let next = if index + 1 < length { PROXIES[index + 1] } else { CALLEE };
    bed.set_members(&[addr(next)], mode);
    bed.inner.set(|setup| {
        setup.settings.routes = testbed::routes(vec![rule(true)], setup);
        setup.settings.limits = ProxyLimits::default();
        let neighbours = vec!["127.0.0.0/24".parse().expect("a network")];
        let home = setup.settings.registrar.take().expect("there is a registrar");
        let trusted = neighbours.clone().into();
        setup.settings.registrar = Some(Arc::new(RegistrarSettings { trusted, ..(*home).clone() }));
        setup.settings.distribution =
            Some(Distribution { neighbours, authentication: Some(1.0), ..Distribution::default() });
    });
    bed
}

/// Proxies in series with the same users, before the callee.
struct Chain {
    proxies: Vec<Bed>,
    at_client: Vec<Sent>,
    at_callee: Vec<Sent>,
}

impl Chain {
    fn new(length: usize) -> Self {
        Self::of(&vec![DISTRIBUTED; length])
    }

    fn of(modes: &[Service]) -> Self {
        let proxies = modes.iter().enumerate();
        let proxies = proxies.map(|(index, mode)| proxy(index, modes.len(), *mode)).collect();
        Self { proxies, at_client: Vec::new(), at_callee: Vec::new() }
    }

    /// Delivers a datagram and all messages that follow. Keeps the messages that reached the parties.
    fn send(&mut self, from: SocketAddr, to: usize, bytes: &[u8]) {
        let arrived = carried(from, to, bytes, |at, from, bytes| self.proxies[at].receive(from, bytes));
        (self.at_client, self.at_callee) = (arrived.at_client, arrived.at_callee);
    }

    fn by_client(&mut self, request: &Req) {
        self.send(client(), 0, &request.bytes());
        self.at_client.retain(|sent| sent.status() != 100);
    }

    /// Returns the only response to a request that is not forwarded to the callee.
    fn refused(&mut self, request: &Req) -> Sent {
        self.by_client(request);
        assert_eq!(self.at_callee, [], "the request does not reach the callee");
        assert_eq!(self.at_client.len(), 1, "{:?}", self.at_client);
        self.at_client.remove(0)
    }

    /// Returns the request as the callee gets it.
    fn arrives(&mut self, request: &Req) -> Sent {
        self.by_client(request);
        assert_eq!(self.at_client, []);
        assert_eq!(self.at_callee.len(), 1, "{:?}", self.at_callee);
        let sent = self.at_callee.remove(0);
        assert!(sent.message().header("Proxy-Authorization").is_none(), "credentials are removed");
        sent
    }

    /// The callee answers.
    fn answered(&mut self, request: &Sent, status: u16) {
        let last = self.proxies.len() - 1;
        let response = answer(&request.bytes, addr(PROXIES[last]), status, addr(CALLEE));
        self.send(addr(CALLEE), last, &response);
    }

    /// An INVITE, the challenge, its ACK, and the INVITE with credentials. Returns it as sent and as received.
    fn call(&mut self, call_id: &str) -> (Req, Sent) {
        let invite = call(call_id, "carol", client());
        let challenged = self.refused(&invite);
        assert_eq!(challenged.status(), 407);
        let tag = challenged.message().to_tag().map(|tag| String::from_utf8_lossy(tag).into_owned());
        self.by_client(&invite.same_branch("ACK", tag.as_deref()));
        assert_eq!((&self.at_client[..], &self.at_callee[..]), (&[][..], &[][..]));
        let again = authorized(&challenged, ("alice", PASSWORD), &invite);
        let arrived = self.arrives(&again);
        (again, arrived)
    }

    /// Ends a period of one second.
    fn period(&mut self, utilisation: &[f64]) {
        let length = Duration::from_secs(1);
        for (proxy, &utilisation) in self.proxies.iter_mut().zip(utilisation) {
            proxy.wait(length);
            proxy.input(ShardInput::Period { length, utilisation });
        }
    }

    /// Returns the decisions of each proxy about credentials.
    fn decisions(&self) -> Vec<Decisions> {
        let report = |proxy: &Bed| proxy.shard.proxy_report().and_then(|report| report.sharing);
        self.proxies.iter().map(|proxy| report(proxy).expect("state is shared out").authentication).collect()
    }

    /// Returns how many valid credentials and how many challenges each proxy has had.
    fn judged(&self) -> (Vec<u64>, Vec<u64>) {
        let log_ins = |proxy: &Bed| proxy.shard.registrar_report().expect("a home").counters.log_ins;
        let log_ins: Vec<_> = self.proxies.iter().map(log_ins).collect();
        let challenges = log_ins.iter().map(|of| of.challenged + of.stale);
        (log_ins.iter().map(|of| of.accepted).collect(), challenges.collect())
    }

    /// Moves the shares as far as they go.
    fn settle(&mut self, utilisation: &[f64]) {
        for second in 0..40 {
            for number in 0..10 {
                let (invite, arrived) = self.call(&format!("settle-{second}-{number}"));
                self.answered(&arrived, 486);
                self.by_client(&invite.same_branch("ACK", Some("bob")));
            }
            self.period(utilisation);
        }
    }
}

#[test]
fn one_proxy_verifies_each_caller() {
    for length in [1, 2, 3] {
        let mut verifiers = [0; 3];
        for utilisation in &BUSY[..length] {
            let mut chain = Chain::new(length);
            chain.settle(&utilisation[..length]);
            for number in 0..20 {
                let before = chain.judged();
                let (invite, arrived) = chain.call(&format!("call-{number}"));
                let after = chain.judged();
                let more = |one: &[u64], other: &[u64]| -> Vec<u64> {
                    one.iter().zip(other).map(|(one, other)| one - other).collect()
                };
                let (accepted, challenged) = (more(&after.0, &before.0), more(&after.1, &before.1));
                assert_eq!(accepted.iter().sum::<u64>(), 1, "{accepted:?}");
                assert_eq!(accepted, challenged, "the challenging proxy verifies");
                let verifier = accepted.iter().position(|&count| count == 1).expect("one");
                verifiers[verifier] += 1;
                // A copy is no replay, wherever the transaction is.
                chain.by_client(&invite);
                let statuses = statuses(&chain.at_client);
                assert_eq!(statuses, [], "{utilisation:?}");
                assert!(chain.at_callee.iter().all(|copy| copy.bytes == arrived.bytes));
                assert_eq!(chain.judged(), after, "a copy is not verified again");
                // Credentials are for one method.
                let other = Req { method: "REFER".to_owned(), ..invite.clone() };
                assert_eq!(chain.refused(&other).status(), 407, "{utilisation:?}");
                chain.answered(&arrived, 486);
                chain.by_client(&invite.same_branch("ACK", Some("bob")));
            }
        }
        assert!(
            verifiers[..length].iter().all(|count| *count > 0),
            "every proxy verifies calls: {verifiers:?}"
        );
        assert!(verifiers[length..].iter().all(|count| *count == 0));
    }
}

/// All proxies of a chain have one key. The ACK to a challenge of a proxy behind belongs to no response of the proxies
/// before. It goes on to the waiting transaction, or to the proxy that has challenged.
#[test]
fn the_ack_to_a_challenge_goes_to_the_challenger() {
    let mut chain = Chain::new(2);
    chain.settle(&BUSY[1][..2]);
    let mut went_on = 0;
    for number in 0..20 {
        let invite = call(&format!("call-{number}"), "carol", client());
        let before = chain.judged().1;
        chain.send(client(), 0, &invite.bytes());
        let is_kept = chain.at_client.iter().any(|sent| sent.status() == 100);
        let challenged = chain.at_client.pop().expect("a challenge");
        let tag = challenged.message().to_tag().map(|tag| String::from_utf8_lossy(tag).into_owned());
        let ack = invite.same_branch("ACK", tag.as_deref()).bytes();
        let on = chain.proxies[0].receive(client(), &ack);
        if chain.judged().1[1] == before[1] || is_kept {
            assert_eq!(on, [], "the ACK ends at the first proxy");
            continue;
        }
        let [on] = &on[..] else { panic!("{on:?}") };
        assert_eq!(on.to, addr(PROXIES[1]));
        assert_eq!(chain.proxies[1].receive(addr(PROXIES[0]), &on.bytes), []);
        went_on += 1;
    }
    assert!(went_on > 0);
}

/// The ACK of a neighbour to a challenge from behind has the mark of its INVITE, and follows it. No other request of a
/// dialog bypasses a proxy that was asked to verify its sender.
#[test]
fn the_ack_of_a_neighbour_to_a_challenge_goes_on() {
    let mut chain = Chain::new(2);
    chain.settle(&BUSY[1][..2]);
    let neighbour = addr(PROXIES[2]);
    let asked =
        via_with(&format!("{}={}", Mark::PARAMETER, Mark::default().with_authentication_required(true)));
    let asked = asked.replace(&client().to_string(), PROXIES[2]);
    let mut went_on = 0;
    for number in 0..20 {
        let invite = call(&format!("call-{number}"), "carol", neighbour);
        let invite = invite.via(&asked.replace("stranger", &format!("branch-{number}")));
        let sent = chain.proxies[0].receive(neighbour, &invite.bytes());
        let ack = invite.same_branch("ACK", Some("a-tag"));
        let on = chain.proxies[0].receive(neighbour, &ack.bytes());
        if !matches!(&sent[..], [one] if one.to == addr(PROXIES[1])) {
            continue;
        }
        assert_eq!(on.iter().map(|one| one.to).collect::<Vec<_>>(), [addr(PROXIES[1])]);
        let other = Req { call_id: "another".into(), ..ack };
        assert_eq!(chain.proxies[0].receive(neighbour, &other.bytes()), []);
        went_on += 1;
    }
    assert!(went_on > 0);
}

/// A copy of a request that went on to a proxy behind is not refused, with or without credentials: its first copy may
/// ring by then.
#[test]
fn overload_refuses_no_copy_of_a_forwarded_request() {
    let mut chain = Chain::new(2);
    chain.settle(&BUSY[1][..2]);
    let mut went_on = 0;
    let wait = |chain: &mut Chain, time| {
        waited(&mut chain.proxies[0], time);
        chain.proxies[0].inner.now += Duration::from_millis(100);
    };
    for number in 0..20 {
        wait(&mut chain, Duration::ZERO);
        let mut request = call(&format!("call-{number}"), "carol", client());
        for _ in 0..2 {
            let first = chain.proxies[0].receive(client(), &request.bytes());
            let [on] = &first[..] else { break };
            if on.to != addr(PROXIES[1]) {
                break;
            }
            wait(&mut chain, Duration::from_mins(1));
            let other = call(&format!("other-{number}"), "carol", client());
            assert_eq!(chain.refused(&other).status(), 503);
            assert_eq!(chain.proxies[0].receive(client(), &request.bytes()), first, "a copy");
            let behind = chain.proxies[1].receive(addr(PROXIES[0]), &on.bytes);
            let Some(challenged) = behind.into_iter().find(|sent| sent.to == addr(PROXIES[0])) else { break };
            wait(&mut chain, Duration::ZERO);
            request = authorized(&challenged, ("alice", PASSWORD), &request);
            went_on += 1;
        }
    }
    assert!(went_on > 0);
}

/// A client uses a nonce for several calls. The proxy that made it accepts them, wherever new calls are challenged and
/// kept by now.
#[test]
fn a_nonce_is_valid_at_its_proxy() {
    for (before, after) in BUSY.iter().flat_map(|before| BUSY.iter().map(move |after| (before, after))) {
        let mut chain = Chain::new(3);
        chain.settle(before);
        let first = call("first", "carol", client());
        let challenged = chain.refused(&first);
        chain.arrives(&authorized_for(1, &challenged, ("alice", PASSWORD), &first));
        chain.settle(after);
        for count in 2..12 {
            let next = call(&format!("next-{count}"), "carol", client());
            let judged = chain.judged().1;
            let invite = authorized_for(count, &challenged, ("alice", PASSWORD), &next);
            let arrived = chain.arrives(&invite);
            // A copy is no replay, wherever the transaction is.
            chain.by_client(&invite);
            assert_eq!(chain.at_client, []);
            assert!(chain.at_callee.iter().all(|copy| copy.bytes == arrived.bytes));
            assert_eq!(chain.judged().1, judged, "no other challenge: {before:?} {after:?}");
        }
        // A request with another Call-ID and another branch is a replay at each of them.
        let replay = call("replay", "carol", client());
        let answered = chain.refused(&authorized_for(5, &challenged, ("alice", PASSWORD), &replay));
        assert_eq!(answered.status(), 407);
    }
}

/// A nonce of a previous process causes one more challenge, by the last proxy that can.
#[test]
fn after_a_restart_a_caller_is_challenged_once_more() {
    for utilisation in &BUSY {
        for restarted in 0..3 {
            let mut chain = Chain::new(3);
            chain.settle(utilisation);
            let invite = call("call", "carol", client());
            let challenged = chain.refused(&invite);
            let now = chain.proxies[restarted].now;
            chain.proxies[restarted] = proxy_of(1, restarted, 3, DISTRIBUTED);
            chain.proxies[restarted].inner.now = now;
            let mut again = authorized(&challenged, ("alice", PASSWORD), &invite);
            chain.by_client(&again);
            if chain.at_callee.is_empty() {
                let challenged = chain.at_client.remove(0);
                assert_eq!(challenged.status(), 407);
                again = authorized(&challenged, ("alice", PASSWORD), &call("again", "carol", client()));
                chain.arrives(&again);
            }
        }
    }
}

#[test]
fn wrong_passwords_and_other_names_pass_no_proxy() {
    for utilisation in &BUSY {
        let mut chain = Chain::new(3);
        chain.settle(utilisation);
        let wrong = call("wrong", "carol", client());
        let challenged = chain.refused(&wrong);
        assert_eq!(chain.refused(&authorized(&challenged, ("alice", "guess"), &wrong)).status(), 407);
        let mut other = call("other", "carol", client());
        other.from = "<sip:bob@example.com>".into();
        let challenged = chain.refused(&other);
        assert_eq!(chain.refused(&authorized(&challenged, ("alice", PASSWORD), &other)).status(), 403);
        // The credentials of a call whose copies pass are not valid for a call in another name.
        let (invite, _) = chain.call("right");
        let forged = Req { from: "<sip:bob@example.com>".into(), ..invite };
        // At the keeper of the transaction it is a copy, which is absorbed.
        chain.by_client(&forged);
        assert_eq!(chain.at_callee, []);
        let tagged = Req { to_tag: Some("made-up".into()), ..call("tagged", "carol", client()) };
        assert!([407, 481].contains(&chain.refused(&tagged).status()));
    }
}

/// A mark replaces a password only with the proof of a proxy of the site, valid for one request.
#[test]
fn a_mark_without_proof_saves_no_password() {
    let verified = Mark::default().with(Function::Authentication);
    let neighbour = addr(PROXIES[0]);
    let mut chain = Chain::new(2);
    let invite = call("genuine", "carol", client());
    let challenged = chain.refused(&invite);
    let again = authorized(&challenged, ("alice", PASSWORD), &invite);
    let between = chain.proxies[0].receive(client(), &again.bytes());
    let between =
        between.into_iter().find(|sent| sent.to == addr(PROXIES[1])).expect("the INVITE is forwarded");
    let text = String::from_utf8(between.bytes.clone()).expect("text");
    let proof = text.split("vouch=").nth(1).and_then(|rest| rest.get(..16)).expect("a proof").to_owned();
    let statuses = |chain: &mut Chain, from, bytes: &[u8]| -> Vec<u16> {
        let sent = chain.proxies[1].receive(from, bytes);
        sent.iter().filter(|sent| sent.to != addr(CALLEE)).map(Sent::status).collect()
    };
    // Unchanged.
    assert!(!statuses(&mut chain, neighbour, text.as_bytes()).contains(&407));
    // From a stranger, without the proof, with another one, and for other requests.
    let stranger = addr("127.0.9.7:5060");
    let bytes = text.replace("genuine", "strangers");
    assert!(statuses(&mut chain, stranger, bytes.as_bytes()).contains(&407));
    for (forged_part, by) in [
        (&*format!(";vouch={proof}"), ""),
        (&*proof, "0123456789abcdef"),
        ("genuine", "another-call"),
        ("branch=z9hG4bK", "branch=z9hG4bK0"),
        ("<sip:alice@example.com>", "<sip:bob@example.com>"),
    ] {
        let forged = text.replace(forged_part, by);
        assert_ne!(forged, text, "{forged_part}");
        assert!(statuses(&mut chain, neighbour, forged.as_bytes()).contains(&407), "{forged_part}");
    }
    let via = via_with(&format!("{}={verified}", Mark::PARAMETER));
    let plain = call("plain", "carol", neighbour).via(&via.replace(&client().to_string(), PROXIES[0]));
    assert!(statuses(&mut chain, neighbour, &plain.bytes()).contains(&407));
}

/// A proxy that shares out no authentication has its own users, so a neighbour's mark replaces no password there.
#[test]
fn a_proxy_without_shared_authentication_ignores_marks() {
    for shares in [true, false] {
        let mut chain = Chain::new(2);
        if !shares {
            chain.proxies[1].inner.set(|setup| {
                setup.settings.distribution.as_mut().expect("state is shared out").authentication = None;
            });
        }
        let invite = call("call", "carol", client());
        let challenged = chain.refused(&invite);
        chain.by_client(&authorized(&challenged, ("alice", PASSWORD), &invite));
        let statuses = statuses(&chain.at_client);
        let expected: &[u16] = if shares { &[] } else { &[407] };
        assert_eq!((statuses, chain.at_callee.len()), (expected.to_vec(), usize::from(shares)));
    }
}

/// A neighbour's demand is fulfilled or refused: by the last proxy of a chain in any case, whatever the Route says.
#[test]
fn a_proxy_asked_to_verify_does_so_or_refuses() {
    let asked =
        via_with(&format!("{}={}", Mark::PARAMETER, Mark::default().with_authentication_required(true)));
    let asked = asked.replace(&client().to_string(), PROXIES[0]);
    let neighbour = addr(PROXIES[0]);
    let invite = call("asked", "carol", neighbour).via(&asked);
    for (has_users, asks, expected) in [(true, true, 407), (true, false, 407), (false, false, 503)] {
        let mut bed = proxy(1, 2, DISTRIBUTED);
        bed.inner.set(|setup| {
            setup.settings.routes = testbed::routes(vec![rule(asks)], setup);
            if !has_users {
                setup.settings.registrar = None;
            }
        });
        let answered = bed.receive(neighbour, &invite.bytes());
        let statuses: Vec<_> = answered.iter().map(Sent::status).collect();
        assert_eq!(statuses, [expected], "{has_users} {asks}");
        let tagged = Req { to_tag: Some("made-up".into()), ..invite.clone() };
        let answered = bed.receive(neighbour, &tagged.bytes());
        let statuses: Vec<_> = answered.iter().map(Sent::status).collect();
        assert_eq!(statuses, [503], "{has_users} {asks}");
    }
}

/// A proxy in between that shares out nothing passes the proof on, and gets no credentials to verify.
#[test]
fn a_proxy_between_that_only_forwards_lets_the_proof_pass() {
    for (utilisation, expected) in [(BUSY[0], [1, 0, 0]), (BUSY[1], [1, 0, 0])] {
        let mut chain = Chain::of(&[DISTRIBUTED, STATELESS, DISTRIBUTED]);
        chain.proxies[1].inner.set(|setup| {
            setup.settings.registrar = None;
            setup.settings.distribution.as_mut().expect("state is shared out").authentication = None;
        });
        chain.settle(&utilisation);
        let before = chain.proxies[0].shard.registrar_report().expect("a home").counters.log_ins.accepted;
        chain.call("call");
        let after = chain.proxies[0].shard.registrar_report().expect("a home").counters.log_ins.accepted;
        assert_eq!(after - before, expected[0]);
        let last = chain.proxies[2].shard.registrar_report().expect("a home").counters.log_ins;
        assert_eq!((last.accepted, last.challenged), (0, 0));
        assert!(chain.decisions()[2].passed_kept > 0);
    }
}

//! Random sequences: members change by reload and DNS, probes fail and succeed, operators drain, and shards with calls
//! learn of changes late. No slot is reused while it has a call, only members are probed, and no work repeats
//! endlessly.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common;
use crate::common::{Bed, found, member, settings, udp};
use balance::{NodeId, Slot};
use control::{ControlEffect, ControlInput, ControlSettings, Drainer, QuestionId};
use node::Setup;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const ADDRESSES: u16 = 6;
const NAMES: [&str; 2] = ["one.test", "two.test"];
const SHARDS: usize = 2;

fn address(number: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 2, 1], 5060 + number))
}

/// Returns the addresses whose bits are set.
fn addresses(bits: u16) -> Vec<String> {
    (0..ADDRESSES)
        .filter(|number| bits >> number & 1 == 1)
        .map(|number| address(number).to_string())
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    /// The file has these addresses and this number of names.
    Reload {
        addresses: u16,
        names: usize,
        is_other_resolver: bool,
    },
    /// A question is answered with these addresses; `None`: it fails.
    Answer {
        which: usize,
        addresses: Option<u16>,
    },
    /// Time passes, in milliseconds.
    Pass(u64),
    /// A probe is answered with this status; `None`: the port is closed.
    Probe {
        which: usize,
        status: Option<u16>,
    },
    /// A shard processes its next message.
    Hear(usize),
    /// A shard gets a new call at a slot that tokens or addresses lead to.
    Call {
        shard: usize,
        slot: u16,
    },
    /// A call ends.
    End(usize),
    Drain {
        slot: u16,
        draining: bool,
    },
    Up(u16),
    Suspect(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bits = 0..1_u16 << ADDRESSES;
    let step = prop_oneof![
        3 => (bits.clone(), 0..4_usize, proptest::bool::weighted(0.1))
            .prop_map(|(addresses, names, is_other_resolver)| Step::Reload { addresses, names, is_other_resolver }),
        3 => (0..4_usize, proptest::option::weighted(0.8, bits))
            .prop_map(|(which, addresses)| Step::Answer { which, addresses }),
        5 => (0..70_000_u64).prop_map(Step::Pass),
        3 => (0..8_usize, proptest::option::of(proptest::sample::select(vec![200_u16, 404, 503])))
            .prop_map(|(which, status)| Step::Probe { which, status }),
        9 => (0..SHARDS).prop_map(Step::Hear),
        4 => (0..SHARDS, 0..ADDRESSES).prop_map(|(shard, slot)| Step::Call { shard, slot }),
        4 => (0..8_usize).prop_map(Step::End),
        1 => (0..ADDRESSES, any::<bool>()).prop_map(|(slot, draining)| Step::Drain { slot, draining }),
        1 => (0..ADDRESSES).prop_map(Step::Up),
        1 => (0..ADDRESSES).prop_map(Step::Suspect),
    ];
    proptest::collection::vec(step, 1..120)
}

enum ShardMessage {
    SetUp(Arc<Setup>),
    AskSlotsInUse,
}

/// A shard: its setup, its unread messages, and its calls, each with its node.
struct Shard {
    setup: Arc<Setup>,
    inbox: VecDeque<ShardMessage>,
    calls: Vec<(Slot, NodeId)>,
    /// Prepared answer to the question under way.
    says: Option<Vec<bool>>,
}

struct World {
    bed: Bed,
    shards: Vec<Shard>,
    questions: BTreeMap<QuestionId, String>,
    /// Probes with their destinations.
    probes: Vec<(SocketAddr, Vec<u8>)>,
}

impl World {
    fn new() -> Self {
        let bed = Bed::new(file(0b11, 0));
        let shard = || Shard {
            setup: Arc::clone(bed.setup()),
            inbox: VecDeque::new(),
            calls: Vec::new(),
            says: None,
        };
        let shards = (0..SHARDS).map(|_| shard()).collect();
        let mut world = Self { bed, shards, questions: BTreeMap::new(), probes: Vec::new() };
        world.take();
        world
    }

    fn handle(&mut self, input: ControlInput<'_>) {
        self.bed.handle(input);
        self.take();
    }

    /// Takes the effects and checks them.
    fn take(&mut self) {
        let members = self.bed.members();
        for sent in self.bed.out.transmits() {
            let to = sent.flow.peer;
            assert!(members.contains(&to.to_string()), "{to} is probed and is no member");
            self.probes.push((to, self.bed.out.message(sent).to_vec()));
        }
        for effect in self.bed.effects() {
            match effect {
                ControlEffect::SetUp(setup) => {
                    let shards = self.shards.iter_mut();
                    shards.for_each(|shard| shard.inbox.push_back(ShardMessage::SetUp(Arc::clone(&setup))));
                }
                ControlEffect::AskSlotsInUse => {
                    self.shards
                        .iter_mut()
                        .for_each(|shard| shard.inbox.push_back(ShardMessage::AskSlotsInUse));
                }
                ControlEffect::LookUp { id, question } => {
                    self.questions.insert(id, format!("{question:?}"));
                }
                _ => {}
            }
        }
        self.check();
    }

    fn check(&self) {
        let (nodes, setup) = (self.bed.control.nodes(), self.bed.setup());
        assert_eq!(&*setup.nodes, nodes, "the shards have the present nodes");
        for shard in &self.shards {
            for &(slot, id) in &shard.calls {
                assert_eq!(nodes[slot.index()].id, id, "{slot:?} was reused while it had a call");
                assert_eq!(shard.setup.nodes[slot.index()].id, id);
            }
        }
        for listed in self.bed.control.listed() {
            let at = setup.topology.slot_at(listed.peer);
            assert!(at == Some(listed.slot) || !listed.node.member, "{} leads to {at:?}", listed.peer);
        }
        let count = |id| self.bed.control.listed().iter().filter(|listed| listed.node.id == id).count();
        assert!(
            self.bed.control.listed().iter().all(|listed| count(listed.node.id) == 1),
            "one node, one slot"
        );
    }

    /// Lets time pass and carries out due work, which must not leave more work due.
    fn pass(&mut self, length: Duration) {
        let until = self.bed.now + length;
        loop {
            let due = self.bed.control.deadline();
            if due > until {
                break;
            }
            self.bed.now = self.bed.now.max(due);
            self.handle(ControlInput::Timer);
            let mut again = 0;
            while self.bed.control.deadline() <= self.bed.now {
                again += 1;
                // The next probe may follow a failed one at once.
                assert!(again <= 2, "busy at {}", self.bed.now);
                self.handle(ControlInput::Timer);
            }
        }
        self.bed.now = until;
    }

    fn hear(&mut self, number: usize) {
        let shard = &mut self.shards[number];
        match shard.inbox.pop_front() {
            Some(ShardMessage::SetUp(setup)) => shard.setup = setup,
            Some(ShardMessage::AskSlotsInUse) => {
                let used = |slot| shard.calls.iter().any(|(of, _)| of.index() == slot);
                shard.says = Some((0..shard.setup.nodes.len()).map(used).collect());
            }
            None => {}
        }
        if self.shards.iter().all(|shard| shard.says.is_some()) {
            let said: Vec<_> = self.shards.iter_mut().filter_map(|shard| shard.says.take()).collect();
            let slots = said.iter().map(Vec::len).max().unwrap_or_default();
            let used = (0..slots).map(|slot| said.iter().any(|said| said.get(slot) == Some(&true))).collect();
            self.handle(ControlInput::SlotsInUse(Some(used)));
        }
    }

    fn hear_all(&mut self) {
        for shard in 0..SHARDS {
            while !self.shards[shard].inbox.is_empty() {
                self.hear(shard);
            }
        }
    }

    fn run(&mut self, step: &Step) {
        let has = |world: &Self, slot: u16| usize::from(slot) < world.bed.control.nodes().len();
        match *step {
            Step::Reload { addresses, names, is_other_resolver } => {
                let settings = Box::new(file(addresses, names));
                self.handle(ControlInput::Settings { settings, is_other_resolver });
            }
            Step::Answer { which, addresses: found_there } => {
                let Some(id) = self.questions.keys().nth(which).copied() else { return };
                self.questions.remove(&id);
                let texts = found_there.map(addresses);
                let texts: Option<Vec<_>> =
                    texts.as_ref().map(|all| all.iter().map(String::as_str).collect());
                let answer = texts.map(|all| found(&all)).ok_or_else(|| "SERVFAIL".to_owned());
                self.handle(ControlInput::Answer { id, answer });
            }
            Step::Pass(millis) => self.pass(Duration::from_millis(millis)),
            Step::Probe { which, status } => {
                let Some((to, probe)) = self.probes.iter().rev().nth(which).cloned() else { return };
                let Some(status) = status else {
                    return self.handle(ControlInput::ProbeRefused { by: udp(to), quoted: &probe });
                };
                let (request, mut bytes) = (wire::scan(&probe).unwrap(), Vec::new());
                wire::write_response(&request, to, status, "x", "t", &[], &mut bytes);
                self.handle(ControlInput::ProbeMessage { from: udp(to), bytes: &bytes });
            }
            Step::Hear(shard) => self.hear(shard),
            Step::Call { shard, slot } => {
                let shard = &mut self.shards[shard];
                let Some(node) = shard.setup.nodes.get(usize::from(slot)) else { return };
                // The call arrives by the policy, by a token, or from the node's own address.
                let peer = shard.setup.topology.node(Slot(slot)).remote();
                if shard.setup.topology.slot_at(peer) == Some(Slot(slot)) {
                    shard.calls.push((Slot(slot), node.id));
                }
            }
            Step::End(which) => {
                let shard = &mut self.shards[which % SHARDS];
                if !shard.calls.is_empty() {
                    let which = which % shard.calls.len();
                    shard.calls.remove(which);
                }
            }
            Step::Drain { slot, draining } if has(self, slot) => {
                self.handle(ControlInput::Drain { slot: Slot(slot), by: Drainer::Operator, draining });
            }
            Step::Up(slot) if has(self, slot) => self.handle(ControlInput::Up(Slot(slot))),
            Step::Suspect(number) => self.handle(ControlInput::Unreachable(udp(address(number)))),
            Step::Drain { .. } | Step::Up(_) => {}
        }
    }
}

fn file(bits: u16, names: usize) -> ControlSettings {
    let mut settings = settings(&[]);
    let texts = addresses(bits);
    settings.members = texts.iter().map(|text| member(text)).collect();
    let named = (0..NAMES.len()).filter(|name| names >> name & 1 == 1);
    settings.members.extend(named.map(|name| member(NAMES[name])));
    settings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn slots_with_calls_stay_and_others_become_free(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.run(&step);
            world.check();
        }
        // All calls end, and the shards process all messages. Then all former members are forgotten.
        world.shards.iter_mut().for_each(|shard| shard.calls.clear());
        world.handle(ControlInput::Settings { settings: Box::new(file(0b1, 0)), is_other_resolver: false });
        for _ in 0..6 {
            world.hear_all();
            world.pass(common::CALL);
        }
        prop_assert_eq!(world.bed.members(), addresses(0b1));
        prop_assert_eq!(world.bed.control.listed().len(), 1, "no former member is left");
    }
}

//! Reloads that change how a pool is forwarded to, and whether its calls are counted. After any change during ringing
//! and established calls, requests of a dialog reach its member, and counted calls end.

use crate::common::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const COUNTED: Service = Service::Proxy { spread: Spread::Counted, record_route: true };

/// All modes of a pool.
const MODES: [Service; 7] = [
    Service::Balance,
    Service::BalanceTransactions,
    COUNTED,
    Service::Calls(Spread::Counted),
    Service::Proxy { spread: Spread::Counted, record_route: false },
    Service::HOPS,
    STATELESS,
];

#[derive(Clone, Copy, Debug)]
enum Step {
    Mode(usize),
    Invite(u8),
    Copy(u8),
    Ring(u8),
    Answer(u8, u16),
    Cancel(u8),
    Refresh(u8, bool),
    Bye(u8, bool),
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let call = 0..6_u8;
    prop_oneof![
        3 => (0..MODES.len()).prop_map(Step::Mode),
        4 => call.clone().prop_map(Step::Invite),
        1 => call.clone().prop_map(Step::Copy),
        2 => call.clone().prop_map(Step::Ring),
        4 => (call.clone(), prop::sample::select(vec![200, 200, 200, 407, 486, 503]))
            .prop_map(|(call, status)| Step::Answer(call, status)),
        1 => call.clone().prop_map(Step::Cancel),
        2 => (call.clone(), any::<bool>()).prop_map(|(call, side)| Step::Refresh(call, side)),
        3 => (call, any::<bool>()).prop_map(|(call, side)| Step::Bye(call, side)),
        1 => prop_oneof![0..900_u32, 0..20_000_u32].prop_map(Step::Wait),
    ]
}

/// A ringing or an answered call.
enum Call {
    Ringing { invite: Req, at_hop: Box<Sent> },
    Answered(Dialog),
}

struct World {
    bed: ProxyBed,
    calls: BTreeMap<u8, Call>,
    cseq: u32,
}

fn is_hop(sent: &Sent) -> bool {
    HOPS.iter().any(|hop| addr(hop) == sent.to)
}

impl World {
    fn new(mode: usize) -> Self {
        let mut bed = ProxyBed::two_hops();
        keep_dialogs(&mut bed, DialogSettings::default());
        let mut world = Self { bed, calls: BTreeMap::new(), cseq: 1 };
        world.set_mode(mode);
        world
    }

    fn set_mode(&mut self, mode: usize) {
        let mode = MODES[mode];
        self.bed.set_services([mode]);
        self.bed.mode = mode;
    }

    fn next(&mut self) -> u32 {
        self.cseq += 1;
        self.cseq
    }

    fn invite(&mut self, call: u8) {
        let cseq = self.next();
        let call_id = format!("call-{call}-{cseq}");
        let invite = Req { cseq, ..Req::new("INVITE", &call_id, client()) };
        let sent = self.bed.receive(0, client(), &invite.bytes());
        // No member may take it now.
        if let Some(at_hop) = sent.into_iter().find(is_hop) {
            self.calls.insert(call, Call::Ringing { invite, at_hop: Box::new(at_hop) });
        }
    }

    fn answer(&mut self, call: u8, status: u16) {
        let Some(Call::Ringing { invite, at_hop }) = self.calls.get(&call) else { return };
        let (invite, at_hop) = (invite.clone(), at_hop.clone());
        let sent = respond(&mut self.bed, &at_hop, status);
        let is_invite = |sent: &&Sent| sent.message().method() == Some(Method::Invite);
        if let Some(next) = sent.iter().filter(|sent| is_hop(sent)).find(is_invite) {
            // Another member has to answer now.
            self.calls.insert(call, Call::Ringing { invite, at_hop: Box::new(next.clone()) });
            return;
        }
        let Some(response) = sent.iter().find(|sent| sent.to == client()) else {
            // The call was given up meanwhile.
            self.calls.remove(&call);
            return;
        };
        if status < 200 {
            return;
        }
        self.calls.remove(&call);
        if status < 300 {
            let dialog = Dialog::of(&at_hop, response);
            if !record_routes(&at_hop.bytes).is_empty() {
                self.within(
                    &Req { cseq: invite.cseq, ..dialog.by_caller("ACK", invite.cseq) },
                    &dialog,
                    true,
                    0,
                );
                self.calls.insert(call, Call::Answered(dialog));
            }
        } else {
            self.bed.receive(0, client(), &invite.same_branch("ACK", Some("bob")).bytes());
        }
    }

    /// A request within a dialog reaches the other side, which answers it.
    fn within(&mut self, request: &Req, dialog: &Dialog, by_caller: bool, status: u16) {
        let (from, to) = if by_caller { (client(), dialog.callee.at) } else { (dialog.callee.at, client()) };
        let sent = self.bed.receive(0, from, &request.bytes());
        let arrived = sent.iter().find(|sent| sent.to == to && sent.message().status().is_none());
        let arrived =
            arrived.unwrap_or_else(|| panic!("{} does not arrive: {sent:#?}", request.method)).clone();
        if status > 0 {
            self.bed.receive(0, to, &answer(&arrived.bytes, addr(PROXY), status, to));
        }
    }

    fn cancel(&mut self, call: u8) {
        let Some(Call::Ringing { invite, at_hop }) = self.calls.get(&call) else { return };
        let (invite, at_hop) = (invite.clone(), at_hop.clone());
        self.calls.remove(&call);
        let sent = self.bed.receive(0, client(), &invite.same_branch("CANCEL", None).bytes());
        // With a transaction, the CANCEL waits for a provisional response.
        for cancel in sent.iter().filter(|sent| is_hop(sent)) {
            respond(&mut self.bed, cancel, 200);
        }
        respond(&mut self.bed, &at_hop, 487);
        self.bed.receive(0, client(), &invite.same_branch("ACK", Some("bob")).bytes());
    }

    fn bye(&mut self, call: u8, by_caller: bool) {
        if !matches!(self.calls.get(&call), Some(Call::Answered(_))) {
            return;
        }
        let cseq = self.next();
        let Some(Call::Answered(dialog)) = self.calls.remove(&call) else { return };
        let bye = if by_caller { dialog.by_caller("BYE", cseq) } else { dialog.by_callee("BYE", cseq) };
        self.within(&bye, &dialog, by_caller, 200);
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Mode(mode) => self.set_mode(mode),
            Step::Invite(call) if !self.calls.contains_key(&call) => self.invite(call),
            Step::Copy(call) => {
                if let Some(Call::Ringing { invite, .. }) = self.calls.get(&call) {
                    let copy = invite.bytes();
                    self.bed.receive(0, client(), &copy);
                }
            }
            Step::Ring(call) => self.answer(call, 180),
            Step::Answer(call, status) => self.answer(call, status),
            Step::Cancel(call) => self.cancel(call),
            Step::Refresh(call, by_caller) => {
                let cseq = self.next();
                if let Some(Call::Answered(dialog)) = self.calls.get(&call) {
                    let dialog = dialog.clone();
                    let refresh = if by_caller {
                        dialog.by_caller("UPDATE", cseq)
                    } else {
                        dialog.by_callee("UPDATE", cseq)
                    };
                    self.within(&refresh, &dialog, by_caller, 200);
                }
            }
            Step::Bye(call, by_caller) => self.bye(call, by_caller),
            Step::Wait(millis) => drop(self.bed.wait(Duration::from_millis(millis.into()))),
            Step::Invite(_) => {}
        }
        assert_eq!(self.bed.shard.audit(), Ok(()));
    }

    fn load(&self) -> Load {
        let slots = (0..HOPS.len() as u16).map(Slot);
        slots.fold(Load::default(), |sum, slot| sum + self.bed.shard.balancer().load(slot).own)
    }

    /// All calls end, and the state for late messages expires.
    fn end(&mut self) {
        for call in self.calls.keys().copied().collect::<Vec<_>>() {
            // After a refusal another member may be tried.
            for _ in 0..=HOPS.len() {
                self.answer(call, 486);
            }
            self.bye(call, call % 2 == 0);
        }
        // Timer C, in case another member got an abandoned call, and the state for late messages.
        self.bed.wait(Duration::from_mins(5));
        let balancer = self.bed.shard.balancer();
        assert_eq!((self.load(), balancer.counts()), (Load::default(), balance::TableCounts::default()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn counted_calls_end_after_any_reload(
        mode in 0..MODES.len(),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = World::new(mode);
        for step in steps {
            world.apply(step);
        }
        world.end();
    }
}

//! One call: its INVITE and its dialogs.

use crate::description::CallDescription;
use crate::record::{Accepted, CallRecord, CallStart, Cause, RecordEvent};
use crate::settings::CallSettings;
use base::{Flow, Instant};
use core::time::Duration;
use std::net::SocketAddr;

/// Time for which ended calls are remembered, and limit for the response to a BYE: as long as retransmissions may
/// arrive (64*T1, RFC 3261 §17.1.2.2).
pub(crate) const LATE: Duration = Duration::from_secs(32);

/// Maximum number of dialogs of a call: as many as its INVITE can have branches, at this proxy and later ones.
const MOST_DIALOGS: usize = 60;

/// Shortest session interval that is enforced (RFC 4028 §4, §5: least Min-SE). With a shorter interval, one side could
/// make the record of a live call end.
pub(crate) const SHORTEST_SESSION: Duration = Duration::from_secs(90);

/// Party that has acted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DialogSide {
    /// Sender of the INVITE.
    Caller,
    /// Sender of the 2xx.
    Callee,
    /// This proxy.
    Proxy,
}

impl DialogSide {
    /// Name in a record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Callee => "callee",
            Self::Proxy => "proxy",
        }
    }

    /// The other party.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee | Self::Proxy => Self::Caller,
        }
    }

    /// Side that sent a request. `by_initiator`: it is the sender of the INVITE.
    pub const fn of(by_initiator: bool) -> Self {
        if by_initiator { Self::Caller } else { Self::Callee }
    }
}

/// State of a dialog.
///
/// A dialog ends for good by a BYE that reached its target and was accepted. Other signs of its end may come from a
/// side that still talks and wants a shorter record. Such signs are a refused or unanswered BYE, a BYE that may have
/// gone to a third party, and a session that was not refreshed. After one of these signs the dialog is watched: its
/// record is written, but not as a final record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// After a provisional response with a tag (RFC 3261 §12.1).
    Early,
    /// After a 2xx.
    Confirmed,
    /// After a BYE that so far has no response, or only a challenge.
    Ending {
        /// Sender of the BYE.
        by: DialogSide,
        /// Time of the BYE.
        since: Instant,
        /// Status to write if no response follows: 408, or the status of the challenge.
        status: u16,
        /// The end that was written before, if the dialog was watched.
        before: Option<End>,
    },
    /// The dialog seems to be over, and this end is written. Later traffic reopens it.
    Watched(End),
    /// The dialog reached the time limit of calls while it was watched, and this proxy sent a BYE to both sides. A side
    /// that accepts this BYE still had the call.
    Tested {
        /// The end that was written before.
        end: End,
        /// Time of the BYEs.
        since: Instant,
        /// Whether caller and callee still had the call.
        alive: [bool; 2],
    },
    /// The dialog has ended, and is remembered until this time.
    Over(Instant),
}

/// End of a dialog, as written in its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) at: Instant,
    /// Side that signalled the end; `None` if neither did.
    pub(crate) by: Option<DialogSide>,
    pub(crate) cause: Cause,
    /// Status of the final response to the BYE; 0 if there was none.
    pub(crate) bye_status: u16,
}

/// Route set and remote target from this proxy to one side of a dialog, as keyed hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DialogPath {
    /// Hash of the Route values after the value of this proxy; 0 if there are none.
    pub routes: u64,
    /// Hash of the Contact, which is the Request-URI of requests to this side.
    pub contact: u64,
}

/// Evidence that a request belongs to the dialog of its tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// The Route of the request has a token of this proxy, and the request goes by this path to the target that the
    /// token names.
    Token(DialogPath),
    /// There are only the tags, or the request goes to another target, so that a third party may answer it.
    Tags,
}

/// Addressing of both sides of a dialog from this proxy, used for a BYE to them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DialogEnds {
    /// From and To of the 2xx to the INVITE, as written.
    pub from_and_to: [Box<[u8]>; 2],
    /// Contacts of the caller and of the callee.
    pub contacts: [Box<[u8]>; 2],
    /// Route from this proxy to each side, as one comma list; empty if there is none.
    pub routes: [Box<[u8]>; 2],
    /// Connections to the two sides if they are clients (RFC 5626 §5.3); `None` for a side that is reached by its URI.
    pub flows: [Option<Flow>; 2],
}

impl DialogEnds {
    /// Index of a side in these arrays.
    pub const fn index(side: DialogSide) -> usize {
        match side {
            DialogSide::Caller | DialogSide::Proxy => 0,
            DialogSide::Callee => 1,
        }
    }

    fn memory(&self) -> usize {
        let texts = self.from_and_to.iter().chain(&self.contacts).chain(&self.routes);
        size_of::<Self>() + texts.map(|text| text.len()).sum::<usize>()
    }
}

/// Dialog of a call.
#[derive(Debug)]
pub(crate) struct Dialog {
    /// Hash of the callee's tag.
    pub(crate) tag: u64,
    pub(crate) phase: Phase,
    pub(crate) accepted: Option<Accepted>,
    pub(crate) peer: Option<SocketAddr>,
    /// Paths to caller and callee; `None` if unknown.
    pub(crate) ways: [Option<DialogPath>; 2],
    /// Time at which the session ends unless it is refreshed (RFC 4028 §8.3).
    pub(crate) session: Option<Instant>,
    /// Time of the last message of the dialog.
    pub(crate) heard: Instant,
    /// Time at which one side last accepted a request of the other. This shows that both sides continue the dialog.
    pub(crate) alive: Instant,
    pub(crate) reason: Box<[u8]>,
    pub(crate) ends: Option<Box<DialogEnds>>,
    /// Parties of the dialog, if another INVITE with the same key created it.
    pub(crate) about: Option<Box<CallDescription>>,
    /// Last CSeq numbers of caller and callee.
    pub(crate) cseq: [u32; 2],
}

impl Dialog {
    /// Time of its next timer.
    fn deadline(&self, settings: &CallSettings) -> Option<Instant> {
        let limit = self.time_limit(settings);
        let earliest = |other: Instant, times: [Option<Instant>; 2]| {
            Some(times.into_iter().flatten().fold(other, Instant::min))
        };
        match self.phase {
            // An early dialog ends with its INVITE.
            Phase::Early => None,
            Phase::Ending { since, .. } | Phase::Tested { since, .. } => Some(since + LATE),
            Phase::Over(until) => Some(until),
            Phase::Watched(end) => earliest(end.at + settings.silence, [limit, None]),
            Phase::Confirmed => earliest(self.heard + settings.silence, [self.session, limit]),
        }
    }

    /// Time at which the dialog reaches the time limit of calls.
    pub(crate) fn time_limit(&self, settings: &CallSettings) -> Option<Instant> {
        // Without addressing no BYE can be sent, so there is no time limit.
        self.ends.as_ref()?;
        let since = self.accepted.as_ref().and_then(|accepted| accepted.at)?;
        settings.longest.map(|longest| since + longest)
    }

    /// Whether a request with this evidence goes to side `to` of this dialog, and to no third party.
    pub(crate) fn reaches_side(&self, to: DialogSide, proof: Proof) -> bool {
        match (proof, self.ways[DialogEnds::index(to)]) {
            (Proof::Token(way), Some(known)) => way == known,
            // Without other Route values, the host that the token names is the host in the Request-URI.
            (Proof::Token(way), None) => way.routes == 0,
            (Proof::Tags, _) => false,
        }
    }

    /// Whether the dialog is active, as far as this proxy knows.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self.phase, Phase::Early | Phase::Confirmed | Phase::Ending { .. })
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// Whether the dialog has an unproved end.
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self.phase, Phase::Watched(_) | Phase::Tested { .. })
    }
}

/// Category in which a call is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallCategory {
    /// The call is active, as far as this proxy knows.
    Active,
    /// Some dialogs of the call are watched, and none is active.
    Watched,
    /// The call has ended and is remembered, or it is not entered yet.
    Over,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) key: u64,
    pub(crate) about: CallDescription,
    pub(crate) began: CallStart,
    /// Start in Unix seconds, as in the tokens.
    pub(crate) began_unix: u32,
    /// CSeq number of its INVITE.
    pub(crate) cseq: u32,
    pub(crate) rang: Option<Instant>,
    /// Time of the last message of its INVITE.
    pub(crate) heard: Instant,
    /// Side that cancelled the call before it was answered.
    pub(crate) cancelled: Option<DialogSide>,
    pub(crate) cancel_reason: Box<[u8]>,
    /// Number of next hops that got the INVITE.
    pub(crate) attempts: u16,
    /// How many times the INVITE has passed this proxy (spirals) and has no final response yet.
    pub(crate) passes: u16,
    pub(crate) dialogs: Vec<Dialog>,
    /// Key in the timer wheel, and deadline.
    pub(crate) timer: (u32, Instant),
    /// Category in which the call is counted.
    pub(crate) category: CallCategory,
    /// Number of the call's last end, counted over the ends of all calls.
    pub(crate) ending: u64,
}

impl Call {
    /// Time of its next timer.
    pub(crate) fn deadline(&self, settings: &CallSettings) -> Instant {
        let unanswered = (self.passes > 0).then(|| self.heard + settings.silence);
        let dialogs = self.dialogs.iter().filter_map(|dialog| dialog.deadline(settings));
        dialogs.chain(unanswered).min().unwrap_or(self.heard)
    }

    /// Whether the call may still have events.
    pub(crate) fn is_open(&self) -> bool {
        self.passes > 0 || !self.dialogs.iter().all(Dialog::is_over)
    }

    /// Whether any part of the call is active, as far as this proxy knows.
    pub(crate) fn goes_on(&self) -> bool {
        self.current_category() == CallCategory::Active
    }

    /// Category in which the call has to be counted.
    pub(crate) fn current_category(&self) -> CallCategory {
        if self.passes > 0 || self.dialogs.iter().any(Dialog::goes_on) {
            CallCategory::Active
        } else if self.is_open() {
            CallCategory::Watched
        } else {
            CallCategory::Over
        }
    }

    /// Whether a 2xx was forwarded.
    pub(crate) fn is_accepted(&self) -> bool {
        self.dialogs.iter().any(|dialog| dialog.accepted.is_some())
    }

    /// [12.3-1] Ends early dialogs together with their INVITE.
    pub(crate) fn drop_early(&mut self) {
        if self.passes == 0 {
            self.dialogs.retain(|dialog| dialog.phase != Phase::Early);
        }
    }

    pub(crate) fn dialog(&mut self, tag: u64) -> Option<&mut Dialog> {
        self.dialogs.iter_mut().find(|dialog| dialog.tag == tag)
    }

    /// [12.1-2] Returns the dialog with this tag. If it is new, enters it if there is room.
    pub(crate) fn enter(&mut self, now: Instant, tag: u64, phase: Phase) -> Option<&mut Dialog> {
        let is_known = self.dialogs.iter().any(|dialog| dialog.tag == tag);
        if !is_known && self.dialogs.len() >= MOST_DIALOGS {
            // An early dialog is removed to make room, since every answered dialog needs a record.
            let early = self.dialogs.iter().position(|dialog| dialog.phase == Phase::Early)?;
            self.dialogs.remove(early);
        }
        let known = self.dialogs.iter().position(|dialog| dialog.tag == tag);
        let at = known.unwrap_or(self.dialogs.len());
        if known.is_none() {
            let dialog = Dialog {
                tag,
                phase,
                accepted: None,
                peer: None,
                ways: [None; 2],
                session: None,
                heard: now,
                alive: now,
                reason: Box::default(),
                ends: None,
                about: None,
                cseq: [self.cseq, 0],
            };
            self.dialogs.push(dialog);
        }
        Some(&mut self.dialogs[at])
    }

    /// Makes the record of a dialog that is answered, reopened or ended.
    pub(crate) fn record(
        &self,
        dialog: &Dialog,
        (event, ended): (RecordEvent, Instant),
        (by, cause, bye_status): (Option<DialogSide>, Option<Cause>, u16),
        is_final: bool,
    ) -> CallRecord {
        CallRecord {
            event,
            about: dialog.about.as_deref().unwrap_or(&self.about).clone(),
            began: self.began,
            began_unix: self.began_unix,
            rang: self.rang,
            accepted: dialog.accepted.clone(),
            peer: dialog.peer,
            attempts: self.attempts,
            ended,
            status: 200,
            bye_status,
            by,
            cause,
            reason: dialog.reason.clone(),
            is_final,
        }
    }

    /// Memory besides the value's own size, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let of_dialog = |dialog: &Dialog| {
            let tag = dialog.accepted.as_ref().map_or(0, |accepted| accepted.tag.len());
            let about =
                dialog.about.as_ref().map_or(0, |about| size_of::<CallDescription>() + about.memory());
            tag + about + dialog.reason.len() + dialog.ends.as_ref().map_or(0, |ends| ends.memory())
        };
        let dialogs = self.dialogs.capacity() * size_of::<Dialog>();
        self.about.memory()
            + self.cancel_reason.len()
            + dialogs
            + self.dialogs.iter().map(of_dialog).sum::<usize>()
    }
}

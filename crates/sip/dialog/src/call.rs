//! One call: its INVITE, and the dialogs that it has begun.

use crate::about::About;
use crate::record::{Accepted, Began, CallRecord, Cause, RecordEvent};
use crate::settings::CallSettings;
use base::{Flow, Instant};
use core::time::Duration;
use std::net::SocketAddr;

/// How long what has ended is remembered, and a BYE may go without an answer: as long as its repetitions may come
/// (64*T1, RFC 3261 §17.1.2.2).
pub(crate) const LATE: Duration = Duration::from_secs(32);

/// Most dialogs of a call: as many as its INVITE can have branches, here and beyond.
const MOST_DIALOGS: usize = 60;

/// Shortest session that is watched (RFC 4028 §4, §5: Min-SE is not below): who says less would have a call end that
/// goes on.
pub(crate) const SHORTEST_SESSION: Duration = Duration::from_secs(90);

/// Who has done something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Who sent the INVITE.
    Caller,
    /// Who answered it.
    Callee,
    /// This proxy.
    Proxy,
}

impl Side {
    /// As it stands in a record.
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

    /// The side that began a dialog, or the other one.
    pub const fn of(by_initiator: bool) -> Self {
        if by_initiator { Self::Caller } else { Self::Callee }
    }
}

/// Where a dialog stands.
///
/// A dialog ends for good by a BYE that reached its target and was accepted. Whatever else speaks for its end (a BYE
/// that was refused, that got no answer or that may have gone to somebody else, a session that was not refreshed) may
/// be made up by a party that talks on and wants a shorter record. Then the dialog is watched: its record is written,
/// but not as the final one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// A provisional response with a tag has come (RFC 3261 §12.1).
    Early,
    /// A 2xx has gone back.
    Confirmed,
    /// One side has sent BYE, which is not answered yet, or only by a challenge.
    Ending {
        /// Which side sent it.
        by: Side,
        /// When.
        since: Instant,
        /// The status that is written if nothing else comes: 408, or that of the challenge.
        status: u16,
        /// The end that was written before, if the dialog was watched.
        before: Option<End>,
    },
    /// It seems to be over: this end is written. Later traffic reopens it.
    Watched(End),
    /// It was watched until the time limit of calls, when both sides were sent a BYE. A side that accepts it still
    /// had the call.
    Tested {
        /// The end that is written.
        end: End,
        /// When the BYEs were sent.
        since: Instant,
        /// Whether caller and callee still had the call.
        alive: [bool; 2],
    },
    /// It is over, and remembered until then.
    Over(Instant),
}

/// An end of a dialog, as its record tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) at: Instant,
    /// `None`: neither side told of it.
    pub(crate) by: Option<Side>,
    pub(crate) cause: Cause,
    /// The final response to the BYE; 0 where there was none.
    pub(crate) bye_status: u16,
}

/// Route set and remote target of one side of a dialog, beyond this proxy, as keyed hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DialogPath {
    /// Of the Route values behind ours; 0 where there are none.
    pub routes: u64,
    /// Of the Contact, which is the Request-URI of the request.
    pub contact: u64,
}

/// What proves that a request belongs to the dialog of its tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// The token in its Route, and it goes to the target that the token names, by this way.
    Token(DialogPath),
    /// Nothing but the tags, or it goes elsewhere: somebody else may answer it.
    Tags,
}

/// How the two sides of a dialog are reached, beyond this proxy: what a BYE to them is made of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ends {
    /// From and To of the INVITE's 2xx, as they stand there.
    pub from_and_to: [Box<[u8]>; 2],
    /// The Contact of the caller, and that of the callee.
    pub contacts: [Box<[u8]>; 2],
    /// The Route behind us on the way to each, one value after the other with commas; empty for none.
    pub routes: [Box<[u8]>; 2],
    /// The connections by which clients are reached (RFC 5626 §5.3); `None`: by the URI.
    pub flows: [Option<Flow>; 2],
}

impl Ends {
    /// Which of two values is that of a side.
    pub const fn index(side: Side) -> usize {
        match side {
            Side::Caller | Side::Proxy => 0,
            Side::Callee => 1,
        }
    }

    fn memory(&self) -> usize {
        let texts = self.from_and_to.iter().chain(&self.contacts).chain(&self.routes);
        size_of::<Self>() + texts.map(|text| text.len()).sum::<usize>()
    }
}

/// A dialog of a call.
#[derive(Debug)]
pub(crate) struct Dialog {
    /// Hash of the callee's tag.
    pub(crate) tag: u64,
    pub(crate) phase: Phase,
    pub(crate) accepted: Option<Accepted>,
    pub(crate) peer: Option<SocketAddr>,
    /// The ways to caller and callee; `None` where they are not known.
    pub(crate) ways: [Option<DialogPath>; 2],
    /// When its session ends unless it is refreshed (RFC 4028 §8.3).
    pub(crate) session: Option<Instant>,
    /// When something of it last came by.
    pub(crate) heard: Instant,
    /// When both sides last showed that it goes on: one has accepted what the other has sent.
    pub(crate) alive: Instant,
    pub(crate) reason: Box<[u8]>,
    pub(crate) ends: Option<Box<Ends>>,
    /// Who calls whom, where another INVITE of the same name has begun it than the call.
    pub(crate) about: Option<Box<About>>,
    /// The last CSeq numbers of caller and callee.
    pub(crate) cseq: [u32; 2],
}

impl Dialog {
    /// When something has to be done about it.
    fn deadline(&self, settings: &CallSettings) -> Option<Instant> {
        let limit = self.time_limit(settings);
        let earliest = |other: Instant, times: [Option<Instant>; 2]| {
            Some(times.into_iter().flatten().fold(other, Instant::min))
        };
        match self.phase {
            // Its INVITE ends it.
            Phase::Early => None,
            Phase::Ending { since, .. } | Phase::Tested { since, .. } => Some(since + LATE),
            Phase::Over(until) => Some(until),
            Phase::Watched(end) => earliest(end.at + settings.silence, [limit, None]),
            Phase::Confirmed => earliest(self.heard + settings.silence, [self.session, limit]),
        }
    }

    /// When it has had its time.
    pub(crate) fn time_limit(&self, settings: &CallSettings) -> Option<Instant> {
        // Nobody is said to be hung up who cannot be told.
        self.ends.as_ref()?;
        let since = self.accepted.as_ref().and_then(|accepted| accepted.at)?;
        settings.longest.map(|longest| since + longest)
    }

    /// Whether a request that comes so goes to that side of this dialog, and to nobody else.
    pub(crate) fn is_led(&self, to: Side, proof: Proof) -> bool {
        match (proof, self.ways[Ends::index(to)]) {
            (Proof::Token(way), Some(known)) => way == known,
            // The token has named the host in its Request-URI.
            (Proof::Token(way), None) => way.routes == 0,
            (Proof::Tags, _) => false,
        }
    }

    /// Whether it goes on, as far as is known.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self.phase, Phase::Early | Phase::Confirmed | Phase::Ending { .. })
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// Whether it is over only as far as somebody has said.
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self.phase, Phase::Watched(_) | Phase::Tested { .. })
    }
}

/// As what a call is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It goes on, as far as is known.
    GoesOn,
    /// Some of its dialogs are watched, and none goes on.
    Watched,
    /// It is over and remembered, or not entered yet.
    Over,
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) key: u64,
    pub(crate) about: About,
    pub(crate) began: Began,
    /// When, in Unix seconds by the clock of the tokens.
    pub(crate) began_unix: u32,
    /// CSeq number of its INVITE.
    pub(crate) cseq: u32,
    pub(crate) rang: Option<Instant>,
    /// When something of its INVITE last came by.
    pub(crate) heard: Instant,
    /// Who has given it up before it was answered.
    pub(crate) cancelled: Option<Side>,
    pub(crate) cancel_reason: Box<[u8]>,
    /// How many passes of its INVITE have no final response.
    pub(crate) passes: u16,
    pub(crate) dialogs: Vec<Dialog>,
    /// Its key in the wheel, and what it is set for.
    pub(crate) timer: (u32, Instant),
    /// As what it is counted.
    pub(crate) standing: Standing,
    /// Which ending of all calls was its last one.
    pub(crate) ending: u64,
}

impl Call {
    /// When something has to be done about it.
    pub(crate) fn deadline(&self, settings: &CallSettings) -> Instant {
        let unanswered = (self.passes > 0).then(|| self.heard + settings.silence);
        let dialogs = self.dialogs.iter().filter_map(|dialog| dialog.deadline(settings));
        dialogs.chain(unanswered).min().unwrap_or(self.heard)
    }

    /// Whether something more may come of it.
    pub(crate) fn is_open(&self) -> bool {
        self.passes > 0 || !self.dialogs.iter().all(Dialog::is_over)
    }

    /// Whether anything of it goes on, as far as is known.
    pub(crate) fn goes_on(&self) -> bool {
        self.stands() == Standing::GoesOn
    }

    /// As what it is to be counted.
    pub(crate) fn stands(&self) -> Standing {
        if self.passes > 0 || self.dialogs.iter().any(Dialog::goes_on) {
            Standing::GoesOn
        } else if self.is_open() {
            Standing::Watched
        } else {
            Standing::Over
        }
    }

    /// Whether a 2xx has gone back.
    pub(crate) fn is_accepted(&self) -> bool {
        self.dialogs.iter().any(|dialog| dialog.accepted.is_some())
    }

    /// [12.3-1] Early dialogs end with the INVITE that has begun them.
    pub(crate) fn drop_early(&mut self) {
        if self.passes == 0 {
            self.dialogs.retain(|dialog| dialog.phase != Phase::Early);
        }
    }

    pub(crate) fn dialog(&mut self, tag: u64) -> Option<&mut Dialog> {
        self.dialogs.iter_mut().find(|dialog| dialog.tag == tag)
    }

    /// [12.1-2] The dialog with this tag, which is entered if there is room.
    pub(crate) fn enter(&mut self, now: Instant, tag: u64, phase: Phase) -> Option<&mut Dialog> {
        let is_known = self.dialogs.iter().any(|dialog| dialog.tag == tag);
        if !is_known && self.dialogs.len() >= MOST_DIALOGS {
            // One that rings makes room: whoever answers has to be written down.
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

    /// What is written of a dialog that is answered, goes on after all, or ends.
    pub(crate) fn record(
        &self,
        dialog: &Dialog,
        (event, ended): (RecordEvent, Instant),
        (by, cause, bye_status): (Option<Side>, Option<Cause>, u16),
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
            ended,
            status: 200,
            bye_status,
            by,
            cause,
            reason: dialog.reason.clone(),
            is_final,
        }
    }

    /// Bytes of memory beside its own size.
    pub(crate) fn memory(&self) -> usize {
        let of_dialog = |dialog: &Dialog| {
            let tag = dialog.accepted.as_ref().map_or(0, |accepted| accepted.tag.len());
            let about = dialog.about.as_ref().map_or(0, |about| size_of::<About>() + about.memory());
            tag + about + dialog.reason.len() + dialog.ends.as_ref().map_or(0, |ends| ends.memory())
        };
        let dialogs = self.dialogs.capacity() * size_of::<Dialog>();
        self.about.memory()
            + self.cancel_reason.len()
            + dialogs
            + self.dialogs.iter().map(of_dialog).sum::<usize>()
    }
}

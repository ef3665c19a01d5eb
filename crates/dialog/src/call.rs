//! One call: its INVITE, and the dialogs that it has begun.

use crate::about::About;
use crate::record::{Accepted, Began, CallRecord, Cause, RecordEvent};
use crate::settings::CallSettings;
use base::Instant;
use core::time::Duration;
use std::net::SocketAddr;

/// How long what has ended is remembered, and a BYE may go without an answer: as long as its repetitions may come (64*T1,
/// RFC 3261 §17.1.2.2).
pub(crate) const LATE: Duration = Duration::from_secs(32);

/// Most dialogs of a call: as many as its INVITE can have branches, here and beyond.
const MOST_DIALOGS: usize = 60;

/// Shortest session that is watched (RFC 4028 §4, §5: Min-SE is not below): who says less would have a call end that goes on.
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

    /// The side that began a dialog, or the other one.
    pub const fn of(by_initiator: bool) -> Self {
        if by_initiator { Self::Caller } else { Self::Callee }
    }
}

/// Where a dialog stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// A provisional response with a tag has come (RFC 3261 §12.1).
    Early,
    /// A 2xx has gone back.
    Confirmed,
    /// One side has sent BYE, which is not answered yet.
    Ending {
        /// Who it was.
        by: Side,
        /// When.
        since: Instant,
    },
    /// It is over, and remembered until then.
    Over(Instant),
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
    /// When its session ends unless it is refreshed (RFC 4028 §8.3).
    pub(crate) session: Option<Instant>,
    /// When something of it last came by.
    pub(crate) heard: Instant,
    pub(crate) reason: Box<[u8]>,
    pub(crate) ends: Option<Box<Ends>>,
    /// Who calls whom, where another INVITE of the same name has begun it than the call.
    pub(crate) about: Option<Box<About>>,
    /// The last CSeq numbers of caller and callee.
    pub(crate) cseq: [u32; 2],
    /// A BYE that was refused: by whom, when, and with what. If nothing else is heard, it was the end.
    pub(crate) refused_bye: Option<(Side, Instant, u16)>,
}

impl Dialog {
    /// When something has to be done about it.
    fn deadline(&self, settings: &CallSettings) -> Option<Instant> {
        match self.phase {
            // Its INVITE ends it.
            Phase::Early => None,
            Phase::Ending { since, .. } => Some(since + LATE),
            Phase::Over(until) => Some(until),
            Phase::Confirmed => {
                let silent = self.heard + settings.silence;
                let limit = self.time_limit(settings);
                Some([self.session, limit].into_iter().flatten().fold(silent, Instant::min))
            }
        }
    }

    /// When it has had its time.
    pub(crate) fn time_limit(&self, settings: &CallSettings) -> Option<Instant> {
        // Nobody is said to be hung up who cannot be told.
        self.ends.as_ref()?;
        let since = self.accepted.as_ref().and_then(|accepted| accepted.at)?;
        settings.longest.map(|longest| since + longest)
    }

    /// Why it ends now, if it does.
    pub(crate) fn due(&self, now: Instant, settings: &CallSettings) -> Option<Cause> {
        match self.phase {
            Phase::Early | Phase::Over(_) => None,
            Phase::Ending { since, .. } => (now >= since + LATE).then_some(Cause::Bye),
            Phase::Confirmed if self.session.is_some_and(|end| now >= end) => Some(Cause::SessionExpired),
            Phase::Confirmed if self.time_limit(settings).is_some_and(|end| now >= end) => {
                Some(Cause::TimeLimit)
            }
            Phase::Confirmed => (now >= self.heard + settings.silence).then_some(Cause::Lost),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Over(_))
    }
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
    /// Whether it is counted as one that goes on.
    pub(crate) is_counted: bool,
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

    /// Whether anything of it goes on.
    pub(crate) fn is_open(&self) -> bool {
        self.passes > 0 || self.dialogs.iter().any(Dialog::is_open)
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
                session: None,
                heard: now,
                reason: Box::default(),
                ends: None,
                about: None,
                cseq: [self.cseq, 0],
                refused_bye: None,
            };
            self.dialogs.push(dialog);
        }
        Some(&mut self.dialogs[at])
    }

    /// What is written of a dialog that is answered, or ends.
    pub(crate) fn record(
        &self,
        dialog: &Dialog,
        (event, ended): (RecordEvent, Instant),
        (by, cause, bye_status): (Option<Side>, Option<Cause>, u16),
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

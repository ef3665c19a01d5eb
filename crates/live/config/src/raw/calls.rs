//! `[calls]` as it is written.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Count, DAY, Flag, GIB, HOUR, KIB, Place, SECOND, Size, Time};
use crate::setting::Setting;
use dialog::CallSettings;
use dialog::session_timer::{LEAST, SessionTimer};

/// Size of a file of records.
const ROTATE: &str = "64MiB";

/// What is kept and written of calls whose pool, or `[registrar]`, has `forward = "dialog"`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawCalls {
    /// Where a record of each call goes: a file, with a line of JSON a call; or `"postgres://..."`, a database, in which the table
    /// `call_records` is made. A record is on its way before the end of its call is acknowledged, so that no end of this process
    /// loses it; for the database it waits in the directory that is called as this file, with `.records`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Place>", extend("x-default" = "none: calls are counted"))]
    pub(crate) records: Option<Setting<Place>>,
    /// Size at which the file of records is put aside as `FILE.1`, and another one is begun.
    pub(crate) rotate: Setting<Size<{ 64 * KIB }, { 64 * GIB }>>,
    /// How many of those are kept.
    pub(crate) keep: Setting<Count<1, 1000>>,
    /// Whether a record is written when a call is answered, too, with `event` = `"answered"`: of a call from before a restart
    /// the record of its end does not say when it was answered.
    pub(crate) answers: Setting<Flag>,
    /// Longest call; then both sides are sent a BYE.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<{ 10 * SECOND }, { 30 * DAY }>>", extend("x-default" = "none: as long as they please"))]
    pub(crate) longest: Option<Setting<Time<{ 10 * SECOND }, { 30 * DAY }>>>,
    /// A call of which nothing has been heard for so long has been lost: its BYE never came by.
    pub(crate) silence: Setting<Time<HOUR, { 30 * DAY }>>,
    /// The session interval that is asked for where the two sides ask for none or for a longer one (RFC 4028): they tell each
    /// other that often that the call goes on, and one that does not has ended. What they agree upon by themselves is watched
    /// in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<{ 90 * SECOND }, DAY>>", extend("x-default" = "none is asked for"))]
    pub(crate) session_expires: Option<Setting<Time<{ 90 * SECOND }, DAY>>>,
    /// Shortest session interval; who asks for less gets 422. Only with `session_expires`.
    pub(crate) session_min: Setting<Time<{ 90 * SECOND }, HOUR>>,
    /// Most calls at a time that are set up or go on, over all threads; one more gets 503. Each takes about a kilobyte, until half a
    /// minute after its end.
    pub(crate) max_calls: Setting<Count<1, { u32::MAX }>>,
}

impl Default for RawCalls {
    fn default() -> Self {
        let CallSettings { most, silence, tell_answers, .. } = CallSettings::default();
        debug_assert!(SessionTimer::default().least == LEAST);
        Self {
            records: None,
            rotate: ROTATE.into(),
            keep: 10.into(),
            answers: tell_answers.into(),
            longest: None,
            silence: Setting::of(silence),
            session_expires: None,
            session_min: Setting::of(Duration::from_secs(LEAST.into())),
            max_calls: Setting::of(most as u32),
        }
    }
}

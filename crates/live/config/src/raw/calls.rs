//! `[calls]` as it is written.

use crate::kind::{Count, DAY, Flag, GIB, KIB, Place, SECOND, Size, Time};
use crate::setting::Setting;
use dialog::CallSettings;

/// Size of a file of records.
const ROTATE: usize = 64 << 20;

table! {
    let CallSettings { most, tell_answers, .. } = CallSettings::default();

    /// What is kept and written of calls whose pool, or `[registrar]`, has `forward = "dialog"`.
    struct RawCalls {
        /// Where a record of each call goes: a file, with a line of JSON a call; or `"postgres://..."`, a database,
        /// with `?sslmode=verify-full` over TLS, in which the table `call_records` is made. A record is on its way before the end of its call is
        /// acknowledged, so that no end of this process loses it; for the database it waits in the directory that is
        /// called as this file, with `.records`.
        records: Option<Setting<Place>> => "none: calls are counted",
        /// Size at which the file of records is put aside as `FILE.1`, and another one is begun.
        rotate: Setting<Size<{ 64 * KIB }, { 64 * GIB }>> = ROTATE,
        /// How many of those are kept.
        keep: Setting<Count<1, 1000>> = 10,
        /// Whether a record is written when a call is answered, too, with `event` = `"answered"`: of a call from
        /// before a restart the record of its end does not say when it was answered.
        answers: Setting<Flag> = tell_answers,
        /// Longest call; then both sides are sent a BYE.
        longest: Option<Setting<Time<{ 10 * SECOND }, { 30 * DAY }>>> => "none: as long as they please",
        /// The session interval that is asked for where the two sides ask for none or for a longer one (RFC 4028):
        /// they tell each other that often that the call goes on, and one that does not has ended. What they agree
        /// upon by themselves is watched in any case.
        session_expires: Option<Setting<Time<{ 90 * SECOND }, DAY>>> => "none is asked for",
        /// Most calls at a time that are set up or go on, over all threads; one more gets 503. Each takes about a
        /// kilobyte, until half a minute after its end.
        max_calls: Setting<Count<1, { u32::MAX }>> = most as u32,
    }
}

//! Keys of `[calls]`.

use crate::kind::{Count, DAY, Flag, GIB, KIB, Place, SECOND, Size, Time};
use crate::setting::Setting;
use dialog::CallSettings;

/// Size of a file of records, in bytes.
const ROTATE: usize = 64 << 20;

table! {
    let CallSettings { most, record_answers, .. } = CallSettings::default();

    /// State and records of calls. For pools, or a `[registrar]`, with `forward = "dialog"`.
    struct RawCalls {
        /// Destination of call records: a file, with a line of JSON for each call, or a database, `"postgres://..."`,
        /// over TLS with `?sslmode=verify-full`, where the table `call_records` is created. A record is saved before
        /// the end of its call is acknowledged, so a crash loses none; until the database has it, it waits in a
        /// directory with the name of this file and `.records`.
        records: Option<Setting<Place>> => "none: calls are only counted",
        /// Size at which the file of records is renamed to `FILE.1` and a new one is started. Set it to what the
        /// program that collects the records can handle.
        rotate: Setting<Size<{ 64 * KIB }, { 64 * GIB }>> = ROTATE,
        /// Number of renamed files that are kept. Set it higher if records are collected less often.
        keep: Setting<Count<1, 1000>> = 10,
        /// Whether an answered call gets a record of its answer as well, with `event` = `"answered"`. Set it to keep
        /// the time of the answer over a restart, after which the final record does not have it.
        answers: Setting<Flag> = record_answers,
        /// Longest duration of a call; after it both sides get a BYE. Set it to end calls that were left open.
        longest: Option<Setting<Time<{ 10 * SECOND }, { 30 * DAY }>>> => "no limit",
        /// Session interval that is requested if the two sides request none or a longer one (RFC 4028). They then
        /// confirm the call at this interval, or it has ended. An interval that the sides agree on by themselves is
        /// always supervised. Set it to notice calls whose BYE was lost.
        session_expires: Option<Setting<Time<{ 90 * SECOND }, DAY>>> => "none is requested",
        /// Most calls at a time, set up or answered, over all threads; further calls get 503. Each takes about a
        /// kilobyte until half a minute after its end. Set it to the highest number that you expect.
        max_calls: Setting<Count<1, { u32::MAX }>> = most as u32,
    }
}

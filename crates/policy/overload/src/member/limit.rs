//! Limit of one server: its start, its changes and its end.

use super::MemberLaw;
use super::batch::{Meter, RequestKind};
use super::open::Open;
use super::pace::Pace;
use base::Instant;
use core::time::Duration;

/// Smallest limit. With a smaller limit, one lost response would stop all requests to a server.
const LEAST: f64 = 2.0;
/// Smallest limit of a server that answers: the requests of this time (in seconds) at its pace, ...
const LEAST_TIME: f64 = 0.1;
/// ...but not more than this. Chance alone makes so many requests wait at a server below its capacity.
const LEAST_MOST: f64 = 12.0;
/// Least number of open requests from which a server counts as swamped. Any server can handle fewer.
const CROWD: u32 = 16;
/// Open requests of a server while its floor is measured.
const ALONE: f64 = 1.0;
/// First limit of a server that is back. It doubles with each batch until requests wait.
const BACK: f64 = 8.0;
/// Factor of the limit if requests were lost under it.
const LOSSY: f64 = 0.7;
/// Largest limit.
const MOST: f64 = 1e5;
/// Longest time to finish the open requests at the pace of the responses, in seconds. It is below T1, since callers
/// retransmit after T1.
const WAIT_MOST: f64 = 0.4;
/// ...plus this many times the usual response time.
const USUAL_TIMES: f64 = 4.0;
/// Places that requests with priority have above the limit at least.
const PRIORITY: f64 = 8.0;
/// Number of successive late or failing batches that start the limit.
const ROW: u32 = 2;
/// Fewest failures in a batch that start the limit.
const LOST: u32 = 8;
/// Responses that complete a measurement.
const MEASURED: u32 = 8;
/// Time for which a failure keeps its place, in seconds. Otherwise a server that refuses at once would have room at
/// once.
const LOSS_HOLDS: f64 = 1.0;
/// The limit ends when it was not needed for this time.
const CALM: Duration = Duration::from_secs(5);
/// The floor is measured when the time of day is a multiple of `MEASURE_FIRST`, as long as the limit is younger than
/// this...
const YOUNG: Duration = Duration::from_secs(12);
const MEASURE_FIRST: Duration = Duration::from_secs(4);
/// ...and later at a multiple of this...
const MEASURE_AGAIN: Duration = Duration::from_mins(1);
/// ...if the limit was needed within this time, twice the longest batch...
const NEEDED: Duration = Duration::from_secs(2);
/// ...and no batch since the last measurement had less than this part of the tolerated response time...
const CLOSE: f64 = 0.5;
/// ...for at most this time...
const MEASURE_MOST: Duration = Duration::from_secs(1);
/// ...of which this part waits for responses to open requests.
const QUIET: Duration = Duration::from_millis(400);

/// Measurement of the floor, during which the server has hardly any load.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    since: Instant,
    /// Whether the earlier requests are answered.
    is_quiet: bool,
}

/// Limits the number of requests that a server has not answered at all.
///
/// Report each new request ([`sent`](Self::sent)), and then once its first response ([`answered`](Self::answered)) or
/// its end without one ([`left`](Self::left), [`lost`](Self::lost)).
#[derive(Clone, Debug)]
pub struct MemberLimit {
    law: MemberLaw,
    /// Unix time of [`Instant::ZERO`].
    epoch: Duration,
    open: Open,
    meter: Meter,
    pace: Pace,
    /// Number of successive late or failing batches, and the delay of the first one.
    row: (u32, f64),
    limit: Option<f64>,
    /// Whether no request has waited since the limit started, so that the limit doubles.
    doubles: bool,
    /// Time of sending of the first request that counts. Earlier requests were not sent under the present limit.
    judged_from: Instant,
    /// Time at which the limit was last needed.
    needed: Instant,
    /// Start of the limit.
    since: Instant,
    measure_at: Instant,
    measurement: Option<Measurement>,
    /// Whether requests were answered without wait since the last time for a measurement.
    is_floor_seen: bool,
    /// Number of failures that still keep their place, and the time of this number.
    losses: (f64, Instant),
    /// Whether at least as many requests of the last batch failed as were answered.
    fails: bool,
}

impl MemberLimit {
    /// Creates an inactive limit.
    pub fn new(law: MemberLaw) -> Self {
        Self {
            law,
            epoch: Duration::ZERO,
            open: Open::default(),
            meter: Meter::new(),
            pace: Pace::default(),
            row: (0, 0.0),
            limit: None,
            doubles: false,
            judged_from: Instant::ZERO,
            needed: Instant::ZERO,
            since: Instant::ZERO,
            measure_at: Instant::ZERO,
            measurement: None,
            is_floor_seen: false,
            losses: (0.0, Instant::ZERO),
            fails: false,
        }
    }

    /// Sets the Unix time of [`Instant::ZERO`], so that limits of several processes measure the floor at the same
    /// times.
    #[must_use]
    pub fn with_epoch(self, epoch: Duration) -> Self {
        Self { epoch, ..self }
    }

    /// Law that moves the limit.
    pub fn law(&self) -> MemberLaw {
        self.law
    }

    /// Requests without any response.
    pub fn open(&self, now: Instant) -> u32 {
        self.open.count(now)
    }

    /// The limit in force; `None` if there is none.
    pub fn limit(&self, now: Instant) -> Option<u32> {
        self.limit_at(now).map(|limit| limit as u32)
    }

    /// Time since the limit is in force; `None` without a limit.
    pub fn limited_for(&self, now: Instant) -> Option<Duration> {
        self.limit_at(now).map(|_| now.saturating_since(self.since))
    }

    /// Most responses a second that the server has sent lately; `None` if it has sent none.
    pub fn pace(&self, now: Instant) -> Option<f64> {
        self.pace.rate(now)
    }

    fn limit_at(&self, now: Instant) -> Option<f64> {
        let limit = self.limit.filter(|_| now < self.needed + CALM)?;
        Some(if self.measurement.is_some() { ALONE } else { limit })
    }

    /// Whether the server may get one more new request. Requests with priority may use up to twice the limit, or
    /// eight places more.
    pub fn has_room(&self, now: Instant, has_priority: bool) -> bool {
        let Some(limit) = self.limit_at(now) else { return true };
        let limit = limit.floor();
        let most = if has_priority { (2.0 * limit).max(limit + PRIORITY) } else { limit };
        self.taken(now) < most
    }

    /// Places that are taken. Failures take at most half of the limit, unless as many requests fail as are answered.
    fn taken(&self, now: Instant) -> f64 {
        let open = f64::from(self.open.count(now));
        let most = match self.limit_at(now) {
            Some(_) if self.measurement.is_some() => 0.0,
            Some(limit) if !self.fails => limit / 2.0,
            _ => f64::INFINITY,
        };
        open + self.losses_at(now).min(most)
    }

    fn losses_at(&self, now: Instant) -> f64 {
        let (losses, at) = self.losses;
        losses * (1.0 - now.saturating_since(at).as_secs_f64() / LOSS_HOLDS).max(0.0)
    }

    /// Counts a new request to the server.
    pub fn sent(&mut self, now: Instant) {
        self.open.add(now);
        let open = self.open.count(now);
        self.pace.roll(now);
        self.meter.note_open(self.taken(now));
        if self.limit_at(now).is_none() && self.is_swamped(now, open) {
            self.begin(now);
        }
        self.look(now);
    }

    /// Whether the open requests take too long at the pace of the responses.
    fn is_swamped(&self, now: Instant, open: u32) -> bool {
        let Some(rate) = self.pace.rate(now) else { return false };
        let Some(usual) = self.meter.usual(now) else { return false };
        open >= CROWD && f64::from(open) > rate * (WAIT_MOST + USUAL_TIMES * usual)
    }

    /// Counts the first response to a new request sent at `sent`. `works`: the response shows that the server works,
    /// since it does not reject the call.
    pub fn answered(&mut self, now: Instant, work: RequestKind, sent: Instant, works: bool) {
        self.open.answer(now, sent);
        self.pace.answer(now);
        if works {
            self.note(now, work, sent);
        }
        self.look(now);
    }

    /// Counts a response to a request within a dialog sent at `sent`.
    pub fn noted(&mut self, now: Instant, work: RequestKind, sent: Instant) {
        self.note(now, work, sent);
        self.look(now);
    }

    /// Counts a new request, sent at `sent`, whose end does not depend on the server.
    pub fn left(&mut self, sent: Instant) {
        self.open.remove(sent);
    }

    /// Counts a failed new request sent at `sent`: its first response was 503, or it had none.
    pub fn lost(&mut self, now: Instant, sent: Instant) {
        self.open.remove(sent);
        let age = now.saturating_since(sent).as_secs_f64();
        let losses = self.losses_at(now) + (1.0 - age / LOSS_HOLDS).max(0.0);
        self.losses = (losses.min(self.limit.unwrap_or(MOST)), now);
        self.meter.lose();
        self.look(now);
    }

    /// Restarts for a server that is back: drops open requests, and starts with a low limit.
    pub fn restart(&mut self, now: Instant) {
        *self = Self { meter: self.meter.clone(), ..Self::new(self.law).with_epoch(self.epoch) };
        self.hold(now, BACK, true);
    }

    /// Drops the open requests of a dead server.
    pub fn forget_open(&mut self) {
        (self.open, self.pace) = (Open::default(), Pace::default());
    }

    fn note(&mut self, now: Instant, work: RequestKind, sent: Instant) {
        self.meter.note_loss(now, work, sent);
        if sent >= self.judged_from {
            self.meter.answer(work, now.saturating_since(sent));
        }
    }

    /// Starts the limit.
    fn begin(&mut self, now: Instant) {
        let open = self.taken(now);
        let limit = match self.pace.rate(now) {
            // A server that has stopped keeps its open requests, and gets a new one for each that it answers.
            Some(_) if self.pace.has_stopped(now) => open,
            Some(rate) => open.min(rate * self.meter.bearable()),
            None => open / 2.0,
        };
        self.hold(now, limit, false);
    }

    fn hold(&mut self, now: Instant, limit: f64, doubles: bool) {
        let limit = limit.clamp(self.least(now), MOST);
        self.limit = Some(limit);
        self.losses = (self.losses_at(now).min(limit), now);
        (self.doubles, self.row, self.needed, self.since) = (doubles, (0, 0.0), now, now);
        self.end_measurement(now);
    }

    /// Smallest limit now.
    fn least(&self, now: Instant) -> f64 {
        let requests = self.pace.rate(now).filter(|_| !self.fails).map_or(0.0, |rate| LEAST_TIME * rate);
        requests.clamp(LEAST, LEAST_MOST)
    }

    fn judge_from(&mut self, now: Instant) {
        self.judged_from = now;
        self.meter.begin(now, self.taken(now));
    }

    /// Handles a complete batch.
    fn look(&mut self, now: Instant) {
        if self.limit.is_some() && self.limit_at(now).is_none() {
            (self.limit, self.measurement) = (None, None);
        }
        if self.meter.loses(now) {
            match self.limit {
                None if self.pace.rate(now).is_some() => return self.begin(now),
                Some(limit) => self.limit = Some((LOSSY * limit).max(self.least(now))),
                None => {}
            }
        }
        if self.limit.is_some() && self.measurement.is_none() && now >= self.measure_at {
            self.begin_measurement(now);
        }
        if self.measurement.is_some() {
            return self.measure(now);
        }
        if !self.meter.is_complete(now) {
            return;
        }
        match self.limit {
            None => self.look_for_overload(now),
            Some(limit) => self.adapt(now, limit),
        }
        self.meter.begin(now, self.taken(now));
    }

    fn look_for_overload(&mut self, now: Instant) {
        let late = self.meter.batch(now).filter(|batch| batch.delay > batch.late());
        let (is_late, delay) = (late.is_some(), late.map_or(0.0, |batch| batch.delay));
        let fails = self.meter.fails() && self.meter.lost() >= LOST;
        self.row = match self.row {
            _ if !is_late && !fails => (0, 0.0),
            // After a pause the delay falls until the backlog is gone.
            (_, first) if !fails && delay < first.min(WAIT_MOST) => (1, delay),
            (0, _) => (1, delay),
            (row, first) => (row + 1, first),
        };
        if self.row.0 >= ROW {
            self.fails = fails;
            return self.begin(now);
        }
        if !is_late {
            self.meter.learn(now);
        }
    }

    fn adapt(&mut self, now: Instant, limit: f64) {
        self.fails = self.meter.fails();
        let Some(batch) = self.meter.batch(now) else { return };
        self.meter.learn_shorter();
        let is_late = batch.delay > batch.bearable();
        let waits = batch.delay > CLOSE * batch.bearable();
        if !waits {
            self.meter.learn_usual(now);
        }
        self.is_floor_seen |= !waits;
        if is_late || (waits && batch.peak >= limit.floor()) {
            self.needed = now;
        }
        if self.doubles && is_late && batch.delay <= batch.late() && !batch.fails {
            // The server is back and works as fast as it can. Whether that is too slow is judged as without a limit.
            (self.limit, self.measurement) = (None, None);
            return;
        }
        self.doubles &= !is_late && !batch.fails;
        let next = if self.doubles {
            if batch.is_used(limit) { 2.0 * limit } else { limit }
        } else {
            self.law.next(limit, &batch)
        };
        self.limit = Some(next.clamp(self.least(now), MOST));
        if next < limit {
            self.judge_from(now);
        }
    }

    /// Starts a measurement of the floor if the limit is needed. Does not start one after the common time of
    /// measurement, since the load of other senders would distort it.
    fn begin_measurement(&mut self, now: Instant) {
        let is_missed = now >= self.measure_at + MEASURE_MOST / 2;
        let is_needed = now < self.needed + NEEDED;
        if is_missed || !is_needed || self.is_floor_seen || self.doubles || self.fails {
            self.is_floor_seen = false;
            self.measure_at = self.next_measurement(now);
        } else {
            self.measurement = Some(Measurement { since: self.measure_at, is_quiet: false });
        }
    }

    /// Time of the next measurement. It depends on the time of day, so that all shards measure at once.
    fn next_measurement(&self, now: Instant) -> Instant {
        let is_young = now.saturating_since(self.since) < YOUNG;
        let period = if is_young { MEASURE_FIRST } else { MEASURE_AGAIN }.as_nanos() as u64;
        let of_day = self.epoch.as_nanos() as u64 + now.as_nanos();
        now + Duration::from_nanos(period - of_day % period)
    }

    /// Measures the floor: waits until open requests are answered, then for a batch.
    fn measure(&mut self, now: Instant) {
        let Some(measurement) = &mut self.measurement else { return };
        let length = now.saturating_since(measurement.since);
        if !measurement.is_quiet {
            measurement.is_quiet = f64::from(self.open.count(now)) <= ALONE;
            if measurement.is_quiet {
                self.judge_from(now);
            } else if length >= QUIET {
                self.end_measurement(now);
            }
        } else if length >= MEASURE_MOST || self.meter.answers() >= MEASURED {
            self.meter.measured(now);
            self.end_measurement(now);
        }
    }

    fn end_measurement(&mut self, now: Instant) {
        (self.measurement, self.measure_at, self.needed) = (None, self.next_measurement(now), now);
        self.judge_from(now);
    }
}

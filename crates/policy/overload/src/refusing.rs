//! Limit of the time that a host spends on refusals.

use crate::{MessageClass, Tier};
use base::Instant;
use core::time::Duration;

/// Share of a host's time spent on refusing requests. Above [`Refusing::MOST`], refusals leave too little time for
/// accepted requests. A new request is then dropped and not refused, which takes less time. Even reading such requests
/// takes time, so the host lets the kernel drop some of them unread ([`pass`](Self::pass)).
///
/// A dropped request comes back up to six times (RFC 3261 §17.1.1.2), so refusing is better as long as there is time
/// for it.
#[derive(Clone, Debug, Default)]
pub struct Refusing {
    since: Instant,
    spent: Duration,
    share: f64,
    /// Busy time of the host up to this window.
    busy_before: Duration,
    /// Share of busy time over about the last 500 ms.
    busy: f64,
    calls: Intake,
    others: OtherIntake,
}

/// New calls.
#[derive(Clone, Debug, Default)]
struct Intake {
    /// Those read in this window, and those accepted or refused.
    read: usize,
    taken: usize,
    /// The same a second over about the last 500 ms, and how many a second arrive, also those that the kernel drops.
    reads: f64,
    takes: f64,
    offered: f64,
    /// Share to read; `None`: all.
    pass: Option<f64>,
}

/// New requests other than INVITE. After an outage, all telephones retransmit at the same time every 4 s (T2, RFC 3261
/// §17.1.2.2). So the host stores as many requests as it can take in this time.
#[derive(Clone, Debug, Default)]
struct OtherIntake {
    /// Those read in this window, those accepted or refused, and the time for them.
    read: usize,
    taken: usize,
    spent: Duration,
    /// The same a second over about the last 4 s, and how many arrive.
    takes: f64,
    spends: f64,
    offered: f64,
    pass: Option<f64>,
}

/// Shares of the new requests without priority that a host should read, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReadShares {
    /// Of INVITE requests. Their retransmissions are treated like the first request.
    pub calls: f64,
    /// Of REGISTER requests. Each retransmission has another chance.
    pub others: f64,
}

impl ReadShares {
    /// All of them.
    pub const ALL: Self = Self { calls: 1.0, others: 1.0 };

    /// The smaller share.
    pub fn least(self) -> f64 {
        self.calls.min(self.others)
    }
}

/// Length of a window: short compared with T1, and as long as some hundred refusals.
const WINDOW: Duration = Duration::from_millis(50);
/// Weight of a new window. Averages cover about the last 500 ms, so that a burst of refusals does not cause drops.
const WEIGHT: f64 = 0.1;
/// Time for which requests other than INVITE are stored, in seconds, and the weight of a window in averages over it.
const STORED: f64 = 4.0;
const WEIGHT_OF_STORED: f64 = 0.0125;
/// Share of the host's time for which such requests are stored. Calls come first, and reading takes time too.
const SHARE_OF_OTHERS: f64 = 0.75;
/// Number of waiting requests other than INVITE from which the kernel drops some.
const MANY: usize = 500;
/// Share of dropped requests among the new ones that are read from which the kernel drops requests. To read and drop a
/// message takes about a quarter of the time of a served message.
const DROPPED_MOST: f64 = 0.2;
/// Requests that the kernel passes, in terms of those that the host takes. A few more come than it takes, since the
/// number is only known while some are dropped; more come if it takes nearly all.
const PASSED: f64 = 1.1;
const PASSED_IF_ALL_ARE_TAKEN: f64 = 1.5;
const NEARLY_ALL: f64 = 0.95;
/// Least share of new requests that the kernel passes.
const PASS_MIN: f64 = 1.0 / 256.0;

impl Refusing {
    /// Largest share for refusals of requests without priority. The rest serves accepted requests.
    pub const MOST: f64 = 0.125;
    /// Largest share for refusals of all requests. Requests with priority may also be the flood of an outsider.
    pub const MOST_WITH_PRIORITY: f64 = 0.5;

    /// Adds time spent on a refusal that ended now.
    pub fn on_refused(&mut self, spent: Duration) {
        self.spent += spent;
    }

    /// Whether one more request of this tier is refused, and not dropped.
    pub fn may_refuse(&self, tier: Tier) -> bool {
        self.share <= if tier == Tier::First { Self::MOST } else { Self::MOST_WITH_PRIORITY }
    }

    /// Counts a new request that was read.
    pub fn on_read(&mut self, class: MessageClass) {
        *if class == MessageClass::NewOther { &mut self.others.read } else { &mut self.calls.read } += 1;
    }

    /// Counts a new request that was read and is now accepted or refused.
    pub fn on_taken(&mut self, class: MessageClass) {
        *if class == MessageClass::NewOther { &mut self.others.taken } else { &mut self.calls.taken } += 1;
    }

    /// Adds time spent on requests other than INVITE.
    pub fn on_others(&mut self, spent: Duration) {
        self.others.spent += spent;
    }

    /// Share of the time, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Shares that the host should read.
    pub fn pass(&self) -> ReadShares {
        ReadShares { calls: self.calls.pass.unwrap_or(1.0), others: self.others.pass.unwrap_or(1.0) }
    }

    /// Time at which [`roll`](Self::roll) changes the shares of requests to read; `None` while all are read.
    pub fn deadline(&self) -> Option<Instant> {
        self.calls.pass.or(self.others.pass).map(|_| self.since + WINDOW)
    }

    /// Whether the present window is over.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.since + WINDOW
    }

    /// Ends the present window if it is over, in which the kernel passed these shares. `busy` is the host's busy time so
    /// far, and `waiting` the number of its waiting requests other than INVITE.
    /// The kernel has dropped `unread` datagrams in this window.
    pub fn roll(&mut self, now: Instant, passed: ReadShares, unread: u64, busy: Duration, waiting: usize) {
        if !self.is_due(now) {
            return;
        }
        let length = now.saturating_since(self.since);
        // After 100 windows the averages are those of the last one.
        let windows = (length.as_secs_f64() / WINDOW.as_secs_f64()).min(100.0);
        let seconds = length.as_secs_f64();
        let averages = |weight: f64| {
            let weight = 1.0 - (1.0 - weight).powf(windows);
            move |value: &mut f64, new: f64| *value += (new / seconds - *value) * weight
        };
        let average = averages(WEIGHT);
        average(&mut self.share, self.spent.min(length).as_secs_f64());
        average(&mut self.busy, busy.saturating_sub(self.busy_before).min(length).as_secs_f64());
        let calls = self.calls.read as f64 * (1.0 / passed.calls - 1.0);
        self.calls.roll(passed.calls, calls, self.busy, average);
        let others = (unread as f64 - calls).max(0.0);
        self.others.roll(passed.others, others, waiting, averages(WEIGHT_OF_STORED));
        (self.since, self.busy_before, self.spent) = (now, busy, Duration::ZERO);
    }
}

impl Intake {
    /// Ends a window in which the kernel passed this share, and dropped `unread` of these requests. `busy` is the host's
    /// share of busy time.
    fn roll(&mut self, passed: f64, unread: f64, busy: f64, average: impl Fn(&mut f64, f64)) {
        average(&mut self.reads, self.read as f64);
        average(&mut self.takes, self.taken as f64);
        average(&mut self.offered, self.read as f64 + unread);
        if self.pass.is_some() || self.reads - self.takes > DROPPED_MOST * self.reads {
            // A host that is not always busy can take more than it does.
            let takes = self.takes / busy.max(0.1);
            let takes_all = self.takes > NEARLY_ALL * self.reads;
            let passed_of_taken = if takes_all { PASSED_IF_ALL_ARE_TAKEN } else { PASSED };
            let pass = (passed_of_taken * takes / self.offered.max(1.0)).max(PASS_MIN);
            self.pass = (pass < 1.0 || passed < 1.0).then_some(pass.min(1.0));
        }
        (self.read, self.taken) = (0, 0);
    }
}

impl OtherIntake {
    /// Ends a window in which the kernel passed this share, and dropped `unread` of these requests. `waiting` is the
    /// number of stored ones.
    fn roll(&mut self, passed: f64, unread: f64, waiting: usize, average: impl Fn(&mut f64, f64)) {
        average(&mut self.takes, self.taken as f64);
        average(&mut self.spends, self.spent.as_secs_f64());
        average(&mut self.offered, self.read as f64 + unread);
        if self.pass.is_some() || waiting > MANY {
            let room = STORED * SHARE_OF_OTHERS * self.takes / self.spends - waiting as f64;
            let pass = (room / (STORED * self.offered).max(1.0)).max(PASS_MIN);
            self.pass = (pass < 1.0 || passed < 1.0).then_some(pass.min(1.0));
        }
        (self.read, self.taken, self.spent) = (0, 0, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that serves 1,000 requests a second, and refuses each further one in 100 us.
    #[derive(Default)]
    struct Host {
        refusing: Refusing,
        now: Instant,
        busy: Duration,
    }

    impl Host {
        /// Offers this many requests a second for some windows. Returns the shares that the kernel passed, and the share
        /// of the time spent on refusals.
        fn offer(&mut self, a_second: f64, windows: usize) -> (Vec<f64>, f64) {
            let class = MessageClass::NewInvite;
            let mut refused = Duration::ZERO;
            let passes = (0..windows).map(|_| {
                let passed = self.refusing.pass();
                assert!(passed.others >= 1.0, "there are no other requests");
                let offered = a_second * WINDOW.as_secs_f64();
                let read = (offered * passed.calls) as usize;
                let unread = offered as u64 - read as u64;
                for number in 0..read {
                    self.refusing.on_read(class);
                    if number < 50 {
                        self.busy += Duration::from_millis(1);
                        self.refusing.on_taken(class);
                    } else if self.refusing.may_refuse(Tier::First) {
                        refused += Duration::from_micros(100);
                        self.refusing.on_refused(Duration::from_micros(100));
                        self.refusing.on_taken(class);
                    }
                }
                self.now += WINDOW;
                self.refusing.roll(self.now, passed, unread, self.busy, 0);
                self.refusing.pass().calls
            });
            let passes = passes.collect();
            (passes, refused.as_secs_f64() / (windows as f64 * WINDOW.as_secs_f64()))
        }
    }

    #[test]
    fn refusals_take_their_share_of_the_time_and_the_kernel_passes_what_the_host_takes() {
        let mut host = Host::default();
        for load in [5_000.0, 20_000.0, 5_000.0] {
            host.offer(load, 100);
            let (passes, refusing) = host.offer(load, 200);
            assert!((0.7..1.1).contains(&(refusing / Refusing::MOST)), "{refusing} at {load}");
            // It takes 1,000, and refuses 1,250.
            let least = passes.iter().copied().fold(1.0, f64::min) * load / 2_250.0;
            let most = passes.iter().copied().fold(0.0, f64::max) * load / 2_250.0;
            assert!(0.8 < least && most < 1.4, "{least} to {most} at {load}");
        }
        let (passes, _) = host.offer(800.0, 40);
        assert!(passes[39] >= 1.0, "{passes:?}");
        assert_eq!(host.refusing.deadline(), None);
    }

    /// 24,000 telephones retransmit within one second of every four. The host takes 1,000 of their requests a second.
    #[test]
    fn the_kernel_passes_what_the_host_can_store_of_waves_of_registrations() {
        let (mut refusing, mut now, mut busy) = (Refusing::default(), Instant::ZERO, Duration::ZERO);
        let (mut waiting, mut taken, mut most) = (0, 0, 0);
        for window in 0..480 {
            let passed = refusing.pass();
            assert!(passed.calls >= 1.0, "there are no calls");
            let offered = if window % 80 < 20 { 24_000 / 20 } else { 0 };
            let read = (f64::from(offered) * passed.others) as u32;
            (0..read).for_each(|_| refusing.on_read(MessageClass::NewOther));
            waiting += read;
            let served = waiting.min(50);
            (0..served).for_each(|_| refusing.on_taken(MessageClass::NewOther));
            refusing.on_others(Duration::from_millis(served.into()));
            busy += Duration::from_millis(served.into());
            waiting -= served;
            now += WINDOW;
            refusing.roll(now, passed, u64::from(offered - read), busy, waiting as usize);
            if window >= 160 {
                taken += served;
                most = most.max(waiting);
            }
        }
        assert!(taken > 9_000 && most < 4_000, "{taken} of 16,000, {most} stored");
    }

    #[test]
    fn few_refusals_are_all_sent_and_a_pause_resets_the_share() {
        let mut host = Host::default();
        let (passes, refusing) = host.offer(2_000.0, 200);
        assert!(passes.iter().all(|passed| *passed >= 1.0) && (refusing - 0.1).abs() < 0.01, "{refusing}");
        host.offer(20_000.0, 10);
        assert!(!host.refusing.may_refuse(Tier::First));
        host.refusing.roll(host.now + Duration::from_secs(2), ReadShares::ALL, 0, host.busy, 0);
        assert!(host.refusing.may_refuse(Tier::First), "{}", host.refusing.share());
    }
}

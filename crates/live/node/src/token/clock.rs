//! The time of day that tokens carry. The clock since the boot of the machine cannot be set, so the time goes on with
//! this clock, whatever happens to the wall clock, also over a restart of the process.
//!
//! A route token is good for a lifetime. With the wall clock alone, calls would be lost where it is set: back, and
//! their tokens were made in the future; ahead, and they are too old. So two clocks can be in force:
//!
//! - A wall clock that differs by half a lifetime at most is followed, since other balancers of the site have it too.
//!   One that differs more is doubted, and followed only if it still says so after a lifetime.
//! - Tokens are made by one clock. For a lifetime they are good by the other one as well: by that which is doubted,
//!   for it may be that of the site, or by that which was followed before.

/// A reading of the machine's clocks at one moment, in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Unix time, which may be set at any moment.
    pub wall: i64,
    /// Since the machine has booted.
    pub up: i64,
}

impl Reading {
    /// When the machine booted, by the wall clock.
    fn boot(self) -> i64 {
        self.wall - self.up
    }
}

/// A clock by which tokens are good that are not made by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherClock {
    /// When the machine booted by it, as Unix time.
    pub boot: i64,
    /// Until when it is in force, in seconds since the machine has booted.
    pub until: i64,
}

/// The clocks of the tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenClock {
    /// When the machine booted by the clock of new tokens, as Unix time.
    pub boot: i64,
    /// The other one, if there is one.
    pub other: Option<OtherClock>,
}

/// The clocks as a process leaves them to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptClock {
    /// Whether the machine has not booted since.
    pub is_same_boot: bool,
    /// When this was kept, in seconds since the machine had booted.
    pub up: i64,
    /// The clocks.
    pub clock: TokenClock,
}

/// The outcome of a comparison with the wall clock, and by how many seconds it is ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockChange {
    /// It is followed.
    Followed(i64),
    /// It is not followed yet.
    Doubted(i64),
    /// It is followed although it differs by much: it has said so for a whole lifetime.
    Believed(i64),
}

/// Two clocks are read one after the other, and machines of a site differ by a little.
const SLACK: u64 = 60;

impl TokenClock {
    /// The clocks of a process that starts now; `lifetime` of tokens in seconds.
    pub fn start(kept: Option<KeptClock>, now: Reading, lifetime: u64) -> (Self, Option<ClockChange>) {
        let by_wall = Self { boot: now.boot(), other: None };
        let Some(kept) = kept else { return (by_wall, None) };
        if kept.is_same_boot {
            let mut clock = kept.clock;
            let change = clock.look(now, lifetime);
            return (clock, change);
        }
        // How long the machine was off is not known: it booted at that time, or later.
        let earliest = kept.clock.boot + kept.up;
        if now.boot() >= earliest {
            return (by_wall, None);
        }
        let mut clock = Self { boot: earliest, other: None };
        let change = clock.look(now, lifetime);
        (clock, change)
    }

    /// Compares with the wall clock, from time to time.
    pub fn look(&mut self, now: Reading, lifetime: u64) -> Option<ClockChange> {
        let ahead = now.boot() - self.boot;
        let until = now.up.saturating_add_unsigned(lifetime);
        let other = self.other;
        self.other = other.filter(|other| other.until > now.up);
        if ahead.unsigned_abs() <= SLACK.min(lifetime / 2) {
            // It is the same clock, which is corrected all the time.
            self.boot = now.boot();
            return None;
        }
        if ahead.unsigned_abs() <= lifetime / 2 {
            *self = Self { boot: now.boot(), other: Some(OtherClock { boot: self.boot, until }) };
            return Some(ClockChange::Followed(ahead));
        }
        match other {
            Some(doubted) if doubted.boot.abs_diff(now.boot()) <= SLACK => {
                if doubted.until > now.up {
                    self.other = Some(OtherClock { boot: now.boot(), ..doubted });
                    return None;
                }
                *self = Self { boot: now.boot(), other: Some(OtherClock { boot: self.boot, until }) };
                Some(ClockChange::Believed(ahead))
            }
            _ => {
                self.other = Some(OtherClock { boot: now.boot(), until });
                Some(ClockChange::Doubted(ahead))
            }
        }
    }

    /// By how many seconds the other clock is ahead of that of new tokens.
    pub fn other_ahead(&self) -> Option<i64> {
        self.other.map(|other| other.boot - self.boot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: u64 = 86_400;
    const HOUR: i64 = 3_600;
    /// When the machine booted, truly.
    const BOOT: i64 = 1_800_000_000;

    /// Readings so long after the boot, of a wall clock that is so much ahead.
    fn reading(up: i64, ahead: i64) -> Reading {
        Reading { wall: BOOT + up + ahead, up }
    }

    fn started(up: i64) -> TokenClock {
        let (clock, change) = TokenClock::start(None, reading(up, 0), DAY);
        assert_eq!((clock.boot, clock.other, change), (BOOT, None, None));
        clock
    }

    fn kept(clock: TokenClock, up: i64) -> KeptClock {
        KeptClock { is_same_boot: true, up, clock }
    }

    /// Whether a token made then, by the true time, is taken now.
    fn takes(clock: &TokenClock, made_up: i64, now_up: i64) -> bool {
        let made = BOOT + made_up;
        let near = |boot: i64| (boot + now_up).abs_diff(made) <= DAY;
        near(clock.boot) || clock.other.is_some_and(|other| near(other.boot))
    }

    #[test]
    fn small_corrections_are_followed_without_a_word() {
        let mut clock = started(100);
        assert_eq!(clock.look(reading(200, 3), DAY), None);
        assert_eq!(clock, TokenClock { boot: BOOT + 3, other: None });
    }

    #[test]
    fn a_clock_set_by_minutes_is_followed_and_the_one_before_stays_good() {
        let mut clock = started(100);
        assert_eq!(clock.look(reading(200, -120), DAY), Some(ClockChange::Followed(-120)));
        assert_eq!(clock.boot, BOOT - 120);
        assert_eq!(clock.other, Some(OtherClock { boot: BOOT, until: 200 + DAY as i64 }));
        assert_eq!(clock.look(reading(201 + DAY as i64, -120), DAY), None);
        assert_eq!(clock.other, None, "every token made by it is too old now");
    }

    #[test]
    fn a_clock_set_far_is_believed_after_a_lifetime() {
        for ahead in [-30 * DAY as i64, 13 * HOUR, 3_650 * DAY as i64] {
            let mut clock = started(100);
            assert_eq!(clock.look(reading(200, ahead), DAY), Some(ClockChange::Doubted(ahead)));
            assert_eq!(clock.look(reading(300, ahead), DAY), None);
            assert_eq!(clock.boot, BOOT, "tokens are made by the clock that was right before");
            assert_eq!(clock.other_ahead(), Some(ahead), "others of the site may be right");
            let later = 200 + DAY as i64;
            assert_eq!(clock.look(reading(later, ahead), DAY), Some(ClockChange::Believed(ahead)));
            assert_eq!((clock.boot, clock.other_ahead()), (BOOT + ahead, Some(-ahead)));
            assert_eq!(clock.look(reading(later + 10, ahead), DAY), None);
        }
    }

    #[test]
    fn a_clock_that_is_put_right_again_was_never_followed() {
        let mut clock = started(100);
        clock.look(reading(200, 20 * HOUR), DAY);
        assert_eq!(clock.look(reading(300, 0), DAY), None);
        assert_eq!(clock.boot, BOOT);
    }

    #[test]
    fn a_restart_goes_on_with_what_was_kept() {
        for ahead in [-120, -40 * DAY as i64, 40 * DAY as i64] {
            let before = started(100);
            let (clock, change) = TokenClock::start(Some(kept(before, 150)), reading(200, ahead), DAY);
            assert!(change.is_some() && takes(&clock, 150, 200), "{ahead}");
            // And once more.
            let (clock, _) = TokenClock::start(Some(kept(clock, 250)), reading(300, ahead), DAY);
            assert!(takes(&clock, 150, 300), "{ahead}");
        }
    }

    #[test]
    fn after_a_boot_it_is_at_least_as_late_as_it_was() {
        let before = KeptClock { is_same_boot: false, up: 10_000, clock: started(100) };
        let start = |wall, up| TokenClock::start(Some(before), Reading { wall, up }, DAY);
        // Off for a minute, for a month.
        for off in [60, 30 * DAY as i64] {
            let wall = BOOT + 10_000 + off + 5;
            assert_eq!(start(wall, 5), (TokenClock { boot: wall - 5, other: None }, None));
        }
        // Without a battery it is 1970 until the network tells the time.
        let (clock, change) = start(5, 5);
        assert!(matches!(change, Some(ClockChange::Doubted(_))));
        assert_eq!(clock.boot, BOOT + 10_000);
        let mut clock = clock;
        assert_eq!(
            clock.look(Reading { wall: BOOT + 10_200, up: 65 }, DAY),
            Some(ClockChange::Followed(135))
        );
    }

    proptest! {
        /// However often the wall clock is set, and with restarts in between: what was made by the clock in force
        /// before it was set for the last time is good after it.
        #[test]
        fn what_was_made_just_before_is_good_just_after(
            steps in proptest::collection::vec((1..100_000_i64, -100_000_000..100_000_000_i64, any::<bool>()), 1..20)
        ) {
            let (mut up, mut clock) = (100, started(100));
            for (wait, ahead, restart) in steps {
                up += wait;
                let made = clock.boot + up;
                if restart {
                    clock = TokenClock::start(Some(kept(clock, up)), reading(up, ahead), DAY).0;
                } else {
                    clock.look(reading(up, ahead), DAY);
                }
                let near = |boot: i64| (boot + up).abs_diff(made) <= DAY;
                prop_assert!(near(clock.boot) || clock.other.is_some_and(|other| near(other.boot)));
                prop_assert!(clock.other.is_none_or(|other| other.until <= up + DAY as i64));
            }
        }
    }
}

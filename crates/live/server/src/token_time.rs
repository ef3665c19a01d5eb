//! The clocks of the tokens, kept from one process to the next: what [`node::TokenClock`] decides, held to machine
//! and disk.

use crate::clock::Clock;
use crate::{state, whole};
use node::{ClockChange, KeptClock, OtherClock, TokenClock};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often the time is kept: after a boot, it is known to be at least what was kept.
const PERIOD: i64 = 60;

/// Where the time of the configuration at `path` is kept: `sarabande.toml` has `sarabande.clock`.
pub(crate) fn beside(path: &Path) -> PathBuf {
    state::place(path, "clock")
}

/// The content of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// Which boot of the machine the seconds are counted from.
    boot_id: String,
    /// Seconds since the boot, when it was kept.
    up: i64,
    /// Unix time of the boot by the clock of new tokens.
    boot: i64,
    /// The same by another clock that is in force, and until when, in seconds since the boot.
    other: Option<(i64, i64)>,
}

/// The clocks in force.
pub(crate) struct TokenTime {
    clock: TokenClock,
    boot_id: String,
    file: Option<PathBuf>,
    /// When it was last kept, in seconds since the boot.
    kept: i64,
    /// One at a time writes, and never an older one after a newer one.
    writing: Arc<Mutex<()>>,
}

impl TokenTime {
    /// Goes on with the time kept beside the configuration at `path`.
    pub(crate) fn start(path: Option<&Path>, lifetime: Duration) -> Self {
        let file = path.map(beside);
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot_id = boot_id.trim().to_owned();
        let now = Clock::reading();
        let kept = file.as_deref().and_then(read);
        let kept = kept.map(|Kept { boot_id: of, up, boot, other }| KeptClock {
            is_same_boot: is_same_boot((&of, up), (&boot_id, now.up)),
            up,
            clock: TokenClock { boot, other: other.map(|(boot, until)| OtherClock { boot, until }) },
        });
        let (clock, change) = TokenClock::start(kept, now, lifetime.as_secs());
        tell(change, lifetime);
        let time = Self { clock, boot_id, file, kept: now.up, writing: Arc::default() };
        if let Some(file) = &time.file
            && let Err(error) = write(file, &time.to_keep(now.up))
        {
            tracing::warn!(file = %file.display(), %error, "no place to keep the time of the tokens: where the clock is \
                set and this process started again, calls now in progress may be found no more");
        }
        time
    }

    /// When the machine booted, by the clock of new tokens.
    pub(crate) fn boot(&self) -> i64 {
        self.clock.boot
    }

    /// By how many seconds another clock is ahead by which tokens are good.
    pub(crate) fn other_ahead(&self) -> Option<i64> {
        self.clock.other_ahead()
    }

    /// Compares with the wall clock, and keeps the time if it is due.
    pub(crate) fn look(&mut self, lifetime: Duration) {
        let now = Clock::reading();
        let change = self.clock.look(now, lifetime.as_secs());
        tell(change, lifetime);
        if change.is_some() || now.up - self.kept >= PERIOD {
            self.keep();
        }
    }

    /// Stores the time, on a thread of its own: a slow disk holds up no traffic.
    pub(crate) fn keep(&mut self) {
        let Some(file) = self.file.clone() else { return };
        self.kept = Clock::reading().up;
        let (kept, writing) = (self.to_keep(self.kept), Arc::clone(&self.writing));
        tokio::task::spawn_blocking(move || {
            // Where the one before is not done yet, the next one will be in a minute.
            let Ok(_one) = writing.try_lock() else { return };
            if let Err(error) = write(&file, &kept) {
                tracing::debug!(file = %file.display(), %error, "the time of the tokens was not kept");
            }
        });
    }

    fn to_keep(&self, up: i64) -> Kept {
        let TokenClock { boot, other } = self.clock;
        Kept { boot_id: self.boot_id.clone(), up, boot, other: other.map(|other| (other.boot, other.until)) }
    }
}

/// Whether the machine has not booted between two moments, by the id of the boot and the seconds since it. Without an
/// id (`/proc/sys` may be hidden) the seconds alone tell, which may take a later boot for the same one: then the time
/// of the tokens is behind by the time that the machine was off, and is put right as after a clock that was set.
fn is_same_boot((before, up_before): (&str, i64), (now, up): (&str, i64)) -> bool {
    before == now && (!now.is_empty() || up >= up_before)
}

fn tell(change: Option<ClockChange>, lifetime: Duration) {
    match change {
        None => {}
        Some(ClockChange::Followed(seconds)) => {
            tracing::info!(
                seconds,
                "the system's clock was set: tokens follow it, those made before stay good"
            );
        }
        Some(ClockChange::Believed(seconds)) => {
            tracing::warn!(
                seconds,
                "tokens now follow the system's clock, which has been ahead by so much for long"
            );
        }
        Some(ClockChange::Doubted(seconds)) => tracing::warn!(
            seconds,
            "the system's clock is ahead of the time of the tokens by so much: new tokens do not follow it for {lifetime:?}. \
             Is it right? If not, set it; if it is, nothing needs to be done"
        ),
    }
}

/// The kept time; `None` where there is none of use.
fn read(file: &Path) -> Option<Kept> {
    let text = std::fs::read(file).ok()?;
    let kept: Result<Kept, _> = serde_json::from_slice(&text);
    // Nobody has lived in such a time, and sums with it must not overflow.
    let is_time = |boot: i64| u32::try_from(boot.unsigned_abs()).is_ok();
    let sound = |kept: &Kept| {
        is_time(kept.boot) && is_time(kept.up) && kept.other.is_none_or(|(boot, _)| is_time(boot))
    };
    let kept = kept.ok().filter(sound);
    if kept.is_none() {
        let file = file.display();
        tracing::warn!(%file, "what is kept there is no time of tokens: the system's clock is believed");
    }
    kept
}

/// Whole or not at all, also where the power fails: half of it would be believed as little as none.
fn write(file: &Path, kept: &Kept) -> io::Result<()> {
    let text = serde_json::to_string(kept).map_err(io::Error::other)?;
    let draft = whole::draft(file, &text)?;
    let written = std::fs::rename(&draft, file);
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    whole::settle(file);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_id_of_the_boot_the_time_since_it_tells() {
        assert!(is_same_boot(("a", 50), ("a", 60)));
        assert!(!is_same_boot(("a", 50), ("b", 60)) && !is_same_boot(("a", 50), ("", 60)));
        assert!(is_same_boot(("", 50), ("", 60)) && !is_same_boot(("", 50), ("", 40)));
    }

    #[test]
    fn the_time_is_kept_and_what_is_none_is_not_believed() {
        let file = std::env::temp_dir().join(format!("sarabande-clock-test-{}.clock", std::process::id()));
        let kept = Kept { boot_id: "a".to_owned(), up: 5, boot: 1_800_000_000, other: Some((7, 9)) };
        write(&file, &kept).unwrap();
        assert_eq!(read(&file), Some(kept));
        for nonsense in ["", "{}", "[1]", r#"{"boot_id":"a","up":5,"boot":9223372036854775807,"other":null}"#]
        {
            std::fs::write(&file, nonsense).unwrap();
            assert_eq!(read(&file), None, "{nonsense}");
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read(&file), None);
        let lifetime = Duration::from_hours(24);
        let time = TokenTime::start(Some(&file), lifetime);
        assert_eq!(read(&file), Some(time.to_keep(time.kept)), "a start keeps it at once");
        // As if the wall clock had been set back by an hour since.
        let before = Kept { boot: time.boot() + 3_600, ..time.to_keep(time.kept) };
        write(&file, &before).unwrap();
        let after = TokenTime::start(Some(&file), lifetime);
        assert!(
            after.other_ahead().is_some_and(|ahead| ahead.abs_diff(3_600) <= 2),
            "{:?}",
            after.other_ahead()
        );
        std::fs::remove_file(&file).unwrap();
    }
}

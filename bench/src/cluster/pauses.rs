//! Garbage collections in the log of a Java virtual machine.

/// A stop-the-world pause.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pause {
    /// Its end, in seconds since the start of the virtual machine.
    pub(super) at: f64,
    /// Its length in milliseconds.
    pub(super) ms: f64,
}

/// Returns the pauses in a log of `-Xlog:gc:file=...:uptime`: `[12.345s] GC(7) Pause Young (Allocation Failure)
/// 13M->2M(46M) 3.456ms`.
pub(super) fn pauses(log: &str) -> Vec<Pause> {
    let pause = |line: &str| {
        let (uptime, rest) = line.strip_prefix('[')?.split_once("s]")?;
        let ms = rest.strip_suffix("ms").filter(|_| rest.contains(" Pause "))?.rsplit(' ').next()?;
        Some(Pause { at: uptime.replace(',', ".").parse().ok()?, ms: ms.replace(',', ".").parse().ok()? })
    };
    log.lines().filter_map(pause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_alone_are_read() {
        let log = "[0.005s] Using Serial\n[1.250s] GC(0) Pause Young (Allocation Failure) 12M->1M(46M) 4.500ms\n\
                   [2,500s] GC(1) Pause Full (Metadata GC Threshold) 3M->1M(46M) 21,125ms\n[3.1s] GC(2) Concurrent Mark 5ms\n[4.";
        assert_eq!(pauses(log), [Pause { at: 1.25, ms: 4.5 }, Pause { at: 2.5, ms: 21.125 }]);
    }
}

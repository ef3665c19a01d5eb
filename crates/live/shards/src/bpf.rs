//! Assembler for programs in classic BPF (`linux/filter.h`), which need no privilege and have no loops.

use sockets::SockFilter;
use std::ops::Range;

/// Codes of instructions, such as `BPF_LD | BPF_W | BPF_ABS`.
pub(crate) mod code {
    pub(crate) const LOAD: u16 = 0x20;
    /// At an offset relative to X.
    pub(crate) const LOAD_AT_X: u16 = 0x40;
    pub(crate) const LOAD_NUMBER: u16 = 0x00;
    pub(crate) const LOAD_LENGTH: u16 = 0x80;
    pub(crate) const LOAD_CELL: u16 = 0x60;
    pub(crate) const STORE: u16 = 0x02;
    pub(crate) const LOAD_X_NUMBER: u16 = 0x01;
    pub(crate) const LOAD_X_CELL: u16 = 0x61;
    pub(crate) const STORE_X: u16 = 0x03;
    pub(crate) const A_TO_X: u16 = 0x07;
    pub(crate) const X_TO_A: u16 = 0x87;
    pub(crate) const ADD_X: u16 = 0x0c;
    pub(crate) const SUBTRACT: u16 = 0x14;
    pub(crate) const SUBTRACT_X: u16 = 0x1c;
    pub(crate) const MULTIPLY: u16 = 0x24;
    pub(crate) const AND: u16 = 0x54;
    pub(crate) const SHIFT_RIGHT: u16 = 0x74;
    pub(crate) const MODULO: u16 = 0x94;
    pub(crate) const XOR: u16 = 0xa4;
    pub(crate) const XOR_X: u16 = 0xac;
    pub(crate) const JUMP: u16 = 0x05;
    pub(crate) const JUMP_EQUAL: u16 = 0x15;
    pub(crate) const JUMP_AT_LEAST: u16 = 0x35;
    pub(crate) const JUMP_SET: u16 = 0x45;
    pub(crate) const RETURN: u16 = 0x06;
    pub(crate) const RETURN_A: u16 = 0x16;
}

/// Offset at which [`code::LOAD`] gives a random number (`SKF_AD_OFF + SKF_AD_RANDOM`).
pub(crate) const RANDOM: u32 = 0xffff_f038;

/// Distance of checks that the datagram is long enough. A load beyond its end ends the program with 0.
pub(crate) const CHECKED: u32 = 32;

/// Returns all words of four bytes within a text, by offset.
pub(crate) fn words(text: &[u8]) -> impl ExactSizeIterator<Item = u32> {
    text.windows(4).map(|word| word.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
}

/// A program under construction. An instruction is its code, the number of instructions to skip if true and if false,
/// and its operand.
#[derive(Default)]
pub(crate) struct Program(pub(crate) Vec<(u16, u8, u8, u32)>);

impl Program {
    pub(crate) fn step(&mut self, code: u16, k: u32) {
        self.0.push((code, 0, 0, k));
    }

    /// Skips `skipped` instructions if the condition does not hold.
    pub(crate) fn unless(&mut self, code: u16, k: u32, skipped: usize) {
        self.0.push((code, 0, skipped as u8, k));
    }

    /// Adds a jump, whose target [`Self::land`] sets.
    pub(crate) fn jump(&mut self) -> usize {
        self.step(code::JUMP, 0);
        self.0.len() - 1
    }

    /// Makes these jumps go to the next instruction.
    pub(crate) fn land(&mut self, jumps: &[usize]) {
        for &from in jumps {
            self.0[from].3 = (self.0.len() - from - 1) as u32;
        }
    }

    /// Adds a jump that is taken by datagrams of fewer bytes.
    pub(crate) fn jump_if_shorter(&mut self, length: u32) -> usize {
        self.step(code::LOAD_LENGTH, 0);
        self.0.push((code::JUMP_AT_LEAST, 1, 0, length));
        self.jump()
    }

    /// Searches for any of these words at each offset of `within` that is a multiple of `stride` from its start. Words
    /// below 2^24 stand for three bytes after any byte, and come last. Returns the jumps that are taken with a word in A
    /// and its offset in X.
    ///
    /// A text of n + 3 bytes contains n overlapping words, at n successive offsets. So one of every n successive offsets
    /// of the datagram meets one of them.
    pub(crate) fn search(
        &mut self,
        load: u16,
        words: &[u32],
        stride: usize,
        within: Range<u32>,
    ) -> Vec<usize> {
        let (mut found, mut too_short, mut checked) = (Vec::new(), Vec::new(), within.start);
        let whole = words.partition_point(|word| *word >= 1 << 24);
        for at in within.step_by(stride) {
            if at + 4 > checked {
                checked = at + CHECKED;
                too_short.push(self.jump_if_shorter(checked));
            }
            self.step(load, at);
            for (index, &word) in words.iter().enumerate() {
                if index == whole {
                    self.step(code::AND, 0x00ff_ffff);
                }
                let left = words.len() - index - usize::from(index >= whole || whole == words.len());
                self.0.push((code::JUMP_EQUAL, left as u8, if left == 0 { 2 } else { 0 }, word));
            }
            self.step(code::LOAD_X_NUMBER, at);
            found.push(self.jump());
        }
        self.land(&too_short);
        found
    }

    /// Subtracts from X, after the jumps of [`Self::search`], the number that belongs to the word in A. Returns the jumps
    /// that are taken then.
    pub(crate) fn locate(&mut self, words: impl Iterator<Item = (u32, u32)>, found: &[usize]) -> Vec<usize> {
        self.land(found);
        let places = words.map(|(word, back)| {
            self.unless(code::JUMP_EQUAL, word, 4);
            self.step(code::X_TO_A, 0);
            self.step(code::SUBTRACT, back);
            self.step(code::A_TO_X, 0);
            self.jump()
        });
        places.collect()
    }

    pub(crate) fn finish(self) -> Vec<SockFilter> {
        self.0.into_iter().map(|(code, jt, jf, k)| SockFilter::new(code, jt, jf, k)).collect()
    }
}

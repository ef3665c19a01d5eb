//! Where the demo is shown: the terminal, or lines.

use super::act::Scene;
use super::plain::Lines;
use super::view;
use crate::picture::{self, Key};
use anyhow::Result;
use std::time::Duration;

/// Where scenes are shown.
pub(super) enum Screen<L> {
    Terminal(picture::Screen),
    Lines(L),
}

impl Screen<Lines> {
    pub(super) fn show(&mut self, scene: &Scene<'_>) -> Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.draw(|frame| view::draw(frame, scene)),
            Self::Lines(lines) => lines.show(scene),
        }
    }
}

impl<L> Screen<L> {
    /// The terminal, if there is one and it is wanted; or `lines`.
    pub(super) fn open(plain: bool, lines: L) -> Result<Self> {
        let terminal = if plain { None } else { picture::Screen::open()? };
        Ok(terminal.map_or(Self::Lines(lines), Self::Terminal))
    }

    /// Whether to quit was asked for since the last time.
    pub(super) fn quit_asked(&mut self) -> Result<bool> {
        let Self::Terminal(terminal) = self else { return Ok(false) };
        while let Some(key) = terminal.key(Duration::ZERO)? {
            if key == Key::Quit {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

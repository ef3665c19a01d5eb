//! Where the demo is shown: the terminal, or lines.

use super::act::Scene;
use super::plain::Lines;
use super::view;
use crate::picture::{self, Key};
use anyhow::Result;
use std::time::Duration;

/// Where scenes are shown.
pub(super) enum Screen {
    Terminal(picture::Screen),
    Lines(Lines),
}

impl Screen {
    /// The terminal, if there is one and it is wanted.
    pub(super) fn open(plain: bool) -> Result<Self> {
        let terminal = if plain { None } else { picture::Screen::open()? };
        Ok(terminal.map_or_else(|| Self::Lines(Lines::new()), Self::Terminal))
    }

    pub(super) fn show(&mut self, scene: &Scene<'_>) -> Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.draw(|frame| view::draw(frame, scene)),
            Self::Lines(lines) => lines.show(scene),
        }
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

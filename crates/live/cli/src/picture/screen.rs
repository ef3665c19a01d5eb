//! The terminal in full-screen mode, its keys, and its restoration.

use anyhow::Result;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use std::io::IsTerminal as _;
use std::time::Duration;

/// The whole terminal. Dropping it restores the terminal.
pub(crate) struct Screen(DefaultTerminal);

impl Screen {
    /// Returns `None` if input or output is no terminal.
    pub(crate) fn open() -> Result<Option<Self>> {
        let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        Ok(if terminal { Some(Self(ratatui::try_init()?)) } else { None })
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        self.0.draw(draw)?;
        Ok(())
    }

    /// Whether `q`, Esc or Ctrl-C was pressed.
    #[expect(clippy::unused_self, reason = "keys are readable one by one only while a `Screen` exists")]
    pub(crate) fn has_quit(&mut self) -> Result<bool> {
        while event::poll(Duration::ZERO)? {
            let Event::Key(key) = event::read()? else { continue };
            let interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
            if interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone there is nothing to restore.
        let _ = ratatui::try_restore();
    }
}

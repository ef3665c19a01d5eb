//! The terminal: all of it, its keys, and back to what it was.

use anyhow::Result;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use std::io::IsTerminal as _;
use std::time::Duration;

/// The whole terminal; it is as before once this is dropped.
pub(crate) struct Screen(DefaultTerminal);

/// What was hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    /// `q`, Esc or Ctrl-C.
    Quit,
    /// Up, or `k`.
    Up,
    /// Down, or `j`.
    Down,
}

impl Screen {
    /// `None` where input or output is no terminal.
    pub(crate) fn open() -> Result<Option<Self>> {
        let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        Ok(if terminal { Some(Self(ratatui::try_init()?)) } else { None })
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        self.0.draw(draw)?;
        Ok(())
    }

    /// The next key that was hit, if one is within this time. Others than those known are passed over.
    #[expect(clippy::unused_self, reason = "keys come one by one only while the terminal is this screen")]
    pub(crate) fn key(&mut self, wait: Duration) -> Result<Option<Key>> {
        if !event::poll(wait)? {
            return Ok(None);
        }
        let Event::Key(key) = event::read()? else { return Ok(None) };
        let interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        Ok(match key.code {
            _ if interrupt => Some(Key::Quit),
            KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
            KeyCode::Up | KeyCode::Char('k') => Some(Key::Up),
            KeyCode::Down | KeyCode::Char('j') => Some(Key::Down),
            _ => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where the terminal is gone there is nothing to restore.
        let _ = ratatui::try_restore();
    }
}

use super::act::Scene;
use super::plain::Lines;
use super::view;
use anyhow::Result;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use std::io::IsTerminal as _;
use std::time::Duration;

/// Where scenes are shown.
pub(super) enum Screen {
    Terminal(DefaultTerminal),
    Lines(Lines),
}

impl Screen {
    /// The terminal, if there is one and it is wanted.
    pub(super) fn open(plain: bool) -> Result<Self> {
        let terminal = !plain && std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        Ok(if terminal { Self::Terminal(ratatui::try_init()?) } else { Self::Lines(Lines::new()) })
    }

    pub(super) fn show(&mut self, scene: &Scene<'_>) -> Result<()> {
        match self {
            Self::Terminal(terminal) => {
                terminal.draw(|frame| view::draw(frame, scene))?;
            }
            Self::Lines(lines) => lines.show(scene)?,
        }
        Ok(())
    }

    /// Whether `q`, Esc or Ctrl-C was hit.
    pub(super) fn quit_asked(&mut self) -> Result<bool> {
        let Self::Terminal(_) = self else { return Ok(false) };
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
        if let Self::Terminal(_) = self {
            // Where the terminal is gone there is nothing to restore.
            let _ = ratatui::try_restore();
        }
    }
}

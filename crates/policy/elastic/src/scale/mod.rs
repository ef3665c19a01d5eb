//! How many servers there should be (Cloud paper, section IV-D; index packing and idle time-out as in `AutoScale`).
//!
//! A [`Scaler`] is told of arrivals and capacities once a step ([`Scaler::step`]), and of the outcome of its
//! decisions. It answers with [`Decision`]s, which the caller carries out.
//!
//! A server is *starting*, *ready*, *draining* (it gets no new calls), *stopping* or *gone*:
//!
//! ```text
//!            started           drain            idle time-out           stopped
//! starting ──────────▶ ready ─────────▶ draining ──────────▶ stopping ──────────▶ gone
//!     │                  ◀────────────────┘                     ▲                  ▲
//!     │                        resume                           │                  │
//!     └──── not up within the bound: given up ──────────────────┘                  │
//!     └──── failed; ready or draining: lost ───────────────────────────────────────┘
//! ```

mod cluster;
mod demand;
mod forecast;
mod scaler;
mod servers;
mod settings;
mod start_up;

pub use forecast::ForecastSettings;
pub use scaler::{Decision, Scaler, Seen, ServerLoad};
pub use servers::{ServerId, ServerRow, ServerState};
pub use settings::{ScaleSettings, StartSettings};

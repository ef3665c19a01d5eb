//! Number of servers (Cloud paper, section IV-D; index packing and idle time-out as in `AutoScale`).
//!
//! A [`Scaler`] gets arrivals and capacities once a step ([`Scaler::step`]), and the results of its decisions. It
//! returns [`ScalingDecision`]s, which the caller carries out.
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
pub use scaler::{FrontTraffic, Scaler, ScalingDecision, ServerLoad};
pub use servers::{ServerId, ServerRow, ServerState};
pub use settings::{ScaleSettings, StartSettings};

//! Requests for users of the home domain: where their contacts are, is asked for first (RFC 3261 §16.5).

use super::services::Home;
use super::waiting::Pending;
use crate::arrival::Arrival;
use crate::hop_name::HopName;
use crate::progress::Progress;
use crate::question::StoreQuery;
use crate::rejection::Rejection;
use crate::step::Step;
use location::{Aor, Ask};

impl Home {
    /// Asks the store for the bindings of the address-of-record that a request is for.
    pub(crate) fn look_up(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        aor: Aor,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let about = StoreQuery::Location(Ask::Read(aor));
        self.ask(step, arrival.inbound(), about, Pending::Location, progress)
    }

    /// Has a request wait for the address of its contact's host name, which has been asked for.
    pub(crate) fn wait_for_name(
        &mut self,
        step: &Step<'_>,
        arrival: &Arrival<'_>,
        name: HopName,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        progress.resolved.push(name.clone());
        self.wait(step, arrival.inbound(), Pending::Name(name), progress)?;
        Ok(())
    }
}

//! The edge proxy between clients and a registrar behind it (RFC 5626 §5): a REGISTER goes on with a Path that names the
//! client's connection, and what comes back by that Path goes by the connection.

use crate::arrival::Arrival;
use crate::client_flow::ClientFlow;
use crate::edge::Edge;
use crate::forward::onward::Onward;
use crate::path::Path;
use crate::progress::Progress;
use crate::rejection::{Rejection, refused};
use crate::validate::{check_extensions, is_sips};
use balance::Direction;
use wire::Message;

impl Edge {
    /// §5.1: adds our URI with the flow of the client to its REGISTER, if we are the first hop and the client knows of
    /// Path.
    #[cold]
    pub(crate) fn add_path(&mut self, message: &Message<'_>, onward: &Onward<'_>) {
        let is_first = !message.has_lower_vias() && message.header("Path").is_none();
        let Some(client) = ClientFlow::of(onward.from, &self.topology).filter(|_| is_first) else { return };
        if onward.contact.is_some() || !message.supports("path") {
            return;
        }
        let port = &self.topology.ports[onward.hop.listener];
        let scheme = if message.uri().is_some_and(is_sips) { "<sips:" } else { "<sip:" };
        self.scratch.clear();
        self.scratch.extend_from_slice(scheme.as_bytes());
        self.tokens.write_flow(onward.from.listener, client, &mut self.scratch);
        for part in ["@", &port.sent_by, port.uri_params, ";lr;ob>"] {
            self.scratch.extend_from_slice(part.as_bytes());
        }
        self.edits.add_header(message, "Path", &self.scratch);
    }
}

impl Path<'_> {
    /// §5.3: a request whose Route names a client's connection goes by that. `false`: there is none, or it is the
    /// client's own, and goes on as any other does.
    pub(crate) fn go_by_flow(&mut self, arrival: &Arrival<'_>) -> Result<bool, Rejection> {
        let step = &mut self.step;
        let (Some(token), Some(stateful)) = (arrival.route.flow, self.stateful.as_deref_mut()) else {
            return Ok(false);
        };
        // §5.3.1: SHOULD be 403 where the token was tampered with.
        let (port, client) = step.edge.tokens.read_flow(token).ok_or(refused(403, "Forbidden"))?;
        let is_its_own = ClientFlow::of(arrival.flow, &step.edge.topology) == Some(client);
        if is_its_own || !arrival.begins_transaction() {
            return Ok(false);
        }
        let ports = &step.edge.topology.ports;
        let hop = client.way(ports, port).ok_or(refused(430, "Flow Failed"))?;
        arrival.check_hop(hop)?;
        let request = arrival.request(step.edge);
        let routing = step.edge.routing(arrival.message, &arrival.route, Direction::ToPool, false)?;
        check_extensions(arrival.message)?;
        stateful.check_limit(step.edge, arrival.message, false)?;
        let mut progress = Progress::default();
        step.admit(arrival, &request, &mut progress)?;
        step.goes_on(&progress);
        stateful.begin_by_flow(step, arrival, hop, routing, &mut progress);
        Ok(true)
    }
}

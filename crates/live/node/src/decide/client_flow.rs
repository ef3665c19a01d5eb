//! The edge proxy between clients and a registrar behind it (RFC 5626 §5). A Route may name the flow of a client, as the
//! Path of the client's REGISTER did. The request is then sent over that connection, or over UDP to that address.

use crate::address::client_flow::ClientFlow;
use crate::message::validate::check_extensions;
use crate::outcome::rejection::{Rejection, refused};
use crate::read::arrival::Arrival;
use crate::site::Site;
use crate::token::KeyIndex;
use balance::Direction;
use base::Flow;

/// Next hop of a request to a client by its flow.
pub(crate) struct FlowHop {
    pub(crate) hop: Flow,
    /// Hash of the routing decision (RFC 5393 §4.2).
    pub(crate) routing: u32,
}

/// §5.3: returns the next hop of a request whose Route names a client's flow. `None` if the Route names no flow or the
/// sender's own, or if the request begins no transaction. The request is then handled like others.
pub(crate) fn plan_by_flow(site: &Site, arrival: &Arrival<'_>) -> Result<Option<FlowHop>, Rejection> {
    let Some(token) = arrival.route.flow else { return Ok(None) };
    // §5.3.1: a token that was tampered with SHOULD get 403.
    let forbidden = refused(403, "Forbidden");
    let (port, client) = site.tokens.read_flow(token, site.unix()).ok_or(forbidden)?;
    let is_its_own = ClientFlow::seen(arrival.flow, &site.topology) == Some(client);
    if is_its_own || !arrival.begins_transaction() {
        return Ok(None);
    }
    // Otherwise any sender could use the Path to call the client without routing rules and authentication.
    site.topology.slot_of(arrival.flow).ok_or(forbidden)?;
    let hop = client.way(&site.topology.ports, port).ok_or(refused(430, "Flow Failed"))?;
    arrival.check_hop(hop)?;
    let routing = site.routing(arrival.message, &arrival.route, Direction::ToPool, KeyIndex::CURRENT)?;
    check_extensions(arrival.message)?;
    Ok(Some(FlowHop { hop, routing }))
}

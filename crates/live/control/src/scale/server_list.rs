//! Mapping of the scaler's servers to members.

use super::driver::DriverServer;
use super::view::{MemberLoad, PoolView};
use elastic::scale::ServerId;
use std::net::SocketAddr;

/// Mapping of the scaler's servers to members.
#[derive(Clone, Debug)]
pub enum ServerList {
    /// The members of the configuration in its order. A name may have several addresses of one server.
    Listed(Vec<ListedServer>),
    /// Each address of a name is a server, in the order in which the addresses appeared.
    Found {
        /// The name.
        name: String,
        /// Addresses by the number of the server.
        addresses: Vec<Option<SocketAddr>>,
    },
}

/// A member of the configuration.
#[derive(Clone, Debug)]
pub struct ListedServer {
    /// Name of the member in this process.
    pub name: String,
    /// Text of the member in the file.
    pub text: String,
}

impl ServerList {
    /// Updates addresses that have appeared or disappeared. `starting` are the servers that are expected to appear.
    pub(super) fn look(&mut self, view: &PoolView, starting: &[ServerId]) {
        let Self::Found { addresses, .. } = self else { return };
        for place in addresses.iter_mut() {
            place.take_if(|known| !view.members.iter().any(|member| member.address == *known));
        }
        for member in &view.members {
            if addresses.contains(&Some(member.address)) {
                continue;
            }
            let is_free = |index: &usize| addresses.get(*index).is_none_or(Option::is_none);
            let waited = starting.iter().map(|id| id.0 as usize).find(is_free);
            let index = waited.or_else(|| (0..=addresses.len()).find(is_free)).unwrap_or(addresses.len());
            if addresses.len() <= index {
                addresses.resize(index + 1, None);
            }
            addresses[index] = Some(member.address);
        }
    }

    /// Returns the numbers of all servers that may run.
    pub fn ids(&self) -> impl Iterator<Item = ServerId> + use<> {
        let count = match self {
            Self::Listed(servers) => servers.len(),
            Self::Found { addresses, .. } => addresses.len(),
        };
        (0..count as u32).map(ServerId)
    }

    /// Returns the pool's members that are this server.
    pub fn members<'v>(&self, id: ServerId, view: &'v PoolView) -> Vec<&'v MemberLoad> {
        let index = id.0 as usize;
        let is_it = |member: &&MemberLoad| match self {
            Self::Listed(servers) => servers.get(index).is_some_and(|server| server.name == member.name),
            Self::Found { addresses, .. } => addresses.get(index) == Some(&Some(member.address)),
        };
        view.members.iter().filter(is_it).collect()
    }

    /// Returns the server as drivers know it. `all` are the servers that start, run, drain or stop. `None` if there is
    /// no such member.
    pub fn server(&self, id: ServerId, view: &PoolView, all: &[ServerId]) -> Option<DriverServer> {
        let name = match self {
            Self::Listed(servers) => &servers.get(id.0 as usize)?.text,
            Self::Found { name, .. } => name,
        };
        let address = self.members(id, view).first().map(|member| member.address);
        let others = all.iter().filter(|other| **other != id).flat_map(|other| self.members(*other, view));
        let others = others.map(|member| member.address).collect();
        Some(DriverServer { index: id.0, name: name.clone(), address, others, count: all.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::tests::member;

    fn view(hosts: &[u8]) -> PoolView {
        let members = hosts.iter().map(|host| member("pods.example.com", *host)).collect();
        PoolView { members, ..PoolView::default() }
    }

    #[test]
    fn an_address_keeps_its_server_until_it_is_gone() {
        let mut server_list =
            ServerList::Found { name: "pods.example.com".to_owned(), addresses: Vec::new() };
        let at = |server_list: &ServerList, hosts: &[u8], id| {
            let server = server_list
                .server(ServerId(id), &view(hosts), &[])
                .expect("the name may have any number of servers");
            server.address.map(|address| address.ip().to_string())
        };
        server_list.look(&view(&[5, 3]), &[]);
        assert_eq!(at(&server_list, &[5, 3], 0).as_deref(), Some("127.0.0.5"));
        server_list.look(&view(&[3]), &[]);
        assert_eq!(
            (at(&server_list, &[3], 0), at(&server_list, &[3], 1).as_deref()),
            (None, Some("127.0.0.3"))
        );
        // An expected server comes first, then free numbers.
        server_list.look(&view(&[3, 7, 8]), &[ServerId(4)]);
        assert_eq!(at(&server_list, &[3, 7, 8], 4).as_deref(), Some("127.0.0.7"));
        assert_eq!(at(&server_list, &[3, 7, 8], 0).as_deref(), Some("127.0.0.8"));
    }

    #[test]
    fn a_listed_server_has_all_addresses_of_its_name() {
        let listed = |name: &str| ListedServer { name: name.to_owned(), text: name.to_ascii_uppercase() };
        let server_list = ServerList::Listed(["a", "b"].map(listed).to_vec());
        let members = vec![member("b", 2), member("a", 1), member("b", 3)];
        let view = PoolView { members, ..PoolView::default() };
        assert_eq!(server_list.members(ServerId(1), &view).len(), 2);
        assert_eq!(server_list.server(ServerId(2), &view, &[]), None);
        let all = [0, 1].map(ServerId);
        let server = server_list.server(ServerId(0), &view, &all).expect("the server is listed");
        assert_eq!(server.name, "A", "as written in the file");
        assert_eq!(
            (server.count, server.others),
            (2, vec![view.members[0].address, view.members[2].address])
        );
        assert_eq!(server_list.ids().count(), 2);
    }
}

//! `[capacity]`

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::access::Lists;
use super::token::secret;
use crate::kind::{KeyText, Kind as _, MemberAddress, Refusal};
use crate::nearest::nearest;
use crate::raw::RawCapacity;
use crate::report::Report;
use crate::setting::Setting;
use crate::structure::join;
use crate::typed::{Admin, CapacityConfig, PoolConfig};
use control::Address;
use elastic::update::{Key, ServerName, UpdateKeys};

/// Name of the key for all servers without their own key.
const ALL: &str = "*";

/// Returns the settings; `None` if something is wrong.
pub(super) fn check(
    raw: &RawCapacity,
    admin: Option<&Admin>,
    pools: &[PoolConfig],
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<CapacityConfig> {
    let listen = raw.listen.as_ref().and_then(Setting::value);
    if raw.listen.is_none() {
        let remedy = "expected the local address that monitors send updates to: listen = \"10.0.0.9:8061\"";
        report.missing("capacity.listen", remedy);
    }
    if let (Some(setting), Some(listen)) = (&raw.listen, listen)
        && admin.is_some_and(|admin| admin.listen == Some(listen))
    {
        report.conflict(setting, "the admin interface listens there (`admin.listen`); choose another port");
    }
    let keys = keys(raw, pools, directory, report);
    let from = Lists { allow: &raw.from, deny: &[] }.read(::route::AccessRefusal::Silence, report);
    Some(CapacityConfig { listen: listen?, keys: Arc::new(keys), from: from? })
}

/// Returns the keys by server. No two may be equal, so that the holder of a key can report for one server only.
fn keys(raw: &RawCapacity, pools: &[PoolConfig], directory: &Path, report: &mut Report<'_>) -> UpdateKeys {
    if raw.keys.is_empty() {
        let remedy = "expected a key for each server, the same as at its monitor: [capacity.keys] with \"10.0.0.1\" \
                      = { file = \"sip1.key\" }, each file with 16 bytes as 32 hex digits or in base64; make each \
                      with `openssl rand -hex 16`; or one key for all: \"*\" = { file = \"capacity.key\" }";
        report.missing("capacity.keys", remedy);
    }
    let read = raw.keys.iter().map(|(name, raw)| {
        let path = join("capacity.keys", name);
        let key = secret(&path, raw, directory, report);
        (path, name, key)
    });
    let (of_all, mut given): (Vec<_>, Vec<_>) = read.partition(|(_, name, _)| *name == ALL);
    let shared = of_all.into_iter().find_map(|(.., key)| key);
    given.sort_by_key(|(path, ..)| report.place(path));
    let mut own: BTreeMap<ServerName, (String, Option<[u8; 16]>)> = BTreeMap::new();
    for (path, name, key) in given {
        let server = match server(name, pools) {
            Ok(server) => server,
            Err(remedy) => {
                report.key_problem(&path, remedy);
                continue;
            }
        };
        if let Some((first, _)) = own.get(&server) {
            report.key_problem(
                &path,
                format!("`{first}` is the same server and has a key; remove one of the two"),
            );
            continue;
        }
        let alike = own.values().find(|(_, other)| key.is_some() && *other == key).map(|(first, _)| &**first);
        if let Some(first) = alike.or((key.is_some() && key == shared).then_some("capacity.keys.\"*\"")) {
            let remedy = format!(
                "`{first}` has the same key, so one server could announce the capacity of another; make a new key \
                 for this server with `openssl rand -hex 16`"
            );
            report.key_problem(&path, remedy);
        }
        own.insert(server, (path, key));
    }
    let own = own.into_iter().filter_map(|(server, (_, key))| Some((server, Key::new(&key?)))).collect();
    UpdateKeys { shared: shared.map(|key| Key::new(&key)), own }
}

/// Returns the server with this name. An address may belong to the DNS name of a member.
///
/// # Errors
/// The name is no member, or a member that a monitor cannot name. The text is the remedy.
fn server(name: &str, pools: &[PoolConfig]) -> Result<ServerName, String> {
    if KeyText::read(&name.into()).is_ok() {
        return Err(
            "an entry starts with the server, not with the key: write \"10.0.0.1\" = \"KEY\"".to_owned()
        );
    }
    let address = MemberAddress::read(&name.into()).map_err(Refusal::into_remedy)?;
    let members: Vec<_> = pools.iter().flat_map(|pool| &pool.members).map(|member| &member.address).collect();
    let is_member = |member: &&Address| match (member, &address) {
        (Address::Socket(member), Address::Socket(named)) => member.address == named.address,
        (_, Address::Socket(_)) => true,
        (member, named) => *member == named,
    };
    if !pools.is_empty() && !members.iter().any(is_member) {
        let names: Vec<_> = members.iter().map(ToString::to_string).collect();
        let near = nearest(name, names.iter().map(String::as_str)).or(names.first().map(String::as_str));
        let such = near.map(|near| format!(", such as {near:?}")).unwrap_or_default();
        return Err(format!(
            "expected a member of a pool, written as in the pool{such}; no pool has this member"
        ));
    }
    match address {
        Address::Socket(peer) => Ok(ServerName::Address(peer.address)),
        name => name.to_string().parse().map_err(|_| {
            "monitors name servers without a transport: expected the address of this server, which its monitor gives \
            with --as"
                .to_owned()
        }),
    }
}

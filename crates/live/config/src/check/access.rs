//! `[access]`, and the lists of listeners and routes.

use super::conditions::several;
use crate::kind::NetworkText;
use crate::raw::{RawAccess, RawConfig, RawListener};
use crate::report::Report;
use crate::setting::{Item, Setting};
use base::Rate;
use route::{Access, AccessRefusal, Network, RateSettings, SourceLimit};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bits of IPv4 and IPv6 networks within which one sender can choose its address.
const SENDER: (u8, u8) = (32, 64);
/// Bits of a customer's network: the smallest routed IPv4 network, and the IPv6 network of a site by RFC 6177.
const NETWORK: (u8, u8) = (24, 48);

/// Lists of networks in the file.
pub(super) struct Lists<'r> {
    pub(super) allow: &'r [Setting<NetworkText>],
    pub(super) deny: &'r [Setting<NetworkText>],
}

/// Returns the access to each listener of the file, and the limits of sources.
pub(super) fn check(raw: &RawConfig, report: &mut Report<'_>) -> Option<(Vec<Access>, RateSettings)> {
    let RawAccess { allow, deny, refuse, .. } = &raw.access;
    let refusal = refuse.value();
    let general = Lists { allow, deny }.read(refusal.unwrap_or_default(), report);
    let usual = (&general, refusal.unwrap_or_default());
    let mut listeners = of_listeners(&raw.listen.udp, usual, report);
    listeners.extend(of_listeners(&raw.listen.tcp, usual, report));
    listeners.extend(of_listeners(&raw.listen.tls, usual, report));
    listeners.extend(of_listeners(&raw.listen.ws, usual, report));
    listeners.extend(of_listeners(&raw.listen.wss, usual, report));
    let rates = rates(raw, report);
    Some((listeners.into_iter().collect::<Option<_>>()?, rates?))
}

/// The access to each listener of a transport: by its own lists, or else by `[access]`.
fn of_listeners<const PORT: u16>(
    listeners: &[Item<RawListener<PORT>>],
    (general, refusal): (&Option<Access>, AccessRefusal),
    report: &mut Report<'_>,
) -> Vec<Option<Access>> {
    let of = |Item(RawListener { allow, deny, .. }): &Item<RawListener<PORT>>| {
        let has_own = !allow.is_empty() || !deny.is_empty();
        if has_own { Lists { allow, deny }.read(refusal, report) } else { general.clone() }
    };
    listeners.iter().map(of).collect()
}

impl Lists<'_> {
    pub(super) fn read(&self, refusal: AccessRefusal, report: &mut Report<'_>) -> Option<Access> {
        let (allow, deny) = (networks(self.allow), networks(self.deny));
        match Access::new(&allow, &deny, refusal) {
            Ok(access) => Some(access),
            Err(both) => {
                let here = self.deny.iter().find(|setting| setting.value() == Some(both));
                if let Some(setting) = here {
                    let remedy = "this network is in `allow` and in `deny`; remove it from one of them";
                    report.conflict(setting, remedy);
                }
                None
            }
        }
    }
}

pub(super) fn networks(settings: &[Setting<NetworkText>]) -> Vec<Network> {
    settings.iter().filter_map(Setting::value).collect()
}

fn rates(config: &RawConfig, report: &mut Report<'_>) -> Option<RateSettings> {
    let raw = &config.access.rate;
    let burst = raw.burst.value();
    let mut exempt = networks(&raw.exempt);
    exempt.extend(networks(&config.overload.neighbours));
    exempt.extend(config.distribution.iter().flat_map(|raw| networks(&raw.neighbours)));
    let network = raw.per_network.value();
    let is_default = !raw.per_address.is_set() && network == Some(0);
    let address = raw.per_address.value().filter(|_| raw.per_address.is_set() || is_default).or(Some(0));
    if is_default {
        // A carrier or another proxy may send as much as many phones, and routes name such sources.
        let sources = config.route.iter().filter_map(|route| route.source.as_ref());
        exempt.extend(
            sources.flat_map(|source| several::<NetworkText>(Some(source))).map(|(network, _)| network),
        );
        exempt.extend([
            Network::around(Ipv4Addr::LOCALHOST.into(), 8),
            Network::host(Ipv6Addr::LOCALHOST.into()),
        ]);
    }
    if let (Some(one), Some(all)) = (address, network)
        && (1..one).contains(&all)
    {
        report.conflict(
            &raw.per_network,
            format!("expected at least `per_address`, {one}: a network has senders"),
        );
    }
    let burst = burst?;
    let limit = |per_second: u32, (v4, v6): (u8, u8)| {
        let burst = (f64::from(per_second) * burst.as_secs_f64()).ceil() as u32;
        let rate = Rate { per_second, burst };
        (per_second > 0).then_some(SourceLimit { v4, v6, rate })
    };
    let refuse = &config.access.refuse;
    Some(RateSettings {
        address: limit(address?, SENDER),
        network: limit(network?, NETWORK),
        exempt,
        // Never 403: a source that is only too fast may retry later.
        refusal: if refuse.value()? == AccessRefusal::Silence {
            AccessRefusal::Silence
        } else {
            AccessRefusal::Unavailable
        },
        counts_copies: is_default,
    })
}

//! Translates groups of hosts and paths into sites and answerers.

use crate::plan::{Destination, FilePlan, Plan, PlannedMember, PoolPlan, SitePlan, SiteRole};
use config::scenario::{BalancerSettings, Group, HostRole as GroupRole, Scenario, Stream};
use control::PoolSettings;
use node::ProxyLimits;
use proxy::ProxyTimers;
use route::Service;
use sim::engine::HostIndex;
use std::collections::BTreeMap;

/// More transactions than a scenario makes, as the scenario itself limits only processors.
const LIMITS: ProxyLimits = ProxyLimits { transactions: 10_000_000, memory: usize::MAX, branches: 12 };

/// A site, and the scenario's host that it stands for.
struct Site {
    plan: SitePlan,
    group: usize,
    host: u16,
}

/// An answerer of the plan.
pub(super) struct Answerer {
    pub(super) name: String,
    /// The server that it stands for; `None` for one behind the last proxy of a path.
    pub(super) server: Option<(usize, u16)>,
}

/// The sites and answerers of a scenario.
pub(super) struct Sites {
    all: Vec<Site>,
    answerers: Vec<Answerer>,
    /// The hosts of the first group of each path suffix, by that suffix.
    layers: BTreeMap<Vec<usize>, Vec<Destination>>,
}

impl Sites {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let mut sites = Self { all: Vec::new(), answerers: Vec::new(), layers: BTreeMap::new() };
        for stream in &scenario.streams {
            sites.layer(scenario, &stream.path);
        }
        sites
    }

    /// Returns the hosts of the first group of `path`, which send to those of the next group.
    fn layer(&mut self, scenario: &Scenario, path: &[usize]) -> Vec<Destination> {
        if let Some(layer) = self.layers.get(path) {
            return layer.clone();
        }
        let group = &scenario.groups[path[0]];
        let next = if path.len() > 1 { self.layer(scenario, &path[1..]) } else { Vec::new() };
        let mut layer = Vec::new();
        for host in 0..group.count {
            let own = group.host_name(host);
            let role = match &group.role {
                GroupRole::Server => {
                    layer.push(self.answerer(own, Some((path[0], host))));
                    continue;
                }
                // It is on no path.
                GroupRole::Database => continue,
                GroupRole::Balancer(settings) => {
                    SiteRole::Balancer(Box::new(self.balancer(settings, scenario, &next)))
                }
                GroupRole::Proxy if next.is_empty() => {
                    SiteRole::Proxy(proxy(&scenario.timers, &[self.answerer(format!("{own}-callees"), None)]))
                }
                GroupRole::Proxy => SiteRole::Proxy(proxy(&scenario.timers, &next)),
            };
            layer.push(Destination::Site(self.all.len() as u16));
            let name = name(scenario, path, host);
            self.all.push(Site { plan: SitePlan { name, role, processes: 1 }, group: path[0], host });
        }
        self.layers.insert(path.to_vec(), layer.clone());
        layer
    }

    fn answerer(&mut self, name: String, server: Option<(usize, u16)>) -> Destination {
        self.answerers.push(Answerer { name, server });
        Destination::Answerer(self.answerers.len() as u16 - 1)
    }

    fn balancer(&self, settings: &BalancerSettings, scenario: &Scenario, next: &[Destination]) -> FilePlan {
        let member = |&destination: &Destination| PlannedMember {
            destination,
            capacity: self.capacity(scenario, destination),
        };
        let pool = PoolPlan {
            settings: PoolSettings {
                health: settings.health_settings(),
                probes: settings.probe_settings(&scenario.timers),
                ..PoolSettings::new("servers", Service::Balance, settings.policy)
            },
            members: next.iter().map(member).collect(),
            ..PoolPlan::hops("servers", &[])
        };
        FilePlan {
            pools: vec![pool],
            sessions: settings.session_settings(&scenario.timers),
            ..FilePlan::hops(&[], ProxyTimers::default(), LIMITS)
        }
    }

    /// Returns the capacity relative to the first host of the group.
    fn capacity(&self, scenario: &Scenario, destination: Destination) -> f64 {
        let (group, host) = match destination {
            Destination::Site(site) => {
                let Site { group, host, .. } = self.all[usize::from(site)];
                (group, host)
            }
            Destination::Answerer(answerer) => match self.answerers[usize::from(answerer)].server {
                Some(server) => server,
                None => return 1.0,
            },
        };
        let group: &Group = &scenario.groups[group];
        group.capacity(host).zip(group.capacity(0)).map_or(1.0, |(own, first)| own / first)
    }

    pub(super) fn plans(&self) -> Vec<SitePlan> {
        self.all.iter().map(|site| site.plan.clone()).collect()
    }

    pub(super) fn answerers(&self) -> impl Iterator<Item = &Answerer> {
        self.answerers.iter()
    }

    /// Returns the sites where the calls of a stream enter.
    pub(super) fn entries(&self, stream: &Stream) -> Vec<u16> {
        let entry = |destination: &Destination| match destination {
            Destination::Site(site) => Some(*site),
            Destination::Answerer(_) => None,
        };
        self.layers[&stream.path].iter().filter_map(entry).collect()
    }

    /// Returns the processes that stand for a host of the scenario.
    pub(super) fn processes(&self, group: usize, host: u16) -> impl Iterator<Item = u16> + '_ {
        let it = move |(_, site): &(u16, &Site)| (site.group, site.host) == (group, host);
        // Each site has one process.
        (0..).zip(&self.all).filter(it).map(|(number, _)| number)
    }

    /// Returns the answerers that stand for a host of the scenario.
    pub(super) fn servers(&self, group: usize, host: u16) -> impl Iterator<Item = u16> + '_ {
        let it = move |(_, answerer): &(u16, &Answerer)| answerer.server == Some((group, host));
        (0..).zip(&self.answerers).filter(it).map(|(number, _)| number)
    }

    /// Returns all hosts of the plan that stand for a host of the scenario.
    pub(super) fn hosts(&self, plan: &Plan, group: usize, host: u16) -> Vec<HostIndex> {
        let processes = self.processes(group, host).map(|process| plan.process_host(process));
        processes.chain(self.servers(group, host).map(|server| plan.answerer_host(server))).collect()
    }
}

fn proxy(&timers: &ProxyTimers, hops: &[Destination]) -> Box<FilePlan> {
    Box::new(FilePlan::hops(hops, timers, LIMITS))
}

/// Returns the host and the rest of its path, such as `edge.2 to core, edge`.
fn name(scenario: &Scenario, path: &[usize], host: u16) -> String {
    let groups = &scenario.groups;
    let (group, on) = (&groups[path[0]], &path[1..]);
    let on: Vec<_> = on.iter().map(|&group| groups[group].name.as_str()).collect();
    let on = if on.is_empty() { String::new() } else { format!(" to {}", on.join(", ")) };
    group.host_name(host) + &on
}

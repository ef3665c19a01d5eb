//! From groups of hosts and paths through them to sites and answerers.

use super::super::plan::{BalancerPlan, Member, Party, Plan, ProxyPlan, Role, SitePlan};
use crate::engine::HostId;
use crate::model::{books, health_settings, probe_settings};
use config::scenario::{Group, Role as GroupRole, Scenario, Stream, Timers};
use node::{ProbeSettings, ProxyLimits};
use std::collections::BTreeMap;

/// Far more transactions than a scenario makes: its own limits are those of processors.
const LIMITS: ProxyLimits = ProxyLimits { transactions: 10_000_000, memory: usize::MAX };

/// A site, and the host of the scenario that it is.
struct Site {
    plan: SitePlan,
    group: usize,
    host: u16,
}

/// An answerer of the plan.
pub(super) struct Answerer {
    pub(super) name: String,
    /// The server that it is; `None` for one behind the last proxy of a path.
    pub(super) server: Option<(usize, u16)>,
}

/// The sites and answerers of a scenario.
pub(super) struct Sites {
    all: Vec<Site>,
    answerers: Vec<Answerer>,
    /// The hosts of the first group of each rest of a path.
    layers: BTreeMap<Vec<usize>, Vec<Party>>,
}

impl Sites {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let mut sites = Self { all: Vec::new(), answerers: Vec::new(), layers: BTreeMap::new() };
        for stream in &scenario.streams {
            sites.layer(scenario, &stream.path);
        }
        sites
    }

    /// The hosts of the first group of `path`, which send to those of the next.
    fn layer(&mut self, scenario: &Scenario, path: &[usize]) -> Vec<Party> {
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
                &GroupRole::Balancer { ref policy, probes, outlier } => {
                    Role::Balancer(self.balancer(policy, (probes, outlier), scenario, &next))
                }
                GroupRole::Proxy if next.is_empty() => {
                    Role::Proxy(proxy(&scenario.timers, vec![self.answerer(format!("{own}-callees"), None)]))
                }
                GroupRole::Proxy => Role::Proxy(proxy(&scenario.timers, next.clone())),
            };
            layer.push(Party::Site(self.all.len() as u16));
            let name = name(scenario, path, host);
            self.all.push(Site { plan: SitePlan { name, role, processes: 1 }, group: path[0], host });
        }
        self.layers.insert(path.to_vec(), layer.clone());
        layer
    }

    fn answerer(&mut self, name: String, server: Option<(usize, u16)>) -> Party {
        self.answerers.push(Answerer { name, server });
        Party::Answerer(self.answerers.len() as u16 - 1)
    }

    fn balancer(
        &self,
        policy: &config::Policy,
        (probes, outlier): (bool, bool),
        scenario: &Scenario,
        next: &[Party],
    ) -> BalancerPlan {
        let member = |&party: &Party| Member { party, capacity: self.capacity(scenario, party) };
        BalancerPlan {
            shards: 1,
            policy: policy.name(),
            members: next.iter().map(member).collect(),
            health: health_settings(probes, outlier),
            probes: ProbeSettings { periodic: probes, ..probe_settings(&scenario.timers) },
            books: books(policy, outlier, &scenario.timers),
        }
    }

    /// Capacity relative to that of the first of the group.
    fn capacity(&self, scenario: &Scenario, party: Party) -> f64 {
        let (group, host) = match party {
            Party::Site(site) => {
                let Site { group, host, .. } = self.all[usize::from(site)];
                (group, host)
            }
            Party::Answerer(answerer) => match self.answerers[usize::from(answerer)].server {
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

    /// The sites that the calls of a stream enter by.
    pub(super) fn entries(&self, stream: &Stream) -> Vec<u16> {
        let entry = |party: &Party| match party {
            Party::Site(site) => Some(*site),
            Party::Answerer(_) => None,
        };
        self.layers[&stream.path].iter().filter_map(entry).collect()
    }

    /// The processes of a host of the scenario.
    pub(super) fn processes(&self, group: usize, host: u16) -> impl Iterator<Item = u16> + '_ {
        let it = move |(_, site): &(u16, &Site)| (site.group, site.host) == (group, host);
        // One process a site.
        (0..).zip(&self.all).filter(it).map(|(number, _)| number)
    }

    /// The answerers that a host of the scenario is.
    pub(super) fn servers(&self, group: usize, host: u16) -> impl Iterator<Item = u16> + '_ {
        let it = move |(_, answerer): &(u16, &Answerer)| answerer.server == Some((group, host));
        (0..).zip(&self.answerers).filter(it).map(|(number, _)| number)
    }

    /// All that a host of the scenario is in the plan.
    pub(super) fn hosts(&self, plan: &Plan, group: usize, host: u16) -> Vec<HostId> {
        let processes = self.processes(group, host).map(|process| plan.process_host(process));
        processes.chain(self.servers(group, host).map(|server| plan.answerer_host(server))).collect()
    }
}

fn proxy(timers: &Timers, hops: Vec<Party>) -> ProxyPlan {
    let &Timers { t1, t2, t4, c } = timers;
    let timers = transaction::Timers { t1, t2, t4, ..transaction::Timers::default() };
    let core = proxy::Settings { timers, timer_c: c };
    ProxyPlan { hops, core, limits: LIMITS }
}

/// `edge.2 to core, edge`: which host, and the way on from it.
fn name(scenario: &Scenario, path: &[usize], host: u16) -> String {
    let groups = &scenario.groups;
    let (group, on) = (&groups[path[0]], &path[1..]);
    let on: Vec<_> = on.iter().map(|&group| groups[group].name.as_str()).collect();
    let on = if on.is_empty() { String::new() } else { format!(" to {}", on.join(", ")) };
    group.host_name(host) + &on
}

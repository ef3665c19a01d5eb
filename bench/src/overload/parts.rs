//! Programs between callers and answerers in each part.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;
use config::scenario::Costs;
use load::RandomTime;
use sim::model::NetworkState;
use std::time::Duration;

use super::QUOTA;
use crate::rig::{BALANCER, NETWORK, Rig, address, pool};
use crate::simulated::{BUFFER, MESSAGES, Model, groups};

/// Starts programs in front of these answerers, and returns the targets for callers. The number is the capacity of the
/// limited programs, or NaN if unknown.
pub(super) type Start = Box<dyn Fn(&mut Rig, &[SocketAddr], f64) -> Result<Vec<SocketAddr>>>;
/// The same in the simulator, for this capacity.
type Simulates = Box<dyn Fn(f64) -> Result<Model>>;

/// An alternative of overload control.
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) start: Start,
}

impl Way {
    fn new(
        name: &'static str,
        start: impl Fn(&mut Rig, &[SocketAddr], f64) -> Result<Vec<SocketAddr>> + 'static,
    ) -> Self {
        Self { name, start: Box::new(start) }
    }
}

/// A comparison of alternatives.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) answerers: usize,
    /// Offered loads as multiples of the capacity.
    pub(super) loads: &'static [f64],
    /// The alternatives. The first one has no overload control.
    pub(super) ways: Vec<Way>,
    pub(super) models: Vec<(&'static str, Simulates)>,
    pub(super) courses: Vec<Course>,
}

/// Loads and events over time.
pub(super) struct Course {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Loads as multiples of the capacity, and seconds of each.
    pub(super) loads: &'static [(f64, f64)],
    /// Names of the events, and their times in seconds.
    pub(super) events: &'static [(&'static str, f64)],
    /// Triggers the event of this number.
    pub(super) act: Option<fn(&mut Rig, usize) -> Result<()>>,
    /// Numbers of the compared alternatives.
    pub(super) ways: &'static [usize],
}

impl Course {
    /// Returns events and changes of the load, with their times.
    pub(super) fn marks(&self) -> Vec<(String, f64)> {
        let mut at = 0.0;
        let change = |pair: &[(f64, f64)]| {
            at += pair[0].1;
            (format!("{} times", pair[1].0), at)
        };
        let changes = self.loads.windows(2).map(change);
        let events = self.events.iter().map(|(name, at)| ((*name).to_owned(), *at));
        changes.chain(events).collect()
    }
}

/// Steady loads, as multiples of the capacity.
const LOADS: &[f64] = &[0.5, 0.95, 1.5, 2.0, 5.0, 10.0];
/// A pool without limits of members.
const UNLIMITED: &str = "overload = { law = \"none\" }";

/// A step up and back.
const STEP: &[(f64, f64)] = &[(0.8, 4.0), (2.4, 8.0), (0.8, 8.0)];

/// `sarabande run` with one thread.
fn sarabande(rig: &Rig, at: SocketAddr, tables: &str) -> Result<Command> {
    rig.sarabande(at, "threads = 1", tables)
}

/// Two SIPp servers, each limited to a fraction of a processor, behind an unlimited balancer.
pub(super) fn members() -> Part {
    /// Numbers of the servers. Their programs are the first ones.
    const MEMBERS: [u8; 2] = [1, 2];
    fn sipp(rig: &mut Rig, at: SocketAddr) -> Result<()> {
        let mut sipp = Command::new("sipp");
        sipp.args(["-sn", "uas", "-nostdin", "-i", &at.ip().to_string(), "-p", &at.port().to_string()]);
        rig.start(QUOTA, &format!("sipp-{}", at.ip()), &sipp).map(drop)
    }
    fn act(rig: &mut Rig, event: usize) -> Result<()> {
        match event {
            0 => Ok(rig.program(1)?.pause(true)?),
            1 => Ok(rig.program(1)?.pause(false)?),
            2 => rig.kill(1),
            _ => sipp(rig, address(MEMBERS[1])),
        }
    }
    fn law(name: &str) -> String {
        format!("overload = {{ law = \"{name}\" }}")
    }
    let way = |name, law: fn(f64) -> String| {
        Way::new(name, move |rig, _, capacity| {
            let members = MEMBERS.map(address);
            members.iter().try_for_each(|member| sipp(rig, *member))?;
            let lines = format!("forward = \"stateless\"\n{}", law(capacity));
            let balancer = sarabande(rig, address(BALANCER), &pool(&members, &lines))?;
            rig.start(1.0, "sarabande", &balancer)?;
            Ok(vec![address(BALANCER)])
        })
    };
    Part {
        name: "members",
        title: "Two SIPp servers that know nothing of overload, behind a balancer",
        answerers: 0,
        loads: LOADS,
        ways: vec![
            way("none", |_| law("none")),
            way("gradient", |_| law("gradient")),
            way("vegas", |_| law("vegas")),
            way("aimd", |_| law("aimd")),
            way("max_rate", |capacity| format!("max_rate = {:.0}", 0.95 * capacity / MEMBERS.len() as f64)),
        ],
        models: Vec::new(),
        courses: vec![
            Course {
                name: "members-step",
                title: "A step to 2.4 times the capacity and back",
                loads: STEP,
                events: &[],
                act: None,
                ways: &[0, 1],
            },
            Course {
                name: "members-failing",
                title: "A member stalls for two seconds, dies, and returns",
                loads: &[(0.45, 30.0)],
                events: &[("stalls", 4.0), ("goes on", 6.0), ("dies", 12.0), ("returns", 20.0)],
                act: Some(act),
                ways: &[1],
            },
        ],
    }
}

/// Unlimited edges send all calls to one limited core, in front of an answerer (Overload paper, section VII).
pub(super) fn chain() -> Part {
    const CORE: u8 = 97;
    const EDGES: [u8; 2] = [95, 96];
    /// Keys of `[overload]`, at the core and at the edges, and those of a simulated host. Without the latter, the pools
    /// have their default law; otherwise they have none, since simulated hosts have no limits of members.
    const WAYS: [(&str, &str, Option<&str>); 5] = [
        ("nothing", "local = \"none\"", Some("local = \"none\"")),
        ("delay", "feedback = \"none\"", Some("local = \"delay\", triage = true")),
        (
            "loss and delay",
            "feedback = \"loss\"",
            Some("local = \"occupancy\", feedback = \"hop-by-hop\", triage = true"),
        ),
        (
            "rate and delay",
            "feedback = \"rate\"",
            Some("local = \"delay\", feedback = \"rate\", triage = true"),
        ),
        ("defaults", "local = \"delay\"", None),
    ];
    let way = |(name, keys, simulated): (&'static str, &'static str, Option<&'static str>)| {
        Way::new(name, move |rig, answerers, _| {
            let neighbours = if keys.contains("none\"") {
                String::new()
            } else {
                format!("neighbours = [\"{NETWORK}\"]\n")
            };
            let law = if simulated.is_some() { UNLIMITED } else { "" };
            let role = |members: &[_]| {
                let pool = pool(members, &format!("forward = \"stateless\"\n{law}"));
                format!("{pool}\n[overload]\n{keys}\n{neighbours}")
            };
            let core = sarabande(rig, address(CORE), &role(answerers))?;
            rig.start(QUOTA, "core", &core)?;
            for edge in EDGES {
                let command = sarabande(rig, address(edge), &role(&[address(CORE)]))?;
                rig.start(1.0, &format!("edge-{edge}"), &command)?;
            }
            Ok(EDGES.map(address).to_vec())
        })
    };
    let model = |(name, _, keys): (&'static str, &str, Option<&'static str>)| {
        let keys = keys?;
        let simulates: Simulates = Box::new(move |capacity| {
            let edges = format!(
                "[host.edge]\ncount = {}\ncapacity = \"unlimited\"\noverload = {{ {keys} }}\n",
                EDGES.len()
            );
            model(&(edges + &proxy("core", capacity, keys)), &["edge", "core"])
        });
        Some((name, simulates))
    };
    Part {
        name: "chain",
        title: "Two edges before a core",
        answerers: 1,
        loads: LOADS,
        ways: WAYS.map(way).into(),
        models: WAYS.into_iter().filter_map(model).collect(),
        courses: vec![Course {
            name: "chain-step",
            title: "A step to 2.4 times the capacity and back, through a chain",
            loads: STEP,
            events: &[],
            act: None,
            ways: &[1, 3, 4],
        }],
    }
}

/// One limited balancer with local overload control, in front of an unlimited answerer.
pub(super) fn local() -> Part {
    /// Keys of the pool and of `[overload]`, and those of a simulated host.
    const WAYS: [(&str, &str, &str, Option<&str>); 5] = [
        ("none", UNLIMITED, "local = \"none\"", Some("local = \"none\"")),
        (
            "bang-bang, Retry-After",
            UNLIMITED,
            "local = \"bang-bang\"\nretry_after = \"2s\"",
            Some("local = \"bang-bang\", triage = true"),
        ),
        ("occupancy", UNLIMITED, "local = \"occupancy\"", Some("local = \"occupancy\", triage = true")),
        ("delay", UNLIMITED, "local = \"delay\"", Some("local = \"delay\", triage = true")),
        // The defaults include the limits of members, which simulated hosts do not have.
        ("defaults", "", "", None),
    ];
    let way = |(name, law, keys, _): (&'static str, &'static str, &'static str, Option<&str>)| {
        Way::new(name, move |rig, answerers, _| {
            let pool = pool(answerers, &format!("forward = \"stateless\"\n{law}"));
            let command = sarabande(rig, address(BALANCER), &format!("{pool}\n[overload]\n{keys}\n"))?;
            rig.start(QUOTA, "sarabande", &command)?;
            Ok(vec![address(BALANCER)])
        })
    };
    let model = |(name, _, _, keys): (&'static str, &str, &str, Option<&'static str>)| {
        let keys = keys?;
        let simulates: Simulates =
            Box::new(move |capacity| model(&proxy("front", capacity, keys), &["front"]));
        Some((name, simulates))
    };
    Part {
        name: "local",
        title: "A balancer that protects itself",
        answerers: 1,
        loads: LOADS,
        ways: WAYS.map(way).into(),
        models: WAYS.into_iter().filter_map(model).collect(),
        courses: Vec::new(),
    }
}

/// Kamailio as a limited stateful proxy: up to twice its capacity and down again (Overload paper, section IV and figure
/// 7). Also with its own overload modules, and behind a balancer that limits it.
pub(super) fn kamailio() -> Part {
    const CONFIG: &str = include_str!("../../kamailio/overload.cfg");
    const KAMAILIO: u8 = 11;
    fn start(rig: &mut Rig, answerers: &[SocketAddr], defines: &[String]) -> Result<Vec<SocketAddr>> {
        let mut command = rig.kamailio(address(KAMAILIO), CONFIG, 1_024)?;
        command.arg("-A").arg(format!("HOP=\"sip:{}\"", answerers[0]));
        for define in defines {
            command.arg("-A").arg(define);
        }
        rig.start(QUOTA, "kamailio", &command)?;
        Ok(vec![address(KAMAILIO)])
    }
    Part {
        name: "kamailio",
        title: "Kamailio, a stateful proxy",
        answerers: 1,
        loads: LOADS,
        ways: vec![
            Way::new("alone", |rig, answerers, _| start(rig, answerers, &[])),
            Way::new("ratelimit", |rig, answerers, capacity| {
                let pipe = format!("PIPE=\"0:TAILDROP:{:.0}\"", 0.9 * capacity);
                start(rig, answerers, &["RATE=1".to_owned(), pipe])
            }),
            // All callers have one address: INVITE, ACK and BYE of each call.
            Way::new("pike", |rig, answerers, capacity| {
                start(rig, answerers, &[format!("DENSITY={:.0}", 3.0 * capacity)])
            }),
            Way::new("behind Sarabande", |rig, answerers, _| {
                let members = start(rig, answerers, &[])?;
                let balancer = sarabande(rig, address(BALANCER), &pool(&members, "forward = \"stateless\""))?;
                rig.start(1.0, "sarabande", &balancer)?;
                Ok(vec![address(BALANCER)])
            }),
        ],
        models: Vec::new(),
        courses: vec![Course {
            name: "kamailio-course",
            title: "Kamailio past its capacity and back (figure 7)",
            loads: &[(0.9, 6.0), (1.5, 6.0), (0.9, 10.0), (0.1, 8.0)],
            events: &[],
            act: None,
            ways: &[0, 3],
        }],
    }
}

/// Returns the table of a simulated server with this capacity and these overload keys. It is a proxy, since simulated
/// balancers have no overload control. Its costs leave out the transactions of a proxy, which a balanced call does not
/// have.
fn proxy(name: &str, capacity: f64, overload: &str) -> String {
    format!("[host.{name}]\ncapacity = {capacity:.1}\nbuffer = {BUFFER}\noverload = {{ {overload} }}\n")
}

/// A model with 1 ms a message at the capacity that the costs are given for.
fn model(hosts: &str, path: &[&str]) -> Result<Model> {
    /// Cost of a refused call with its ACK, as a share of a call that is set up. From the instructions of a balancer
    /// (`bench/instructions.toml`: a refusal, and six messages).
    const REFUSAL: f64 = 24_400.0 / (6.0 * 16_590.0);
    let message = Duration::from_millis(1);
    let refusal = message.mul_f64(MESSAGES * REFUSAL);
    Ok(Model {
        groups: groups(hosts, path)?,
        costs: Costs {
            timer: Duration::ZERO,
            message,
            base_capacity: 1_000.0 / MESSAGES,
            reject: refusal.mul_f64(2.0 / 3.0),
            reject_ack: refusal.mul_f64(1.0 / 3.0),
            ..Costs::default()
        },
        state: NetworkState::default(),
        holding: RandomTime::Fixed(Duration::from_millis(1)),
        counted: 20,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_takes_all_models_and_carries_loads_below_their_capacity() {
        for part in [chain(), local()] {
            for (name, simulates) in &part.models {
                let found = simulates(40.0).expect("a model").at(30.0, 1).window;
                assert!(
                    (found.set_up / found.offered - 1.0).abs() < 0.02,
                    "{}, {name}: {found:?}",
                    part.name
                );
            }
        }
    }

    #[test]
    fn marks_are_changes_of_the_load_and_events() {
        let [step, failing] = &members().courses[..] else { panic!("two") };
        let marks =
            |course: &Course| course.marks().into_iter().map(|(name, at)| format!("{name} {at}")).collect();
        let [step, failing]: [Vec<String>; 2] = [step, failing].map(marks);
        assert_eq!(step, ["2.4 times 4", "0.8 times 12"]);
        assert_eq!(failing, ["stalls 4", "goes on 6", "dies 12", "returns 20"]);
    }
}

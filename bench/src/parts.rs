//! Breaks the `callgrind` profile of a program down into the parts of figure 1 of the SERvartuka paper.
//!
//! Each line of a profile is an instruction count with its object, source file and function. Inlined code keeps its
//! source file if the program has line numbers. The first rule of a list whose text occurs in one of these names
//! decides the part.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashMap};
use std::ops::{AddAssign, Index, Sub};

/// Purpose of instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Part {
    /// Reading messages.
    Parsing,
    /// Looking up the contacts of a user.
    LookUp,
    /// Transactions and dialogs, and their lookup for a message.
    State,
    /// Allocation, deallocation, copying.
    Memory,
    /// Challenges, credentials, hashes of passwords.
    Authentication,
    /// Everything else: routes, edits, sockets, and idle threads.
    Rest,
}

impl Part {
    /// Every part, in the order of the paper's bars.
    pub const ALL: [Self; 6] =
        [Self::Parsing, Self::LookUp, Self::State, Self::Memory, Self::Authentication, Self::Rest];

    /// The printed name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parsing => "parsing",
            Self::LookUp => "look-up",
            Self::State => "state",
            Self::Memory => "memory",
            Self::Authentication => "authentication",
            Self::Rest => "rest",
        }
    }
}

/// Text in a name, and the part that it stands for.
pub type Rule = (&'static str, Part);

/// Functions of the C library and of allocators, for both programs.
const MEMORY: [Rule; 12] = [
    ("mimalloc", Part::Memory),
    ("mi_", Part::Memory),
    ("_mi_", Part::Memory),
    ("malloc", Part::Memory),
    ("calloc", Part::Memory),
    ("realloc", Part::Memory),
    ("free", Part::Memory),
    ("memcpy", Part::Memory),
    ("memmove", Part::Memory),
    ("memset", Part::Memory),
    ("__rust_alloc", Part::Memory),
    ("__rust_dealloc", Part::Memory),
];

/// Rules for Sarabande by source file. Writing a message is no parsing.
const FILES: [Rule; 16] = [
    ("crates/sip/wire/src/edit", Part::Rest),
    ("crates/sip/wire/src/build", Part::Rest),
    ("crates/sip/wire/src/header/digest", Part::Authentication),
    ("crates/sip/wire/", Part::Parsing),
    ("crates/sip/digest_auth/", Part::Authentication),
    ("crates/live/node/src/registrar/authenticate", Part::Authentication),
    ("crates/live/node/src/registrar/", Part::LookUp),
    ("crates/policy/location/", Part::LookUp),
    ("crates/live/storage/", Part::LookUp),
    ("crates/live/shards/src/stores", Part::LookUp),
    ("crates/sip/transaction/", Part::State),
    ("crates/sip/proxy/", Part::State),
    ("crates/sip/dialog/", Part::State),
    ("crates/live/node/src/forward/stateful/", Part::State),
    ("crates/base/src/timer", Part::State),
    ("crates/base/src/slab", Part::State),
];

/// Rules for library code. The first of these crates in the function's name decides: its own, or a crate of its type
/// parameters.
const CRATES: [Rule; 12] = [
    ("wire", Part::Parsing),
    ("memchr", Part::Parsing),
    ("location", Part::LookUp),
    ("storage", Part::LookUp),
    ("transaction", Part::State),
    ("proxy", Part::State),
    ("dialog", Part::State),
    ("digest_auth", Part::Authentication),
    ("md5", Part::Authentication),
    ("sha2", Part::Authentication),
    ("node", Part::Rest),
    ("server", Part::Rest),
];

/// Rules for Kamailio by module, and by function in its core.
const KAMAILIO: [Rule; 22] = [
    ("fm_", Part::Memory),
    ("shm_", Part::Memory),
    ("pkg_", Part::Memory),
    ("/tm.so", Part::State),
    ("/dialog.so", Part::State),
    ("/usrloc.so", Part::LookUp),
    ("/registrar.so", Part::LookUp),
    ("/auth.so", Part::Authentication),
    ("MD5", Part::Authentication),
    ("U_MD5", Part::Authentication),
    ("calc_HA", Part::Authentication),
    ("parse", Part::Parsing),
    ("get_hdr_field", Part::Parsing),
    ("eat_", Part::Parsing),
    ("skip_", Part::Parsing),
    ("q_memchr", Part::Parsing),
    ("build_hash", Part::State),
    ("new_hash", Part::State),
    ("msg_clone", Part::State),
    ("sip_msg_shm_clone", Part::State),
    ("timer", Part::State),
    ("free_lump", Part::Memory),
];

/// The rules that sort a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rules {
    /// Rules for our crates.
    Sarabande,
    /// Rules for Kamailio's modules.
    Kamailio,
}

impl Rules {
    fn part(self, object: &str, file: &str, function: &str) -> Part {
        let is_named =
            |(text, _): &&Rule| function.starts_with(text) || function.contains(&format!("_{text}"));
        let is_path = function.contains("::");
        if function.contains("raw_vec::") || (!is_path && MEMORY.iter().any(|rule| is_named(&rule))) {
            return Part::Memory;
        }
        let first = |rules: &[Rule], names: &[&str]| {
            let fits = |(text, _): &&Rule| names.iter().any(|name| name.contains(text));
            rules.iter().find(fits).map_or(Part::Rest, |(_, part)| *part)
        };
        match self {
            Self::Kamailio => first(&KAMAILIO, &[object, function]),
            Self::Sarabande if file.contains("crates/") => first(&FILES, &[file]),
            Self::Sarabande => {
                let mut names = function.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let part = names.find_map(|name| CRATES.iter().find(|(known, _)| *known == name));
                part.map_or(Part::Rest, |(_, part)| *part)
            }
        }
    }
}

/// Instructions by part.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Parts([f64; Part::ALL.len()]);

impl Parts {
    /// Returns the sum of all parts.
    pub fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    /// Divides by a number of calls.
    #[must_use]
    pub fn each(&self, calls: f64) -> Self {
        Self(self.0.map(|count| count / calls))
    }
}

impl Index<Part> for Parts {
    type Output = f64;

    fn index(&self, part: Part) -> &f64 {
        &self.0[part as usize]
    }
}

impl AddAssign for Parts {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}

impl Sub for Parts {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        for (count, less) in self.0.iter_mut().zip(other.0) {
            *count -= less;
        }
        self
    }
}

/// Instructions of a profile by object, source file and function.
#[derive(Default, Debug)]
pub struct Profile {
    costs: BTreeMap<(String, String, String), f64>,
}

/// Names of one kind. A profile writes a name in full once, `(7) name`, and later its number, `(7)`.
#[derive(Default)]
struct Names {
    known: HashMap<String, String>,
    current: String,
}

impl Names {
    fn set(&mut self, text: &str) {
        let (number, name) = text.split_once(' ').unwrap_or((text, ""));
        if !name.is_empty() {
            self.known.insert(number.to_owned(), name.to_owned());
        }
        self.current = self.known.get(number).cloned().unwrap_or_else(|| text.to_owned());
    }

    /// Records the name of a callee without making it the current one.
    fn learn(&mut self, text: &str) {
        let current = std::mem::take(&mut self.current);
        self.set(text);
        self.current = current;
    }
}

impl Profile {
    /// Adds a file of `callgrind` (its manual, "Callgrind Format Specification").
    pub fn read(&mut self, text: &str) -> Result<()> {
        let [mut objects, mut files, mut functions] = [Names::default(), Names::default(), Names::default()];
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            match line.split_once('=') {
                Some(("ob", name)) => objects.set(name),
                Some(("cob", name)) => objects.learn(name),
                Some(("fl" | "fi" | "fe", name)) => files.set(name),
                Some(("cfi" | "cfl", name)) => files.learn(name),
                Some(("fn", name)) => functions.set(name),
                Some(("cfn", name)) => functions.learn(name),
                // The cost of a callee is counted at the callee.
                Some(("calls", _)) => drop(lines.next()),
                _ if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) => {
                    let cost =
                        line.split_whitespace().nth(1).context("a line of a profile without its cost")?;
                    let names = [&objects, &files, &functions].map(|names| names.current.clone());
                    let [object, file, function] = names;
                    *self.costs.entry((object, file, function)).or_default() += cost.parse::<f64>()?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sums up the parts.
    pub fn parts(&self, rules: Rules) -> Parts {
        let mut parts = Parts::default();
        for ((object, file, function), cost) in &self.costs {
            parts.0[rules.part(object, file, function) as usize] += cost;
        }
        parts
    }

    /// Returns the extra cost a unit of each place compared to `other`, highest first, with its part.
    pub fn dearest(&self, other: &Self, units: f64, rules: Rules) -> Vec<(f64, Part, String)> {
        let difference = |(names, cost): (&(String, String, String), &f64)| {
            let less = other.costs.get(names).copied().unwrap_or_default();
            let (object, file, function) = names;
            let place = format!("{function} [{file}, {object}]");
            ((cost - less) / units, rules.part(object, file, function), place)
        };
        let mut all: Vec<_> = self.costs.iter().map(difference).collect();
        all.sort_by(|one, two| two.0.total_cmp(&one.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "version: 1\nevents: Ir\n\nob=(1) /usr/bin/sarabande\nfl=(1) crates/live/node/src/shard/handle.rs\n\
        fn=(1) node::shard::Shard::message\n12 100\nfi=(2) crates/sip/wire/src/scan.rs\n+3 50\nfe=(1)\n-1 7\n\
        cob=(2) /lib/libc.so.6\ncfi=(3) ./malloc.c\ncfn=(2) malloc\ncalls=3 0\n* 999\n20 1\n\n\
        ob=(2)\nfl=(3)\nfn=(2)\n5 40\n\nob=(1)\nfl=(4) crates/sip/digest_auth/src/nonce.rs\nfn=(3) check\n1 30\n";

    #[test]
    fn a_profile_is_sorted_by_source_file_and_calls_are_counted_once() {
        let mut profile = Profile::default();
        profile.read(PROFILE).expect("a profile");
        let parts = profile.parts(Rules::Sarabande);
        assert_eq!(Part::ALL.map(|part| parts[part] as u64), [50, 0, 0, 40, 30, 108]);
        assert!((parts.total() - 228.0).abs() < 1e-9);
        // The work of two processes adds up.
        profile.read(PROFILE).expect("a profile");
        assert!((profile.parts(Rules::Sarabande).each(2.0).total() - 228.0).abs() < 1e-9);
    }

    #[test]
    fn library_code_belongs_to_the_crate_of_its_types() {
        let part = |function| Rules::Sarabande.part("sarabande", "/rustc/library/core/src/iter.rs", function);
        assert_eq!(part("<core::slice::Iter<wire::line::Line> as Iterator>::next"), Part::Parsing);
        assert_eq!(part("node::edge::Edge::read<wire::message::Message>"), Part::Rest);
        assert_eq!(part("<alloc::raw_vec::RawVec<wire::line::Line>>::grow_one"), Part::Memory);
        assert_eq!(part("md5::compress::soft::compress"), Part::Authentication);
        assert_eq!([part("mi_malloc_small"), part("poll")], [Part::Memory, Part::Rest]);
    }

    #[test]
    fn modules_and_functions_of_kamailio() {
        let part = |object, function| Rules::Kamailio.part(object, "???", function);
        assert_eq!(part("/usr/lib/kamailio/modules/tm.so", "t_relay_to"), Part::State);
        assert_eq!(part("/usr/sbin/kamailio", "parse_msg"), Part::Parsing);
        assert_eq!(part("/usr/sbin/kamailio", "fm_malloc"), Part::Memory);
        assert_eq!(part("/usr/sbin/kamailio", "receive_msg"), Part::Rest);
        assert_eq!(part("/usr/lib/libc.so.6", "__memcpy_avx_unaligned_erms"), Part::Memory);
    }
}

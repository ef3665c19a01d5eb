//! Finds public types that share a bare name where one crate uses both.

use crate::rules::{crates_but, folder_of};
use crate::source::sources;
use std::collections::BTreeMap;

/// Returns the names that occur more than once among the public types of a crate and of its direct dependencies in the
/// workspace, as `crate: Name in dependency, dependency`.
pub fn shared_names() -> Vec<String> {
    let crates = crates_but("");
    let public: BTreeMap<_, _> = crates.iter().map(|name| (name.as_str(), public_types(name))).collect();
    let mut found = Vec::new();
    for user in &crates {
        let manifest = std::fs::read_to_string(folder_of(&format!("{user}/Cargo.toml"))).expect("a manifest");
        let used = dependencies(&manifest).filter_map(|name| public.get_key_value(name));
        let mut homes = BTreeMap::<&str, Vec<&str>>::new();
        for (home, types) in used.chain(public.get_key_value(user.as_str())) {
            for name in types {
                homes.entry(name).or_default().push(home);
            }
        }
        let shared = homes.into_iter().filter(|(_, homes)| homes.len() > 1);
        found.extend(shared.map(|(name, homes)| format!("{user}: {name} in {}", homes.join(", "))));
    }
    found
}

fn public_types(name: &str) -> Vec<String> {
    let is_public = |line: &&str| line.starts_with("pub ");
    let name_of = |line: &str| {
        let rest =
            ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| line[4..].strip_prefix(word))?;
        rest.split(|c: char| !c.is_alphanumeric()).next().map(str::to_owned)
    };
    let files = sources(name);
    files.iter().flat_map(|file| file.code.lines().filter(is_public).filter_map(name_of)).collect()
}

/// Returns the names in the section `[dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_manifests_and_types() {
        let manifest =
            "[package]\nname = \"a\"\n\n[dependencies]\nb.workspace = true\nc = \"1\"\n\n[lints]\nd = 1\n";
        assert_eq!(dependencies(manifest).collect::<Vec<_>>(), ["b", "c"]);
        let types = public_types("balance");
        for name in ["NodeDecision", "Balancer", "Policy"] {
            assert!(types.iter().any(|found| found == name), "{name}: {types:?}");
        }
    }
}

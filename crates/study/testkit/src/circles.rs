//! Circles among the files of a crate: files that need each other, by what they `use`. Where there are none, a reader
//! can begin with the files that need no other.

use crate::rules::folder_of;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module by its path, as `forward::stateless::send`.
type Module = Vec<String>;

/// The files of a crate that are in some circle, by their modules. What stands in unit tests does not count, nor does
/// a module that only names those below it and what it shows of them.
///
/// # Panics
/// When no crate is called so.
pub fn circles(of: &str) -> Vec<String> {
    let mut texts = BTreeMap::new();
    read(&folder_of(&format!("{of}/src")), &Vec::new(), &mut texts);
    circles_of(&texts)
}

fn circles_of(texts: &BTreeMap<Module, String>) -> Vec<String> {
    let shown: BTreeMap<_, _> = texts.keys().map(|module| (module.clone(), shown(module, texts))).collect();
    let needs = |module: &Module| -> BTreeSet<Module> {
        let used = uses(&texts[module]).into_iter().filter(|(_, is_shown)| !is_shown);
        let paths = used.filter_map(|(path, _)| absolute(module, &path, texts));
        let targets = paths.filter_map(|path| resolve(&path, texts, &shown, 0));
        targets.filter(|target| target != module && !target.is_empty()).collect()
    };
    let mut left: BTreeMap<_, _> = texts.keys().map(|module| (module.clone(), needs(module))).collect();
    // What needs none that is left is in no circle; what nobody needs is in none either.
    loop {
        let all: BTreeSet<_> = left.keys().cloned().collect();
        let needed: BTreeSet<_> = left.values().flatten().cloned().collect();
        let before = left.len();
        left.retain(|module, needs| needs.iter().any(|need| all.contains(need)) && needed.contains(module));
        if left.len() == before {
            return left.keys().map(|module| module.join("::")).collect();
        }
    }
}

/// The texts of all modules below a folder, without comments and unit tests.
fn read(folder: &Path, module: &Module, texts: &mut BTreeMap<Module, String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let below = || [module.clone(), vec![name.clone()]].concat();
        if path.is_dir() {
            read(&path, &below(), texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
            let module = if matches!(&*name, "mod" | "lib") { module.clone() } else { below() };
            texts.insert(module, lines.collect::<Vec<_>>().join(" "));
        }
    }
}

/// The paths that a text names with `use`, or that begin with `crate` or `super`; and whether it shows them to
/// others.
fn uses(text: &str) -> Vec<(Vec<String>, bool)> {
    let (mut found, mut rest) = (Vec::new(), String::new());
    for statement in text.split_inclusive(';') {
        let is_tree = |tree: &str| tree.ends_with(';') && !tree.contains(['(', '"', '=', '.']);
        let begins = |before: &str| before.is_empty() || before.ends_with(char::is_whitespace);
        let is_use = |(before, tree): &(&str, &str)| begins(before) && is_tree(tree);
        let Some((before, tree)) = statement.rsplit_once("use ").filter(is_use) else {
            rest += statement;
            continue;
        };
        let is_shown =
            before.trim_end().rsplit(['}', ';', ']']).next().is_some_and(|word| word.contains("pub"));
        expand("", tree.trim_end_matches(';'), &mut |path| found.push((path, is_shown)));
        rest += before;
    }
    for start in ["crate::", "super::"] {
        for (at, _) in rest.match_indices(start) {
            let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
            let end = rest[at..].find(|c| !is_path(c)).map_or(rest.len(), |length| at + length);
            expand("", &rest[at..end], &mut |path| found.push((path, false)));
        }
    }
    found
}

/// The paths of a tree with braces.
fn expand(prefix: &str, tree: &str, found: &mut dyn FnMut(Vec<String>)) {
    let tree = tree.trim();
    let Some((head, body)) = tree.split_once('{') else {
        let path = format!("{prefix}{}", tree.split(" as ").next().unwrap_or_default());
        let names = path.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        return found(names.collect());
    };
    let (mut depth, mut from) = (0_usize, 0);
    let body = body.trim_end().strip_suffix('}').unwrap_or(body);
    for (at, c) in body.char_indices().chain([(body.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !body[from..at].trim().is_empty() {
                    expand(&format!("{prefix}{head}"), &body[from..at], found);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// A path from the root of its crate; `None`: it leads to another crate.
fn absolute(module: &Module, path: &[String], texts: &BTreeMap<Module, String>) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    match &**first {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let supers = path.iter().take_while(|name| *name == "super").count();
            Some([&module[..module.len().checked_sub(supers)?], &path[supers..]].concat())
        }
        _ => {
            let below = [module.clone(), vec![first.clone()]].concat();
            texts.contains_key(&below).then(|| [below, rest.to_vec()].concat())
        }
    }
}

/// What a module shows of others, by name.
fn shown(module: &Module, texts: &BTreeMap<Module, String>) -> BTreeMap<String, Module> {
    let of = uses(&texts[module]).into_iter().filter(|(_, is_shown)| *is_shown);
    let paths = of.filter_map(|(path, _)| absolute(module, &path, texts));
    paths.filter_map(|path| Some((path.last()?.clone(), path))).collect()
}

/// The file that a path leads to, by way of what modules show of others.
fn resolve(
    path: &[String],
    texts: &BTreeMap<Module, String>,
    shown: &BTreeMap<Module, BTreeMap<String, Module>>,
    depth: usize,
) -> Option<Module> {
    let module =
        (0..=path.len()).rev().map(|end| path[..end].to_vec()).find(|module| texts.contains_key(module))?;
    let next = path.get(module.len()).and_then(|name| shown[&module].get(name)).filter(|next| *next != path);
    match next {
        Some(next) if depth < 8 => {
            let rest = &path[module.len() + 1..];
            resolve(&[&next[..], rest].concat(), texts, shown, depth + 1)
        }
        _ => Some(module),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_among(files: &[(&str, &str)]) -> Vec<String> {
        let module =
            |path: &str| path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        circles_of(&files.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect())
    }

    #[test]
    fn a_circle_is_found_through_what_modules_show() {
        let root = ("", "mod a; mod b; mod c; pub use c::d::D;");
        let others =
            [("c", "mod d; pub(crate) use d::D;"), ("c::d", "pub struct D;"), ("b", "use crate::c::D;")];
        let files = |a| [&[root, ("a", a)], &others[..]].concat();
        assert_eq!(circles_among(&files("use crate::{b::B, c::D};")), [""; 0]);
        let with_circle = [&files("use crate::b::B;")[..], &[("b", "fn b() { crate::a::a() }")]].concat();
        assert_eq!(circles_among(&with_circle), ["a", "b"]);
        let through_root = [&files("")[..], &[("c::d", "use super::super::b; pub struct D;")]].concat();
        assert_eq!(circles_among(&through_root), ["b", "c::d"]);
    }
}

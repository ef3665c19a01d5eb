//! Finds circular dependencies among the files of a crate, by `use` declarations and method calls. Without circles, a
//! reader can start with the files that depend on no other.

use crate::calls::{Methods, foreign_methods};
use crate::source::{Module, Source, is_of_name, parts, sources};
use std::collections::{BTreeMap, BTreeSet};

/// Files of a crate by their modules.
type Files<'a> = BTreeMap<Module, &'a Source>;

/// An import of a file.
struct Import {
    /// Name in the importing file.
    name: String,
    path: Vec<String>,
    /// Whether other modules can use it by this path.
    is_shown: bool,
}

/// Kinds of names that count as a dependency.
enum Names<'a> {
    /// Imports, and paths that begin with `crate` or `super`.
    OfOthers,
    /// Imports, all paths, and calls of methods.
    All(Methods<'a>),
}

/// Returns the steps of all circles of a crate, as `module needs module`. A file needs the files that define the names
/// in it, even if another module re-exports these names. Unit tests do not count. A module's re-exports from modules
/// below it do not count if it does not use them itself.
pub fn circles(of: &str) -> Vec<String> {
    circles_among(&sources(of), &Names::OfOthers)
}

/// Returns the steps of all circles like [`circles`], but counts more. A file also needs the files that define the
/// methods it calls, as far as names tell. It also needs the modules that it names without `crate` or `super`.
pub fn circles_with_calls(of: &str) -> Vec<String> {
    let files = sources(of);
    circles_among(&files, &Names::All(Methods::new(&files, foreign_methods(of))))
}

fn circles_among(files: &[Source], counted: &Names<'_>) -> Vec<String> {
    let files: Files<'_> = files.iter().map(|file| (file.module.clone(), file)).collect();
    let shown: BTreeMap<_, _> = files.keys().map(|module| (module.clone(), shown(module, &files))).collect();
    let needs = |module: &Module| -> BTreeSet<Module> {
        let paths = paths(module, &files, counted).into_iter();
        let mut needs: BTreeSet<_> = paths.filter_map(|path| resolve(&path, &files, &shown, 0)).collect();
        if let Names::All(methods) = counted {
            needs.extend(methods.called_by(files[module]));
        }
        needs.remove(module);
        needs
    };
    let all: BTreeMap<_, _> = files.keys().map(|module| (module, needs(module))).collect();
    let leads_to = |from: &Module, to: &Module| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(module) = left.pop() {
            left.extend(all[module].iter().filter(|next| seen.insert(*next)));
        }
        seen.contains(to)
    };
    let steps = all.iter().flat_map(|(module, needs)| needs.iter().map(move |need| (*module, need)));
    let of_circles = steps.filter(|(module, need)| leads_to(need, module));
    let name = |module: &Module| if module.is_empty() { "lib".to_owned() } else { module.join("::") };
    of_circles.map(|(module, need)| format!("{} needs {}", name(module), name(need))).collect()
}

/// Paths within its crate that a module needs.
fn paths(module: &Module, files: &Files<'_>, counted: &Names<'_>) -> Vec<Module> {
    let (imports, rest) = imports(&files[module].code);
    let words: BTreeSet<_> = rest.split(|c| !is_of_name(c)).collect();
    let counts = |path: &Module, import: &Import| {
        !import.is_shown || !path.starts_with(module) || import.name == "*" || words.contains(&*import.name)
    };
    let imports =
        imports.into_iter().filter_map(|import| Some((absolute(module, &import.path, files)?, import)));
    let imports: Vec<_> = imports.filter(|(path, import)| counts(path, import)).collect();
    let rest = rest.replace("(in crate", "(in ").replace("(in super", "(in ");
    let named =
        rest.split(|c| !is_of_name(c) && c != ':').filter(|path| path.contains("::")).filter_map(|path| {
            let path: Vec<_> = path.split("::").map(str::to_owned).collect();
            if matches!(counted, Names::OfOthers) && !matches!(&*path[0], "crate" | "super") {
                return None;
            }
            let through = imports.iter().find(|(_, import)| import.name == path[0]);
            let through = through.map(|(import, _)| [&import[..], &path[1..]].concat());
            through.or_else(|| absolute(module, &path, files))
        });
    let named: Vec<_> = named.collect();
    imports.into_iter().map(|(path, _)| path).chain(named).collect()
}

/// Returns the imports of a text, and the rest of the text without imports and module declarations.
fn imports(code: &str) -> (Vec<Import>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    for statement in code.split_inclusive(';') {
        let is_tree = |tree: &str| tree.ends_with(';') && !tree.contains(['(', '"', '=', '.']);
        let begins = |before: &str| before.is_empty() || before.ends_with(char::is_whitespace);
        let is_item = |(before, tree): &(&str, &str)| begins(before) && is_tree(tree);
        if let Some((before, tree)) = statement.rsplit_once("use ").filter(is_item) {
            let is_shown =
                before.trim_end().rsplit(['}', ';', ']']).next().is_some_and(|word| word.contains("pub"));
            expand("", tree.trim_end_matches(';'), &mut |path, name| {
                found.push(Import { name: name.to_owned(), path, is_shown });
            });
            rest += before;
        } else {
            rest += statement.rsplit_once("mod ").filter(is_item).map_or(statement, |(before, _)| before);
        }
    }
    (found, rest)
}

/// Adds the paths of a `use` tree with braces, each with the name that it imports.
fn expand(prefix: &str, tree: &str, found: &mut dyn FnMut(Vec<String>, &str)) {
    if let Some((head, body)) = tree.split_once('{') {
        let prefix = format!("{prefix}{}", head.trim());
        return parts(body, ',').iter().for_each(|part| expand(&prefix, part, found));
    }
    let (path, name) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
    let path = format!("{prefix}{path}");
    let names = path.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let mut path: Vec<_> = names.collect();
    path.pop_if(|last| last == "self");
    let last = path.last().cloned().unwrap_or_default();
    found(path, name.unwrap_or(&last));
}

/// Returns a path from the root of its crate; `None` if it leads to another crate.
fn absolute(module: &Module, path: &[String], files: &Files<'_>) -> Option<Module> {
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
            files.contains_key(&below).then(|| [below, rest.to_vec()].concat())
        }
    }
}

/// Re-exports of a module, by name.
fn shown(module: &Module, files: &Files<'_>) -> BTreeMap<String, Module> {
    let of = imports(&files[module].code).0.into_iter().filter(|import| import.is_shown);
    of.filter_map(|import| Some((import.name, absolute(module, &import.path, files)?))).collect()
}

/// Returns the file that a path leads to, following re-exports.
fn resolve(
    path: &[String],
    files: &Files<'_>,
    shown: &BTreeMap<Module, BTreeMap<String, Module>>,
    depth: usize,
) -> Option<Module> {
    let module =
        (0..=path.len()).rev().map(|end| path[..end].to_vec()).find(|module| files.contains_key(module))?;
    let next = path.get(module.len()).and_then(|name| shown[&module].get(name)).filter(|next| *next != path);
    match next {
        Some(next) if depth < 8 => {
            let rest = &path[module.len() + 1..];
            resolve(&[&next[..], rest].concat(), files, shown, depth + 1)
        }
        _ => Some(module),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        // If a file is given twice, its last text counts.
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        let new = |(module, text): (&str, &str)| Source::new(module, module, text);
        let files: Vec<_> = files.into_iter().map(new).collect();
        circles_among(&files, &Names::All(Methods::new(&files, BTreeSet::from(["get".to_owned()]))))
    }

    #[test]
    fn a_circle_is_found_through_re_exports() {
        let root = ("lib", "mod a; mod b; mod c; pub use c::d::D;");
        let others =
            [("c/mod", "mod d; pub(crate) use d::D;"), ("c/d", "pub struct D;"), ("b", "use crate::c::D;")];
        let files = |a| [&[root, ("a", a)], &others[..]].concat();
        assert_eq!(circles_of(&files("use crate::{b::B, c::D};")), [""; 0]);
        let with_circle = [&files("use crate::b::B;")[..], &[("b", "fn b() { crate::a::a() }")]].concat();
        assert_eq!(circles_of(&with_circle), ["a needs b", "b needs a"]);
        let through_root = [&files("")[..], &[("c/d", "use super::super::b; pub struct D;")]].concat();
        assert_eq!(circles_of(&through_root), ["b needs c::d", "c::d needs b"]);
        let by_module = [&files("")[..], &[("c/d", "use crate::b;"), ("b", "use crate::c; fn b() { c::D }")]];
        assert_eq!(circles_of(&by_module.concat()), ["b needs c::d", "c::d needs b"]);
        // A file depends on its re-export only if it also uses it.
        let showing = |c| [("c/mod", c), ("c/d", "use super::C; pub struct D;")];
        let used = ["c needs c::d", "c::d needs c"];
        assert_eq!(circles_of(&showing("mod d; pub use d::D; pub struct C;")), [""; 0]);
        assert_eq!(circles_of(&showing("mod d; pub use d::D; pub struct C(D);")), used);
        assert_eq!(circles_of(&showing("mod d; pub use d::D as E; pub struct C(E);")), used);
        assert_eq!(circles_of(&showing("mod d; pub struct C(d::D);")), used);
        // Only re-exports from below are exempt, and the root counts like any other file.
        let beside = [("a", "pub use crate::b::B;"), ("b", "use crate::a::A;")];
        assert_eq!(circles_of(&beside), ["a needs b", "b needs a"]);
        let of_root = [("lib", "mod a; use a::A; pub struct B;"), ("a", "use crate::B;")];
        assert_eq!(circles_of(&of_root), ["lib needs a", "a needs lib"]);
    }

    #[test]
    fn a_call_of_a_method_needs_the_file_that_has_it() {
        let b = |call: &str| {
            format!("pub struct B;\nimpl B {{\n    fn f(&self, b: B) {{\n        {call}\n    }}\n}}\n")
        };
        let files = |call: &str, method: &str, other: &str| {
            let a = format!("use crate::b::B;\nimpl B {{\n    {method}\n}}\n");
            !circles_of(&[("a", &a), ("b", &b(call)), ("c", other)]).is_empty()
        };
        let called = |call, method| files(call, method, "");
        assert!(called("b.step(1)", "pub(crate) fn step(&self, to: u8) {}"));
        assert!(called("b\n        .step::<u8>()", "pub(super) fn step<T>(&self) {}"));
        assert!(called("B::make", "pub fn make() {}"));
        // The type of `self` is known; for another receiver, a name in `foreign` is ignored.
        assert!(called("self.get()", "pub fn get(&self) {}"));
        assert!(!called("b.get()", "pub fn get(&self) {}"));
        // These do not count: an invisible function, a function that is no method, a field, a method of another type.
        assert!(!called("b.step(1)", "fn step(&self, to: u8) {}"));
        assert!(!called("b.make()", "pub fn make() {}"));
        assert!(!called("b.step", "pub fn step(&self) {}"));
        assert!(!called("C::make()", "pub fn make() {}"));
        // Another file has a method of the same name.
        let beside = |other| files("b.step()", "pub fn step(&self) {}", other);
        assert!(beside("impl C {\n    fn step(&self) {}\n}\n"));
        assert!(!beside("impl C {\n    pub fn step(&self) {}\n}\n"));
        assert!(!beside("impl Foreign for C {\n    fn step(&self) {}\n}\n"));
        assert!(!beside("trait Own {\n    fn step(&self);\n}\n"));
    }
}

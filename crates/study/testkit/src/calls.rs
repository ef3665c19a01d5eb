//! Finds the files that define the methods that a file calls. Method calls need no import, so names decide.
//!
//! The type is known only for `Type::name`, `Self::name` and `self.name(`. Any other call counts by its name, if
//! exactly one file has a method of this name that the caller may see, and no type of another crate has such a method.

use crate::rules::crates_but;
use crate::source::{Function, Module, Source, is_of_name, sources};
use std::collections::{BTreeMap, BTreeSet};

/// Method names that are common outside the workspace.
const FOREIGN: &str = "abort abs accept advance all and any append as_ref as_str back bind build bytes capacity chain chars \
    clear clone close closed collect connect contains copied count cycle display drain elapsed end enter entry enumerate exists extend \
    fill filter find finish first flush fold get get_mut hash id insert intersects into inspect is_empty is_finished iter iter_mut \
    join keys kill last len lines load lock log map max metadata min name next open or parent parse path peek pop position push \
    push_str range read readable recv refresh remove repeat replace reserve resize retain rev seek send set shutdown skip sleep sort \
    spawn split start status store sum swap take then tick timeout trim truncate union update upgrade values wait wake windows \
    with writable write zip";

/// The methods of a crate, by name.
pub(crate) struct Methods<'a> {
    own: BTreeMap<&'a str, Vec<Method<'a>>>,
    foreign: BTreeSet<String>,
}

struct Method<'a> {
    /// The method's type, or the trait that declares it.
    of: String,
    module: &'a Module,
    is_private: bool,
    is_of_value: bool,
}

impl<'a> Methods<'a> {
    /// Collects the methods in these files. Methods with a name in `foreign` are not found by name alone.
    pub(crate) fn new(files: &'a [Source], foreign: BTreeSet<String>) -> Self {
        let functions =
            files.iter().flat_map(|file| file.functions().into_iter().map(move |of| (&file.module, of)));
        let all: Vec<_> =
            functions.filter_map(|(module, of)| Some((of.owner.clone()?, module, of))).collect();
        let declares =
            |name: &String| all.iter().any(|(of, ..)| of.name == *name && of.of_trait.as_ref() == Some(name));
        let mut methods = Self { own: BTreeMap::new(), foreign };
        for (owner, module, function) in &all {
            match &owner.of_trait {
                Some(of_trait) if !declares(of_trait) => _ = methods.foreign.insert(function.name.to_owned()),
                // The trait represents the types that implement it.
                Some(of_trait) if *of_trait != owner.name => {}
                of_trait => {
                    let is_private = of_trait.is_none() && !function.modifiers.starts_with("pub");
                    let is_of_value = takes_self(function);
                    let method = Method { of: owner.name.clone(), module, is_private, is_of_value };
                    methods.own.entry(function.name).or_default().push(method);
                }
            }
        }
        methods
    }

    /// Returns the modules that define the methods called by a file.
    pub(crate) fn called_by(&self, file: &Source) -> BTreeSet<Module> {
        let functions = file.functions();
        let own = |at| {
            functions.iter().rfind(|function| function.at < at && function.owner.is_some())?.owner.as_ref()
        };
        let mut at = 0;
        let calls = file.code.split_inclusive(|c| !is_of_name(c)).filter_map(|piece| {
            let name = piece.trim_end_matches(|c| !is_of_name(c));
            let (before, after) = (&file.code[..at], &file.code[at + name.len()..]);
            at += piece.len();
            let methods = self.own.get(name)?;
            let (receiver, is_path) = match before.strip_suffix("::") {
                Some(path) => (last_name(path), true),
                None => (last_name(before.trim_end().strip_suffix('.')?), false),
            };
            let of = if matches!(receiver, "self" | "Self") { &own(at)?.name } else { receiver };
            let is_known = is_path || receiver == "self";
            let is_call = is_path || after.starts_with('(') || after.starts_with("::<");
            let is_by_name = |method: &&Method<'_>| {
                method.is_of_value && (!method.is_private || file.module.starts_with(method.module))
            };
            let is_meant = |method: &&Method<'_>| if is_known { method.of == of } else { is_by_name(method) };
            let found: BTreeSet<_> = methods.iter().filter(is_meant).map(|method| method.module).collect();
            let is_certain = is_call && found.len() == 1 && (is_known || !self.foreign.contains(name));
            found.into_iter().next().filter(|_| is_certain)
        });
        calls.cloned().collect()
    }
}

fn last_name(text: &str) -> &str {
    text.rsplit(|c| !is_of_name(c)).next().unwrap_or_default()
}

fn takes_self(function: &Function<'_>) -> bool {
    function
        .parameters
        .first()
        .is_some_and(|first| last_name(first.split(':').next().unwrap_or_default()) == "self")
}

/// Returns the names of methods that types outside a crate have.
pub(crate) fn foreign_methods(of: &str) -> BTreeSet<String> {
    let files: Vec<_> = crates_but(of).iter().flat_map(|name| sources(name)).collect();
    let functions = files.iter().flat_map(Source::functions).filter(|function| {
        let is_of_trait = function.owner.as_ref().is_some_and(|owner| owner.of_trait.is_some());
        takes_self(function) && (is_of_trait || function.modifiers.starts_with("pub "))
    });
    functions.map(|function| function.name).chain(FOREIGN.split_whitespace()).map(str::to_owned).collect()
}

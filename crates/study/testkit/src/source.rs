//! Source files of a crate as text, for tests of their form. The files are formatted by rustfmt, so columns and
//! brackets are enough and no parser is needed.

use crate::rules::folder_of;
use std::path::Path;

/// Path of a module, such as `forward::stateless::send`; empty for the root.
pub(crate) type Module = Vec<String>;

/// A source file.
pub(crate) struct Source {
    /// Path below `src`, such as `token/mod.rs`.
    pub(crate) path: String,
    pub(crate) module: Module,
    /// The text without comments and unit tests.
    pub(crate) code: String,
}

/// The head of a function.
pub(crate) struct Function<'a> {
    pub(crate) at: usize,
    /// Words before `fn`.
    pub(crate) modifiers: &'a str,
    pub(crate) name: &'a str,
    pub(crate) parameters: Vec<&'a str>,
    /// Type or trait of a method.
    pub(crate) owner: Option<Owner>,
}

/// Type of an `impl`, or a trait.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owner {
    pub(crate) name: String,
    /// Trait that the type implements, or the trait itself.
    pub(crate) of_trait: Option<String>,
    column: usize,
}

/// Returns all source files of a crate without files of unit tests.
pub(crate) fn sources(of: &str) -> Vec<Source> {
    let mut found = Vec::new();
    read(&folder_of(&format!("{of}/src")), "", &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn read(folder: &Path, prefix: &str, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        let name = format!("{prefix}{}", path.file_name().expect("a name").to_string_lossy());
        if path.is_dir() {
            read(&path, &format!("{name}/"), found);
        } else if let Some(module) = name.strip_suffix(".rs").filter(|name| !name.ends_with("tests")) {
            found.push(Source::new(&name, module, &std::fs::read_to_string(&path).expect("text")));
        }
    }
}

impl Source {
    pub(crate) fn new(path: &str, module: &str, text: &str) -> Self {
        let mut module: Module = module.split('/').map(str::to_owned).collect();
        module.pop_if(|name| matches!(&**name, "mod" | "lib" | "main"));
        let lines = without_tests(text).map(|line| line.split("//").next().unwrap_or_default());
        Self { path: path.to_owned(), module, code: lines.collect::<Vec<_>>().join("\n") }
    }

    /// Returns the names of the types that the file defines.
    pub(crate) fn types(&self) -> impl Iterator<Item = &str> {
        let lines = self.code.lines().filter(|line| !line.starts_with(' '));
        lines.filter_map(|line| {
            let (_, rest) = ["struct ", "enum ", "type "].iter().find_map(|word| line.split_once(word))?;
            rest.split(|c| !is_of_name(c)).next()
        })
    }

    pub(crate) fn functions(&self) -> Vec<Function<'_>> {
        let (mut at, mut owner, mut found) = (0, None::<Owner>, Vec::new());
        for line in self.code.split_inclusive('\n') {
            let (rest, text) = (&self.code[at..], line.trim());
            let column = line.len() - line.trim_start().len();
            owner = owner.filter(|owner| text != "}" || column != owner.column);
            if let Some((name, of_trait)) = rest.split('{').next().and_then(|head| owner_of(text, head)) {
                owner = Some(Owner { name, of_trait, column });
            }
            if let Some((modifiers, name, parameters)) =
                head_of(rest.trim_start()).filter(|_| !text.is_empty())
            {
                let owner = owner.clone().filter(|owner| column == owner.column + 4);
                found.push(Function { at, modifiers, name, parameters, owner });
            }
            at += line.len();
        }
        found
    }
}

/// Returns name and trait of the owner of a block, from the block's first line and head.
fn owner_of(text: &str, head: &str) -> Option<(String, Option<String>)> {
    let is_impl = text.starts_with("impl ") || text.starts_with("impl<");
    if text.ends_with('}') || !is_impl && !text.contains("trait ") {
        return None;
    }
    let head = head.replace('\n', " ");
    let words: Vec<_> = parts(&head, ' ').into_iter().take_while(|word| *word != "where").collect();
    let at = |name| words.iter().position(|word| *word == name);
    if is_impl {
        let bare = |path: &&str| path.split('<').next()?.rsplit("::").next().map(str::to_owned);
        return Some((
            words.last().and_then(bare)?,
            at("for").and_then(|at| words.get(at - 1)).and_then(bare),
        ));
    }
    let name = words.get(at("trait").filter(|at| *at < 3)? + 1)?.split(['<', ':']).next()?.to_owned();
    Some((name.clone(), Some(name)))
}

/// Returns the words before `fn`, the name and the parameters of the function at the start of a text.
fn head_of(text: &str) -> Option<(&str, &str, Vec<&str>)> {
    let (modifiers, rest) = text.split_once("fn ")?;
    let is_head = modifiers.chars().all(|c| is_of_name(c) || "(): \"".contains(c));
    let (name, rest) = rest.split_at(rest.find(|c| !is_of_name(c)).filter(|end| is_head && *end > 0)?);
    let (mut depth, mut before) = (0, ' ');
    let open = rest.find(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>' && before != '-');
        before = c;
        c == '(' && depth == 0
    });
    Some((modifiers, name, parts(&rest[open? + 1..], ',')))
}

pub(crate) fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits a list into its non-empty parts, up to the closing bracket.
pub(crate) fn parts(list: &str, separator: char) -> Vec<&str> {
    let (mut depth, mut from, mut before, mut found) = (0, 0, ' ', Vec::new());
    for (at, c) in list.char_indices().chain([(list.len(), separator)]) {
        depth += i32::from("({<[".contains(c)) - i32::from(")}>]".contains(c) && before != '-');
        before = c;
        if c == separator && depth == 0 || depth < 0 {
            found.push(list[from..at].trim());
            from = at + 1;
        }
        if depth < 0 {
            break;
        }
    }
    found.retain(|part| !part.is_empty());
    found
}

/// Returns the lines of a text without items that exist only in unit tests. In rustfmt's format such an item ends with
/// a closing line in its own column.
fn without_tests(text: &str) -> impl Iterator<Item = &str> {
    let mut end = None;
    text.lines().filter(move |line| {
        let (column, code) = (line.len() - line.trim_start().len(), line.trim());
        if code.starts_with("#[cfg(test)]") {
            end = Some(column);
        }
        let is_of_tests = end.is_some();
        let is_whole = code.ends_with([';', '}', ',']);
        if end == Some(column) && is_whole {
            end = None;
        }
        !is_of_tests
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_after_a_unit_test_counts() {
        let text = "use a::A;\n#[cfg(test)]\nuse b::B;\n#[cfg(test)]\nmod tests {\n    fn f() {\n    }\n}\nuse c::C;\n";
        assert_eq!(without_tests(text).collect::<Vec<_>>(), ["use a::A;", "use c::C;"]);
    }

    #[test]
    fn a_function_has_parameters_and_an_owner() {
        let text = "impl<T: A<B>> C for d::E<T>\nwhere\n    T: F,\n{\n    pub(super) fn g<H: Fn(I) -> J>(\n        &self,\n        (k, l): (M, N),\n    ) {\n        fn o() {}\n    }\n}\nfn p() {}\n";
        let source = Source::new("q.rs", "q", text);
        let found = source
            .functions()
            .into_iter()
            .map(|f| (f.modifiers, f.name, f.parameters, f.owner.map(|owner| (owner.name, owner.of_trait))));
        let owner = Some(("E".to_owned(), Some("C".to_owned())));
        let method = ("pub(super) ", "g", vec!["&self", "(k, l): (M, N)"], owner);
        assert_eq!(found.collect::<Vec<_>>(), [method, ("", "o", vec![], None), ("", "p", vec![], None)]);
    }
}

//! Finds function parameters whose type does not name their meaning: tuples and booleans. Closures do not count.

use crate::source::{Source, parts, sources};

/// Returns the functions of a crate that take a tuple, as `file: function`.
pub fn tuple_parameters(of: &str) -> Vec<String> {
    sources(of).iter().flat_map(tuples).collect()
}

fn tuples(file: &Source) -> Vec<String> {
    let takes_tuple = |parameter: &&str| {
        let pattern = parts(parameter, ':').first().copied().unwrap_or_default();
        is_tuple(pattern) || is_tuple(&parameter[pattern.len()..])
    };
    let functions =
        file.functions().into_iter().filter(|function| function.parameters.iter().any(takes_tuple));
    functions.map(|function| format!("{}: {}", file.path, function.name)).collect()
}

/// Whether the type is a tuple or a reference to one. A single type in parentheses is no tuple.
fn is_tuple(text: &str) -> bool {
    let text = text.trim_start_matches([':', ' ', '&']);
    let text = if text.starts_with('\'') { text.split_once(' ').unwrap_or_default().1 } else { text };
    let inner = text.trim_start_matches("mut ").strip_prefix('(');
    inner.is_some_and(|inner| parts(inner, ',').len() > 1)
}

/// Returns the files of a crate with more than this number of `bool` parameters, as `file: number`.
pub fn bool_parameters(of: &str, more_than: usize) -> Vec<String> {
    let counts = sources(of).into_iter().map(|file| (bools(&file), file.path));
    let found = counts.filter(|(count, _)| *count > more_than);
    found.map(|(count, path)| format!("{path}: {count}")).collect()
}

fn bools(file: &Source) -> usize {
    let functions = file.functions();
    let parameters = functions.iter().flat_map(|function| &function.parameters);
    parameters.filter(|parameter| parameter.rsplit_once(": ").is_some_and(|(_, kind)| kind == "bool")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_found_by_pattern_and_by_type() {
        let with = |parameter: &str| {
            tuples(&Source::new("a.rs", "a", &format!("fn f(&self, {parameter}) -> (A, B) {{}}\n")))
        };
        for tuple in ["(a, b): (A, B)", "(a, b): C", "a: (A, B)", "a: &'a mut (A, B)", "&(a, b): &(A, B)"] {
            assert_eq!(with(tuple), ["a.rs: f"], "{tuple}");
        }
        for other in ["a: &(dyn A + B)", "a: ()", "a: Vec<(A, B)>", "a: impl Fn(A, (B, C))", "A { a, b }: A"]
        {
            assert_eq!(with(other), [""; 0], "{other}");
        }
    }

    #[test]
    fn bools_of_fields_and_closures_do_not_count() {
        let text = "struct A { a: bool }\nfn f(a: bool, b: impl Fn(bool) -> bool, c: fn(d: bool), mut e: bool, f: &bool) -> bool {\n    |g: bool| g\n}\n";
        assert_eq!(bools(&Source::new("a.rs", "a", text)), 2);
        assert_eq!(bools(&Source::new("a.rs", "a", "fn f(a: Option<bool>) {}\n")), 0);
    }
}

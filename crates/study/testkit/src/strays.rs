//! Finds methods outside the file and folder of their type, where a reader of the type does not see them.

use crate::source::{Source, sources};

/// Returns the inherent methods of a crate outside the file and the folder of their type, as `file: Type::method`. The
/// folder of a type in `token/mod.rs` is everything below `token`. The folder of a type in `shard.rs` is everything
/// below `shard`. For a type in `home/services.rs` the files of `home` count as well.
pub fn strays(of: &str) -> Vec<String> {
    strays_among(&sources(of))
}

fn strays_among(files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for method in file.functions() {
            let Some(owner) = method.owner.filter(|owner| owner.of_trait.is_none()) else { continue };
            let mut homes =
                files.iter().filter(|home| home.types().any(|name| name == owner.name)).peekable();
            if homes.peek().is_some() && !homes.any(|home| is_at_home(&file.path, &home.path)) {
                found.push(format!("{}: {}::{}", file.path, owner.name, method.name));
            }
        }
    }
    found
}

fn is_at_home(file: &str, home: &str) -> bool {
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let below = format!("{}/", home.trim_end_matches(".rs").trim_end_matches("/mod"));
    file == home || file.starts_with(&below) || folder(home).is_some() && folder(file) == folder(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_stand_in_the_file_or_folder_of_their_type() {
        let at = |home: &str, file: &str| {
            let block = "impl<'a> T<'a> {\n    fn m(&self) {}\n}\nimpl Copy for T {\n    fn n() {}\n}\nimpl Foreign {\n    fn o() {}\n}\n";
            let home = Source::new(home, "", "pub struct T<'a>(&'a str);\n");
            strays_among(&[home, Source::new(file, "", block)])
        };
        for (home, file) in [("a/mod.rs", "a/b/c.rs"), ("a.rs", "a/b.rs"), ("a/b.rs", "a/c.rs")] {
            assert_eq!(at(home, file), [""; 0]);
        }
        for (home, file) in
            [("a/mod.rs", "b.rs"), ("a.rs", "b.rs"), ("a/b.rs", "a/c/d.rs"), ("lib.rs", "a.rs")]
        {
            assert_eq!(at(home, file), [format!("{file}: T::m")]);
        }
    }
}

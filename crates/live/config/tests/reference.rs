//! The committed references and schemas are those of the parser.

use std::path::{Path, PathBuf};

/// If this variable is set, the files are written instead of compared.
const UPDATE: &str = "UPDATE_DOCS";

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(file)
}

fn up_to_date(file: &str, made: &str) {
    let path = docs(file);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, made).expect("docs/ can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "docs/{file} is out of date; make it anew with `{UPDATE}=1 cargo test -p config reference`"
    );
}

#[test]
fn references_and_schemas_are_up_to_date() {
    up_to_date("configuration.md", &config::reference());
    up_to_date("schema.json", &config::schema());
    up_to_date("scenario.md", &config::scenario::reference());
    up_to_date("scenario-schema.json", &config::scenario::schema());
    up_to_date("topology.md", &config::topology::reference());
    up_to_date("topology-schema.json", &config::topology::schema());
}

/// The first example of a page.
fn example(page: &str) -> &str {
    page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example")
}

#[test]
fn the_example_of_each_reference_is_a_complete_file() {
    let topology = config::topology::parse(example(&config::topology::reference()), "reference.toml");
    assert_eq!(topology.unwrap().nodes().len(), 3);
    let scenario = config::scenario::parse(example(&config::scenario::reference()), "reference.toml");
    assert_eq!(scenario.unwrap().streams[0].path, [0, 1, 0]);
    let config = config::parse(example(&config::reference()), "reference.toml");
    assert_eq!(config.unwrap().members().len(), 3);
}

/// The rest of a file around a piece of the page about routes.
const AROUND: &str = "[listen]\nudp = [\"0.0.0.0:5060\", \"10.0.0.1:5070\"]\n\
    [pool]\n\
    core = { members = [\"10.0.0.1\"] }\n\
    spare = { members = [\"10.0.0.2\"] }\n\
    cheap = { members = [\"10.0.0.3\"], forward = \"transaction\" }\n\
    usual = { members = [\"10.0.0.4\"], forward = \"transaction\" }\n\
    expensive = { members = [\"10.0.0.5\"], forward = \"transaction\" }\n";

/// The TOML blocks of a page.
fn blocks(page: &str) -> Vec<String> {
    let page = std::fs::read_to_string(docs(page)).expect("a page of the repository");
    page.split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

/// The text without empty lines and comments.
fn condensed(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

/// Whether a file in `examples/` contains this piece, apart from comments.
fn is_part_of_an_example(block: &str) -> bool {
    let entries = std::fs::read_dir(docs("../examples")).expect("a folder of the repository");
    let files = entries.map(|entry| entry.expect("it can be read").path());
    let mut examples = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    examples.any(|path| {
        let example = std::fs::read_to_string(path).expect("it is text");
        condensed(&example).contains(&condensed(block))
    })
}

#[test]
fn pages_show_parts_of_the_examples() {
    for page in ["browsers.md", "calls.md", "limits.md", "nat.md", "policies.md", "transports.md"] {
        let blocks = blocks(page);
        assert!(!blocks.is_empty(), "{page}");
        for block in blocks {
            assert!(is_part_of_an_example(&block), "docs/{page}: no example has this:\n{block}");
        }
    }
}

#[test]
fn the_page_about_the_registrar_says_what_is_right() {
    let blocks = blocks("registrar.md");
    let [whole, routes, ..] = &blocks[..] else { panic!("{blocks:?}") };
    for text in [whole.clone(), format!("{whole}{routes}")] {
        config::parse(&text, "registrar.md").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    }
}

#[test]
fn the_page_about_routes_says_what_is_right() {
    let page = std::fs::read_to_string(docs("routes.md")).expect("a page of the repository");
    let blocks = blocks("routes.md").into_iter().filter(|block| !is_part_of_an_example(block));
    // Also keys with values in the text or in tables.
    let pieces =
        page.split('`').skip(1).step_by(2).filter(|piece| piece.contains(" = ") && !piece.contains('\n'));
    let pieces = pieces.filter(|piece| !piece.contains("..."));
    let is_target = |piece: &str| {
        ["pool =", "next =", "request_uri =", "answer ="].iter().any(|key| piece.starts_with(key))
    };
    let is_of_pool = |piece: &&str| ["forward =", "fork ="].iter().any(|key| piece.starts_with(key));
    let pieces = pieces.filter(|piece| !is_of_pool(piece)).map(|piece| {
        let target = if is_target(piece) { "" } else { "\npool = \"core\"" };
        let target = if piece.starts_with("request_uri") { "\nfrom = \"members\"" } else { target };
        format!("[[route]]\n{piece}{target}\n")
    });
    let mut count = 0;
    for text in blocks.chain(pieces) {
        let file = format!("{AROUND}{text}");
        config::parse(&file, "routes.md").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        count += 1;
    }
    assert!(count > 20, "{count} pieces");
}

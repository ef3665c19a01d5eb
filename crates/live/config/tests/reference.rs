//! The committed reference and schema say what the parser does.

use std::path::{Path, PathBuf};

/// Set to anything, it makes the files anew instead of comparing them.
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

/// What stands before a piece of the page about routes to make a file of it.
const AROUND: &str = "[listen]\nudp = [\"0.0.0.0:5060\", \"10.0.0.1:5070\"]\n\
    [pool]\n\
    core = { members = [\"10.0.0.1\"] }\n\
    spare = { members = [\"10.0.0.2\"] }\n\
    cheap = { members = [\"10.0.0.3\"], forward = \"transaction\" }\n\
    usual = { members = [\"10.0.0.4\"], forward = \"transaction\" }\n\
    expensive = { members = [\"10.0.0.5\"], forward = \"transaction\" }\n";

#[test]
fn the_page_about_the_registrar_says_what_is_right() {
    let page = std::fs::read_to_string(docs("registrar.md")).expect("a page of the repository");
    let mut blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let (whole, routes) = (blocks.next().unwrap(), blocks.next().unwrap());
    for text in [whole.to_owned(), format!("{whole}{routes}")] {
        config::parse(&text, "registrar.md").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    }
}

#[test]
fn the_page_about_routes_says_what_is_right() {
    let page = std::fs::read_to_string(docs("routes.md")).expect("a page of the repository");
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let blocks = blocks.map(|block| match block {
        _ if block.starts_with("[access") => format!("[[route]]\npool = \"core\"\n{block}"),
        _ if block.starts_with("[route.") => format!("[[route]]\npool = [\"cheap\", \"usual\"]\n{block}"),
        _ if block.starts_with('[') => block.to_owned(),
        _ => format!("[[route]]\n{block}"),
    });
    // And what stands in a line or a table as a key with its value.
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
    assert!(count > 30, "{count} pieces");
}

//! The configurations of the guide, and its commands to the simulator.

use super::examples::{STRANGER, Site, examples};
use sarabande_tests::{PostgresServer, TestSite, Tool, path_text};
use std::fs;
use std::path::{Path, PathBuf};

/// Tables that complete a block: mark, header and content. A block that contains the mark, and not the header, gets the
/// table.
const AROUND: [(&str, &str, &str); 6] = [
    ("", "[listen]", "udp = [\"0.0.0.0:5060\", \"10.0.0.1:5070\"]"),
    ("[route.", "[[route]]", "pool = \"core\""),
    ("location", "[registrar]", "domains = [\"example.com\"]\nusers = \"users\""),
    (
        "\"monitor\"",
        "[capacity]",
        "listen = \"10.0.0.9:8061\"\nkeys = { \"10.0.0.11\" = { file = \"site.key\" } }",
    ),
    ("[pool.pbx.", "[pool.pbx]", "members = [\"10.0.0.11\"]"),
    ("\"core\"", "[pool.core]", "members = [\"10.0.0.1\"]"),
];

/// Returns a complete configuration with this block in it.
fn completed(block: &str) -> String {
    let is_target = |line: &str| ["[pool.", "[proxy]", "[registrar]"].iter().any(|it| line.starts_with(it));
    let mut text = block.to_owned();
    if !block.lines().any(is_target) {
        text.insert_str(0, "[pool.core]\nmembers = [\"10.0.0.1\"]\n");
    }
    for (mark, header, content) in AROUND {
        if text.contains(mark) && !text.contains(header) {
            text = format!("{header}\n{content}\n{text}");
        }
    }
    text
}

fn guide(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page)
}

/// Returns all TOML blocks of the guide, each with its page.
fn blocks() -> Vec<(String, String)> {
    let pages = fs::read_dir(guide("")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<_> = pages.chain([guide("../README.md")]).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    let blocks = pages.iter().flat_map(|page| {
        let name = path_text(page.file_stem().expect("a file").as_ref()).to_owned();
        let text = fs::read_to_string(page).expect("a page");
        let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
        blocks.map(|block| (name.clone(), block.to_owned())).collect::<Vec<_>>()
    });
    blocks.collect()
}

/// Returns the text without empty lines and comments, each line after a line end.
fn condensed(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'));
    lines.fold("\n".to_owned(), |all, line| all + line + "\n")
}

/// Checks every TOML block of the guide: the simulator or `plan` runs it, or it is part of an example, which carries
/// calls in its own test, or it carries a call itself, completed by [`AROUND`].
#[test]
fn every_block_of_the_guide_runs() {
    let site = Site::new("guide-blocks", &[11, 12, 13, 15, 21, 22, 23]);
    let database = PostgresServer::start(&site.field, 18);
    database.execute(
        "CREATE TABLE subscriber (username TEXT, domain TEXT, password TEXT, ha1 TEXT, ha1b TEXT);
         INSERT INTO subscriber VALUES ('alice', 'example.com', 'change me', '', '')",
    );
    let examples = fs::read_dir(examples()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let examples = examples.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let examples: Vec<_> =
        examples.map(|path| condensed(&fs::read_to_string(path).expect("a file"))).collect();
    let blocks = blocks();
    assert!(blocks.len() > 30, "{} blocks are recognised", blocks.len());
    for (number, (page, block)) in blocks.iter().enumerate() {
        let name = format!("{page}-{number}");
        let command = if config::scenario::is_text_of_scenario(block) {
            &["sim", "run"][..]
        } else if config::topology::is_topology(block) {
            &["plan"]
        } else if examples.iter().any(|example| example.contains(&condensed(block))) {
            continue;
        } else {
            let text = completed(block).replace("postgres://sip@10.0.1.1/users", &database.url());
            carries_a_call(&site, &name, text);
            continue;
        };
        let file = site.field.write(&format!("{name}.toml"), block);
        let (status, output) = Tool::run(&site.field, &[command, &[path_text(&file)]].concat());
        assert!(status.success(), "{name}: {status}\n{output}");
    }
}

/// Starts the program with this configuration, and makes a call: to a user, or to the first number of its routes.
fn carries_a_call(site: &Site, name: &str, text: String) {
    println!("{name}:\n{text}");
    let keys = text.lines().filter_map(|line| line.split_once('='));
    let mut users = keys.filter(|(key, _)| key.trim() == "user");
    let number = users.find_map(|(_, value)| value.split('"').nth(1)).unwrap_or("4989123").to_owned();
    let (is_to_user, has_password) = (text.contains("location"), text.contains("authenticate"));
    let _proxy = site.start_text(text, name);
    if is_to_user {
        site.call_user();
    } else if has_password {
        site.log_in("uac_user", STRANGER, "alice", &number);
    } else {
        site.call(STRANGER, &format!("sip:{number}@example.com"));
    }
}

/// Pools that the page about routes names.
const POOLS: &str = "[pool]\nspare = { members = [\"10.0.0.2\"] }\ncheap = { members = [\"10.0.0.3\"] }\n\
    usual = { members = [\"10.0.0.4\"] }\nexpensive = { members = [\"10.0.0.5\"] }\n";

/// Checks the keys with values in the text and the tables of the page about routes.
#[test]
fn the_page_about_routes_says_what_is_right() {
    let page = fs::read_to_string(guide("routes.md")).expect("a page");
    let pieces = page.split('`').skip(1).step_by(2).filter(|it| it.contains(" = ") && !it.contains('\n'));
    let starts = |piece: &str, keys: &[&str]| keys.iter().any(|key| piece.starts_with(key));
    let mut count = 0;
    for piece in pieces.filter(|it| !it.contains("...") && !starts(it, &["forward =", "fork ="])) {
        let rest = match piece {
            _ if piece.starts_with("request_uri") => "from = \"members\"",
            _ if starts(piece, &["pool =", "next =", "answer ="]) => "",
            _ => "pool = \"core\"",
        };
        let text = completed(&format!("{POOLS}[[route]]\n{piece}\n{rest}\n"));
        config::parse(&text, "routes.md").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        count += 1;
    }
    assert!(count > 15, "{count} pieces");
}

/// Checks that the picture in docs/will-my-cluster-survive.md is what its command draws. `UPDATE_DOCS=1` writes it
/// anew.
#[test]
fn the_guide_shows_the_picture_of_its_command() {
    let field = TestSite::new("guide");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (scenario, page) = (root.join("examples/scenarios/survive.toml"), root.join("docs/survive.svg"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide");
    let [scenario, folder] = [&scenario, &out].map(|path| path.to_str().expect("a path in UTF-8"));
    let (status, output) = Tool::run(&field, &["sim", "run", scenario, "--out", folder]);
    assert!(status.success(), "{status}\n{output}");
    let drawn = fs::read_to_string(out.join("survivea.svg")).expect("the first plot");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &drawn).expect("docs can be written");
    }
    assert!(
        fs::read_to_string(page).expect("a picture") == drawn,
        "run UPDATE_DOCS=1 cargo test -p sarabande-tests guide"
    );
}

/// The command that stands above its output in the guide.
const VARIED: &str = "    $ sarabande sim run steady.toml --vary calls.main.rate=200..320/20\n";

/// Checks that the table in docs/will-my-cluster-survive.md is what its command prints. `UPDATE_DOCS=1` writes it anew.
#[test]
fn the_guide_shows_the_output_of_its_command() {
    let field = TestSite::new("guide-table");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let scenario =
        fs::read_to_string(root.join("examples/scenarios/survive.toml")).expect("the example is there");
    let (steady, _) = scenario.split_once("[[fault]]").expect("its fault comes last");
    let file = field.write("steady.toml", steady);
    let file = file.to_str().expect("a path in UTF-8");
    let (status, output) = Tool::run(&field, &["sim", "run", file, "--vary", "calls.main.rate=200..320/20"]);
    assert!(status.success(), "{status}\n{output}");
    let printed = output.lines().fold(String::new(), |page, line| page + "    " + line.trim_end() + "\n");
    let path = root.join("docs/will-my-cluster-survive.md");
    let page = fs::read_to_string(&path).expect("the guide is there");
    let (before, rest) = page.split_once(VARIED).expect("the guide shows the command");
    let (_, after) = rest.split_once("\n\n").expect("there is a text after it");
    let right = format!("{before}{VARIED}{printed}\n{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &right).expect("docs can be written");
    }
    let shown = fs::read_to_string(&path).expect("the guide is there");
    assert!(shown == right, "run UPDATE_DOCS=1 cargo test -p sarabande-tests guide");
}

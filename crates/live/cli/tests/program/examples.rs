//! All files in `examples/` pass `check`.

use crate::running::{folder, outcome};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the files of this folder of the repository with this extension.
fn files(of: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(of);
    let entries = fs::read_dir(folder).expect("a folder of the repository");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the entry can be read").path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == extension));
    files.sort();
    files
}

/// The folder has the files that the examples tell their readers to create.
#[test]
fn check_accepts_each_example() {
    let folder = folder("examples");
    // A program that an example names and that is not on every machine.
    let virsh = std::env::split_paths(&std::env::var_os("PATH").expect("there is one"))
        .any(|it| it.join("virsh").is_file());
    for (first, key) in ["shared", "kamailio1", "kamailio2", "kamailio3"].into_iter().enumerate() {
        let text = format!("{first:02x}0102030405060708090a0b0c0d0e0f\n");
        fs::write(folder.join(key).with_extension("key"), text).expect("the file can be written");
    }
    for name in ["sip.example.com", "example.com", "north"] {
        for kind in ["pem", "key"] {
            let made = format!("../streams/testdata/tls/first.{kind}");
            fs::copy(made, folder.join(format!("{name}.{kind}"))).expect("the file can be copied");
        }
    }
    fs::copy("../streams/testdata/tls/authority.pem", folder.join("authority.pem"))
        .expect("the file can be copied");
    fs::copy("../../../examples/users", folder.join("users")).expect("the file can be copied");
    let all = [files("examples", "toml"), files("examples/scenarios", "toml")].concat();
    assert!(all.len() > 6, "{all:?}");
    for example in all {
        let copy = folder.join(example.file_name().expect("a file"));
        let text = fs::read_to_string(&example).expect("the file is UTF-8");
        let text = if virsh { text } else { text.replace("\"virsh\"", "\"sh\"") };
        let text = text.replace("/etc/sarabande/", &format!("{}/", folder.display()));
        fs::write(&copy, text).expect("the file can be written");
        let (code, out, errors) = outcome(&["check", copy.to_str().expect("a path in UTF-8")]);
        assert_eq!(code, Some(0), "{}: {errors}", example.display());
        assert!(out.contains(": valid: "), "{out}");
    }
}

#[test]
fn the_page_about_examples_names_each() {
    let page = include_str!("../../../../../docs/examples.md");
    for example in files("examples", "toml") {
        let name = example.file_name().expect("a file").to_str().expect("UTF-8").to_owned();
        assert!(page.contains(&format!("(../examples/{name})")), "{name}");
    }
}

/// The unit and the image run existing commands.
#[test]
fn the_unit_and_the_image_use_valid_commands() {
    let unit = include_str!("../../../../../packaging/sarabande.service");
    let image = include_str!("../../../../../packaging/Dockerfile");
    let lines = unit.lines().filter_map(|line| line.strip_prefix("Exec")?.split_once("=/usr/bin/sarabande "));
    let commands: Vec<_> = lines.map(|(_, arguments)| arguments).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    let file = folder("unit").join("sarabande.toml");
    fs::write(&file, "nonsense").expect("the file can be written");
    for command in commands {
        let (words, path) = command.rsplit_once(' ').expect("a command and a file");
        assert_eq!(path, "/etc/sarabande/sarabande.toml");
        let words: Vec<_> = words.split(' ').chain([file.to_str().expect("UTF-8")]).collect();
        let (code, _, errors) = outcome(&words);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("sarabande.toml:1:"), "{words:?} reads the file: {errors}");
    }
    assert!(image.contains("CMD [\"run\", \"/etc/sarabande/sarabande.toml\"]"));
    let copy = image
        .lines()
        .find_map(|line| line.strip_suffix(" /etc/sarabande/sarabande.toml")?.strip_prefix("COPY "));
    let source = copy.expect("the image has a configuration");
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(source).exists(), "{source}");
}

//! The Debian package and the manifests for Kubernetes, made and run from the program under test.

use super::{SOME, finish_clean, servers};
use sarabande_tests::{SippCaller, TestSite, http, path_text, program, until};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};

/// Installation, upgrade with an edited configuration, removal and purge. `fakeroot` makes this possible for every
/// user, and shows the owners of the files to the script.
#[test]
fn the_package_is_installed_upgraded_and_purged() {
    let field = TestSite::new("package");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("package.sh");
    let output = Command::new("fakeroot").arg(script).arg(program()).arg(field.folder()).output();
    let output = output.expect("the package fakeroot is installed: ./test.sh packages");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The container of the manifests: its process, ended on drop.
struct Container(Child);

impl Drop for Container {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the command of the manifests with their configuration. Addresses and folders are those of the test.
fn container(field: &TestSite, manifests: &str, admin: SocketAddr) -> Container {
    let (_, block) = manifests.split_once("sarabande.toml: |\n").expect("a configuration");
    let lines = block.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let config = lines.fold(String::new(), |all, line| all + line.trim_start() + "\n");
    let config = config
        .replace("0.0.0.0:8060", &admin.to_string())
        .replace("sip-servers.default.svc.cluster.local", &field.ip(11).to_string());
    // On every address it would disturb other tests.
    let config = config.replace("0.0.0.0:5060", &field.sip(1).to_string());
    field.write("config/sarabande.toml", config);
    let command = manifests.lines().find_map(|line| line.trim_start().strip_prefix("command: "));
    let command: Vec<String> = serde_json::from_str(command.expect("a command")).expect("an array");
    let here = path_text(field.folder());
    let script = command[2].replace("/etc/sarabande/", &format!("{here}/config/"));
    let script = script.replace("/tmp/sarabande.toml", &format!("{here}/written/sarabande.toml"));
    // The volume is mounted at the state directory.
    let (_, state) = manifests.split_once("name: STATE_DIRECTORY, value: ").expect("a state directory");
    let state = state.split(' ').next().expect("a path");
    assert!(manifests.contains(&format!("name: state, mountPath: {state} ")), "{state}");
    for folder in ["bin", "written", &state[1..]] {
        fs::create_dir_all(field.folder().join(folder)).expect("the scratch folder can be written");
    }
    symlink(program(), field.folder().join("bin/sarabande")).expect("there is no such file");
    let path = format!("{here}/bin:{}", std::env::var("PATH").unwrap_or_default());
    let mut process = Command::new(&command[0]);
    process.arg(&command[1]).arg(script).env("PATH", path).env("STATE_DIRECTORY", format!("{here}{state}"));
    process.env("SARABANDE_SERVICE_HOST", field.ip(1).to_string());
    process.stderr(
        File::create(field.folder().join("container.log")).expect("the scratch folder can be written"),
    );
    Container(process.spawn().expect("the shell can be started"))
}

/// The kubelet sends no token, and its probes succeed. Calls reach the member, and the token key is in the volume.
#[test]
fn the_manifests_for_kubernetes_run() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/kubernetes.yaml");
    let manifests = fs::read_to_string(file).expect("the manifests can be read");
    let field = TestSite::new("kubernetes");
    let members = servers(&field, "uas_call", &[11]);
    // As in a pod, other machines can reach it.
    let admin: SocketAddr = format!("0.0.0.0:{}", field.port(0)).parse().expect("an address");
    let _container = container(&field, &manifests, admin);
    let answer = |path: &str| http::request(admin, "GET", path).map_or(0, |reply| reply.status);
    for probe in ["liveness", "readiness"] {
        let (_, rest) =
            manifests.split_once(&format!("{probe}Probe: {{ httpGet: {{ path: ")).expect("a probe");
        let path = rest.split(',').next().expect("a path");
        until(probe, || (answer(path) == 200).then_some(()));
    }
    assert_eq!(answer("/api/health"), 401, "other requests need the token");
    SippCaller::start(&field, "uac_call", (field.sip(2), field.sip(1)), SOME, &[]).finish_clean();
    finish_clean(members, SOME.calls);
    assert!(field.folder().join("var/lib/sarabande/sarabande.token-key").exists());
}

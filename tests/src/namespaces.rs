//! Network namespaces of a test.

use std::path::Path;
use std::process::Command;

use crate::child::Child;
use crate::field::TestSite;

/// Network namespaces, removed on drop.
#[derive(Debug)]
pub(crate) struct Namespaces {
    prefix: String,
    names: Vec<&'static str>,
}

impl Namespaces {
    /// Creates the namespaces and runs the script, in which a variable with the name of each namespace contains its full
    /// name.
    pub(crate) fn new(site: &TestSite, names: &[&'static str], script: &str) -> Self {
        let namespaces = Self { prefix: site.ip(1).to_string(), names: names.to_vec() };
        // A killed test may have left its namespaces.
        let add = |name| {
            format!(
                "{name}={0}\nip netns del {0} 2>/dev/null || true\nip netns add {0}\n",
                namespaces.full(name)
            )
        };
        let script = names.iter().copied().map(add).collect::<String>() + script;
        let output = Command::new("sh").args(["-ec", &script]).output().expect("a shell runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        namespaces
    }

    fn full(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// Returns a command that runs a program in a namespace.
    pub(crate) fn command(&self, name: &str, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.full(name)]).arg(program);
        command
    }

    /// Starts a program with these arguments in a namespace. Its folder is `NAMESPACE-PROGRAM`.
    pub(crate) fn start(&self, site: &TestSite, name: &str, program: &Path, arguments: &[&str]) -> Child {
        let title = program.file_name().expect("a program").to_string_lossy();
        let folder = site.folder().join(format!("{name}-{title}"));
        Child::start(&title, &folder, self.command(name, program).args(arguments))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // A namespace that stays does no harm.
            let _ = Command::new("ip").args(["netns", "del", &self.full(name)]).status();
        }
    }
}

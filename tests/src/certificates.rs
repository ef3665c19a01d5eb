//! Certificates of a test, made by `openssl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::balancer::faketime;
use crate::field::TestSite;
use crate::tls_client::path_text;

/// Options for a key on a curve that all clients support.
const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate, in PEM.
    pub chain: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority of this name.
    pub fn new(site: &TestSite, name: &str) -> Self {
        let folder = site.folder().join(name);
        fs::create_dir_all(&folder).expect("the scratch folder can be written");
        let mut command = openssl(&folder);
        command.args(["req", "-x509"]).args(NEW_KEY);
        command.args(["-days", "2", "-subj", &format!("/CN={name}")]);
        command.args(["-addext", "basicConstraints=critical,CA:TRUE", "-keyout", "authority.key"]);
        run(command.args(["-out", "authority.pem"]));
        Self { folder }
    }

    /// Returns the path of its own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// Issues a certificate for names such as `IP:127.0.0.1,DNS:sip.example.com`. `file` is the prefix of its files.
    pub fn issue(&self, file: &str, names: &str) -> Certificate {
        self.issue_at(file, names, None)
    }

    /// The same, already expired.
    pub fn issue_expired(&self, file: &str, names: &str) -> Certificate {
        self.issue_at(file, names, Some("-10d"))
    }

    fn issue_at(&self, file: &str, names: &str, ahead: Option<&str>) -> Certificate {
        let end = |end: &str| self.folder.join(format!("{file}.{end}"));
        let mut request = openssl(&self.folder);
        request.arg("req").args(NEW_KEY).args(["-subj", &format!("/CN={file}")]);
        run(request.arg("-keyout").arg(end("key")).arg("-out").arg(end("csr")));
        let extensions = format!(
            "subjectAltName={names}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n"
        );
        fs::write(end("ext"), extensions).expect("the scratch folder can be written");
        let mut sign = openssl(&self.folder);
        if let Some(ahead) = ahead {
            sign.env("LD_PRELOAD", faketime()).env("FAKETIME", ahead);
        }
        sign.args(["x509", "-req", "-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial"]);
        sign.args(["-days", "2", "-in"]).arg(end("csr")).arg("-extfile").arg(end("ext"));
        run(sign.arg("-out").arg(end("pem")));
        Certificate { chain: end("pem"), key: end("key") }
    }
}

impl Certificate {
    /// Returns its entry in `[tls] certificates`.
    pub fn toml(&self) -> String {
        format!("{{ chain = {:?}, key = {:?} }}", path_text(&self.chain), path_text(&self.key))
    }

    /// Returns the SHA-256 of its public key in Base64, as browsers name it.
    pub fn public_key_hash(&self) -> String {
        let script = "openssl x509 -in \"$0\" -noout -pubkey | openssl pkey -pubin -outform der | \
                      openssl dgst -sha256 -binary | openssl base64 -A";
        let output = Command::new("sh").args(["-c", script]).arg(&self.chain).output();
        let output = output.expect("a shell can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("Base64 is text")
    }
}

fn openssl(folder: &Path) -> Command {
    let mut command = Command::new("openssl");
    command.current_dir(folder);
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("openssl is installed: ./test.sh packages");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

//! Servers of a pool that are started and stopped.

use elastic::scale::ScaleSettings;
use std::path::PathBuf;
use std::time::Duration;

/// `[pool.<name>.scale]`
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleConfig {
    /// The members as written in the file, in its order, as programs get them.
    pub texts: Vec<String>,
    /// Rules by which servers are started and stopped.
    pub settings: ScaleSettings,
    /// The driver that starts and stops them.
    pub driver: DriverConfig,
}

impl ScaleConfig {
    /// Returns the interval between two decisions.
    pub fn step(&self) -> Duration {
        (self.settings.calm / 150).clamp(Duration::from_millis(200), Duration::from_secs(2))
    }

    /// Longest time of a program, which may wait until the server is up, or of a request to an API server.
    pub fn timeout(&self) -> Duration {
        let minute = Duration::from_mins(1);
        match self.driver {
            DriverConfig::Command { .. } => self.settings.start.time.max(minute),
            DriverConfig::Kubernetes(_) | DriverConfig::None => minute,
        }
    }
}

/// A driver, as it is named in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverName {
    /// None: only the wanted number is reported.
    None,
    /// Programs.
    Command,
    /// The API server of Kubernetes.
    Kubernetes,
}

/// A driver with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverConfig {
    /// None: only the wanted number is reported.
    None,
    /// Programs.
    Command {
        /// Starts a server.
        start: CommandLine,
        /// Stops a server.
        stop: CommandLine,
        /// Prints the running servers.
        list: Option<CommandLine>,
    },
    /// Replicas of a workload.
    Kubernetes(KubernetesConfig),
}

impl DriverConfig {
    /// Returns the name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Command { .. } => "command",
            Self::Kubernetes(_) => "kubernetes",
        }
    }
}

/// A program and its arguments, run without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The program. Placeholders are not replaced here.
    pub program: String,
    /// Its arguments. [`PLACEHOLDERS`] in them are replaced by properties of a server; for `list`, which concerns no
    /// single server, only `{pool}` is replaced.
    pub arguments: Vec<String>,
}

/// Placeholders for properties of a server.
pub const PLACEHOLDERS: [&str; 6] = ["{server}", "{host}", "{port}", "{name}", "{pool}", "{index}"];

/// Address and workload of a Kubernetes API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesConfig {
    /// Workload whose replicas are the servers.
    pub workload: Workload,
    /// Namespace of the workload; `None`: the namespace of the pod of this process.
    pub namespace: Option<String>,
    /// Address of the API server.
    pub api_server: ApiServer,
    /// File with the token, if one is sent.
    pub token_file: Option<PathBuf>,
}

/// Address of an API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiServer {
    /// Over TLS.
    Tls {
        /// HOST:PORT; `None`: as in the environment of a pod.
        authority: Option<String>,
        /// Certificates of trusted authorities.
        ca_file: PathBuf,
    },
    /// Unencrypted.
    Plain {
        /// HOST:PORT.
        authority: String,
    },
}

/// Workload whose replicas are the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// Any pod may be stopped; the name of a headless service resolves to all pods.
    Deployment(String),
    /// The pod with the highest ordinal is stopped first; each pod has a name.
    StatefulSet(String),
}

/// File in a pod with the name of its namespace.
pub const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// File in a pod with the token of its service account.
pub const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// File in a pod with the authority that signed the certificate of the API server.
pub const CA_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

//! Servers of a pool that are started and stopped.

use elastic::scale::ScaleSettings;
use std::path::PathBuf;
use std::time::Duration;

/// `[pool.<name>.scale]`
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleConfig {
    /// The members as the file has them, in its order: what programs are told.
    pub texts: Vec<String>,
    /// When servers are started and stopped.
    pub settings: ScaleSettings,
    /// Who starts and stops them.
    pub driver: DriverConfig,
}

impl ScaleConfig {
    /// How often arrivals and calls are looked at.
    pub fn step(&self) -> Duration {
        (self.settings.calm / 150).clamp(Duration::from_millis(200), Duration::from_secs(2))
    }

    /// Longest time for a program, which may wait until the server is up, or for a request to an API server.
    pub fn timeout(&self) -> Duration {
        let minute = Duration::from_mins(1);
        match self.driver {
            DriverConfig::Command { .. } => self.settings.start.time.max(minute),
            DriverConfig::Kubernetes(_) | DriverConfig::None => minute,
        }
    }
}

/// Who starts and stops servers, as the file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverName {
    /// Nobody.
    None,
    /// Programs.
    Command,
    /// The API server of Kubernetes.
    Kubernetes,
}

/// Who starts and stops servers, with what that takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverConfig {
    /// Nobody: it is only said how many there should be.
    None,
    /// Programs.
    Command {
        /// Starts a server.
        start: CommandLine,
        /// Stops a server.
        stop: CommandLine,
        /// Prints those that run.
        list: Option<CommandLine>,
    },
    /// Replicas of a workload.
    Kubernetes(KubernetesConfig),
}

impl DriverConfig {
    /// As the file names it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Command { .. } => "command",
            Self::Kubernetes(_) => "kubernetes",
        }
    }
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The program.
    pub program: String,
    /// Its arguments, in which words in braces stand for what is known of a server: [`PLACEHOLDERS`].
    pub arguments: Vec<String>,
}

/// The words that stand for what is known of a server.
pub const PLACEHOLDERS: [&str; 6] = ["{server}", "{host}", "{port}", "{name}", "{pool}", "{index}"];

/// Where an API server of Kubernetes is, and what it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesConfig {
    /// Whose replicas the servers are.
    pub workload: Workload,
    /// Where that is; `None`: where the pod of this process is.
    pub namespace: Option<String>,
    /// Where its API is answered.
    pub api_server: ApiServer,
    /// File with the token, if one is shown.
    pub token_file: Option<PathBuf>,
}

/// Where the API of Kubernetes is answered, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiServer {
    /// Over TLS.
    Tls {
        /// HOST:PORT; `None`: what the environment of a pod says.
        authority: Option<String>,
        /// Certificates, one of which has to have signed that of the server.
        ca_file: PathBuf,
    },
    /// Nothing is encrypted.
    Plain {
        /// HOST:PORT.
        authority: String,
    },
}

/// Whose replicas the servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// Any pod may go; the name of a headless service stands for all.
    Deployment(String),
    /// The pod with the highest ordinal goes; each has a name.
    StatefulSet(String),
}

/// Where a pod finds the name of its namespace.
pub const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Where it finds the token of its service account.
pub const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Where it finds who has signed the certificate of the API server.
pub const CA_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

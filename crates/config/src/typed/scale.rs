//! Servers of a pool that are started and stopped.

use elastic::scale::ScaleSettings;
use std::path::PathBuf;
use std::time::Duration;

/// `[pool.<name>.scale]`
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleConfig {
    /// When servers are started and stopped.
    pub settings: ScaleSettings,
    /// How often arrivals and calls are looked at.
    pub step: Duration,
    /// Longest time for a program, or a request to an API server.
    pub timeout: Duration,
    /// Who starts and stops them.
    pub driver: DriverConfig,
}

/// Who starts and stops servers, as the file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverName {
    /// Nobody.
    None,
    /// Programs.
    Command,
    /// This process.
    Local,
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
    /// This process, whose children the servers are.
    Local {
        /// A server.
        start: CommandLine,
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
            Self::Local { .. } => "local",
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
    /// HOST:PORT where its API is answered.
    pub api_server: String,
    /// File with the token, if one is shown.
    pub token_file: Option<PathBuf>,
}

/// Whose replicas the servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// Any pod may go; the name of a headless service stands for all.
    Deployment(String),
    /// The pod with the highest ordinal goes; each has a name.
    StatefulSet(String),
}

/// What `kubectl proxy` listens at unless told otherwise: it encrypts and proves who asks.
pub const API_SERVER: &str = "http://127.0.0.1:8001";

/// Where a pod finds the name of its namespace.
pub const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

//! Servers as pods. The number of servers is the number of replicas of a `StatefulSet` or a Deployment, changed through
//! its scale subresource. The pods are watched.
//!
//! - A `StatefulSet` deletes the pod with the highest ordinal first. A server is therefore identified by its ordinal,
//!   and the last server stops first.
//! - A Deployment deletes the ready pod with the lowest deletion cost first. The drained pod gets the lowest cost
//!   (`controller.kubernetes.io/pod-deletion-cost`). Nothing is done while other pods are not ready or are being
//!   deleted. If the stop fails, or another pod was deleted, the cost is reset.

mod api;
mod pods;
#[cfg(test)]
mod tests;
mod tls;
mod watch;

use super::{Answer, Driver};
use api::{Api, Refusal};
use config::{KubernetesConfig, NAMESPACE_FILE, Workload};
use control::scale::{DriverServer, Listing, ServerSet};
use pods::{DELETION_COST, Pod, Pods};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;

/// Attempts to change the number of replicas while other clients change the same object.
const ATTEMPTS: usize = 5;
/// Lower than the cost of any pod without the annotation, which is 0.
const LEAST_COST: &str = "-2147483647";

/// A driver that changes the number of replicas.
pub(super) struct KubernetesDriver {
    target: Arc<Target>,
    /// The pods, or why they are unknown; `None` before the first answer.
    pods: Receiver<Option<Result<Pods, String>>>,
    watching: JoinHandle<()>,
}

impl Drop for KubernetesDriver {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

struct Target {
    api: Api,
    workload: Workload,
    /// Namespace of the configuration.
    namespace: Option<String>,
}

/// The wanted number of replicas of a workload.
struct Replicas {
    count: u32,
    version: String,
    /// Label selector of its pods.
    selector: String,
}

impl Target {
    fn namespace(&self) -> Result<String, Refusal> {
        if let Some(namespace) = &self.namespace {
            return Ok(namespace.clone());
        }
        let read = std::fs::read_to_string(NAMESPACE_FILE).map(|text| text.trim().to_owned());
        let absent = |error| format!("{NAMESPACE_FILE}: {error}; outside of a pod, set `namespace`");
        read.map_err(|error| Refusal::Other(absent(error)))
    }

    fn scale_path(&self) -> Result<String, Refusal> {
        let (kind, name) = match &self.workload {
            Workload::StatefulSet(name) => ("statefulsets", name),
            Workload::Deployment(name) => ("deployments", name),
        };
        Ok(format!("/apis/apps/v1/namespaces/{}/{kind}/{name}/scale", self.namespace()?))
    }

    fn pods_path(&self) -> Result<String, Refusal> {
        Ok(format!("/api/v1/namespaces/{}/pods", self.namespace()?))
    }

    async fn replicas(&self) -> Result<Replicas, Refusal> {
        let scale = self.api.get(&self.scale_path()?).await?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        // The answer about a workload that is scaled to 0 has no number.
        let count = match &scale["spec"]["replicas"] {
            Value::Null if scale["spec"].is_object() => Some(0),
            number => number.as_u64().and_then(|count| u32::try_from(count).ok()),
        };
        let replicas = count.zip(text(&scale["metadata"]["resourceVersion"]));
        let (count, version) =
            replicas.ok_or_else(|| Refusal::Other("the API server: no scale in its answer".to_owned()))?;
        Ok(Replicas { count, version, selector: text(&scale["status"]["selector"]).unwrap_or_default() })
    }

    /// Changes the number of replicas. `change` gets the present number and returns the new one, or `None` to leave it.
    async fn scale(&self, change: impl Fn(u32) -> Result<Option<u32>, String>) -> Result<(), String> {
        for _ in 0..ATTEMPTS {
            let replicas = self.replicas().await?;
            let Some(count) = change(replicas.count)? else { return Ok(()) };
            // With `resourceVersion` the API server rejects the update if another client has changed the object.
            let patch = json!({
                "metadata": { "resourceVersion": replicas.version },
                "spec": { "replicas": count },
            });
            match self.api.patch(&self.scale_path()?, &patch).await {
                Err(Refusal::Conflict) => {}
                done => return Ok(done.map(drop)?),
            }
        }
        Err(Refusal::Conflict.into())
    }
}

impl KubernetesDriver {
    /// Starts to watch. Must be called on a Tokio runtime.
    pub(super) fn new(config: &KubernetesConfig, timeout: Duration) -> Self {
        let api = Api::new(config, timeout);
        let target = Target { api, workload: config.workload.clone(), namespace: config.namespace.clone() };
        let target = Arc::new(target);
        let (sender, pods) = tokio::sync::watch::channel(None);
        let watching = tokio::spawn(watch::run(Arc::clone(&target), sender));
        Self { target, pods, watching }
    }

    async fn started(&self, server: &DriverServer) -> Result<(), String> {
        let least = match self.target.workload {
            Workload::StatefulSet(_) => server.index + 1,
            // A repeated request has the same number.
            Workload::Deployment(_) => u32::try_from(server.count).unwrap_or(u32::MAX),
        };
        let tidied = match self.target.workload {
            Workload::StatefulSet(_) => Ok(()),
            Workload::Deployment(_) => self.take_back_old_costs().await,
        };
        // A start does not depend on the reset costs. A remaining lowest cost is reported by the next stop.
        self.target.scale(|count| Ok((count < least).then_some(least))).await?;
        if let Err(error) = tidied {
            tracing::warn!("scale: the deletion cost of a pod could not be reset: {error}");
        }
        Ok(())
    }

    async fn stopped(&self, server: &DriverServer) -> Result<(), String> {
        match &self.target.workload {
            Workload::StatefulSet(_) => {
                let change = |count: u32| match count.checked_sub(1) {
                    Some(last) if last == server.index => Ok(Some(last)),
                    Some(last) if last > server.index => Err(format!(
                        "the pod with ordinal {last} has to stop before the pod with {}",
                        server.index
                    )),
                    _ => Ok(None),
                };
                self.target.scale(change).await
            }
            Workload::Deployment(_) => self.stop_any(server).await,
        }
    }

    /// Has this pod of a Deployment deleted, and no other pod.
    async fn stop_any(&self, server: &DriverServer) -> Result<(), String> {
        let pods = self.pods().await?;
        let there = pods.alive().count();
        let Some((name, _)) = pods.alive().find(|(_, pod)| is_of(pod, server)) else {
            // A server without an address was requested and has not come up.
            let is_awaited = server.address.is_none() && self.target.replicas().await?.count as usize > there;
            return if is_awaited { self.scale_down(there + 1).await } else { Ok(()) };
        };
        let goes_first = |(other, pod): &(&String, &Pod)| {
            *other != name && !pod.is_ready && (server.address.is_some() || is_anothers(pod, server))
        };
        if let Some((other, _)) = pods.alive().find(goes_first) {
            return Err(format!("pod {other} is not ready, and would be deleted instead of {name}"));
        }
        under_way(self.target.replicas().await?.count, there)?;
        // Resets the cost of a pod that an earlier stop failed to delete.
        self.take_back_costs(&pods, Some(name)).await?;
        self.set_cost(name, Some(LEAST_COST)).await?;
        let done = self.scale_down(there).await;
        if done.is_err() {
            // The next decrease, by another client or by a stop of another server, must not delete this pod. A later
            // stop reports a failure of this reset.
            let _ = self.set_cost(name, None).await;
        }
        done
    }

    /// Removes one replica if the wanted number equals the number of pods.
    async fn scale_down(&self, there: usize) -> Result<(), String> {
        self.target.scale(|count| under_way(count, there).map(|()| Some(count.saturating_sub(1)))).await
    }

    /// Resets lowest costs once there are as many pods as wanted: another pod has then been deleted instead.
    async fn take_back_old_costs(&self) -> Result<(), String> {
        let pods = self.pods().await?;
        let costs = |(_, pod): (&String, &Pod)| pod.deletion_cost.as_deref() == Some(LEAST_COST);
        if !pods.alive().any(costs) || self.target.replicas().await?.count as usize != pods.alive().count() {
            return Ok(());
        }
        self.take_back_costs(&pods, None).await
    }

    /// Resets the lowest cost of all pods except `but`.
    async fn take_back_costs(&self, pods: &Pods, but: Option<&str>) -> Result<(), String> {
        for (name, pod) in pods.alive() {
            if but != Some(name) && pod.deletion_cost.as_deref() == Some(LEAST_COST) {
                self.set_cost(name, None).await?;
            }
        }
        Ok(())
    }

    async fn set_cost(&self, pod: &str, cost: Option<&str>) -> Result<(), String> {
        let change = json!({ "metadata": { "annotations": { DELETION_COST: cost } } });
        let path = format!("{}/{pod}", self.target.pods_path()?);
        self.target.api.patch(&path, &change).await?;
        Ok(())
    }

    /// Returns the last known pods.
    async fn pods(&self) -> Result<Pods, String> {
        let mut pods = self.pods.clone();
        let seen =
            pods.wait_for(Option::is_some).await.map_err(|_| "the watch of the pods has ended".to_owned())?;
        seen.clone().unwrap_or_else(|| Err("no answer".to_owned()))
    }

    async fn listing(&self) -> Result<Listing, String> {
        let pods = self.pods().await?;
        let of = |is_alive: bool| {
            let those = pods.pods.iter().filter(move |(_, pod)| pod.is_alive == is_alive);
            match &self.target.workload {
                Workload::StatefulSet(set) => {
                    ServerSet::Numbered(those.filter_map(|(name, _)| pods::ordinal(set, name)).collect())
                }
                Workload::Deployment(_) => {
                    ServerSet::At(those.flat_map(|(_, pod)| pod.ips.clone()).collect())
                }
            }
        };
        Ok(Listing { running: of(true), ending: of(false) })
    }
}

/// Returns whether a pod is this server. A server without an address was given up; its pod is one that is not ready and
/// belongs to no other server.
fn is_of(pod: &Pod, server: &DriverServer) -> bool {
    match server.address {
        Some(address) => pod.ips.contains(&address.ip()),
        None => !pod.is_ready && !is_anothers(pod, server),
    }
}

fn is_anothers(pod: &Pod, server: &DriverServer) -> bool {
    server.others.iter().any(|other| pod.ips.contains(&other.ip()))
}

/// Returns an error while a change by us or another client is in progress. One more removal could then delete a pod
/// with calls.
fn under_way(count: u32, there: usize) -> Result<(), String> {
    if count as usize == there {
        return Ok(());
    }
    Err(format!("there are {there} pods, and {count} are requested: a change is in progress"))
}

impl Driver for KubernetesDriver {
    fn start<'a>(&'a self, server: &'a DriverServer) -> Answer<'a, ()> {
        Box::pin(self.started(server))
    }

    fn stop<'a>(&'a self, server: &'a DriverServer) -> Answer<'a, ()> {
        Box::pin(self.stopped(server))
    }

    fn list(&self) -> Answer<'_, Listing> {
        Box::pin(self.listing())
    }
}

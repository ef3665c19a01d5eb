//! The pods of a workload, from a list and from later events. Pure.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Annotation of pods. When a Deployment shrinks, the pod with the lowest cost is deleted first.
pub(super) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) ips: Vec<IpAddr>,
    pub(super) is_ready: bool,
    /// Value of the annotation [`DELETION_COST`].
    pub(super) deletion_cost: Option<String>,
    /// Whether the pod exists and will stay, that is, is neither being deleted nor finished.
    pub(super) is_alive: bool,
}

/// The pods of a workload by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pods {
    pub(super) pods: BTreeMap<String, Pod>,
    /// Resource version up to which changes are known.
    pub(super) version: String,
}

/// Meaning of a watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The event was applied.
    Known,
    /// The events are no longer available (410), so all pods have to be listed again.
    Gone,
    /// The watch cannot continue, with the cause.
    Failed(String),
}

impl Pods {
    pub(super) fn listed(list: &Value) -> Self {
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let pods = items.iter().filter_map(named).collect();
        Self { pods, version: version(list) }
    }

    /// Applies a watch event.
    pub(super) fn take(&mut self, event: &Value) -> Event {
        let object = &event["object"];
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => self.pods.extend(named(object)),
            Some("DELETED") => {
                if let Some((name, _)) = named(object) {
                    self.pods.remove(&name);
                }
            }
            Some("BOOKMARK") => {}
            Some("ERROR") if object["code"] == 410 => return Event::Gone,
            _ => {
                let why = object["message"].as_str().unwrap_or("an unknown event");
                return Event::Failed(format!("the API server: {why}"));
            }
        }
        self.version = version(object);
        Event::Known
    }

    /// Returns the pods that exist and will stay.
    pub(super) fn alive(&self) -> impl Iterator<Item = (&String, &Pod)> {
        self.pods.iter().filter(|(_, pod)| pod.is_alive)
    }
}

/// Returns the ordinal of the pod with this name; `None` if it is no pod of this `StatefulSet`.
pub(super) fn ordinal(set: &str, name: &str) -> Option<u32> {
    name.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

fn named(pod: &Value) -> Option<(String, Pod)> {
    let name = pod["metadata"]["name"].as_str()?.to_owned();
    let status = &pod["status"];
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ready =
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let is_over = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
    let is_alive = pod["metadata"]["deletionTimestamp"].is_null() && !is_over;
    // `podIPs` has an address of each family; the first one equals `podIP`.
    let all = status["podIPs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all = all.iter().map(|of_family| &of_family["ip"]).chain([&status["podIP"]]);
    let ips: BTreeSet<IpAddr> = all.filter_map(|ip| ip.as_str()?.parse().ok()).collect();
    let deletion_cost = pod["metadata"]["annotations"][DELETION_COST].as_str().map(str::to_owned);
    Some((name, Pod { ips: ips.into_iter().collect(), is_ready, deletion_cost, is_alive }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    pub(in super::super) fn pod(name: &str, version: &str, status: &Value) -> Value {
        json!({ "metadata": { "name": name, "resourceVersion": version }, "status": status })
    }

    #[test]
    fn pods_are_added_changed_and_removed() {
        let ready = json!({ "podIP": "10.1.0.5", "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        let list = json!({
            "metadata": { "resourceVersion": "100" },
            "items": [pod("pbx-0", "90", &ready), pod("pbx-1", "95", &json!({ "phase": "Pending" })), pod("pbx-x", "1", &ready)],
        });
        let mut pods = Pods::listed(&list);
        let ordinals =
            |pods: &Pods| -> Vec<_> { pods.alive().filter_map(|(name, _)| ordinal("pbx", name)).collect() };
        assert_eq!((pods.version.as_str(), ordinals(&pods)), ("100", vec![0, 1]));
        assert_eq!(pods.pods["pbx-0"].ips, ["10.1.0.5".parse::<IpAddr>().expect("an address")]);
        assert!(pods.pods["pbx-0"].is_ready && !pods.pods["pbx-1"].is_ready);
        let mut ending = pod("pbx-0", "101", &ready);
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let event = |kind: &str, object: Value| json!({ "type": kind, "object": object });
        assert_eq!(pods.take(&event("MODIFIED", ending.clone())), Event::Known);
        assert_eq!(
            pods.take(&event("ADDED", pod("pbx-2", "102", &json!({ "phase": "Failed" })))),
            Event::Known
        );
        assert_eq!((pods.version.as_str(), ordinals(&pods)), ("102", vec![1]));
        assert_eq!(pods.take(&event("DELETED", ending)), Event::Known);
        assert!(!pods.pods.contains_key("pbx-0"));
        let bookmark = json!({ "metadata": { "resourceVersion": "200" } });
        assert_eq!((pods.take(&event("BOOKMARK", bookmark)), pods.version.as_str()), (Event::Known, "200"));
        let gone = json!({ "kind": "Status", "code": 410, "message": "too old resource version" });
        assert_eq!(pods.take(&event("ERROR", gone)), Event::Gone);
        let failed = event("ERROR", json!({ "kind": "Status", "code": 500, "message": "etcd is away" }));
        assert_eq!(pods.take(&failed), Event::Failed("the API server: etcd is away".to_owned()));
    }
}

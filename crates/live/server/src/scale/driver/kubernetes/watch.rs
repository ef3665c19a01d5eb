//! Watches the pods of a workload: first a list, then the events from its version on.

use super::Target;
use super::api::Refusal;
use super::pods::{Event, Pods};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch::Sender;

/// Duration of a watch, after which the API server ends it and the next one continues.
const LENGTH: Duration = Duration::from_mins(1);
/// Wait before the next attempt after a failure. It doubles with each further failure up to the maximum.
const BACK_OFF: Duration = Duration::from_millis(500);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Watches until it is aborted. While the pods are unknown, it reports an error.
pub(super) async fn run(target: Arc<Target>, sender: Sender<Option<Result<Pods, String>>>) {
    let mut failures = 0_u32;
    loop {
        let error = match all(&target).await {
            Ok((pods, selector)) => {
                failures = 0;
                sender.send_replace(Some(Ok(pods.clone())));
                match follow(&target, &selector, pods, &sender).await {
                    // All pods are listed again; this is no fault.
                    Refusal::Gone => None,
                    other => Some(other.into()),
                }
            }
            Err(refusal) => Some(String::from(refusal)),
        };
        // A connection that is cut off is reported only if the next one fails too.
        let is_first = sender.borrow().is_none();
        if let Some(error) = error.filter(|_| failures > 0 || is_first) {
            sender.send_replace(Some(Err(error)));
        }
        tokio::time::sleep(BACK_OFF.saturating_mul(1 << failures.min(10)).min(BACK_OFF_MAX)).await;
        failures += 1;
    }
}

/// Returns all pods and the label selector.
async fn all(target: &Target) -> Result<(Pods, String), Refusal> {
    let selector = encoded(&target.replicas().await?.selector);
    let path = format!("{}?labelSelector={selector}", target.pods_path()?);
    Ok((Pods::listed(&target.api.get(&path).await?), selector))
}

/// Follows events, one watch after the other, until a watch fails.
async fn follow(
    target: &Target,
    selector: &str,
    mut pods: Pods,
    sender: &Sender<Option<Result<Pods, String>>>,
) -> Refusal {
    loop {
        let path = match target.pods_path() {
            Ok(path) => path,
            Err(refusal) => return refusal,
        };
        let path = format!(
            "{path}?labelSelector={selector}&watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
            LENGTH.as_secs(),
            encoded(&pods.version),
        );
        let mut lines = match target.api.lines(&path, LENGTH + target.api.timeout).await {
            Ok(lines) => lines,
            Err(refusal) => return refusal,
        };
        let mut is_sent = false;
        loop {
            match lines.next().await {
                Ok(Some(event)) => match pods.take(&event) {
                    Event::Known => {
                        is_sent = true;
                        sender.send_replace(Some(Ok(pods.clone())));
                    }
                    Event::Gone => return Refusal::Gone,
                    Event::Failed(why) => return Refusal::Other(why),
                },
                Ok(None) if is_sent => break,
                // A watch that ends at once is not repeated at once.
                Ok(None) => break tokio::time::sleep(BACK_OFF).await,
                Err(refusal) => return refusal,
            }
        }
    }
}

/// Percent-encodes a text for a query (RFC 3986 §2.1).
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

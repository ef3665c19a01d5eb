//! Writes decisions about servers to the log.

use control::scale::{News, PoolView};
use elastic::scale::ScalingDecision;

pub(super) fn tell(pool: &str, news: &News, view: &PoolView) {
    let members = view.members.len();
    match news {
        News::Decided(Some(server), decision) => {
            let what = match decision {
                ScalingDecision::Start(_) => "a server is being started",
                ScalingDecision::Drain(_) => "a server gets no new calls any more",
                ScalingDecision::Resume(_) => "a server gets calls again",
                ScalingDecision::Stop(_) => "a server is being stopped",
                ScalingDecision::GiveUp(_) => "a server did not come up and is given up",
                ScalingDecision::ClusterLatency(_) | ScalingDecision::Limit(_) => return,
            };
            tracing::info!(pool, server, "scale: {what}");
        }
        News::Decided(None, ScalingDecision::ClusterLatency(true)) => tracing::warn!(
            pool,
            members,
            "scale: most servers carry much less than they use to: a cause that they share, which more servers do not cure"
        ),
        News::Decided(None, ScalingDecision::ClusterLatency(false)) => {
            tracing::info!(pool, "scale: most servers carry again what they use to");
        }
        News::Decided(None, ScalingDecision::Limit(Some(needed))) => {
            tracing::warn!(pool, needed, "scale: more servers are needed than there may be");
        }
        News::Decided(None, ScalingDecision::Limit(None)) => {
            tracing::info!(pool, "scale: there may be as many servers as are needed again");
        }
        News::Decided(None, ScalingDecision::Start(_) | ScalingDecision::Resume(_)) => {
            tracing::info!(pool, "scale: there should be another server");
        }
        News::Decided(None, ScalingDecision::Drain(_)) => {
            tracing::info!(pool, "scale: there should be a server less");
        }
        // Advice starts and stops no server.
        News::Decided(None, ScalingDecision::Stop(_) | ScalingDecision::GiveUp(_)) => {}
        News::Found(server) => tracing::info!(pool, server, "scale: a server was found running"),
        News::Ready(server) => tracing::info!(pool, server, "scale: a server runs and takes calls"),
        News::Lost(server) => tracing::warn!(pool, server, "scale: a server does not run any more"),
        News::Unlisted(server) => {
            tracing::warn!(
                pool,
                server,
                "scale: the driver lists no server of this name, which answers: it stays"
            );
        }
        News::Busy(server, work) => {
            tracing::warn!(
                pool,
                server,
                work,
                "scale: a server is not stopped: it has calls, or may get some"
            );
        }
    }
}

//! Writes decisions about servers to the log.

use control::scale::{News, PoolView};
use elastic::scale::ScalingDecision;

pub(super) fn tell(pool: &str, news: &News, view: &PoolView) {
    let members = view.members.len();
    match news {
        News::Decided(Some(server), decision) => {
            let action = match decision {
                ScalingDecision::Start(_) => "a server is being started",
                ScalingDecision::Drain(_) => "a server gets no more new calls",
                ScalingDecision::Resume(_) => "a server gets calls again",
                ScalingDecision::Stop(_) => "a server is being stopped",
                ScalingDecision::GiveUp(_) => "a server did not come up and is given up",
                ScalingDecision::ClusterLatency(_) | ScalingDecision::Limit(_) => return,
            };
            tracing::info!(pool, server, "scale: {action}");
        }
        News::Decided(None, ScalingDecision::ClusterLatency(true)) => tracing::warn!(
            pool,
            members,
            "scale: most servers announce much less capacity than usual, for a common cause: more servers would not \
             help"
        ),
        News::Decided(None, ScalingDecision::ClusterLatency(false)) => {
            tracing::info!(pool, "scale: most servers announce their usual capacity again");
        }
        News::Decided(None, ScalingDecision::Limit(Some(needed))) => {
            tracing::warn!(pool, needed, "scale: more servers are needed than the largest number allows");
        }
        News::Decided(None, ScalingDecision::Limit(None)) => {
            tracing::info!(pool, "scale: the largest number of servers is enough again");
        }
        News::Decided(None, ScalingDecision::Start(_) | ScalingDecision::Resume(_)) => {
            tracing::info!(pool, "scale: one more server should run");
        }
        News::Decided(None, ScalingDecision::Drain(_)) => {
            tracing::info!(pool, "scale: one server less should run");
        }
        // Advice starts and stops no server.
        News::Decided(None, ScalingDecision::Stop(_) | ScalingDecision::GiveUp(_)) => {}
        News::Found(server) => tracing::info!(pool, server, "scale: a server was found running"),
        News::Ready(server) => tracing::info!(pool, server, "scale: a server runs and takes calls"),
        News::Lost(server) => tracing::warn!(pool, server, "scale: a server no longer runs"),
        News::Unlisted(server) => {
            tracing::warn!(
                pool,
                server,
                "scale: a server answers but the driver does not list it: it is kept"
            );
        }
        News::Busy(server, work) => {
            tracing::warn!(
                pool,
                server,
                work,
                "scale: a server is not stopped: it has calls or may get calls"
            );
        }
    }
}

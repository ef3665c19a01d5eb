//! The session table: its totals, and one session.

use super::metric::figures;
use super::peer::PeerText;
use balance::{SessionState, SessionView};
use base::Instant;
use shards::ShardCounts;

figures! {
    /// `GET /api/sessions`
    Sessions as "Sessions" {
        /// Sessions in progress, over all shards.
        active: usize => [gauge "sarabande_sessions" (state = "active") "Sessions in the table, by state."],
        /// Ended sessions that are kept for late messages.
        expired: usize => [gauge "sarabande_sessions" (state = "expired")],
        /// Transactions without a final response.
        transactions: usize
            => [gauge "sarabande_transactions_open" "Transactions without a final response."],
        /// The same counts for each thread.
        shards: Vec<ShardView>,
    }
}

figures! {
    /// Counts of one thread.
    #[derive(Copy)]
    ShardView as "Shard" from (counts: &ShardCounts) {
        /// Sessions in progress.
        active: usize = counts.table.active,
        /// Ended sessions that are kept for late messages.
        expired: usize = counts.table.expired,
        /// Transactions without a final response.
        transactions: usize = counts.transactions,
    }
}

impl Sessions {
    pub(super) fn new(shards: &[ShardCounts]) -> Self {
        let shards: Vec<_> = shards.iter().map(ShardView::new).collect();
        Self {
            active: shards.iter().map(|shard| shard.active).sum(),
            expired: shards.iter().map(|shard| shard.expired).sum(),
            transactions: shards.iter().map(|shard| shard.transactions).sum(),
            shards,
        }
    }
}

figures! {
    /// `GET /api/sessions?call_id=X`
    Session as "Session" from (asked: String, at: PeerText, session: &SessionView, now: Instant) {
        /// Call-ID of the query.
        call_id: String = asked,
        /// Address of the session's member.
        member: PeerText = at,
        /// `plain`, `invited`, `answered`, `confirmed`, `closing` or `expired`.
        state: String = match session.state {
            SessionState::Plain => "plain",
            SessionState::Invited => "invited",
            SessionState::Answered => "answered",
            SessionState::Confirmed => "confirmed",
            SessionState::Closing => "closing",
            SessionState::Expired => "expired",
        }.to_owned(),
        /// Time since the first message.
        age_seconds: f64 = now.saturating_since(session.created).as_secs_f64(),
        /// Whether the session is a call, that is, started with an INVITE.
        is_call: bool = session.is_call,
    }
}

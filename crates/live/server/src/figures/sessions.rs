//! The session table, as a whole and one session of it.

use super::metric::figures;
use super::peer::PeerText;
use balance::{SessionState, SessionView};
use base::Instant;
use shards::ShardCounts;

figures! {
    /// `GET /api/sessions`
    Sessions as "Sessions" {
        /// In progress, all shards.
        active: usize => [gauge "sarabande_sessions" (state = "active") "Sessions in the table by state."],
        /// Ended, kept for late messages.
        expired: usize => [gauge "sarabande_sessions" (state = "expired")],
        /// Transactions without a final response.
        transactions: usize
            => [gauge "sarabande_transactions_open" "Transactions without a final response."],
        /// The same for each thread.
        shards: Vec<ShardView>,
    }
}

figures! {
    /// One thread's part.
    #[derive(Copy)]
    ShardView as "Shard" from (counts: &ShardCounts) {
        /// In progress.
        active: usize = counts.table.active,
        /// Ended, kept for late messages.
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
        /// The Call-ID asked for.
        call_id: String = asked,
        /// Address of its member.
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
        /// Since its first message.
        age_seconds: f64 = now.saturating_since(session.created).as_secs_f64(),
        /// Whether it counts as a call: it began with an INVITE.
        is_call: bool = session.is_call,
    }
}

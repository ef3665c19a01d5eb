//! Queries and commands to a running server.

use crate::ask::{Ask, ScaleWish};
use crate::figures::history::{self, Sample};
use crate::figures::{
    ConnectionsView, EndedCallsView, ExplanationView, FailureView, FailuresView, Figures, MembersView,
    OpenCallView, OpenCallsView, Session, Standing, View, WallClock,
};
use crate::registrations::{ContactsError, GONE, Home, UserContacts};
use crate::scale::view::pool_view;
use balance::MemberRoom;
use base::{Instant, Peer, UnixTime};
use config::{ChangeError, MemberChange};
use control::scale::PoolView;
use location::Aor;
use node::{FailedRequest, KeptFailure};
use shards::{AllShards, CallFilter, Command, Explained, WorkerHandle};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, oneshot};

/// Queries and commands a running server. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    asks: mpsc::UnboundedSender<Ask>,
    workers: Vec<WorkerHandle>,
    /// Channel to the part of the program that starts a successor, if there is one.
    starter: Arc<OnceLock<mpsc::UnboundedSender<RestartReply>>>,
}

/// Conditions on failed requests, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct FailureFilter {
    /// Call-ID.
    pub call_id: Option<String>,
    /// Part of the URI of From.
    pub from: Option<String>,
    /// Part of the URI of To, or of the Request-URI.
    pub to: Option<String>,
    /// Longest time since the last failure.
    pub last: Option<Duration>,
    /// Maximum number of failures: the last ones are shown.
    pub limit: Option<usize>,
}

impl FailureFilter {
    fn has(&self, now: Instant, kept: &KeptFailure) -> bool {
        let FailedRequest { call_id, from, to, uri, .. } = &*kept.request;
        let is_part = |part: &Option<String>, texts: &[&str]| {
            part.as_ref().is_none_or(|part| texts.iter().any(|text| text.contains(&**part)))
        };
        // A long Call-ID was cut.
        let is_it = |wanted: &String| {
            *wanted == **call_id || call_id.len() >= FailedRequest::LONGEST && wanted.starts_with(&**call_id)
        };
        self.call_id.as_ref().is_none_or(is_it)
            && is_part(&self.from, &[from])
            && is_part(&self.to, &[to, uri])
            && self.last.is_none_or(|last| now.saturating_since(kept.last) <= last)
    }
}

/// Receives the result of starting another process.
pub type RestartReply = oneshot::Sender<Result<(), String>>;

impl Handle {
    pub(crate) fn new(asks: mpsc::UnboundedSender<Ask>, workers: Vec<WorkerHandle>) -> Self {
        Self { asks, workers, starter: Arc::default() }
    }

    /// Returns the load of the process, and whether it takes new calls. The query costs the traffic next to nothing.
    ///
    /// # Errors
    /// If the server has ended.
    pub async fn standing(&self) -> Result<Standing, String> {
        let view = self.view().await?;
        Ok(Standing::new(&view, &self.ask_each(Command::Counts).await?))
    }

    /// Returns all figures, with members and former members in the order of their slots. `oldest_calls` walks the
    /// session tables, which takes some milliseconds for a million calls.
    ///
    /// # Errors
    /// If the server has ended.
    pub async fn figures(&self, oldest_calls: bool) -> Result<Figures, String> {
        let view = self.view().await?;
        let snapshots: Vec<_> = self.ask_each(Command::Snapshot).await?;
        let oldest = if oldest_calls { self.oldest_calls().await? } else { BTreeMap::new() };
        Ok(Figures::new(&view, snapshots, &oldest))
    }

    /// Returns the members without percentiles and occupancy, at almost no cost for the traffic.
    ///
    /// # Errors
    /// If the server has ended.
    pub async fn members(&self) -> Result<MembersView, String> {
        let view = self.view().await?;
        Ok(MembersView::brief(&view, &self.ask_each(Command::Counts).await?))
    }

    /// Returns the state of each member's limits.
    pub(crate) async fn rooms(&self) -> Result<Vec<(Peer, Option<MemberRoom>)>, String> {
        let (view, counts) = (self.view().await?, self.ask_each(Command::Counts).await?);
        let shards = AllShards(&counts);
        Ok(view.members.iter().map(|member| (member.peer, shards.room(member))).collect())
    }

    /// Returns a sample for the curves.
    pub(crate) async fn sample(&self) -> Result<Sample, String> {
        let view = self.view().await?;
        Ok(history::sample(&view, AllShards(&self.ask_each(Command::Counts).await?)))
    }

    /// Returns connections and their peers; `None` without listeners for connections.
    ///
    /// # Errors
    /// If the server has ended.
    pub async fn connections(&self) -> Result<Option<ConnectionsView>, String> {
        let Some(connections) = self.figures(false).await?.connections else { return Ok(None) };
        let now = self.view().await?.now;
        let all: Vec<_> = self.ask_each(Command::Connections).await?.into_iter().flatten().collect();
        Ok(Some(connections.with_peers(now, &all)))
    }

    /// Returns the last failed requests that `filter` selects.
    ///
    /// # Errors
    /// If the server has ended.
    pub async fn failures(&self, filter: &FailureFilter) -> Result<FailuresView, String> {
        let shards: Vec<_> = self.ask_each(Command::Failures).await?;
        let view = self.view().await?;
        let (now, clock) = (view.now, wall_clock(view.now));
        let numbered = shards.iter().enumerate();
        let all = numbered.flat_map(|(shard, kept)| kept.iter().map(move |kept| (shard, kept)));
        let mut chosen: Vec<_> = all.filter(|(_, kept)| filter.has(now, kept)).collect();
        chosen.sort_by_key(|(_, kept)| kept.last);
        let surplus = filter.limit.map_or(0, |limit| chosen.len().saturating_sub(limit));
        let failures =
            chosen[surplus..].iter().map(|(shard, kept)| FailureView::new(*shard, kept, &clock, &view));
        Ok(FailuresView { failures: failures.collect() })
    }

    /// Returns the oldest calls in progress that `filter` selects; `None` if the process keeps no dialogs.
    ///
    /// # Errors
    /// If the server has ended.
    pub async fn calls(&self, filter: CallFilter) -> Result<Option<OpenCallsView>, String> {
        let filter = Arc::new(filter);
        let ask = |reply| Command::OldestOpenCalls(filter.clone(), reply);
        let shards: Vec<_> = self.ask_each(ask).await?.into_iter().flatten().collect();
        if shards.is_empty() {
            return Ok(None);
        }
        let count = shards.iter().map(|calls| calls.count).sum();
        let mut oldest: Vec<_> = shards.iter().flat_map(|calls| &calls.oldest).collect();
        oldest.sort_by_key(|call| call.began_unix);
        let clock = wall_clock(self.view().await?.now);
        let calls = oldest.iter().take(filter.limit).map(|call| OpenCallView::new(call, &clock)).collect();
        Ok(Some(OpenCallsView { calls, count }))
    }

    /// Ends the calls with this Call-ID: both sides get a BYE.
    ///
    /// # Errors
    /// If the server has ended.
    pub async fn end_calls(&self, call_id: &str) -> Result<EndedCallsView, String> {
        let call_id: Arc<[u8]> = call_id.as_bytes().into();
        let ended: Vec<usize> = self.ask_each(|reply| Command::HangUp(call_id.clone(), reply)).await?;
        Ok(EndedCallsView { ended: ended.iter().sum() })
    }

    /// Returns the state of a pool for its scaler; `None` if there is no such pool.
    pub(crate) async fn pool_view(&self, pool: &str) -> Result<Option<PoolView>, String> {
        let view = self.view().await?;
        Ok(pool_view(&view, &self.ask_each(Command::Counts).await?, pool))
    }

    /// Returns the session of a Call-ID; `None` if it is not in the table.
    ///
    /// # Errors
    /// If the server has ended.
    pub async fn session(&self, call_id: &str) -> Result<Option<Session>, String> {
        for worker in &self.workers {
            let (reply, answer) = oneshot::channel();
            worker.send(Command::Session(call_id.as_bytes().to_vec(), reply));
            if let Some(session) = answer.await.map_err(|_| GONE)? {
                // The view is read after the session, since the session's member may have just joined.
                let view = self.view().await?;
                let member = view.at(session.slot);
                return Ok(member
                    .map(|member| Session::new(call_id.to_owned(), member.peer.into(), &session, view.now)));
            }
        }
        Ok(None)
    }

    /// Returns the contacts of a user, USER@DOMAIN.
    ///
    /// # Errors
    /// If there is no such user, or the store does not answer.
    pub async fn contacts(&self, user: &str) -> Result<UserContacts, ContactsError> {
        let home = self.home().await?;
        let aor = home.address(user)?;
        let found = home.contacts(aor.clone()).await?;
        if found.there.is_empty() {
            home.know(&aor).await?;
        }
        Ok(found)
    }

    /// Removes one contact of a user, or all. A concurrent REGISTER is not lost.
    ///
    /// # Errors
    /// If the contact does not exist, or the store does not answer.
    pub async fn remove_contacts(
        &self,
        user: &str,
        contact: Option<&str>,
    ) -> Result<UserContacts, ContactsError> {
        let home = self.home().await?;
        let aor = home.address(user)?;
        let found = home.remove(aor.clone(), contact.map(str::as_bytes)).await?;
        if found.removed.is_empty() {
            home.know(&aor).await?;
        }
        tracing::info!(user, contact, removed = found.removed.len(), "an operator has removed contacts");
        Ok(found)
    }

    async fn home(&self) -> Result<Home, ContactsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Home(reply)).map_err(|_| ContactsError::Gone)?;
        let home = answer.await.map_err(|_| ContactsError::Gone)?;
        home.ok_or_else(|| ContactsError::NotServed("this process has no [registrar]".to_owned()))
    }

    /// Reports that a member is back, named by its address or as in the configuration. Returns the members that the
    /// name stands for.
    ///
    /// # Errors
    /// If there is no such member (the error lists the members), or the server has ended.
    pub async fn up(&self, member: &str) -> Result<Vec<Peer>, String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Up { member: member.to_owned(), reply })?;
        answer.await.map_err(|_| GONE)?
    }

    /// Starts or ends an operator's drain of a member, named by its address or as in the configuration. Returns the
    /// members that the name stands for.
    ///
    /// # Errors
    /// If there is no such member. The error lists the members.
    pub async fn drain(&self, member: &str, draining: bool) -> Result<Vec<Peer>, String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Drain { member: member.to_owned(), draining, reply })?;
        answer.await.map_err(|_| GONE)?
    }

    /// Sends the request of a pool's scaler about the member at this address. It is ignored if the member has left.
    pub(crate) fn scale(&self, pool: &str, address: SocketAddr, wish: ScaleWish) {
        // If the server has ended, there is nothing to scale.
        let _ = self.ask(Ask::Scale { pool: pool.to_owned(), address, wish });
    }

    /// Changes the members of a pool until the configuration is read again. Returns the members that the change
    /// concerns; none if the address is a name that is not resolved.
    ///
    /// # Errors
    /// If there is no such pool or member, or the change is refused; `None`: the server has ended.
    pub async fn change_member(
        &self,
        pool: String,
        change: MemberChange,
    ) -> Result<Vec<Peer>, Option<ChangeError>> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::ChangeMember { pool, change, reply }).map_err(|_| None)?;
        answer.await.map_err(|_| None)?.map_err(Some)
    }

    /// Reads the configuration again. Returns changed keys that need a restart.
    ///
    /// # Errors
    /// The errors in the file. Nothing has changed then.
    pub async fn reload(&self) -> Result<Vec<String>, String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Reload(reply))?;
        answer.await.map_err(|_| GONE)?
    }

    /// Stops taking new calls. The server ends when the remaining calls have ended or the wait is over.
    pub fn stop(&self) {
        // If the server has ended, it has stopped.
        let _ = self.ask(Ask::Stop);
    }

    /// Starts another process that takes over from this one.
    ///
    /// # Errors
    /// If the file has a fault, or no process can be started.
    pub async fn restart(&self) -> Result<(), String> {
        let unable = "this process cannot start another one: it is part of another program";
        let (reply, answer) = oneshot::channel();
        let starter = self.starter.get().ok_or(unable)?;
        starter.send(reply).map_err(|_| GONE)?;
        answer.await.map_err(|_| GONE)?
    }

    /// Returns the requests to start another process. Only the first call gets them.
    pub fn restarts(&self) -> mpsc::UnboundedReceiver<RestartReply> {
        let (starter, requests) = mpsc::unbounded_channel();
        // The receiver of a second call gets no requests.
        let _ = self.starter.set(starter);
        requests
    }

    /// Returns where a request from `from` would go now, and why, if it arrived at `listener`. Without `listener`, it
    /// is the first listener of the sender's transport and address family.
    ///
    /// # Errors
    /// How the request would be refused, why it is no request, or which listeners there are.
    pub async fn explain(
        &self,
        from: Peer,
        listener: Option<Peer>,
        request: Vec<u8>,
    ) -> Result<ExplanationView, String> {
        let view = self.view().await?;
        let flow = view.flow(from, listener)?;
        let mut shard = 0;
        loop {
            let (reply, answer) = oneshot::channel();
            self.workers[shard].send(Command::Explain(flow, request.clone(), reply));
            match answer.await.map_err(|_| GONE)? {
                Explained::Elsewhere(owner) => shard = owner,
                Explained::Here(explanation) => {
                    let explanation = explanation?;
                    let contacts = match &explanation.located {
                        Some(aor) => Some(self.contacts_of(aor).await?),
                        None => None,
                    };
                    return Ok(ExplanationView::new(&self.view().await?, *explanation, contacts.as_ref()));
                }
            }
        }
    }

    /// Returns the contacts of a request's user.
    async fn contacts_of(&self, aor: &Aor) -> Result<UserContacts, String> {
        let refused = |error: ContactsError| format!("refused: 503 Service Unavailable: {error}");
        let home = self.home().await.map_err(refused)?;
        home.contacts(aor.clone()).await.map_err(refused)
    }

    fn ask(&self, ask: Ask) -> Result<(), String> {
        self.asks.send(ask).map_err(|_| GONE.to_owned())
    }

    async fn view(&self) -> Result<View, String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::View(reply))?;
        answer.await.map_err(|_| GONE.to_owned())
    }

    async fn ask_each<T>(&self, question: impl Fn(oneshot::Sender<T>) -> Command) -> Result<Vec<T>, String> {
        shards::ask_each(&self.workers, question).await.ok_or_else(|| GONE.to_owned())
    }

    async fn oldest_calls(&self) -> Result<BTreeMap<usize, Instant>, String> {
        let mut oldest = BTreeMap::new();
        for of_shard in self.ask_each(Command::OldestCalls).await? {
            for (slot, began) in of_shard.into_iter().enumerate() {
                let Some(began) = began else { continue };
                let first = oldest.entry(slot).or_insert(began);
                *first = began.min(*first);
            }
        }
        Ok(oldest)
    }
}

fn wall_clock(now: Instant) -> WallClock {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallClock { now, unix: UnixTime::default() + since_1970 }
}

//! Look-up and removal of a user's bindings by an operator. The steps are the same as for a REGISTER.

use base::UnixTime;
use digest_auth::Algorithm;
use location::{
    Aor, Binding, Register, Registrar, Registration, RegistrationStep, StoreError, StoreReply, StoreRequest,
    targets,
};
use node::{StoreAnswer, StoreQuery};
use shards::{OnAnswer, Stores};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Time limit for an answer of a store. Stores answer sooner even if their server hangs, except for a file that another
/// process holds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Error text if the server has ended.
pub(crate) const GONE: &str = "the server is stopping";

/// The registrar's state at the control task.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) stores: Arc<Stores>,
    pub(crate) registrar: Registrar,
    /// Realm of the users; `None`: users need not authenticate.
    pub(crate) realm: Option<Box<[u8]>>,
}

/// The contacts of a user, in the order in which they are tried.
#[derive(Clone, PartialEq, Debug)]
pub struct UserContacts {
    /// Remaining contacts, after a removal.
    pub there: Vec<Binding>,
    /// Contacts that were just removed.
    pub removed: Vec<Binding>,
    /// Time of the store's answer, by the store's clock.
    pub date: UnixTime,
}

/// Why the contacts of a user cannot be read or removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ContactsError {
    /// There is no registrar, or none for this address.
    NotServed(String),
    /// The store does not answer or refuses, with the cause.
    Store(String),
    /// The server has ended.
    Gone,
}

impl fmt::Display for ContactsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed(why) | Self::Store(why) => f.write_str(why),
            Self::Gone => f.write_str(GONE),
        }
    }
}

impl From<StoreError> for ContactsError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}

impl Home {
    /// Returns the address-of-record of a user. Its domain must be served here.
    pub(crate) fn address(&self, user: &str) -> Result<Aor, ContactsError> {
        let has_scheme = ["sip:", "sips:"].iter().any(|scheme| user.starts_with(scheme));
        let uri = if has_scheme { user.to_owned() } else { format!("sip:{user}") };
        let aor = Aor::of(uri.as_bytes()).filter(|aor| !aor.user().is_empty());
        let aor = aor.ok_or_else(|| {
            ContactsError::NotServed(format!("{user:?} is not a user: expected USER@DOMAIN"))
        })?;
        if self.registrar.serves(uri.as_bytes()) {
            return Ok(aor);
        }
        let domains = self.registrar.settings().domains.iter().map(|domain| String::from_utf8_lossy(domain));
        let domains = domains.collect::<Vec<_>>().join(", ");
        Err(ContactsError::NotServed(format!(
            "the domain of {user:?} is not served here; served domains: {domains}"
        )))
    }

    pub(crate) async fn contacts(&self, aor: Aor) -> Result<UserContacts, ContactsError> {
        match self.put(StoreRequest::Read(aor)).await? {
            (StoreReply::Read(record), date) => {
                let there = record?.map(|record| targets(&record, date)).unwrap_or_default();
                Ok(UserContacts { there, removed: Vec::new(), date })
            }
            (StoreReply::Replaced(_), _) => Err(other_answer()),
        }
    }

    /// Removes one contact, or all. An absent contact is no error.
    pub(crate) async fn remove(
        &self,
        aor: Aor,
        contact: Option<&[u8]>,
    ) -> Result<UserContacts, ContactsError> {
        let (mut registration, mut step) = Registration::begin(Register::removal(aor, contact));
        let mut found = UserContacts { there: Vec::new(), removed: Vec::new(), date: UnixTime::default() };
        let answer = loop {
            match step {
                RegistrationStep::Done(answer) => break answer,
                RegistrationStep::Request(ask) => {
                    let (reply, date) = self.put(ask).await?;
                    if let StoreReply::Read(record) = &reply {
                        // A write replaces the record that was read last, or fails.
                        let there = record.clone()?.map(|record| targets(&record, date)).unwrap_or_default();
                        let is_meant =
                            |binding: &Binding| contact.is_none_or(|uri| wire::same_uri(uri, &binding.uri));
                        let (removed, there) = there.into_iter().partition(is_meant);
                        found = UserContacts { there, removed, date };
                    }
                    if let StoreReply::Replaced(Err(error)) = &reply {
                        return Err(error.clone().into());
                    }
                    step = registration.reply(date, &self.registrar, reply);
                }
            }
        };
        match answer.status {
            200 => Ok(found),
            status => Err(ContactsError::Store(format!("not removed: {status} {}", answer.reason))),
        }
    }

    /// Checks that the user exists, as far as users are known.
    ///
    /// # Errors
    /// If the user does not exist.
    pub(crate) async fn know(&self, aor: &Aor) -> Result<(), ContactsError> {
        let Some(realm) = &self.realm else { return Ok(()) };
        for algorithm in Algorithm::ALL {
            let about = StoreQuery::User { name: aor.user().into(), realm: realm.clone(), algorithm };
            if !matches!(self.ask(about).await?, StoreAnswer::User(Ok(None))) {
                return Ok(());
            }
        }
        let [user, realm] = [aor.user(), &**realm].map(String::from_utf8_lossy);
        Err(ContactsError::NotServed(format!(
            "there is no user {user:?} of the realm {realm} in [registrar] users"
        )))
    }

    /// Sends a query to the store of bindings and waits for its answer.
    async fn put(&self, ask: StoreRequest) -> Result<(StoreReply, UnixTime), ContactsError> {
        match self.ask(StoreQuery::Location(ask)).await? {
            StoreAnswer::Location(reply, date) => Ok((reply, date)),
            StoreAnswer::User(_) => Err(other_answer()),
        }
    }

    async fn ask(&self, about: StoreQuery) -> Result<StoreAnswer, ContactsError> {
        let (sender, answer) = oneshot::channel();
        // The receiver is gone after the time limit.
        let later = || -> OnAnswer { Box::new(move |answer| drop(sender.send(answer))) };
        match self.stores.ask(about, later) {
            Some(answer) => Ok(answer),
            None => match tokio::time::timeout(PATIENCE, answer).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(_)) | Err(_) => Err(ContactsError::Store("the store does not answer".to_owned())),
            },
        }
    }
}

/// Error of an answer that fits no query, which would be a bug.
fn other_answer() -> ContactsError {
    ContactsError::Store("the store has answered another query".to_owned())
}

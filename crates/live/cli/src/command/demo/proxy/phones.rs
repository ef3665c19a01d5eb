//! The two phones: each registers, answers calls, and calls the other one.

use super::registration::{Account, Registration};
use crate::command::demo::stage::{SEED, answer, call};
use anyhow::Result;
use base::Rng;
use instruments::agents::RunningAgent;
use load::{AnswererResults, ArrivalPlan, CallResults, ServiceModel};
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) const DOMAIN: &str = "demo.example";
pub(super) const USERS: [&str; 2] = ["alice", "bob"];

/// Interval of registrations: far shorter than with real phones, so that some occur during the demo.
const REFRESH: Duration = Duration::from_secs(2);
/// Counts of registrations.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Registered {
    /// Phones whose last REGISTER was accepted.
    pub(super) phones: usize,
    pub(super) granted: u64,
    pub(super) failed: u64,
}

/// The registered phones.
pub(super) struct Phones {
    /// Answerers, which run until they are dropped.
    _answerers: Vec<RunningAgent<AnswererResults>>,
    rng: Rng,
    registered: Arc<Mutex<Registered>>,
    /// Dropping it ends the thread that registers.
    end: Option<Sender<()>>,
    registering: Option<JoinHandle<()>>,
}

/// Calls of the phones.
pub(super) struct Calls(Vec<RunningAgent<CallResults>>);

/// Phones that answer calls and are not registered yet.
pub(super) struct Ringing {
    answerers: Vec<RunningAgent<AnswererResults>>,
    rng: Rng,
}

impl Ringing {
    pub(super) fn start() -> Result<Self> {
        let rng = Rng::from_seed(SEED);
        let answerers = USERS.iter().map(|user| answer(user, Duration::ZERO, ServiceModel::default(), &rng));
        Ok(Self { answerers: answerers.collect::<Result<_>>()?, rng })
    }

    /// Registers the phones.
    pub(super) fn register(self, registrar: SocketAddr, password: &str) -> Result<Phones> {
        let Self { answerers, rng } = self;
        let account = |(user, answerer): (&&'static str, &RunningAgent<AnswererResults>)| {
            let password = password.to_owned();
            let account = Account { user, domain: DOMAIN, password, contact: answerer.address(), registrar };
            Registration::new(account, format!("register-{user}"))
        };
        let mut registrations = USERS.iter().zip(&answerers).map(account).collect::<Result<Vec<_>>>()?;
        registrations.iter_mut().try_for_each(Registration::refresh)?;
        let all = registrations.len();
        let registered = Registered { phones: all, granted: all as u64, failed: 0 };
        let registered = Arc::new(Mutex::new(registered));
        let (end, ended) = channel();
        let of_thread = Arc::clone(&registered);
        let registering = std::thread::Builder::new().name("phones".to_owned()).spawn(move || {
            // Until the sender is dropped.
            while ended.recv_timeout(REFRESH) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let granted = registrations.iter_mut().filter_map(|phone| phone.refresh().ok()).count();
                let mut registered = of_thread.lock().unwrap_or_else(PoisonError::into_inner);
                registered.phones = granted;
                registered.granted += granted as u64;
                registered.failed += (registrations.len() - granted) as u64;
            }
        })?;
        Ok(Phones { _answerers: answerers, rng, registered, end: Some(end), registering: Some(registering) })
    }
}

impl Phones {
    pub(super) fn registered(&self) -> Registered {
        *self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts calls between the phones through `entry`, each phone by `plan`, with calls of the mean duration `hold`.
    pub(super) fn call(&self, entry: SocketAddr, plan: &ArrivalPlan, hold: Duration) -> Result<Calls> {
        let caller = |(user, callee): (&&str, &&str)| {
            let rng = self.rng.fork(&format!("{user} calls"));
            call(entry, format!("sip:{callee}@{DOMAIN}"), plan.clone(), hold, rng)
        };
        Ok(Calls(USERS.iter().zip(USERS.iter().rev()).map(caller).collect::<Result<_>>()?))
    }
}

impl Calls {
    /// Results of both phones.
    pub(super) fn results(&self) -> CallResults {
        let mut sum = CallResults::default();
        self.0.iter().for_each(|caller| sum.merge(&caller.snapshot().results));
        sum
    }

    pub(super) fn are_finished(&self) -> bool {
        self.0.iter().all(RunningAgent::is_finished)
    }

    /// Starts no more calls, and ends those in progress.
    pub(super) fn wind_down(&self) {
        self.0.iter().for_each(RunningAgent::wind_down);
    }
}

impl Drop for Phones {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.registering.take() {
            // A panic of the thread has printed its message.
            let _ = thread.join();
        }
    }
}

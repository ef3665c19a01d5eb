//! A shard with its home domain, its stores, and the requests of its users.

use crate::common::*;
use base::{Instant, UnixTime};
use digest_auth::{Algorithm, AttemptResult, BanSettings, NonceScope, NonceSettings, Secret};
use location::{MemoryLimits, MemoryStore};
use node::{
    AddressTable, AuthenticationSettings, RegistrarSettings, Setup, ShardSettings, StoreAnswer, StoreQuery,
    StoreQuestion, UsersUnavailable, WrongPassword,
};
use testkit::value;

pub(crate) const EPOCH: u64 = 1_800_000_000;
pub(crate) const PASSWORD: &str = "open sesame";

/// A shard with its home domain, and stores that answer on demand.
pub(crate) struct Bed {
    pub(crate) inner: testbed::Bed,
    pub(crate) store: MemoryStore,
    /// Unanswered questions.
    pub(crate) asked: Vec<StoreQuestion>,
    pub(crate) users_are_up: bool,
    /// Reports of wrong passwords.
    pub(crate) wrong: Vec<WrongPassword>,
    /// Results for the other shards.
    pub(crate) judged: Vec<AttemptResult>,
    /// Proxies that have passed a REGISTER on without Path.
    pub(crate) pathless: Vec<SocketAddr>,
    /// Names that were looked up.
    pub(crate) looked_up: Vec<HopName>,
}

derefs_to_inner!(Bed);

impl Bed {
    pub(crate) fn new(authenticates: bool, reach: Reach) -> Self {
        Self::with_ports(vec![Port::udp(addr(PROXY))], authenticates, reach)
    }

    pub(crate) fn with_ports(ports: Vec<Port>, authenticates: bool, reach: Reach) -> Self {
        let topology = AddressTable::new(ports.into(), Vec::new());
        let conditions = Conditions { origin: Origin::Anyone, ..Conditions::default() };
        let (name, target) = ("users".to_owned(), Target::Location);
        let rule = Rule { name, conditions, authenticate: authenticates, target, ..Rule::default() };
        let registrar = location::RegistrationSettings {
            domains: vec![(*b"example.com").into()],
            reach,
            ..location::RegistrationSettings::default()
        };
        let authentication = authenticates.then(|| AuthenticationSettings {
            digest: digest_auth::AuthSettings::new(b"example.com"),
            nonces: NonceSettings { lifetime: Duration::from_mins(5), scope: NonceScope::Source },
            bans: BanSettings::default(),
        });
        let mut setup = Setup::new(topology, ShardSettings::new(Tokens::new(KEY, &[], LIFETIME), EPOCH));
        setup.settings.limits = LIMITS;
        setup.settings.routes = testbed::routes(vec![rule], &setup);
        setup.settings.registrar = Some(Arc::new(RegistrarSettings {
            registrar,
            authentication,
            forward: Forward::Transaction,
            trusted: ["127.0.8.0/24".parse().expect("a network")].into(),
        }));
        let store = MemoryStore::new(MemoryLimits::default());
        Self {
            inner: testbed::Bed::new(setup),
            store,
            asked: Vec::new(),
            users_are_up: true,
            wrong: Vec::new(),
            judged: Vec::new(),
            pathless: Vec::new(),
            looked_up: Vec::new(),
        }
    }

    pub(crate) fn open() -> Self {
        Self::new(false, Reach::Source)
    }

    /// Sets how requests to users are forwarded.
    pub(crate) fn set_forward(&mut self, forward: Forward) {
        self.set(|setup| {
            let home = setup.settings.registrar.as_ref().expect("there is a registrar");
            setup.settings.registrar = Some(Arc::new(RegistrarSettings { forward, ..(**home).clone() }));
        });
    }

    /// Sets the members of the only pool, and how it is forwarded to.
    pub(crate) fn set_members(&mut self, members: &[SocketAddr], mode: Service) {
        let members: Vec<_> = members.iter().map(|&member| Flow::udp(0, member)).collect();
        self.inner.set(|setup| {
            setup.pools = [hops(mode, Members::All)].into();
            testbed::set_members(setup, &members);
        });
    }

    pub(crate) fn input(&mut self, input: ShardInput<'_>) -> Vec<Sent> {
        let sent = self.inner.input(input);
        for event in core::mem::take(&mut self.inner.events) {
            match event {
                ShardEvent::Ask(question) => self.asked.push(*question),
                ShardEvent::WrongPassword(wrong) => self.wrong.push(*wrong),
                ShardEvent::Judgement(judgement) => self.judged.push(*judgement),
                ShardEvent::NoPath(proxy) => self.pathless.push(proxy),
                ShardEvent::LookUp(name) => self.looked_up.push(name),
                _ => {}
            }
        }
        sent
    }

    /// Receives a datagram; the stores do not answer yet.
    pub(crate) fn arrive(&mut self, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.input(ShardInput::Message { flow: Flow::udp(0, from), bytes })
    }

    /// The stores answer all questions, and those that follow.
    pub(crate) fn answer(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while !self.asked.is_empty() {
            let StoreQuestion { number, about } = self.asked.remove(0);
            let date = UnixTime::from_secs(EPOCH) + self.now.saturating_since(Instant::ZERO);
            let answer = match about {
                StoreQuery::Location(ask) => StoreAnswer::Location(ask.send_to(&mut self.store, date), date),
                StoreQuery::User { .. } if !self.users_are_up => StoreAnswer::User(Err(UsersUnavailable)),
                StoreQuery::User { name, .. } => {
                    let known = [&b"alice"[..], b"bob"].contains(&&*name);
                    StoreAnswer::User(Ok(known.then(|| Secret::Clear(PASSWORD.as_bytes().into()))))
                }
            };
            sent.extend(self.input(ShardInput::Answer { number, answer: Box::new(answer) }));
        }
        sent
    }

    pub(crate) fn receive(&mut self, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.receive_by(Flow::udp(0, from), bytes)
    }

    /// Receives a message by this flow, and the stores answer.
    pub(crate) fn receive_by(&mut self, flow: Flow, bytes: &[u8]) -> Vec<Sent> {
        let mut sent = self.input(ShardInput::Message { flow, bytes });
        sent.extend(self.answer());
        sent
    }

    /// The same with exactly one message sent besides a 100.
    pub(crate) fn one_by(&mut self, flow: Flow, bytes: &[u8]) -> Sent {
        let mut sent = self.receive_by(flow, bytes);
        sent.retain(|sent| sent.message().status() != Some(100));
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    pub(crate) fn one(&mut self, from: SocketAddr, bytes: &[u8]) -> Sent {
        let mut sent = self.receive(from, bytes);
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    pub(crate) fn wait(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.now + time;
        let mut sent = Vec::new();
        while let Some(due) = self.shard.deadline().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            sent.extend(self.input(ShardInput::Timer));
        }
        self.now = end;
        sent
    }

    /// Returns a request with the credentials that its challenge asks for.
    pub(crate) fn with_credentials(&mut self, user: &str, from: SocketAddr, request: &Req) -> Req {
        let challenged = self.one(from, &request.bytes());
        assert!([401, 407].contains(&challenged.status()), "{challenged:?}");
        authorized(&challenged, (user, PASSWORD), request)
    }

    pub(crate) fn register(&mut self, user: &str, from: SocketAddr, contact: &str) -> u16 {
        let status = self.one(from, &register(user, from, contact).bytes()).status();
        assert!(self.asked.is_empty());
        status
    }
}

/// Returns the same request with credentials.
pub(crate) fn authorized(challenged: &Sent, login: (&str, &str), request: &Req) -> Req {
    authorized_for(1, challenged, login, request)
}

/// The same with this nonce count.
pub(crate) fn authorized_for(
    count: u32,
    challenged: &Sent,
    (user, password): (&str, &str),
    request: &Req,
) -> Req {
    let (challenge, name) = match challenged.status() {
        401 => ("WWW-Authenticate", "Authorization"),
        _ => ("Proxy-Authenticate", "Proxy-Authorization"),
    };
    let value = value(&challenged.bytes, challenge).expect("a challenge");
    let nonce = value.split("nonce=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a nonce");
    let algorithm =
        Algorithm::ALL.into_iter().find(|known| value.contains(&format!("algorithm={}", known.name())));
    let algorithm = algorithm.expect("a supported algorithm");
    let hash = |text: String| String::from_utf8(algorithm.hash(&[text.as_bytes()]).hex()).expect("digits");
    let ha1 = hash(format!("{user}:example.com:{password}"));
    let ha2 = hash(format!("{}:{}", request.method, request.uri));
    let response = hash(format!("{ha1}:{nonce}:{count:08x}:c:auth:{ha2}"));
    let credentials = format!(
        "Digest username=\"{user}\", realm=\"example.com\", nonce=\"{nonce}\", uri=\"{}\", response=\"{response}\", \
         algorithm={}, cnonce=\"c\", qop=auth, nc={count:08x}",
        request.uri,
        algorithm.name()
    );
    let cseq = request.cseq + 1;
    let via = request.via.replace("branch=", "branch=z9hG4bK-again-").replace("-again-z9hG4bK", "-again");
    Req { cseq, ..request.clone().via(&via) }.with(name, &credentials)
}

pub(crate) fn register(user: &str, from: SocketAddr, contact: &str) -> Req {
    let aor = format!("<sip:{user}@example.com>");
    Req {
        uri: "sip:example.com".into(),
        from: aor.clone(),
        to: aor,
        contact: contact.into(),
        ..Req::new("REGISTER", &format!("reg-{user}"), from)
    }
}

pub(crate) fn call(call_id: &str, user: &str, from: SocketAddr) -> Req {
    let uri = format!("sip:{user}@example.com");
    let (to, caller) = (format!("<{uri}>"), "<sip:alice@example.com>".to_owned());
    Req { uri, to, from: caller, ..Req::new("INVITE", call_id, from) }
}

pub(crate) const ALICE: &str = "127.0.9.1:6000";
pub(crate) const BOB: &str = "127.0.9.2:6000";

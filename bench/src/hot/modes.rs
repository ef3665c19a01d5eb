//! Whole calls through a shard of the proxy, in each of the [modes](crate::modes): INVITE, 180, 200, ACK, BYE and 200.
//! With authentication, a challenged INVITE and its ACK come first.

use super::Length;
use super::datagrams::{BETWEEN, CALLS, Notes, WARM_UP, acknowledgement};
use crate::bed::{Bed, CLIENT, ELEMENT, request, setup, shard, stateless};
use crate::callers::CALLED;
use crate::credentials::REALM;
use crate::modes::CALLER;
use crate::registration;
use crate::text;
use anyhow::{Context, Result, ensure};
use digest_auth::{Algorithm, AuthSettings, BanSettings, NonceScope, NonceSettings, Offer};
use location::{Reach, RegistrationSettings};
use node::{AuthenticationSettings, DialogSettings, RegistrarSettings, Shard};
use route::{Conditions, Field, Forward, Origin, Part, Pattern, Rule, Target, UriPlace};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

/// Address of the server that registers as [`CALLED`].
const SERVER_ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5080));

/// Mode of a proxy.
#[derive(Clone, Copy)]
pub(super) enum CallMode {
    /// Calls go to a configured next hop, without transactions.
    Hop,
    /// Calls go to a registered contact.
    Contact {
        /// State kept of a call.
        forward: Forward,
        /// Whether callers must authenticate.
        is_authenticated: bool,
    },
}

impl CallMode {
    /// Returns the mode with calls to a registered contact that keeps this state.
    pub(super) const fn located(forward: Forward) -> Self {
        Self::Contact { forward, is_authenticated: false }
    }

    /// The same with authentication.
    pub(super) const fn authenticated(forward: Forward) -> Self {
        Self::Contact { forward, is_authenticated: true }
    }

    /// Creates the shard, with settings like those of `crate::modes`, and the default timers.
    fn shard(self) -> Shard {
        let Self::Contact { forward, is_authenticated } = self else { return stateless() };
        let mut setup = setup(0);
        let registrar = RegistrationSettings {
            domains: vec![ELEMENT.ip().to_string().into_bytes().into()],
            shared_realm: Some(REALM.as_bytes().into()),
            reach: Reach::Contact,
            ..RegistrationSettings::default()
        };
        let digest = AuthSettings { offer: Offer::of(Algorithm::Md5), ..AuthSettings::new(REALM.as_bytes()) };
        let nonces = NonceSettings { lifetime: Duration::from_mins(5), scope: NonceScope::Source };
        let authentication = AuthenticationSettings { digest, nonces, bans: BanSettings::default() };
        let authentication = is_authenticated.then_some(authentication);
        let trusted = Box::default();
        let registrar = RegistrarSettings { registrar, authentication, forward, trusted };
        let host = Pattern::Exact(ELEMENT.ip().to_string().into_bytes());
        let texts = vec![(Field::Uri(UriPlace::RequestUri, Part::Host), vec![host])];
        let conditions = Conditions { origin: Origin::Anyone, texts, ..Conditions::default() };
        let (authenticate, target) = (is_authenticated, Target::Location);
        let rule = Rule { conditions, authenticate, target, ..Rule::default() };
        setup.settings.routes = testbed::routes(vec![rule], &setup);
        setup.settings.registrar = Some(Arc::new(registrar));
        setup.settings.dialogs = (forward == Forward::Dialog).then(Arc::<DialogSettings>::default);
        shard(setup)
    }

    /// Runs the calls of this length. Returns their number.
    pub(super) fn run(self, length: Length) -> Result<u64> {
        let (mut bed, mut short) = (Bed::noting(self.shard()), 0);
        if let Self::Contact { .. } = self {
            register(&mut bed)?;
        }
        for call in 0..WARM_UP + CALLS {
            if call == WARM_UP {
                short = bed.noted();
            }
            bed.now += BETWEEN;
            bed.run_timers();
            self.call(&mut bed, call)?;
        }
        bed.replay(self.shard(), short, length)?;
        Ok(length.pick(WARM_UP, WARM_UP + CALLS))
    }

    fn call(self, bed: &mut Bed<Notes>, call: u64) -> Result<()> {
        let uri = format!("sip:{CALLED}@{ELEMENT}");
        let mut cseq = 1;
        let mut hop = bed.pass(CLIENT, &request_to(&uri, call, "INVITE", cseq, None))?;
        if let Self::Contact { is_authenticated: true, .. } = self {
            let challenge = text::header(&bed.last, "Proxy-Authenticate").context("it was not challenged")?;
            let (challenge, ack) = (challenge.to_vec(), acknowledgement(call, &bed.last)?);
            ensure!(bed.pass(CLIENT, &ack).is_err(), "the ACK was forwarded");
            cseq += 1;
            let mut invite = request_to(&uri, call, "INVITE", cseq, None);
            let at = invite.len() - b"Content-Length: 0\r\n\r\n".len();
            let rest = invite.split_off(at);
            CALLER.answer("Proxy-Authorization", &challenge, ("INVITE", &uri), &mut invite);
            invite.extend_from_slice(&rest);
            hop = bed.pass(CLIENT, &invite)?;
        }
        bed.answer(hop, 180)?;
        let route = bed.accept(hop)?;
        let contact = format!("sip:bob@{hop}");
        bed.pass(CLIENT, &request_to(&contact, call, "ACK", cseq, Some(&route)))?;
        let hop = bed.pass(CLIENT, &request_to(&contact, call, "BYE", cseq + 1, Some(&route)))?;
        bed.answer(hop, 200)
    }
}

/// Registers the server, with credentials if it is challenged.
fn register(bed: &mut Bed<Notes>) -> Result<()> {
    let mut challenge = None;
    for number in 1..=2 {
        let register =
            registration::request(number, ELEMENT, (SERVER_ADDRESS, SERVER_ADDRESS), challenge.as_deref());
        bed.pass(SERVER_ADDRESS, &register)?;
        challenge = text::header(&bed.last, "WWW-Authenticate").map(<[u8]>::to_vec);
        if challenge.is_none() {
            break;
        }
    }
    let answer = bed.last.escape_ascii();
    ensure!(bed.last.starts_with(b"SIP/2.0 200 "), "the server was not registered: {answer}");
    Ok(())
}

/// Makes a request of a call's caller to this URI. With a route it is within the dialog.
fn request_to(uri: &str, call: u64, method: &str, cseq: u32, route: Option<&[u8]>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&request(call, method, cseq, route)).into_owned();
    text.replacen("sip:bob@127.0.0.1:5060", uri, 1).into_bytes()
}

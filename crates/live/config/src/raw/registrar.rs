//! `[registrar]` as it is written.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{
    Choice, Count, DAY, DomainName, HOUR, KIB, MINUTE, NetworkText, Place, SECOND, Size, Text, Time,
};
use crate::setting::Setting;
use digest_auth::Algorithm;
use location::{PathRule, Reach};
use route::Forward;

/// How long a nonce is good.
pub(crate) const NONCE_LIFETIME: Duration = Duration::from_mins(5);

/// The users of your own domains: phones register here (REGISTER), and requests to users go to where they have registered.
/// Without `[[route]]`, requests to these domains go there, whoever sends them has to be a user, and nothing else goes
/// anywhere. With routes, `location` and `authenticate` say so.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["domains"]))]
pub(crate) struct RawRegistrar {
    /// Your domains, as they stand behind the `@` of your users' addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1))]
    pub(crate) domains: Vec<Setting<DomainName>>,
    /// Who your users are: a file, of which a line is `name:realm:algorithm:hash`, with the hash of `name:realm:password` by `MD5`,
    /// `SHA-256` or `SHA-512-256`; or `"postgres://..."`, a database with the table `subscriber` as Kamailio has it. Without it
    /// nobody is asked for a password: whoever reaches a listener may register as anybody.
    /// A reload reads the file again, and forgets what is kept of the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Place>", extend("x-default" = "none: nobody is asked for a password"))]
    pub(crate) users: Option<Setting<Place>>,
    /// What clients are told that their password is for (RFC 3261 §22.1). Hashes of passwords hold for one realm. A user has the
    /// address of that name in each of `domains`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "the first of `domains`"))]
    pub(crate) realm: Option<Setting<Text>>,
    /// Where registrations are kept: `"memory"`, where a restart forgets them; a file, which is made; or `"redis://..."`, a Redis
    /// or Valkey server that several proxies may share. What was answered with 200 is on the disk, with Redis as it is set up
    /// there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Place>", extend("x-default" = "this file's name with `.bindings`"))]
    pub(crate) store: Option<Setting<Place>>,
    /// Where requests for a contact go: to the `"source"` of its REGISTER, wherever the contact leads, so that clients behind a
    /// NAT are reached and nobody has requests sent to somebody else; or to the `"contact"` itself.
    pub(crate) reach: Setting<Choice<Reach>>,
    /// Shortest registration that is granted; who asks for less gets 423.
    pub(crate) expires_min: Setting<Time<SECOND, HOUR>>,
    /// A registration whose client asks for no time.
    pub(crate) expires_default: Setting<Time<MINUTE, DAY>>,
    /// Longest registration that is granted; who asks for more gets this.
    pub(crate) expires_max: Setting<Time<MINUTE, { 30 * DAY }>>,
    /// Most contacts of a user; one more gets 403 until another one has expired or is removed.
    pub(crate) max_contacts: Setting<Count<1, 64>>,
    /// Most bytes of a user's contacts.
    pub(crate) max_record: Setting<Size<KIB, { 63 * KIB }>>,
    /// What becomes of a REGISTER with a Path (RFC 3327) whose client does not say that it knows Path: 420, or it is taken.
    pub(crate) path: Setting<Choice<PathRule>>,
    /// How requests to users go on, as `forward` of a pool: `"transaction"`; `"dialog"`; or `"stateless"`, to the contact that
    /// is preferred alone, for routes without `authenticate`.
    pub(crate) forward: Setting<Choice<Forward>>,
    /// Algorithms that are offered, a challenge for each, the most preferred first (RFC 8760). Without this key it is one that
    /// the users have hashes of: MD5, which every telephone knows, or else SHA-256. Many telephones, and SIPp, fail at a
    /// challenge of two algorithms or of another one: try yours before you name `["SHA-256", "MD5"]`. A file of hashes serves those
    /// that it was made with, and those alone are offered.
    pub(crate) algorithms: Vec<Setting<Choice<Algorithm>>>,
    /// Networks of your own proxies in front of clients. The limits to guessing passwords tell the clients behind them
    /// apart by the Via below the proxy's (RFC 3261 §18.2.1), and who they say that a caller is goes on (RFC 3325).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) trusted: Vec<Setting<NetworkText>>,
    /// How long a nonce is good; then a client is asked again, which costs a round trip.
    pub(crate) nonce_lifetime: Setting<Time<{ 10 * SECOND }, DAY>>,
}

impl Default for RawRegistrar {
    fn default() -> Self {
        let usual = location::Settings::default();
        let secs = |secs: u32| Duration::from_secs(secs.into());
        Self {
            domains: Vec::new(),
            users: None,
            realm: None,
            store: None,
            reach: Setting::of(usual.reach),
            expires_min: Setting::of(secs(usual.expires_min)),
            expires_default: Setting::of(secs(usual.expires_default)),
            expires_max: Setting::of(secs(usual.expires_max)),
            max_contacts: Setting::of(usual.contacts_max as u32),
            max_record: Setting::of(usual.record_max),
            path: Setting::of(usual.path),
            forward: Setting::of(Forward::Transaction),
            algorithms: vec![Setting::of(Algorithm::Md5)],
            trusted: Vec::new(),
            nonce_lifetime: Setting::of(NONCE_LIFETIME),
        }
    }
}

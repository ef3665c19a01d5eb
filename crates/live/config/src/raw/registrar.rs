//! `[registrar]` as it is written.

use std::time::Duration;

use crate::kind::{Choice, Count, DAY, DomainName, HOUR, MINUTE, NetworkText, Place, SECOND, Text, Time};
use crate::setting::Setting;
use crate::table::REQUIRED;
use digest_auth::Algorithm;
use location::{PathRule, Reach};
use route::Forward;

/// How long a nonce is good.
pub(crate) const NONCE_LIFETIME: Duration = Duration::from_mins(5);

table! {
    let usual = location::Settings::default();
    let secs = |secs: u32| Duration::from_secs(secs.into());

    /// The users of your own domains: phones register here (REGISTER), and requests to users go to where they have
    /// registered. Without `[[route]]`, requests to these domains go there, whoever sends them has to be a user, and
    /// nothing else goes anywhere. With routes, `location` and `authenticate` say so.
    struct RawRegistrar {
        /// Your domains, as they stand behind the `@` of your users' addresses.
        domains: Vec<Setting<DomainName>> where { "minItems": 1 } => REQUIRED,
        /// Who your users are: a file, of which a line is `name:realm:algorithm:hash`, with the hash of
        /// `name:realm:password` by `MD5`, `SHA-256` or `SHA-512-256`; or `"postgres://..."`, a database with the
        /// table `subscriber` as Kamailio has it, with `?sslmode=verify-full` over TLS. Without it nobody is asked for a password: whoever reaches a
        /// listener may register as anybody. A reload reads the file again, and forgets what is kept of the database.
        users: Option<Setting<Place>> => "none: nobody is asked for a password",
        /// What clients are told that their password is for (RFC 3261 §22.1). Hashes of passwords hold for one realm.
        /// A user has the address of that name in each of `domains`.
        realm: Option<Setting<Text>> => "the first of `domains`",
        /// Where registrations are kept: `"memory"`, where a restart forgets them; a file, which is made; or
        /// `"redis://..."`, with TLS `"rediss://..."`, a Redis or Valkey server that several proxies may share. What was answered with 200 is on
        /// the disk, with Redis as it is set up there.
        store: Option<Setting<Place>> => "this file's name with `.bindings`",
        /// Where requests for a contact go: to the `"source"` of its REGISTER, wherever the contact leads, so that
        /// clients behind a NAT are reached and nobody has requests sent to somebody else; or to the `"contact"`
        /// itself.
        reach: Setting<Choice<Reach>> = usual.reach,
        /// Shortest registration that is granted; who asks for less gets 423.
        expires_min: Setting<Time<SECOND, HOUR>> = secs(usual.expires_min),
        /// A registration whose client asks for no time.
        expires_default: Setting<Time<MINUTE, DAY>> = secs(usual.expires_default),
        /// Longest registration that is granted; who asks for more gets this.
        expires_max: Setting<Time<MINUTE, { 30 * DAY }>> = secs(usual.expires_max),
        /// Most contacts of a user; one more gets 403 until another one has expired or is removed.
        max_contacts: Setting<Count<1, 64>> = usual.contacts_max as u32,
        /// What becomes of a REGISTER with a Path (RFC 3327) whose client does not say that it knows Path: 420, or it
        /// is taken.
        path: Setting<Choice<PathRule>> = usual.path,
        /// How requests to users go on, as `forward` of a pool: `"transaction"`; `"dialog"`; `"stateless"`, to the
        /// contact that is preferred alone, for routes without `authenticate`; or `"distributed"`: without state
        /// where a neighbour of `[distribution]` keeps it and the user has one contact.
        forward: Setting<Choice<Forward>> = Forward::Transaction,
        /// Algorithms that are offered, a challenge for each, the most preferred first (RFC 8760). Without this key
        /// it is one that the users have hashes of: MD5, which every telephone knows, or else SHA-256. Many
        /// telephones, and SIPp, fail at a challenge of two algorithms or of another one: try yours before you name
        /// `["SHA-256", "MD5"]`. A file of hashes serves those that it was made with, and those alone are offered.
        algorithms: Vec<Setting<Choice<Algorithm>>> = vec![Algorithm::Md5],
        /// Networks of your own proxies in front of clients. The limits to guessing passwords tell the clients behind
        /// them apart by the Via below the proxy's (RFC 3261 §18.2.1), and who they say that a caller is goes on (RFC
        /// 3325).
        trusted: Vec<Setting<NetworkText>>,
        /// How long a nonce is good; then a client is asked again, which costs a round trip.
        nonce_lifetime: Setting<Time<{ 10 * SECOND }, DAY>> = NONCE_LIFETIME,
    }
}

//! Keys of `[registrar]`.

use std::time::Duration;

use crate::kind::{Choice, Count, DAY, DomainName, HOUR, MINUTE, NetworkText, Place, SECOND, Text, Time};
use crate::setting::Setting;
use crate::table::REQUIRED;
use digest_auth::Algorithm;
use location::{PathRule, Reach};
use route::Forward;

/// Validity of a nonce.
pub(crate) const NONCE_LIFETIME: Duration = Duration::from_mins(5);

table! {
    let usual = location::RegistrationSettings::default();
    let secs = |secs: u32| Duration::from_secs(secs.into());

    /// The users of your domains. Phones register here (REGISTER), and requests to a user go to the registered
    /// contacts. Without `[[route]]`, only requests of users to these domains are accepted; with routes, `location` and
    /// `authenticate` decide.
    struct RawRegistrar {
        /// Your domains, as they appear after the `@` in the addresses of your users.
        domains: Vec<Setting<DomainName>> where { "minItems": 1 } => REQUIRED,
        /// Passwords of the users: a file or a database (`docs/registrar.md`). A file has a line
        /// `name:realm:algorithm:hash` for each user, with the hash of `name:realm:password`. A database,
        /// `"postgres://..."`, over TLS with `?sslmode=verify-full`, has the table `subscriber` of Kamailio. Without it
        /// every sender that reaches a listener may register as any user. A reload reads the file again, and drops
        /// cached entries of the database.
        users: Option<Setting<Place>> => "none: no password is needed",
        /// Realm of the passwords, as clients see it (RFC 3261 §22.1). Set it to the realm of existing hashes, which
        /// are valid for one realm. A user has an address of that name in each of `domains`.
        realm: Option<Setting<Text>> => "the first of `domains`",
        /// Where registrations are kept. `"memory"`: a restart loses them. A file: it is created if necessary.
        /// `"redis://..."`, with TLS `"rediss://..."`: Redis or Valkey, which several proxies may share. A registration
        /// is on the disk before its 200 is sent; with Redis this depends on its settings.
        store: Option<Setting<Place>> => "this file's name with `.bindings`",
        /// Destination of requests to a contact. `"source"`: the source address of its REGISTER, so that clients behind
        /// a NAT are reached, and a user cannot direct requests to another host. `"contact"`: the contact URI; choose
        /// it only if clients register addresses other than their own, as other proxies do.
        reach: Setting<Choice<Reach>> = usual.reach,
        /// Shortest registration; a REGISTER that asks for less gets 423. Set it lower if clients behind a NAT need to
        /// register often.
        expires_min: Setting<Time<SECOND, HOUR>> = secs(usual.expires_min),
        /// Duration of a registration whose client does not ask for one. Set it lower if phones leave without removing
        /// their registration.
        expires_default: Setting<Time<MINUTE, DAY>> = secs(usual.expires_default),
        /// Longest registration; a REGISTER that asks for more gets this. Set it lower to notice sooner that a phone is
        /// gone.
        expires_max: Setting<Time<MINUTE, { 30 * DAY }>> = secs(usual.expires_max),
        /// Most contacts of a user. A further contact gets 403 until another one has expired or is removed. Set it to
        /// the number of devices that a user may have.
        max_contacts: Setting<Count<1, 64>> = usual.contacts_max as u32,
        /// Response to a REGISTER with a Path (RFC 3327) whose client does not announce support for Path: 420, or it is
        /// accepted. Accept it if a proxy in front adds Path for clients that do not know it.
        path: Setting<Choice<PathRule>> = usual.path,
        /// How requests to users are forwarded, as `forward` of a pool. `"transaction"` and `"dialog"`: to all
        /// contacts, the highest `q` first. `"stateless"`: to the most preferred contact only; for routes without
        /// `authenticate`. `"distributed"`: without state if a neighbour of `[distribution]` keeps it and the user has
        /// one contact.
        forward: Setting<Choice<Forward>> = Forward::Transaction,
        /// Digest algorithms that are offered, a challenge for each, the most preferred first (RFC 8760): MD5, which
        /// every telephone supports, or else SHA-256, by the hashes that the users have. Many telephones, and SIPp,
        /// fail at two challenges or at another algorithm: test yours before you set `["SHA-256", "MD5"]`. With a file
        /// only algorithms of its hashes can be offered.
        algorithms: Vec<Setting<Choice<Algorithm>>> = vec![Algorithm::Md5],
        /// Networks of your own proxies in front of clients. The limits to password guessing then distinguish the
        /// clients behind them, by the Via below that of the proxy (RFC 3261 §18.2.1), and their identity header fields
        /// are forwarded (RFC 3325).
        trusted: Vec<Setting<NetworkText>>,
        /// Validity of a nonce. After it a client is challenged again, which costs a round trip. Set it higher to save
        /// these challenges.
        nonce_lifetime: Setting<Time<{ 10 * SECOND }, DAY>> = NONCE_LIFETIME,
    }
}

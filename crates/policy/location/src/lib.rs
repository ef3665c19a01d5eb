//! Registrar and location service: the contacts of an address-of-record (RFC 3261 §10, RFC 3327).
//!
//! The crate uses no sockets, no clock and no files. Time is an argument; stores are reached by requests and replies.
//!
//! - [`Register`] holds the content of one REGISTER. [`Registrar::decide`] computes the new bindings and the response
//!   from it and the present bindings.
//! - [`Registration`] processes one REGISTER with a store: read, decide, replace, respond.
//! - [`targets`] lists the contacts of an address-of-record in the order in which they are tried.
//! - [`Store`] is the interface of a store, [`MemoryStore`] a store in memory; `invariants::store` checks any store.
//!
//! # Stores
//! A store keeps one [`BindingsRecord`] for each address-of-record: all of its bindings, encoded. It has two operations. Both
//! exist as a call ([`Store`]) and as data ([`StoreRequest`], [`StoreReply`]):
//!
//! - *read* returns the record;
//! - *replace* replaces a record by another, if the stored record is still the expected one, byte for byte.
//!
//! RFC 3261 §10.3 requires that each REGISTER is processed completely or not at all, and one after the other. A
//! decision depends only on the former record, so it is enough that this record has not changed meanwhile. Otherwise
//! the registrar reads and decides again.
//!
//! So two shards, or two proxies with one store, need no lock and no version numbers, and a store needs no knowledge of
//! SIP. A REGISTER is answered with 200 after the reply to *replace*, and a durable store replies when the record is on
//! disk.
//!
//! A shard never waits: it emits a [`StoreRequest`] with its own number, continues with other requests, and gets the [`StoreReply`]
//! later as an input. A store in the same memory replies at once, by [`StoreRequest::send_to`].
//!
//! There is no cache, and no feed of changes from a remote store. A look-up costs a round trip to the store (tenths of
//! a millisecond within a site), and every proxy sees a binding as soon as it is stored. A feed that loses a message,
//! or a cache that outlives a change, would send calls to a contact that is gone.
//!
//! Records may outlive their bindings. Readers ignore expired bindings, and a store may drop a record at any time after
//! all of its bindings have expired.
//!
//! Marks in brackets, a section and a number, are the rules of `3261-10.md`, `3327.md` and `5626.md` in
//! `docs/evidence/rfc/`. A test compares the marks with these pages.
#![forbid(unsafe_code)]

mod answer;
mod aor;
mod authorization;
mod binding;
mod memory;
mod outbound;
mod record;
mod register;
mod registrar;
mod registration;
mod store;
mod store_request;
mod targets;

pub use answer::RegistrarResponse;
pub use aor::Aor;
pub use authorization::Authorization;
pub use binding::{Binding, Source};
pub use memory::{MemoryLimits, MemoryStore};
pub use record::BindingsRecord;
pub use register::{Contact, Contacts, Purpose, Register};
pub use registrar::{PathRule, Reach, Registrar, RegistrarDecision, RegistrationSettings};
pub use registration::{Registration, RegistrationStep};
pub use store::{Replaced, Store, StoreError};
pub use store_request::{StoreReply, StoreRequest};
pub use targets::targets;

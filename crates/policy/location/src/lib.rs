//! The registrar and the location service: which contacts an address-of-record has (RFC 3261 §10, RFC 3327).
//!
//! Pure: no sockets, no clock, no files. Time is an argument, stores are asked and answer.
//!
//! - [`Register`] is what one REGISTER says, [`Registrar::decide`] what becomes of it: a function of the request and
//!   of the bindings that there are, with the new bindings and the answer as its result.
//! - [`Registration`] takes one REGISTER through a store: read, decide, replace, answer.
//! - [`targets`] are the contacts of an address-of-record in the order in which they are tried.
//! - [`Store`] is what a store has to do, [`MemoryStore`] the one in memory; `invariants::store` checks any of them.
//!
//! # Stores
//! A store keeps one [`Record`] for each address-of-record: all of its bindings, encoded. It has two operations, and
//! both exist as a call ([`Store`]) and as data ([`Ask`], [`Reply`]):
//!
//! - *read* gives the record;
//! - *replace* puts a record in the place of another, if that other one is still there, byte for byte.
//!
//! RFC 3261 §10.3 wants each REGISTER processed whole or not at all, and one after the other. Since what is decided
//! depends on the former record alone, it is enough that this record has not changed in between; else the registrar
//! reads again and decides again. So two shards, or two proxies on one server, need no lock and no version numbers,
//! and a store needs to know nothing of SIP. A REGISTER is answered with 200 once *replace* has been answered, and a
//! durable store answers when the record is on the disk.
//!
//! A shard never waits: it emits an [`Ask`] with its own number, goes on with other requests, and gets the [`Reply`]
//! as an input later. A store in the same memory answers at once, by [`Ask::put_to`].
//!
//! There is no cache and no feed of changes on top of a remote store. A look-up costs a round trip to it (tenths of a
//! millisecond in one site), and in turn a binding is seen by every proxy as soon as it is stored: a feed that loses
//! a message, or a cache that outlives a change, would send calls to where nobody is.
//!
//! Records may outlive their bindings: whoever reads them passes over what has expired, and a store drops a record
//! that has expired as a whole when it likes.
//!
//! Marks in brackets, a section and a number, are the rules of `docs/rfc/3261-10.md`, `docs/rfc/3327.md` and
//! `docs/rfc/5626.md`; a test compares them.
#![forbid(unsafe_code)]

mod answer;
mod aor;
mod ask;
mod authorization;
mod binding;
mod memory;
mod outbound;
mod record;
mod register;
mod registrar;
mod registration;
mod store;
mod targets;

pub use answer::Answer;
pub use aor::Aor;
pub use ask::{Ask, Reply};
pub use authorization::Authorization;
pub use binding::{Binding, Source};
pub use memory::{MemoryLimits, MemoryStore};
pub use record::Record;
pub use register::{Contact, Contacts, Purpose, Register};
pub use registrar::{Decision, PathRule, Reach, Registrar, Settings};
pub use registration::{Registration, Step};
pub use store::{Replaced, Store, StoreError};
pub use targets::targets;

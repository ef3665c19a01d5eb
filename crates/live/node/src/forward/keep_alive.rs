//! Keep-alives to clients behind a NAT: which clients get them, and when they are sent.

use crate::address::target::Target;
use crate::site::Site;
use crate::site::edit::is_trusted;
use crate::site::keep_alive::{KeepAlives, NatContact, call_id};
use crate::step::Step;
use base::{Flow, Transport};
use core::hash::{Hash, Hasher};
use core::time::Duration;
use location::Source;
use wire::Message;

/// Number of unanswered keep-alives after which a contact gets no more, until its next REGISTER. So a REGISTER with a
/// forged source causes only a few messages.
const UNANSWERED_MAX: u8 = 5;

/// Maximum number of contacts of a shard, and maximum bytes of a URI. A contact takes up to some 500 bytes, and an OPTIONS
/// is not much longer than the REGISTER.
const CONTACTS_MAX: usize = 100_000;
const URI_MAX: usize = 256;

/// Maximum number of keep-alives in one step of the shard, so that other messages do not wait for long.
const BATCH: usize = 32;

/// Notes the client of an accepted REGISTER, or forgets it: it has left, or is not behind a NAT. `longest` is the longest
/// registration in seconds, `usual` the duration of a registration that asks for none.
pub(crate) fn note_registered(
    site: &mut Site,
    from: Flow,
    message: &Message<'_>,
    [usual, longest]: [u32; 2],
) {
    // `Contact: *` ends all registrations.
    let contact = message.contact().unwrap_or_default();
    let expires = message.longest_expires().unwrap_or(usual).min(longest);
    let is_behind_nat = from.transport == Transport::Udp
        && !message.has_lower_vias()
        && (1..=URI_MAX).contains(&contact.len())
        && Target::of(contact) != Target::Address(from.remote())
        && !is_trusted(site, from);
    let Site {
        keep_alives: KeepAlives { contacts, due: all_due, .. }, tokens, topology, settings, now, ..
    } = site;
    let mut hasher = tokens.kept_hasher();
    hasher.write(message.to());
    from.peer.hash(&mut hasher);
    let key = hasher.finish();
    let known = contacts.remove(&key);
    let is_sought = is_behind_nat && expires > 0 && !settings.keep_alive.is_zero();
    let local = topology.ports.get(from.listener).filter(|_| is_sought && contacts.len() < CONTACTS_MAX);
    let Some(local) = local else {
        if let Some(known) = known {
            all_due.remove(&(known.due, key));
        }
        return;
    };
    let (due, number, mark) = if let Some(known) = known {
        (known.due, known.number, known.mark)
    } else {
        let due = *now + settings.keep_alive;
        all_due.insert((due, key));
        (due, 0, 0)
    };
    let (source, uri) = (Source::of(from, local.advertised), contact.into());
    let expires = *now + Duration::from_secs(expires.into());
    contacts.insert(key, NatContact { source, uri, expires, due, number, mark, unanswered: 0 });
}

/// Sends the keep-alives that are due.
pub(crate) fn send_keep_alives(step: &mut Step<'_>) {
    let Step { site, out, .. } = step;
    let Site { keep_alives, tokens, topology, settings, now, .. } = &mut **site;
    let KeepAlives { place: (shard, shards), contacts, due: all_due } = keep_alives;
    for _ in 0..BATCH {
        let Some(&(due, key)) = all_due.first().filter(|(due, _)| due <= now) else { return };
        all_due.pop_first();
        let Some(contact) = contacts.get_mut(&key) else { continue };
        let is_over = contact.expires <= *now || contact.unanswered >= UNANSWERED_MAX;
        if is_over || settings.keep_alive.is_zero() {
            contacts.remove(&key);
            continue;
        }
        contact.due = *now + settings.keep_alive;
        contact.number += 1;
        contact.unanswered += 1;
        all_due.insert((contact.due, key));
        // The answer comes to the shard that its Call-ID belongs to.
        let mut hasher = tokens.kept_hasher();
        hasher.write_u64(key);
        hasher.write_u64(due.as_nanos());
        let hash = tokens.call_hash().shard_hash();
        contact.mark = hasher.finish();
        while hash.shard_of(call_id(key, contact.mark).as_bytes(), *shards) != *shard {
            contact.mark = contact.mark.wrapping_add(1);
        }
        contact.write(key, &topology.ports, out);
    }
}

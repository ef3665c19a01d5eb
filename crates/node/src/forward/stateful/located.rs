//! The contacts of an address-of-record, as the targets of a request (RFC 3261 §16.5).

use crate::Routes;
use crate::edge::Edge;
use crate::route::RouteInfo;
use ::route::Rule;
use base::Flow;
use std::sync::Arc;
use wire::Message;

/// One of them.
pub(crate) struct Contact {
    /// What the Request-URI becomes (§16.6 step 2).
    pub(crate) uri: Box<[u8]>,
    /// The route set that is put before it (RFC 3327 §5.4); empty for none.
    pub(crate) path: Box<[u8]>,
    /// The way there.
    pub(crate) hop: Flow,
}

/// Where a request for a user goes.
pub(crate) struct Located {
    /// In the order in which they are tried.
    pub(crate) contacts: Vec<Contact>,
    /// The one that is tried.
    pub(crate) current: usize,
    /// The rule that it goes by, as the table had it then.
    pub(crate) rule: Option<(Arc<Routes>, usize)>,
}

impl Located {
    pub(crate) fn new(contacts: Vec<Contact>, rule: Option<(Arc<Routes>, usize)>) -> Self {
        Self { contacts, current: 0, rule }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        let of_contact = |contact: &Contact| size_of::<Contact>() + contact.uri.len() + contact.path.len();
        size_of::<Self>() + self.contacts.iter().map(of_contact).sum::<usize>()
    }

    /// The one that is tried.
    pub(crate) fn contact(&self) -> &Contact {
        &self.contacts[self.current]
    }
}

impl Edge {
    /// §16.6 steps 2 and 6: the Request-URI becomes the contact, and its Path the Route.
    pub(super) fn edit_for_contact(
        &mut self,
        message: &Message<'_>,
        route: &RouteInfo<'_>,
        rule: Option<&Rule>,
        contact: &Contact,
    ) {
        route.edit(message, Some(&contact.uri), &mut self.edits, &mut self.scratch);
        if !contact.path.is_empty() {
            self.edits.add_header(message, "Route", &contact.path);
        }
        if let Some(rule) = rule {
            self.edit_headers(message, rule);
        }
    }
}

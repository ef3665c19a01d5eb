//! The contacts of an address-of-record, as the targets of a request (RFC 3261 §16.5).

use crate::forward::contacts::Contact;
use crate::routes::Routes;
use ::proxy::Attempt;
use base::Flow;
use core::time::Duration;
use std::sync::Arc;

/// Where a request for a user goes: to all contacts of the highest preference at once, then to those of the next
/// (§16.6).
pub(crate) struct Located {
    /// Those of higher preference first.
    contacts: Vec<Contact>,
    /// How many belong to the groups that have begun.
    begun: usize,
    /// The one that the next branch is for.
    next: usize,
    /// The one of each branch.
    of_branch: Vec<usize>,
    /// The one that a message is made for.
    current: usize,
    /// How long a group rings before the next one does.
    pub(crate) ring_time: Duration,
    /// The rule that it goes by, as the table had it then.
    pub(crate) rule: Option<(Arc<Routes>, usize)>,
}

impl Located {
    pub(crate) fn new(
        contacts: Vec<Contact>,
        ring_time: Duration,
        rule: Option<(Arc<Routes>, usize)>,
    ) -> Self {
        Self { contacts, begun: 0, next: 0, of_branch: Vec::new(), current: 0, ring_time, rule }
    }

    /// Begins the next group, of at most so many; how many it has.
    pub(crate) fn next_group(&mut self, most: u8) -> u8 {
        let left = &self.contacts[self.begun..];
        let alike = left.iter().take_while(|contact| contact.q == left[0].q).take(most.into()).count();
        // Those of the group before that no branch was begun for are left out.
        self.next = self.begun;
        self.begun += alike;
        alike as u8
    }

    /// Whether another group is left.
    pub(crate) fn has_group(&self) -> bool {
        self.begun < self.contacts.len()
    }

    /// The way of the next branch of the group, or of the same one where its connection is gone.
    pub(crate) fn hop(&mut self, attempt: Attempt) -> Option<Flow> {
        if attempt.alternate > 0 {
            self.current = *self.of_branch.get(usize::from(attempt.branch))?;
            let contact = &mut self.contacts[self.current];
            if contact.spare.is_empty() {
                return None;
            }
            let spare = contact.spare.split_off(1);
            let next = core::mem::replace(&mut contact.spare, spare).pop()?;
            *contact = Contact { spare: core::mem::take(&mut contact.spare), ..next };
            return Some(contact.hop);
        }
        if self.next == self.begun {
            return None;
        }
        self.current = self.next;
        self.next += 1;
        self.of_branch.resize(attempt.branch.into(), 0);
        self.of_branch.push(self.current);
        Some(self.contact().hop)
    }

    /// Whether the user agent of a branch has another connection, or may be connected to.
    pub(crate) fn has_spare(&self, attempt: Attempt) -> bool {
        let contact = self.of_branch.get(usize::from(attempt.branch)).map(|at| &self.contacts[*at]);
        contact.is_some_and(|contact| !contact.spare.is_empty())
    }

    /// The user agent of a branch has got the request, or may have.
    pub(crate) fn reached(&mut self, attempt: Attempt) {
        if let Some(at) = self.of_branch.get(usize::from(attempt.branch)) {
            self.contacts[*at].spare.clear();
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        let of_one = |contact: &Contact| size_of::<Contact>() + contact.uri.len() + contact.path.len();
        let of_contact = |contact: &Contact| {
            of_one(contact) + size_of::<usize>() + contact.spare.iter().map(of_one).sum::<usize>()
        };
        size_of::<Self>() + self.contacts.iter().map(of_contact).sum::<usize>()
    }

    /// The one that a message is made for: that of [`hop`](Self::hop).
    pub(crate) fn contact(&self) -> &Contact {
        &self.contacts[self.current]
    }
}

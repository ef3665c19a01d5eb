//! Answered dialogs of a call, identified by their tags.
//!
//! Any sender that has seen a Call-ID can send a BYE with it, or a request that gets 481. So only a message with the
//! tags of a dialog ends this dialog. A call has one dialog, unless it was forked upstream and answered several times
//! (RFC 3261 §13.2.2.4).

use crate::session::Session;

impl Session {
    /// Whether the call has been answered and has not ended.
    pub(crate) fn has_dialogs(&self) -> bool {
        self.dialog != 0
    }

    /// Whether this is a dialog of the call ([`crate::Tags::dialog`]).
    pub(crate) fn has_dialog(&self, dialog: u32) -> bool {
        let is_other = || self.other_dialogs.as_ref().is_some_and(|others| others.contains(&dialog));
        dialog != 0 && (self.dialog == dialog || is_other())
    }

    /// Adds an answered dialog of the call; it may be known already.
    pub(crate) fn add_dialog(&mut self, dialog: u32) {
        if dialog == 0 || self.has_dialog(dialog) {
            return;
        }
        if self.dialog == 0 {
            self.dialog = dialog;
        } else {
            let others = self.other_dialogs.get_or_insert_default();
            if let Some(place) = others.iter_mut().find(|place| **place == 0) {
                *place = dialog;
            }
        }
    }

    /// Removes a dialog. Returns whether it belonged to the call.
    pub(crate) fn remove_dialog(&mut self, dialog: u32) -> bool {
        if !self.has_dialog(dialog) {
            return false;
        }
        let Some(others) = &mut self.other_dialogs else {
            self.dialog = 0;
            return true;
        };
        if let Some(place) = others.iter_mut().find(|place| **place == dialog) {
            *place = 0;
        } else {
            let next = others.iter_mut().find(|place| **place != 0);
            self.dialog = next.map_or(0, core::mem::take);
        }
        if others.iter().all(|&place| place == 0) {
            self.other_dialogs = None;
        }
        true
    }

    /// Removes all dialogs.
    pub(crate) fn clear_dialogs(&mut self) {
        (self.dialog, self.other_dialogs) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{OTHERS, SessionTable};
    use crate::{CallKey, Slot};
    use base::Instant;
    use core::time::Duration;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn with_session<T>(act: impl FnOnce(&mut Session) -> T) -> T {
        let mut table = SessionTable::default();
        let at = table.insert(Instant::ZERO, CallKey(1), Slot(0), Duration::from_secs(1));
        act(table.get_mut(at))
    }

    proptest! {
        #[test]
        fn dialogs_behave_like_a_set(steps in prop::collection::vec((any::<bool>(), 0..6_u32), 0..60)) {
            with_session(|session| {
                let mut model = BTreeSet::new();
                for (adds, dialog) in steps {
                    if adds && dialog != 0 {
                        model.insert(dialog);
                        session.add_dialog(dialog);
                    } else {
                        prop_assert_eq!(session.remove_dialog(dialog), model.remove(&dialog));
                    }
                    prop_assert_eq!(session.has_dialogs(), !model.is_empty());
                    prop_assert!((0..6).all(|one| session.has_dialog(one) == model.contains(&one)));
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn a_dialog_beyond_the_limit_is_not_entered() {
        with_session(|session| {
            (1..=20).for_each(|dialog| session.add_dialog(dialog));
            assert_eq!((1..=20).filter(|&dialog| session.remove_dialog(dialog)).count(), OTHERS + 1);
            assert!(!session.has_dialogs());
        });
    }
}

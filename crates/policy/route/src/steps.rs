//! Effect of a rule on a given request, step by step, for operators.

use crate::Actions;
use wire::{Message, SipUri};

/// One edit of a request. `before` and `after` are the Request-URI, or the values of a header field. Both are `None` if
/// the edit does not change this request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EditStep {
    /// Action in the words of the configuration.
    pub action: String,
    /// Old text; `None` if there was none.
    pub before: Option<String>,
    /// New text; `None` if there is none.
    pub after: Option<String>,
}

impl Actions {
    /// Edits of this request, in order. `uri` is its Request-URI; `here` is as for [`Actions::uri`].
    pub fn steps(&self, message: &Message<'_>, uri: &[u8], here: &str) -> Vec<EditStep> {
        let mut steps = self.uri_steps(uri, here);
        steps.extend(self.header_steps(message));
        steps
    }

    fn uri_steps(&self, uri: &[u8], here: &str) -> Vec<EditStep> {
        let mut steps = Vec::new();
        let (mut so_far, mut before) = (Self::default(), uri.to_vec());
        let mut add = |action: String, so_far: &Self| {
            let mut after = Vec::new();
            if !so_far.uri(uri, here, &mut after) {
                uri.clone_into(&mut after);
            }
            let step = EditStep { action, ..EditStep::default() };
            steps.push(if after == before {
                step
            } else {
                EditStep { before: Some(text(&before)), after: Some(text(&after)), ..step }
            });
            before = after;
        };
        if !self.user.strip.is_empty() {
            so_far.user.strip.clone_from(&self.user.strip);
            let user = SipUri::parse(uri).ok().and_then(|uri| uri.user).map(<[u8]>::to_vec);
            let user = user.or_else(|| Some(crate::tel::TelUri::of(uri)?.number())).unwrap_or_default();
            // Shows the prefix that matches; if none does, shows all prefixes.
            let fits = |prefix: &&Vec<u8>| crate::actions::end_of_prefix(&user, prefix).is_some();
            let named = match self.user.strip.iter().find(fits) {
                Some(prefix) => text(prefix),
                None => self.user.strip.iter().map(|prefix| text(prefix)).collect::<Vec<_>>().join(", "),
            };
            add(format!("strip_prefix {named}"), &so_far);
        }
        if !self.user.prefix.is_empty() {
            so_far.user.prefix.clone_from(&self.user.prefix);
            add(format!("add_prefix {}", self.user.prefix), &so_far);
        }
        if let Some(whole) = &self.user.whole {
            so_far.user.whole = Some(whole.clone());
            add(format!("set_user {whole}"), &so_far);
        }
        if let Some(host) = &self.host {
            so_far.host = Some(host.clone());
            add(format!("set_host {host}"), &so_far);
        }
        steps
    }

    fn header_steps(&self, message: &Message<'_>) -> Vec<EditStep> {
        let values = |name: &str| {
            let fields = message.fields_beginning(|_| true).filter(|(field, _)| wire::is_header(field, name));
            let values: Vec<_> = fields.map(|(_, value)| text(value)).collect();
            (!values.is_empty()).then(|| values.join(", "))
        };
        let is_set = |name: &String| self.added.iter().any(|(added, _)| added == name);
        let removed = self.removed.iter().filter(|name| !is_set(name));
        let removed = removed.map(|name| EditStep {
            action: format!("remove_header {name}"),
            before: values(name),
            after: None,
        });
        let added = self.added.iter().map(|(name, value)| {
            let is_set = self.removed.contains(name);
            let verb = if is_set { "set_header" } else { "add_header" };
            let before = values(name);
            let after = match &before {
                Some(before) if !is_set => format!("{before}, {value}"),
                _ => value.clone(),
            };
            EditStep { action: format!("{verb} {name}: {value}"), before, after: Some(after) }
        });
        removed.chain(added).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "192.0.2.1:5060";

    fn shown(actions: &Actions, uri: &str) -> Vec<String> {
        let text = format!(
            "INVITE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP h\r\ns: hello\r\nX-A: old\r\nFrom: <sip:a@x>;tag=1\r\n\
             To: <sip:b@x>\r\nx-a: older\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nX-B: 1\r\n\r\n"
        );
        let message = wire::scan(text.as_bytes()).unwrap();
        let none = || "-".to_owned();
        let line = |step: EditStep| {
            format!(
                "{}: {} > {}",
                step.action,
                step.before.unwrap_or_else(none),
                step.after.unwrap_or_else(none)
            )
        };
        actions.steps(&message, uri.as_bytes(), HERE).into_iter().map(line).collect()
    }

    #[test]
    fn each_step_shows_only_its_changes() {
        let mut actions = Actions::default();
        for prefix in ["0044", "+44"] {
            actions.strip_prefix(prefix).unwrap();
        }
        actions.add_prefix("0").unwrap();
        actions.set_host("b.example").unwrap();
        actions.remove_header("Subject").unwrap();
        actions.remove_header("X-None").unwrap();
        actions.set_header("X-A", "new").unwrap();
        actions.add_header("X-B", "2").unwrap();
        assert_eq!(
            shown(&actions, "sip:+4420@h"),
            [
                "strip_prefix +44: sip:+4420@h > sip:20@h",
                "add_prefix 0: sip:20@h > sip:020@h",
                "set_host b.example: sip:020@h > sip:020@b.example",
                "remove_header Subject: hello > -",
                "remove_header X-None: - > -",
                "set_header X-A: new: old, older > new",
                "add_header X-B: 2: 1 > 1, 2",
            ]
        );
        assert_eq!(
            shown(&actions, "tel:+44-20")[..3],
            [
                "strip_prefix +44: tel:+44-20 > sip:20@192.0.2.1:5060;user=phone",
                "add_prefix 0: sip:20@192.0.2.1:5060;user=phone > sip:020@192.0.2.1:5060;user=phone",
                "set_host b.example: sip:020@192.0.2.1:5060;user=phone > sip:020@b.example;user=phone",
            ]
        );
        assert_eq!(shown(&actions, "sip:7@b.example")[0], "strip_prefix 0044, +44: - > -");
        // URIs of other schemes are not rewritten, and the steps show no change.
        let urn = shown(&actions, "urn:service:sos");
        assert_eq!(
            urn[..3],
            ["strip_prefix 0044, +44: - > -", "add_prefix 0: - > -", "set_host b.example: - > -"]
        );
    }
}

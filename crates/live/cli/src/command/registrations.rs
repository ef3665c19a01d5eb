//! `sarabande registrations`: the contacts of a user of a running registrar.

use super::load::table::table;
use super::status::{REGISTRAR, registrar};
use super::text::{plain, plural, span, word_column};
use crate::admin::{Exit, Target, escape};
use crate::print;
use anyhow::{Result, bail};
use server::figures::{ContactView, ContactsView};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The user as USER@DOMAIN. Without it: counts of registrations, logins and look-ups of all users.
    #[arg(value_name = "USER@DOMAIN")]
    user: Option<String>,
    /// Remove the user's contacts. A phone that is still there registers again at its next refresh.
    #[arg(long, requires = "user")]
    remove: bool,
    /// Remove this contact only.
    #[arg(long, value_name = "URI", requires = "remove")]
    contact: Option<String>,
    /// Print the answer of the server as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Prints or removes the contacts of a user. Exits with 4 if there are none.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { user, remove, contact, json, target } = arguments;
    let Some(user) = user else { return overview(target, *json) };
    let contact = contact.as_ref().map(|contact| format!("&contact={}", escape(contact)));
    let path = format!("/api/registrations?user={}{}", escape(user), contact.unwrap_or_default());
    let method = if *remove { "DELETE" } else { "GET" };
    let found: ContactsView = target.send(method, &path, b"")?.json(&[200])?;
    let shown = if *remove { &found.removed } else { &found.contacts };
    let count = plural(shown.len() as u64, "contact");
    if *json {
        print_line!("{}", serde_json::to_string_pretty(&found)?)?;
    } else if !shown.is_empty() {
        let left = if *remove { format!(" removed, {} left", found.contacts.len()) } else { String::new() };
        print_line!("{user}: {count}{left}\n\n{}", rows(shown))?;
    }
    match shown.len() {
        0 if *remove && !found.contacts.is_empty() => Err(Exit::no(format!("{user} has no such contact"))),
        0 => Err(Exit::no(format!("{user} has no contacts"))),
        _ => Ok(()),
    }
}

/// Prints the counts of all users, as `status` does.
fn overview(target: &Target, json: bool) -> Result<()> {
    let Some(registrar) = target.find(REGISTRAR)? else { bail!("the server has no [registrar]") };
    if json {
        return print_line!("{}", serde_json::to_string_pretty(&registrar)?);
    }
    print::line(registrar::text(&registrar).trim_start())
}

/// A line for each contact, and the paths below.
pub(super) fn rows(contacts: &[ContactView]) -> String {
    let mut table = table(&["contact", "q", "expires in", "source"]);
    word_column(&mut table, 3);
    let mut paths = String::new();
    for ContactView { contact, q, expires_seconds, source, behind_nat, path } in contacts {
        let nat = if *behind_nat { " (NAT)" } else { "" };
        let source = source.map_or("-".to_owned(), |source| format!("{source}{nat}"));
        let contact = plain(contact);
        table.add_row([contact.clone(), q.to_string(), span(*expires_seconds as f64), source]);
        if let Some(path) = path {
            paths += "\n";
            paths += &contact;
            paths += " by the path ";
            paths += &plain(path);
        }
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let gap = if paths.is_empty() { "" } else { "\n" };
    lines.join("\n") + gap + &paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_are_rows_and_paths_are_below() {
        let contact = |uri: &str, source: Option<&str>, path: Option<&str>| ContactView {
            contact: uri.to_owned(),
            q: 0.5,
            expires_seconds: 3_552,
            source: source.map(|source| source.parse().unwrap()),
            behind_nat: source.is_some(),
            path: path.map(str::to_owned),
        };
        let contacts = [
            contact("sip:alice@192.168.1.7:5060", Some("198.51.100.7:40000"), None),
            contact("sip:alice@192.0.2.8", None, Some("<sip:192.0.2.1;lr>")),
        ];
        let text = rows(&contacts);
        let cells = |line: &str| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let lines: Vec<_> = text.lines().map(cells).collect();
        assert_eq!(lines[0], ["contact", "q", "expires in", "source"], "{text}");
        assert_eq!(
            lines[2],
            ["sip:alice@192.168.1.7:5060", "0.5", "59m 12s", "198.51.100.7:40000 (NAT)"],
            "{text}"
        );
        assert_eq!(lines[3], ["sip:alice@192.0.2.8", "0.5", "59m 12s", "-"]);
        assert!(text.ends_with("\n\nsip:alice@192.0.2.8 by the path <sip:192.0.2.1;lr>"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn control_characters_of_clients_are_not_printed() {
        assert_eq!(plain("sip:a\u{1b}[2J@h\r\n"), "sip:a\u{fffd}[2J@h\u{fffd}\u{fffd}");
    }
}

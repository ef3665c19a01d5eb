use super::load::table::table;
use super::status::word_column;
use crate::address;
use crate::admin::{Exit, Target, escape};
use crate::print;
use anyhow::{Context, Result};
use server::admin::view::{Candidate, Explanation};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("request").required(true)))]
pub(crate) struct Arguments {
    /// File with the SIP request; `-` is standard input.
    #[arg(group = "request")]
    file: Option<PathBuf>,
    /// Explain a request with this Call-ID, made up for the purpose.
    #[arg(long, value_name = "ID", group = "request", value_parser = word)]
    call_id: Option<String>,
    /// Method of the request made up.
    #[arg(long, default_value = "INVITE", conflicts_with = "file", value_parser = word)]
    method: String,
    /// From tag of the request made up: a call is known by its Call-ID and the tag of who began it [default: of a new call].
    #[arg(long, conflicts_with = "file", value_parser = word)]
    tag: Option<String>,
    /// Where the request comes from [default: 127.0.0.1:5060].
    #[arg(long, value_name = "IP:PORT", value_parser = address::socket)]
    from: Option<SocketAddr>,
    /// Print what the server says as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// From tag of a request made up for no call in particular.
const NEW_TAG: &str = "caller";

/// Asks where a request would go. Fails with exit code 4 when to no member.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let request = match (&arguments.file, &arguments.call_id) {
        (Some(file), _) => with_line_ends(read(file)?),
        (None, call_id) => {
            let call_id = call_id.as_deref().unwrap_or_default();
            let tag = arguments.tag.as_deref().unwrap_or(NEW_TAG);
            made_up(&arguments.method, call_id, tag).into_bytes()
        }
    };
    let from = arguments.from.map(|from| format!("?from={}", escape(&from.to_string())));
    let path = format!("/api/explain{}", from.unwrap_or_default());
    let explanation: Explanation = arguments.target.post(&path, &request)?;
    if arguments.json {
        print::line(serde_json::to_string_pretty(&explanation)?)?;
    } else {
        if arguments.call_id.is_some() && arguments.tag.is_none() && !explanation.known {
            print::line(
                "As a new call. For a call in progress name the From tag of who began it: --tag TAG.\n",
            )?;
        }
        print::line(text(&explanation))?;
    }
    if explanation.member.is_none() && !is_searched(&explanation) {
        return Err(Exit::no(format!("the request would go to no member: {}", explanation.why)));
    }
    Ok(())
}

/// Whether it goes to all members, because nobody knows which one is meant.
fn is_searched(explanation: &Explanation) -> bool {
    explanation.why == "search"
}

/// A word that can stand in a SIP message as it is.
fn word(text: &str) -> Result<String, String> {
    let fine = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fine { Ok(text.to_owned()) } else { Err("write it without spaces".to_owned()) }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Text editors end lines with LF alone, SIP with CRLF (RFC 3261 §7). A message without any CR was typed.
fn with_line_ends(bytes: Vec<u8>) -> Vec<u8> {
    if bytes.contains(&b'\r') {
        return bytes;
    }
    let mut message = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        message.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        message.extend_from_slice(b"\r\n");
    }
    // The empty line at the end is the first thing that an editor drops.
    if !message.windows(4).any(|four| four == b"\r\n\r\n") {
        message.extend_from_slice(b"\r\n");
    }
    message
}

fn made_up(method: &str, call_id: &str, tag: &str) -> String {
    // These belong to a dialog (RFC 3261 §12.2, 3262, 3311, 6086), which a To tag shows.
    let in_dialog = ["ACK", "BYE", "PRACK", "UPDATE", "INFO"].contains(&method);
    let to_tag = if in_dialog { ";tag=callee" } else { "" };
    format!(
        "{method} sip:callee@example.invalid SIP/2.0\r\n\
         Via: SIP/2.0/UDP caller.example.invalid;branch=z9hG4bK-explain\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:caller@example.invalid>;tag={tag}\r\n\
         To: <sip:callee@example.invalid>{to_tag}\r\n\
         Call-ID: {call_id}\r\n\
         CSeq: 1 {method}\r\n\
         Contact: <sip:caller@caller.example.invalid>\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn text(explanation: &Explanation) -> String {
    let Explanation { member, why, policy, token, .. } = explanation;
    let reason = match why.as_str() {
        "policy" => format!("a new call, chosen by {policy} among the members that take calls"),
        "session" => "its call is in the session table".to_owned(),
        "token" => "a verified token names it, or the request comes from there".to_owned(),
        "moved" => format!("its member died before it answered; {policy} chose another one"),
        "search" => "nobody here knows the INVITE that it belongs to; whoever has that acts on it".to_owned(),
        "rejected" => {
            "it is in a dialog that nobody here knows, and gets 481 (`orphans` of the pool)".to_owned()
        }
        "dropped" => "it is in a dialog that nobody here knows (`orphans` of the pool)".to_owned(),
        "unavailable" => "no member takes new calls: it gets 503".to_owned(),
        other => other.to_owned(),
    };
    let nowhere = if is_searched(explanation) { "every member that answers" } else { "no member" };
    let to = member.map_or(nowhere.to_owned(), |member| member.to_string());
    let token = token.map(|token| format!("\ntoken    names {token}")).unwrap_or_default();
    format!("goes to  {to}\nbecause  {reason}{token}\n\n{}", candidates(&explanation.candidates, *member))
}

fn candidates(candidates: &[Candidate], chosen: Option<SocketAddr>) -> String {
    let mut table = table(&["  member", "calls", "transactions", "work", "capacity", "takes new calls"]);
    word_column(&mut table, 5);
    for candidate in candidates {
        let Candidate { member, calls, transactions, work, capacity, refusal } = candidate;
        let mark = if chosen == Some(*member) { '>' } else { ' ' };
        table.add_row([
            format!("{mark} {member}"),
            calls.to_string(),
            transactions.to_string(),
            format!("{work:.2}"),
            format!("{capacity:.2}"),
            refusal.as_ref().map_or("yes".to_owned(), |refusal| format!("no: {refusal}")),
        ]);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation(member: Option<&str>, why: &str) -> Explanation {
        let candidate = |member: &str, refusal: Option<&str>| Candidate {
            member: member.parse().unwrap(),
            calls: 3,
            transactions: 2,
            work: 2.75,
            capacity: 1.5,
            refusal: refusal.map(str::to_owned),
        };
        Explanation {
            member: member.map(|member| member.parse().unwrap()),
            why: why.to_owned(),
            policy: "tlwl".to_owned(),
            known: false,
            token: None,
            candidates: vec![candidate("10.0.0.1:5060", Some("draining")), candidate("10.0.0.2:5060", None)],
        }
    }

    #[test]
    fn it_says_where_why_and_who_else() {
        let text = text(&explanation(Some("10.0.0.2:5060"), "policy"));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "goes to  10.0.0.2:5060");
        assert!(lines[1].starts_with("because  a new call, chosen by tlwl"), "{text}");
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(cells(lines[5]), "10.0.0.1:5060 3 2 2.75 1.50 no: draining");
        assert_eq!(cells(lines[6]), "> 10.0.0.2:5060 3 2 2.75 1.50 yes");
    }

    #[test]
    fn without_a_member_it_says_what_happens_instead() {
        let text = |why| text(&explanation(None, why));
        let starts = |text: &str, start: &str| assert!(text.starts_with(start), "{text}");
        starts(&text("unavailable"), "goes to  no member\nbecause  no member takes new calls: it gets 503\n");
        starts(&text("rejected"), "goes to  no member\nbecause  it is in a dialog that nobody here knows");
        starts(&text("search"), "goes to  every member that answers\nbecause  nobody here knows the INVITE");
    }

    #[test]
    fn typed_messages_get_the_line_ends_of_sip() {
        let fixed = |text: &str| String::from_utf8(with_line_ends(text.into())).unwrap();
        assert_eq!(fixed("BYE x SIP/2.0\nTo: y"), "BYE x SIP/2.0\r\nTo: y\r\n\r\n");
        assert_eq!(fixed("BYE x SIP/2.0\nTo: y\n\nbody\n"), "BYE x SIP/2.0\r\nTo: y\r\n\r\nbody\r\n");
        assert_eq!(fixed("BYE x SIP/2.0\r\nTo: y\n\n"), "BYE x SIP/2.0\r\nTo: y\n\n", "that is what came");
    }

    #[test]
    fn requests_made_up_are_in_a_dialog_when_their_method_is() {
        assert!(made_up("BYE", "x", "a").contains(";tag=callee\r\n"));
        assert!(!made_up("INVITE", "x", "a").contains(";tag=callee"));
        assert!(word("a b").is_err() && word("a\r\nb").is_err() && word("").is_err());
    }
}

//! `sarabande explain`: where a request would go, and why.

use super::load::table::table;
use super::registrations::rows;
use super::status::asks;
use super::text::{plain, plural, word_column};
use crate::address;
use crate::admin::{Exit, Target, escape};
use crate::print;
use anyhow::{Context, Result};
use base::Peer;
use server::figures::{
    CandidateView, ExplanationView, NeighbourView, PassedOverView, PeerText, RewriteView, Route, Unmatched,
};
use std::io::Read;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("request").required(true).multiple(true)))]
pub(crate) struct Arguments {
    /// File with the SIP request; `-` is standard input.
    #[arg(group = "request")]
    file: Option<PathBuf>,
    /// Explain an invented request with this Call-ID.
    #[arg(long, value_name = "ID", group = "request", conflicts_with = "file", value_parser = word)]
    call_id: Option<String>,
    /// Explain an invented request with this Request-URI.
    #[arg(long, value_name = "URI", group = "request", conflicts_with = "file", value_parser = word)]
    uri: Option<String>,
    /// From URI of the invented request.
    #[arg(long, value_name = "URI", group = "request", conflicts_with = "file", value_parser = word)]
    from_uri: Option<String>,
    /// To URI of the invented request [default: the Request-URI].
    #[arg(long, value_name = "URI", group = "request", conflicts_with = "file", value_parser = word)]
    to_uri: Option<String>,
    /// Additional header field of the invented request; may be given several times.
    #[arg(long, value_name = "NAME: VALUE", group = "request", conflicts_with = "file", value_parser = header)]
    header: Vec<String>,
    /// Method of the invented request [default: INVITE, or BYE with both --call-id and --tag, which name a call in
    /// progress].
    #[arg(long, conflicts_with = "file", value_parser = word)]
    method: Option<String>,
    /// From tag of the invented request. A call is identified by its Call-ID and the tag of its caller [default: a new
    /// call].
    #[arg(long, conflicts_with = "file", value_parser = word)]
    tag: Option<String>,
    /// Source address of the request, over UDP or with ";transport=tcp", tls, ws or wss [default: 127.0.0.1:5060].
    #[arg(long, value_name = "IP:PORT", value_parser = address::peer)]
    from: Option<Peer>,
    /// Listener that receives the request, in the same form [default: the first with the transport and address family
    /// of the source].
    #[arg(long, value_name = "IP:PORT", value_parser = address::peer)]
    listener: Option<Peer>,
    /// Print the answer of the server as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// From tag of an invented request without `--tag`.
const NEW_TAG: &str = "caller";

/// Asks where a request would go. Exits with 4 if it goes to no member and no contact.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let request = match &arguments.file {
        Some(file) => with_line_ends(read(file)?),
        None => made_up(arguments).into_bytes(),
    };
    let query = [("from", arguments.from), ("listener", arguments.listener)];
    let query: Vec<_> = query
        .into_iter()
        .filter_map(|(name, address)| Some(format!("{name}={}", escape(&address?.to_string()))))
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    let path = format!("/api/explain{mark}{}", query.join("&"));
    let explanation: ExplanationView = arguments.target.post(&path, &request)?;
    if arguments.json {
        print::line(serde_json::to_string_pretty(&explanation)?)?;
    } else {
        if arguments.call_id.is_some() && arguments.tag.is_none() && !explanation.known {
            print::line(
                "A call in progress is found by its Call-ID only with --tag TAG, the From tag of its caller.\n",
            )?;
        }
        print::line(text(&explanation))?;
    }
    let goes = explanation.member.is_some()
        || explanation.outside.is_some()
        || !explanation.contacts.is_empty()
        || ["search", "waits"].contains(&&*explanation.why);
    match explanation.user {
        _ if goes => Ok(()),
        Some(user) => Err(Exit::no(format!("{user} has no contacts: the request would get 480"))),
        None => Err(Exit::no(format!("the request would go to no member: {}", explanation.why))),
    }
}

/// A word without spaces or control characters, which a SIP message can contain as it is.
fn word(text: &str) -> Result<String, String> {
    let fine = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fine { Ok(text.to_owned()) } else { Err("expected text without spaces".to_owned()) }
}

/// A header field on one line.
fn header(text: &str) -> Result<String, String> {
    let wrong = || "write NAME: VALUE on one line".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte));
    let fine = is_name && !value.chars().any(char::is_control);
    if fine { Ok(format!("{name}: {}", value.trim())) } else { Err(wrong()) }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Adds the line ends of SIP. Text editors end lines with LF only, SIP with CRLF (RFC 3261 §7). A message without any
/// CR was typed.
fn with_line_ends(bytes: Vec<u8>) -> Vec<u8> {
    if bytes.contains(&b'\r') {
        return bytes;
    }
    let mut message = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        message.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        message.extend_from_slice(b"\r\n");
    }
    // Editors often drop the empty line at the end.
    if !message.windows(4).any(|four| four == b"\r\n\r\n") {
        message.extend_from_slice(b"\r\n");
    }
    message
}

/// Invents a request. Parts without an option have the values of a new call from an unknown caller.
fn made_up(arguments: &Arguments) -> String {
    let Arguments { method, call_id, uri, from_uri, to_uri, tag, header, .. } = arguments;
    // A call in progress was routed when it began, so the usual request of it is the BYE.
    let usual = if call_id.is_some() && tag.is_some() { "BYE" } else { "INVITE" };
    let method = method.as_deref().unwrap_or(usual);
    let call_id = call_id.as_deref().unwrap_or("explained@example.invalid");
    let tag = tag.as_deref().unwrap_or(NEW_TAG);
    let uri = uri.as_deref().unwrap_or("sip:callee@example.invalid");
    let from = from_uri.as_deref().unwrap_or("sip:caller@example.invalid");
    let to = to_uri.as_deref().unwrap_or(uri);
    let headers: String = header.iter().flat_map(|header| [header.as_str(), "\r\n"]).collect();
    // These methods are used within dialogs only (RFC 3261 §12.2, 3262, 3311, 6086), which need a To tag.
    let in_dialog = ["ACK", "BYE", "PRACK", "UPDATE", "INFO"].contains(&method);
    let to_tag = if in_dialog { ";tag=callee" } else { "" };
    format!(
        "{method} {uri} SIP/2.0\r\n\
         Via: SIP/2.0/UDP caller.example.invalid;branch=z9hG4bK-explain\r\n\
         Max-Forwards: 70\r\n\
         From: <{from}>;tag={tag}\r\n\
         To: <{to}>{to_tag}\r\n\
         Call-ID: {call_id}\r\n\
         CSeq: 1 {method}\r\n\
         Contact: <sip:caller@caller.example.invalid>\r\n\
         {headers}\
         Content-Length: 0\r\n\r\n"
    )
}

fn text(explanation: &ExplanationView) -> String {
    if let Some(user) = &explanation.user {
        return located(user, explanation);
    }
    let ExplanationView { member, outside, why, pool, policy, token, route, .. } = explanation;
    let reason = match why.as_str() {
        "policy" => format!("a new call, chosen by {policy} among the members that take calls"),
        "queue" => "a new call, which the queue of its pool assigns to a member with a free place".to_owned(),
        "waits" => "a new call, which waits in the queue of its pool until a member has a free place".to_owned(),
        "full" => {
            "a new call, and the queue of its pool is full: the next pool of its route gets it, or it gets 503".to_owned()
        }
        "outside" => "no pool: the request follows its Route or Request-URI".to_owned(),
        "session" => "the call of the request is in the session table".to_owned(),
        "token" => "a verified token names the destination, or the request comes from it".to_owned(),
        "moved" => format!("the member of the call died before it answered; {policy} chose another one"),
        "search" => "the INVITE of the request is not known here: all members get the request, and the member with \
                    the INVITE handles it".to_owned(),
        "rejected" => "the dialog of the request is not known here: it gets 481".to_owned(),
        "busy" => "every member that takes new calls is at its limit (`overload` or `max_rate` of the pool): it gets 503".to_owned(),
        "unavailable" => match pool {
            Some(pool) => format!("no member of {pool} takes new calls: it gets 503"),
            None => "no member takes new calls: it gets 503".to_owned(),
        },
        other => other.to_owned(),
    };
    let nowhere = match why.as_str() {
        "search" => "every member that answers",
        "waits" => "no member yet",
        _ => "no member",
    };
    let to = member.or(*outside).map_or(nowhere.to_owned(), |to| to.to_string());
    let route = route.as_ref().map(by_route).unwrap_or_default();
    let over: String = explanation.passed_over.iter().map(passed_over).collect();
    let pool = pool.as_ref().map(|pool| format!("\npool     {pool}")).unwrap_or_default();
    let token = token.map(|token| format!("\ntoken    names {token}")).unwrap_or_default();
    let candidates = candidates(&explanation.candidates, *member);
    let limited: String = explanation.limited.iter().map(limited).collect();
    format!("goes to  {to}\nbecause  {reason}{route}{over}{pool}{token}{limited}\n\n{candidates}")
}

/// Text about a request to the registered contacts of a user.
fn located(user: &str, ExplanationView { route, contacts, .. }: &ExplanationView) -> String {
    let route = route.as_ref().map(by_route).unwrap_or_default();
    let count = plural(contacts.len() as u64, "contact");
    let user = plain(user);
    let order = if contacts.len() > 1 { ", the highest q first" } else { "" };
    let head = format!(
        "goes to  {count} of {user}{order}\nbecause  the request is for a user of the registrar{route}"
    );
    if contacts.is_empty() { head } else { format!("{head}\n\n{}", rows(contacts)) }
}

/// Line break and indentation of continued lines.
const INDENT: &str = "\n         ";

/// Number of routes before the one that matches that are shown.
const EARLIER_MAX: usize = 10;

/// Text about the route and its changes, with a line before and one after each change.
fn by_route(Route { name, earlier, rewrites, request_uri }: &Route) -> String {
    let unmatched = |Unmatched { name, condition }: &Unmatched| {
        format!("\nnot      route {}: {}", plain(name), plain(condition))
    };
    let further = match earlier.len().saturating_sub(EARLIER_MAX) {
        0 => String::new(),
        further => format!("\nnot      {}", plural(further as u64, "further route")),
    };
    let earlier = earlier.iter().take(EARLIER_MAX).map(unmatched).collect::<String>() + &further;
    let rewrites = rewrites.iter().map(rewrite);
    let uri = request_uri.iter().map(|uri| format!("{INDENT}sent to  {}", plain(uri)));
    format!("\nroute    {}{}{earlier}", plain(name), rewrites.chain(uri).collect::<String>())
}

fn rewrite(RewriteView { action, before, after }: &RewriteView) -> String {
    let action = plain(action);
    let shown = |text: &Option<String>| text.as_deref().map_or("nothing".to_owned(), plain);
    match (before, after) {
        (None, None) => format!("{INDENT}{action}: changes nothing here"),
        _ => format!("{INDENT}{action}{INDENT}    {}{INDENT} -> {}", shown(before), shown(after)),
    }
}

/// Text about the pools that were skipped, and why.
fn passed_over(PassedOverView { pool, why, candidates }: &PassedOverView) -> String {
    let refusal = |candidate: &CandidateView| {
        Some(format!("{INDENT}{} is {}", candidate.member, candidate.refusal.as_ref()?))
    };
    let why = if why == "full" { "is full" } else { "has no member that takes calls" };
    format!("\nnot      {pool}: {why}{}", candidates.iter().filter_map(refusal).collect::<String>())
}

/// Text about the limit of a neighbour that may hold the request back.
fn limited(neighbour: &NeighbourView) -> String {
    let asks = asks(neighbour);
    format!("\nlimit    {} {asks} (RFC 7339): else another server gets it, or it gets 503", neighbour.address)
}

/// Text about the law and the figure that keep new calls from a member at its limit.
fn limit(candidate: &CandidateView) -> String {
    let CandidateView { refusal, limit_law, unanswered, limit, max_rate, .. } = candidate;
    match (refusal.as_deref(), unanswered.zip(*limit), limit_law) {
        (Some("limit"), Some((open, limit)), Some(law)) => format!(", {open} of {limit} unanswered ({law})"),
        (Some("max_rate"), ..) => format!(" of {max_rate} calls a second"),
        _ => String::new(),
    }
}

fn candidates(candidates: &[CandidateView], chosen: Option<PeerText>) -> String {
    let mut table = table(&["  member", "calls", "transactions", "work", "capacity", "takes new calls"]);
    word_column(&mut table, 5);
    for candidate in candidates {
        let CandidateView { member, calls, transactions, work, capacity, refusal, .. } = candidate;
        let limit = limit(candidate);
        let mark = if chosen == Some(*member) { '>' } else { ' ' };
        table.add_row([
            format!("{mark} {member}"),
            calls.to_string(),
            transactions.to_string(),
            format!("{work:.2}"),
            format!("{capacity:.2}"),
            refusal.as_ref().map_or("yes".to_owned(), |refusal| format!("no: {refusal}{limit}")),
        ]);
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::figures::ContactView;

    fn explanation(member: Option<&str>, why: &str) -> ExplanationView {
        let candidate = |member: &str, refusal: Option<&str>| CandidateView {
            member: member.parse().unwrap(),
            calls: 3,
            transactions: 2,
            work: 2.75,
            capacity: 1.5,
            limit_law: Some("gradient".to_owned()),
            unanswered: Some(9),
            limit: Some(8),
            max_rate: 20,
            refusal: refusal.map(str::to_owned),
        };
        ExplanationView {
            member: member.map(|member| member.parse().unwrap()),
            why: why.to_owned(),
            user: None,
            contacts: Vec::new(),
            outside: None,
            route: None,
            passed_over: Vec::new(),
            pool: None,
            policy: "tlwl".to_owned(),
            known: false,
            token: None,
            candidates: vec![candidate("10.0.0.1:5060", Some("draining")), candidate("10.0.0.2:5060", None)],
            limited: Vec::new(),
        }
    }

    #[test]
    fn member_reason_and_candidates_are_shown() {
        let text = text(&explanation(Some("10.0.0.2:5060"), "policy"));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "goes to  10.0.0.2:5060");
        assert!(lines[1].starts_with("because  a new call, chosen by tlwl"), "{text}");
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(cells(lines[5]), "10.0.0.1:5060 3 2 2.75 1.50 no: draining");
        assert_eq!(cells(lines[6]), "> 10.0.0.2:5060 3 2 2.75 1.50 yes");
    }

    #[test]
    fn a_member_at_its_limit_is_shown_with_law_and_figure() {
        let mut busy = explanation(None, "busy");
        busy.candidates[0].refusal = Some("limit".to_owned());
        busy.candidates[1].refusal = Some("max_rate".to_owned());
        busy.limited = vec![NeighbourView {
            address: "10.0.0.2:5060".parse().unwrap(),
            rate: Some(150.0),
            acceptance: 1.0,
            limited: true,
            silent: false,
            ignores_offer: false,
            offered: 0,
            refused: 0,
            received: 0,
        }];
        let text = text(&busy);
        assert!(text.contains("no: limit, 9 of 8 unanswered (gradient)\n"), "{text}");
        assert!(text.ends_with("no: max_rate of 20 calls a second"), "{text}");
        assert!(text.contains("\nlimit    10.0.0.2:5060 takes 150 requests a second (RFC 7339): "), "{text}");
    }

    #[test]
    fn route_rewrites_and_pool_are_shown() {
        let rewrite = |action: &str, before: Option<&str>, after: Option<&str>| RewriteView {
            action: action.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        };
        let route = Route {
            name: "uk".to_owned(),
            earlier: (0..12)
                .map(|each| Unmatched { name: format!("r{each}"), condition: "user: it is \"1\"".to_owned() })
                .collect(),
            rewrites: vec![
                rewrite("strip_prefix +44", Some("sip:+4420@h"), Some("sip:20@h")),
                rewrite("set_host h", None, None),
                rewrite("add_header X-A: 1", None, Some("1")),
            ],
            request_uri: Some("sip:20@h".to_owned()),
        };
        let one = explanation(None, "unavailable");
        let over = PassedOverView {
            pool: "near".to_owned(),
            why: "dead".to_owned(),
            candidates: vec![one.candidates[0].clone()],
        };
        let (route, pool, passed_over) = (Some(route), Some("core".to_owned()), vec![over]);
        let text = text(&ExplanationView { route, pool, passed_over, ..one });
        let head = "goes to  no member\n\
                    because  no member of core takes new calls: it gets 503\n\
                    route    uk\n         \
                    strip_prefix +44\n             sip:+4420@h\n          -> sip:20@h\n         \
                    set_host h: changes nothing here\n         \
                    add_header X-A: 1\n             nothing\n          -> 1\n         \
                    sent to  sip:20@h\n\
                    not      route r0: user: it is \"1\"\n";
        assert!(text.starts_with(head), "{text}");
        let rest = "not      2 further routes\n\
                    not      near: has no member that takes calls\n         10.0.0.1:5060 is draining\n\
                    pool     core\n\n";
        assert!(text.contains(rest), "{text}");
    }

    #[test]
    fn a_request_of_a_member_goes_outside() {
        let outside = Some("192.0.2.9:5060".parse().unwrap());
        let text = text(&ExplanationView { outside, ..explanation(None, "outside") });
        assert!(text.starts_with("goes to  192.0.2.9:5060\nbecause  no pool: the request follows"), "{text}");
    }

    #[test]
    fn a_request_for_a_user_goes_to_contacts() {
        let contact = ContactView {
            contact: "sip:bob@192.0.2.9".to_owned(),
            q: 1.0,
            expires_seconds: 60,
            source: None,
            behind_nat: false,
            path: None,
        };
        let user = Some("bob@example.com".to_owned());
        let one = ExplanationView { user, contacts: vec![contact], ..explanation(None, "located") };
        let text = |explanation| text(&explanation);
        let shown = text(one.clone());
        let head =
            "goes to  1 contact of bob@example.com\nbecause  the request is for a user of the registrar\n\n";
        assert!(shown.starts_with(head) && shown.contains("sip:bob@192.0.2.9"), "{shown}");
        let none = text(ExplanationView { contacts: Vec::new(), ..one });
        assert!(none.starts_with("goes to  0 contacts of bob@example.com\n"), "{none}");
    }

    #[test]
    fn without_a_member_the_response_is_shown() {
        let text = |why| text(&explanation(None, why));
        let starts = |text: &str, start: &str| assert!(text.starts_with(start), "{text}");
        starts(&text("unavailable"), "goes to  no member\nbecause  no member takes new calls: it gets 503\n");
        starts(&text("rejected"), "goes to  no member\nbecause  the dialog of the request is not known here");
        starts(
            &text("search"),
            "goes to  every member that answers\nbecause  the INVITE of the request is not known \
                                here",
        );
    }

    #[test]
    fn typed_messages_get_the_line_ends_of_sip() {
        let fixed = |text: &str| String::from_utf8(with_line_ends(text.into())).unwrap();
        assert_eq!(fixed("BYE x SIP/2.0\nTo: y"), "BYE x SIP/2.0\r\nTo: y\r\n\r\n");
        assert_eq!(fixed("BYE x SIP/2.0\nTo: y\n\nbody\n"), "BYE x SIP/2.0\r\nTo: y\r\n\r\nbody\r\n");
        assert_eq!(
            fixed("BYE x SIP/2.0\r\nTo: y\n\n"),
            "BYE x SIP/2.0\r\nTo: y\n\n",
            "the bytes are unchanged"
        );
    }

    /// The request that is invented from these arguments.
    fn words(words: &[&str]) -> String {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            arguments: Arguments,
        }
        let words = [&["explain"], words].concat();
        let command = <Command as clap::Parser>::try_parse_from(words);
        made_up(&command.unwrap_or_else(|error| panic!("{error}")).arguments)
    }

    #[test]
    fn options_make_a_request() {
        let text = words(&[
            "--uri",
            "sip:+44@h",
            "--from-uri",
            "sip:a@b",
            "--header",
            "X-A:1",
            "--header",
            "X-B: 2 ",
        ]);
        assert!(text.ends_with("\r\n\r\n"), "{text}");
        for part in [
            "INVITE sip:+44@h SIP/2.0\r\n",
            "From: <sip:a@b>;tag=",
            "To: <sip:+44@h>\r\n",
            "\r\nX-A: 1\r\nX-B: 2\r\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(words(&["--to-uri", "tel:1"]).contains("To: <tel:1>\r\n"));
        assert!(header("X-A").is_err() && header("X A: 1").is_err() && header("X-A: 1\r\nB: 2").is_err());
    }

    #[test]
    fn invented_requests_are_in_a_dialog_if_their_method_needs_one() {
        assert!(words(&["--call-id", "x", "--method", "BYE"]).contains(";tag=callee\r\n"));
        assert!(!words(&["--call-id", "x"]).contains(";tag=callee"));
        assert!(words(&["--call-id", "x", "--tag", "y"]).contains("CSeq: 1 BYE\r\n"));
        assert!(word("a b").is_err() && word("a\r\nb").is_err() && word("").is_err());
    }
}

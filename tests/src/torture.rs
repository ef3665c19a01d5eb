//! The torture messages of RFC 4475 and RFC 5118 (`torture/`, from the RFCs' own archives), with the allowed reactions
//! of a proxy and their check.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::message::{is_own_line, top_via_hop};
use testkit::{body, head, header};

/// A message and the allowed reactions.
#[derive(Debug)]
pub struct Case {
    /// Name in the RFC.
    pub name: String,
    /// The datagram.
    pub bytes: Vec<u8>,
    /// Allowed reactions; one of them must happen.
    pub expected: Vec<TortureVerdict>,
}

/// Reaction to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TortureVerdict {
    /// Forwarded to a member with only the changes of RFC 3261 §16.6.
    Forwarded,
    /// Forwarded to a member without its fault.
    Mended,
    /// Answered with this status.
    Answered(u16),
    /// Neither forwarded nor answered.
    Dropped,
}

impl fmt::Display for TortureVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forwarded => f.write_str("forwarded"),
            Self::Mended => f.write_str("forwarded without its fault"),
            Self::Answered(status) => write!(f, "answered with {status}"),
            Self::Dropped => f.write_str("dropped"),
        }
    }
}

/// Returns every case of `torture/INDEX.tsv`.
pub fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("torture");
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let index = String::from_utf8(read("INDEX.tsv")).expect("the index is text");
    let mut lines = index.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let columns = lines.next().expect("the index has a head");
    let column = |name| columns.iter().position(|column| *column == name).expect("a known column");
    let (name, expect, file) = (column("name"), column("expect"), column("wire_file"));
    lines
        .map(|row| Case {
            name: row[name].to_owned(),
            bytes: read(row[file]),
            // `forward-if-matched` is about responses to a live transaction; the tests send stray ones.
            expected: row[expect]
                .split('|')
                .filter(|word| *word != "forward-if-matched")
                .map(verdict)
                .collect(),
        })
        .collect()
}

fn verdict(word: &str) -> TortureVerdict {
    match word {
        "forward" => TortureVerdict::Forwarded,
        "forward-fixed" => TortureVerdict::Mended,
        "drop" => TortureVerdict::Dropped,
        status => {
            TortureVerdict::Answered(status.parse().unwrap_or_else(|_| panic!("{status:?} is not a verdict")))
        }
    }
}

impl Case {
    /// Judges the copy that arrived at a member. `balancer` is the required sent-by of the topmost Via. An error says
    /// what is wrong with the copy.
    pub fn judge(&self, copy: &[u8], balancer: &str) -> Result<TortureVerdict, String> {
        if top_via_hop(copy).as_deref() != Some(balancer) {
            return Err("the topmost Via is not the balancer's".to_owned());
        }
        let (_, whole) = split(&self.bytes);
        let length = header(&self.bytes, "Content-Length").first().and_then(|value| value.parse().ok());
        // Bytes after the body are not part of the message (RFC 3261 §18.3).
        let sent = &whole[..whole.len().min(length.unwrap_or(whole.len()))];
        if body(copy) != sent {
            return Err(format!("the body has {} bytes instead of {}", body(copy).len(), sent.len()));
        }
        let copied = head(copy);
        let (lines, _) = split(&self.bytes);
        let kept = |line: &&String| is_own_line(line) || copied.contains(line.as_str());
        let start_line = usize::from(self.strictly_routed(&copied));
        let missing = lines.iter().skip(start_line).find(|line| !kept(line));
        match missing {
            None => Ok(TortureVerdict::Forwarded),
            Some(_) if clean_request_line(&copied) => Ok(TortureVerdict::Mended),
            Some(line) => Err(format!("a line has changed, and the fault is still there: {line:?}")),
        }
    }

    /// Returns true if the copy was routed strictly (RFC 3261 §16.6 step 6): the first Route without `lr` has become
    /// the Request-URI, and the Request-URI the last Route.
    fn strictly_routed(&self, copied: &str) -> bool {
        let uri = |head: &str| head.split(' ').nth(1).unwrap_or_default().to_owned();
        let Some(first) = header(&self.bytes, "Route").into_iter().next() else { return false };
        let last = header(copied.as_bytes(), "Route").pop().unwrap_or_default();
        !first.contains(";lr")
            && first.trim_matches(['<', '>']) == uri(copied)
            && last.trim_matches(['<', '>']) == uri(&head(&self.bytes))
    }
}

/// Splits a message into start line and headers (folds kept together, without their last line end), and the body.
fn split(message: &[u8]) -> (Vec<String>, &[u8]) {
    let mut lines: Vec<String> = Vec::new();
    for line in head(message).split_inclusive("\r\n") {
        match lines.last_mut() {
            Some(last) if line.starts_with([' ', '\t']) => last.push_str(line),
            _ => lines.push(line.to_owned()),
        }
    }
    (lines.into_iter().map(|line| line.trim_end_matches("\r\n").to_owned()).collect(), body(message))
}

/// Returns true if single spaces separate method, URI and version, and the URI has only characters allowed in a
/// Request-URI (RFC 3261 §19.1.1).
fn clean_request_line(head: &str) -> bool {
    let line = head.lines().next().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    matches!(words[..], [_, uri, "SIP/2.0"] if !uri.is_empty() && !uri.contains(['<', '>', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: &str = "127.0.0.9:5060";

    fn case(name: &str) -> Case {
        cases().into_iter().find(|case| case.name == name).unwrap()
    }

    /// Returns a message as a careful proxy forwards it: a Via on top, nothing after the body.
    fn copy(case: &Case) -> Vec<u8> {
        let text = head(&case.bytes);
        let (start, rest) = text.split_once("\r\n").unwrap();
        let mut copy = format!("{start}\r\nVia: SIP/2.0/UDP {US};branch=z9hG4bKx\r\n{rest}\r\n").into_bytes();
        let length = header(&case.bytes, "Content-Length").first().and_then(|value| value.parse().ok());
        let whole = body(&case.bytes);
        copy.extend_from_slice(&whole[..whole.len().min(length.unwrap_or(whole.len()))]);
        copy
    }

    #[test]
    fn a_careful_copy_counts_as_forwarded() {
        for case in cases().iter().filter(|case| case.expected[0] == TortureVerdict::Forwarded) {
            // Lines may contain bytes that are not UTF-8, but the copy is made from text here.
            if std::str::from_utf8(&case.bytes).is_ok() {
                assert_eq!(case.judge(&copy(case), US), Ok(TortureVerdict::Forwarded), "{}", case.name);
            }
        }
    }

    #[test]
    fn a_copy_with_bytes_after_the_body_is_wrong() {
        let case = case("dblreq");
        let mut copy = copy(&case);
        copy.extend_from_slice(b"INVITE");
        assert!(case.judge(&copy, US).is_err());
    }

    #[test]
    fn a_copy_without_our_via_or_with_a_changed_body_is_wrong() {
        let case = case("wsinv");
        let good = copy(&case);
        assert!(case.judge(&case.bytes, US).is_err());
        assert!(case.judge(&good[..good.len() - 1], US).is_err());
    }

    #[test]
    fn a_faulty_line_must_be_mended_or_left_alone() {
        let case = case("escruri");
        let (good, text) = (copy(&case), String::from_utf8(copy(&case)).unwrap());
        assert_eq!(
            case.judge(&good, US),
            Ok(TortureVerdict::Forwarded),
            "a copy with the fault is not an allowed reaction"
        );
        assert!(!case.expected.contains(&TortureVerdict::Forwarded));
        let uri = text.split(' ').nth(1).unwrap();
        let mended = text.replacen(uri, uri.split('?').next().unwrap(), 1);
        assert_eq!(case.judge(mended.as_bytes(), US), Ok(TortureVerdict::Mended));
    }
}

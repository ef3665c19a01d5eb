//! A storage place: a file, or a server by URL.

use serde_json::json;

use super::{Kind, Leaf, Refusal, Schema};

/// A path or a URL. A URL may contain a password.
#[derive(Debug, Clone)]
pub(crate) struct Place;

/// Path of a file that is not secret.
#[derive(Debug, Clone)]
pub(crate) struct FilePath;

/// Content of a [`Place`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PlaceText {
    Path(String),
    Url { scheme: String, url: String },
}

const PLACE: &str = "expected the path of a file, or a URL such as \"redis://127.0.0.1\"";

impl Kind for Place {
    type Value = PlaceText;
    const SECRET: bool = true;

    fn read(leaf: &Leaf) -> Result<PlaceText, Refusal> {
        match leaf {
            Leaf::Text(text) if text.is_empty() || text.contains('\0') => Err(Refusal::new(PLACE)),
            // `redis:/host` and `redis:host` are mistakes, not files.
            Leaf::Text(text) if is_half_url(text) => {
                Err(Refusal::new("expected two slashes in a URL: \"redis://127.0.0.1\""))
            }
            Leaf::Text(text) => Ok(match text.split_once("://") {
                Some((scheme, _)) => {
                    PlaceText::Url { scheme: scheme.to_ascii_lowercase(), url: text.clone() }
                }
                None => PlaceText::Path(text.clone()),
            }),
            _ => Err(Refusal::new(PLACE)),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "path, relative to this file, or URL", "type": "string", "minLength": 1 })
    }
}

impl Kind for FilePath {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        match leaf {
            Leaf::Text(path) if !path.is_empty() && !path.contains('\0') => Ok(path.clone()),
            _ => Err(Refusal::new("expected the path of a file, such as \"sip.example.com.pem\"")),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "path, relative to this file", "type": "string", "minLength": 1 })
    }
}

/// Whether the text starts like a URL but is none.
fn is_half_url(text: &str) -> bool {
    let scheme = text.split(':').next().unwrap_or_default();
    let known = ["redis", "rediss", "valkey", "valkeys", "postgres", "postgresql"].contains(&scheme);
    known && text.contains(':') && !text.contains("://")
}

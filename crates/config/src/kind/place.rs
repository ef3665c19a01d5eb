//! Where something is kept: a file, or a server by its URL.

use schemars::{Schema, json_schema};

use super::{Kind, Refusal};
use crate::setting::Leaf;

/// A path, or a URL. A URL may have a password in it.
#[derive(Debug, Clone)]
pub(crate) struct Place;

/// What it says.
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
        json_schema!({ "title": "path, relative to this file, or URL", "type": "string", "minLength": 1 })
    }
}

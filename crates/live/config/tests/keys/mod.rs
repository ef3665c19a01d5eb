//! Checks that a complete file stays complete.

use std::collections::BTreeSet;

use serde_json::Value;

/// Keys of the schema that the files do not name.
pub(crate) fn absent(schema: &str, files: &[impl AsRef<std::path::Path>]) -> Vec<String> {
    let schema = serde_json::from_str(schema).expect("JSON");
    let texts = files.iter().map(|file| std::fs::read_to_string(file.as_ref()).expect("a file"));
    let text = texts.collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    keys(&schema, &mut found);
    let named = |key: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == key);
    found.into_iter().filter(|key| !named(key)).map(str::to_owned).collect()
}

fn keys<'s>(schema: &'s Value, found: &mut BTreeSet<&'s str>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        found.extend(properties.keys().map(String::as_str));
    }
    match schema {
        Value::Object(object) => object.values().for_each(|child| keys(child, found)),
        Value::Array(items) => items.iter().for_each(|child| keys(child, found)),
        _ => {}
    }
}

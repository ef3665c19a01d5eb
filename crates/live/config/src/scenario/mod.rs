//! Scenarios of the simulator: keys, typed values and errors.
//!
//! ```
//! let text = r#"
//!     [host.proxy]
//!     capacity = 160
//!
//!     [calls.main]
//!     path = ["proxy"]
//!     rate = 80
//! "#;
//! let scenario = config::scenario::parse(text, "one.toml").unwrap();
//! assert_eq!(scenario.title, "one");
//! assert_eq!(scenario.outlook().to_string(), "1 host, 1 stream, at most 80 calls/s: proxy at 50 % of its capacity");
//!
//! let errors = config::scenario::parse(&text.replace("[\"proxy", "[\"poxy"), "one.toml").unwrap_err();
//! assert!(errors.to_string().ends_with("did you mean \"proxy\"?"));
//! ```

mod balancer;
mod check;
mod names;
mod outlook;
mod overload;
mod raw;
mod reference;
mod typed;

use std::path::Path;

pub use self::balancer::{BalancerSettings, Ties};
pub use self::overload::{Overload, ScenarioFeedback, ScenarioLocal};
pub use crate::change::Value;
pub use outlook::ScenarioOutlook;
pub use reference::reference;
pub use typed::*;

use crate::change::Change;
use crate::{Errors, document};
use raw::RawScenario;

/// Reads and checks a scenario.
///
/// # Errors
/// All problems of the file. A file that cannot be read is a single problem without a line.
pub fn load(path: &Path) -> Result<Scenario, Errors> {
    parse(&document::text(path)?, &path.display().to_string())
}

/// Checks the text of a scenario. `file` is its name in messages, and its default title.
///
/// # Errors
/// All problems, in the order of the text. Text that is not TOML is not checked further.
pub fn parse(text: &str, file: &str) -> Result<Scenario, Errors> {
    checked(text, file, None)
}

/// As [`parse`], with one value changed or added. `key` has the form of [`Problem::key`], such as `calls.main.rate` or
/// `link[0].loss`.
///
/// [`Problem::key`]: crate::Problem::key
///
/// ```
/// use config::scenario::{Value, parse_with};
///
/// let text = "host.proxy.capacity = 160\ncalls.main = { path = [\"proxy\"], rate = 80 }";
/// let with = |value| parse_with(text, "one.toml", "calls.main.rate", &Value::read(value).unwrap());
/// assert_eq!(with("120").unwrap().streams[0].load[0].rate, 120.0);
/// let errors = with("many").unwrap_err();
/// assert_eq!(
///     errors.to_string(),
///     "one.toml: key `calls.main.rate`: read \"many\"; expected calls a second, a number from 0.001 to 1000000"
/// );
/// ```
///
/// # Errors
/// All problems; problems of `value` have no line.
pub fn parse_with(text: &str, file: &str, key: &str, value: &Value) -> Result<Scenario, Errors> {
    checked(text, file, Some(Change { key, value }))
}

fn checked(text: &str, file: &str, change: Option<Change<'_>>) -> Result<Scenario, Errors> {
    let title = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
    document::parse(text, file, change, |raw: &RawScenario, report| check::check(raw, &title, report))
}

/// Whether a file is a scenario, right or wrong, and no configuration of the server: it has more tables of the former.
/// `false` if the file cannot be read.
pub fn is_scenario(path: &Path) -> bool {
    document::text(path).is_ok_and(|text| is_text_of_scenario(&text))
}

/// As [`is_scenario`], for the text of a file.
pub fn is_text_of_scenario(text: &str) -> bool {
    let (scenario, configuration) = tables(text);
    scenario > configuration
}

/// Whether a file is a configuration of the server, right or wrong, and no scenario.
pub fn is_configuration(path: &Path) -> bool {
    document::text(path)
        .map(|text| tables(&text))
        .is_ok_and(|(scenario, configuration)| configuration > scenario)
}

/// Number of tables that a scenario can have, and that a configuration can have.
fn tables(text: &str) -> (usize, usize) {
    let (document, _) = toml::de::DeTable::parse_recoverable(text);
    let count = |schema: serde_json::Value| {
        document
            .get_ref()
            .keys()
            .filter(|key| schema["properties"].get(key.get_ref().as_ref()).is_some())
            .count()
    };
    let mut configuration = document::schema::<crate::raw::RawConfig>();
    // Every scenario has a table `calls`, and few configurations do.
    if let Some(tables) = configuration["properties"].as_object_mut() {
        tables.remove("calls");
    }
    (count(document::schema::<RawScenario>()), count(configuration))
}

/// JSON schema (draft 2020-12) of a scenario, for editors: the text of `docs/scenario-schema.json`.
pub fn schema() -> String {
    format!("{:#}\n", document::schema::<RawScenario>())
}

//! The web page at `/`, whose files are in `page/` of this crate. The page has no data: its script reads the API as any
//! other client does.

use axum::Router;
use axum::http::{HeaderName, header};
use axum::response::IntoResponse;
use axum::routing::get;
use config::AdminPage;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Path, type and content of each file.
const FILES: [(&str, &str, &str); 5] = [
    ("/", "text/html; charset=utf-8", include_str!("../../page/page.html")),
    ("/page.js", SCRIPT, include_str!("../../page/page.js")),
    ("/page.css", STYLE, include_str!("../../page/page.css")),
    ("/uplot.js", SCRIPT, include_str!("../../page/assets/uPlot.iife.min.js")),
    ("/uplot.css", STYLE, include_str!("../../page/assets/uPlot.min.css")),
];

/// Header fields of all files. The page runs only its own script, sends requests only to this server, and is in no frame
/// of another page, which could otherwise mislead an operator to click.
const FIELDS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-cache"),
];

/// Mark in the HTML, replaced by whether the page may drain members.
const MAY_DRAIN: &str = "{MAY_DRAIN}";

/// Returns whether this path is a file of the page. Clients may read these files without a token.
pub(super) fn has(path: &str) -> bool {
    FILES.iter().any(|(file, ..)| *file == path)
}

/// Returns the routes of all files; none with `page = "off"`.
pub(super) fn routes(page: AdminPage) -> Router {
    let may_drain = if page == AdminPage::Drain { "yes" } else { "no" };
    let files = if page == AdminPage::Off { &[][..] } else { &FILES[..] };
    files.iter().fold(Router::new(), |router, &(path, kind, text)| {
        let text = text.replace(MAY_DRAIN, may_drain);
        let answer = move || {
            std::future::ready(([(header::CONTENT_TYPE, kind)], FIELDS, text.clone()).into_response())
        };
        router.route(path, get(answer))
    })
}

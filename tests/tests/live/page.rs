//! The web page of the admin interface, in a browser.

use sarabande_tests::{RunningBalancer, SippServer, TestSettings, TestSite, WebPage, http};

/// Opens the page of a balancer.
fn open(field: &TestSite, balancer: &RunningBalancer) -> WebPage {
    WebPage::open(field, &format!("http://{}/", balancer.admin()))
}

/// Returns an expression for the text of this column of a member's row.
fn cell(address: impl std::fmt::Display, column: usize) -> String {
    format!("document.querySelector('#pool-servers tr[data-key=\"{address}\"]')?.cells[{column}].textContent")
}

/// The page shows members and curves without an error, follows a member that dies, and drains a member and ends the
/// drain. It fits wide and narrow windows.
#[test]
fn the_page_follows_a_member_that_dies_and_drains_another() {
    let field = TestSite::new("page");
    let mut servers: Vec<_> = [11, 12].map(|host| SippServer::plain(&field, host)).into();
    let settings = TestSettings {
        admin_more: vec!["page = \"drain\"".to_owned()],
        ..TestSettings::new(&field, &[11, 12])
    };
    let balancer = RunningBalancer::start(&field, settings);
    let mut page = open(&field, &balancer);
    let (first, second) = (field.sip(11), field.sip(12));
    for member in [first, second] {
        page.until(&format!("{} === 'up'", cell(member, 1)));
    }
    page.until("document.querySelectorAll('figure canvas').length >= 2");
    page.until("document.getElementById('standing').textContent === 'accepts new calls'");
    for (width, dark) in [(1280, false), (400, true)] {
        page.look(width, dark);
        // The curves are drawn again after the change of the width.
        page.until(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= {width}"));
    }
    servers[1].kill();
    page.until(&format!("{} === 'down'", cell(second, 1)));
    page.until(
        "document.getElementById('pool-servers')?.innerText.includes('1 of 2 members accept calls') === true",
    );

    let button = format!("document.querySelector('tr[data-key=\"{first}\"] button')");
    page.value(&format!("{button}.click()"));
    page.until(&format!("{} === 'draining'", cell(first, 1)));
    assert!(balancer.member(first).is_some_and(|member| member.state == "draining"));
    page.until("document.getElementById('standing').textContent === 'accepts no new calls'");
    page.until(&format!("{button}.textContent === 'Undo drain' && !{button}.disabled"));
    page.value(&format!("{button}.click()"));
    page.until(&format!("{} === 'up'", cell(first, 1)));
}

/// Of 1,000 members the page shows those that are not up, and those that match the filter. Without `page = "drain"` it
/// has no buttons.
#[test]
fn the_page_holds_a_thousand_members() {
    let field = TestSite::new("page-large");
    let member = |number: u16| format!("{}:{}", field.ip(11), 20_000 + number);
    let members = (0..1_000).map(|number| format!("\"{}\"", member(number))).collect();
    let settings = TestSettings { members, probe: vec!["enabled = false"], ..TestSettings::new(&field, &[]) };
    let balancer = RunningBalancer::start(&field, settings);
    let mut page = open(&field, &balancer);
    let rows = "document.querySelectorAll('#pool-servers tbody tr').length";
    page.until("document.getElementById('pool-servers')?.innerText.includes('1,000 more are up') === true");
    assert_eq!(page.value(rows), 0);
    for number in [7, 700] {
        let path = format!("/api/drain?member={}", member(number));
        assert_eq!(http::request(balancer.admin(), "POST", &path).expect("it answers").status, 200);
    }
    page.until(&format!("{rows} === 2 && {} === 'draining'", cell(member(700), 1)));
    page.value(&format!("document.getElementById('search').value = '{}'", member(42)));
    page.value("document.getElementById('search').dispatchEvent(new Event('input'))");
    page.until(&format!("{rows} === 1 && {} === 'up'", cell(member(42), 1)));
    assert_eq!(page.value("document.querySelectorAll('main button').length"), 0);
}

/// Where a token is needed, the page asks for it.
#[test]
fn the_page_asks_for_the_token() {
    let field = TestSite::new("page-token");
    let _server = SippServer::plain(&field, 11);
    let admin_more = vec!["token = \"0123456789abcdef\"".to_owned()];
    let balancer =
        RunningBalancer::launch(&field, TestSettings { admin_more, ..TestSettings::new(&field, &[11]) });
    let mut page = open(&field, &balancer);
    page.until("document.getElementById('login')?.hidden === false && document.querySelector('main').hidden");
    page.value("document.getElementById('token').value = '0123456789abcdef'");
    page.value("document.querySelector('#login button').click()");
    page.until(&format!("{} === 'up'", cell(field.sip(11), 1)));
}

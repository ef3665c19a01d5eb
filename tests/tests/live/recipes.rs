//! Pages of the guide about other programs: their files and commands run as they are printed.

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, KamailioProxy, TestSite, VirtualAddress, program, show, status,
    value,
};
use std::env;
use std::fs;
use std::process::Command;

use super::examples::{STRANGER, Site, examples};

/// Returns the first block of a page that contains this text.
fn block(page: &str, text: &str) -> String {
    let block = page.split("\n```").find(|block| block.contains(text)).expect("a block");
    let (_language, block) = block.split_once('\n').expect("lines");
    block.to_owned()
}

/// Two balancers with a virtual address: the active one is killed while calls are in progress.
#[test]
fn a_virtual_address_moves_to_the_other_balancer() {
    const CALLS: u64 = 40;
    let hosts = VirtualAddress::new("virtual-address");
    let _servers = ["10.0.0.1", "10.0.0.2"].map(|address| hosts.server(address));
    let keepalived = block(include_str!("../../../docs/availability.md"), "vrrp_script");
    let example = include_str!("../../../examples/peer-balancers.toml");
    let mut hosts_of = ["first", "second"].map(|name| {
        let host = hosts.host(name, example, "000102030405060708090a0b0c0d0e0f", &keepalived);
        if name == "first" {
            hosts.is_at(&host);
        }
        host
    });
    let calls = hosts.calls(CALLS, 12_000);
    calls.has_answers(CALLS);
    hosts_of[0].kill_balancer();
    hosts.is_at(&hosts_of[1]);
    calls.finish_clean();
    hosts.calls(CALLS, 100).finish_clean();
}

/// A Kamailio with the file of the page is called through the balancer, and calls a carrier through it. Strangers are
/// refused by both.
#[test]
fn kamailio_is_called_and_calls_out() {
    const CLIENT: u8 = 100;
    const CARRIER: u8 = 71;
    let site = Site::new("kamailio-page", &[CARRIER]);
    for name in ["sbc1.carrier.example.net", "sbc2.carrier.example.net"] {
        site.name(name, CARRIER);
    }
    let ip = |host| site.field.ip(host).to_string();
    let file = block(include_str!("../../../docs/kamailio.md"), "request_route");
    let file = file.replace("10.0.0.9", &ip(1)).replace("10.0.0.200", &ip(CLIENT));
    let kamailio = KamailioProxy::with_text(&site.field, 11, &file);
    let members = ", \"10.0.0.2\", \"10.0.0.3\", \"10.0.0.4\"";
    let example = fs::read_to_string(examples().join("media-cluster.toml")).expect("an example");
    let _balancer = site.start_text(example.replace(members, ""), "kamailio-page");

    let client = AnsweringAgent::start(site.field.sip(CLIENT), |_| true);
    assert!(site.call(97, "sip:4989123@example.com").contains(&ip(CLIENT)));
    drop(client);

    let agent = Agent::bind(site.field.sip(CLIENT));
    let ask = |request: &AgentRequest| {
        agent.send(kamailio.address(), &request.bytes(agent.address()));
        agent.final_response(&request.call_id)
    };
    let uri = format!("sip:+4420@{}", ip(1));
    let answer = ask(&AgentRequest { uri, ..AgentRequest::new("INVITE", "out") });
    assert_eq!(status(&answer), Some(200), "{}", show(&answer));
    assert!(value(&answer, "Contact").is_some_and(|contact| contact.contains(&ip(CARRIER))));
    let ack = AgentRequest { cseq: 1, ..AgentRequest::in_dialog("ACK", &answer) };
    agent.send(kamailio.address(), &ack.bytes(agent.address()));
    assert_eq!(status(&ask(&AgentRequest::in_dialog("BYE", &answer))), Some(200));

    assert_eq!(site.invite(STRANGER, "sip:+4420@example.com"), None);
    let stranger = Agent::bind(site.field.sip(STRANGER));
    stranger.send(kamailio.address(), &AgentRequest::new("INVITE", "stranger").bytes(stranger.address()));
    assert_eq!(status(&stranger.final_response("stranger")), Some(403));
}

/// The commands of the page about SIPp run in a shell, in namespaces of their own.
#[test]
fn the_commands_with_sipp_work() {
    let site = TestSite::new("sipp-page");
    let commands = block(include_str!("../../../docs/sipp.md"), "sipp -sn");
    let folder = program().parent().expect("a folder").display();
    let output = Command::new("unshare")
        .args(["--net", "--pid", "--kill-child", "--fork", "sh", "-c"])
        .arg(format!("ip link set lo up\n{commands}"))
        .env("PATH", format!("{folder}:{}", env::var("PATH").expect("it is set")))
        .env("TERM", "vt100")
        .current_dir(site.folder())
        .output()
        .expect("it runs");
    let output = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<_> = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    let has = |row: &[&str]| rows.iter().any(|it| it.starts_with(row));
    assert!(has(&["Failed", "call", "|", "0", "|", "0"]), "{output}");
    assert!(has(&["total", "0", "0", "0.00", "200"]), "{output}");
}

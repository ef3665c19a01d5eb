//! `sarabande init`: a first configuration.

use sarabande_tests::{Agent, AgentRequest, AnsweringAgent, RunningProxy, TestSite, Tool, path_text, status};

/// The sets of Kamailio's list become pools. Of the probed servers one is dead, and the written file carries a call.
#[test]
fn a_file_from_a_dispatcher_list_carries_a_call() {
    let field = TestSite::new("init");
    let _server = AnsweringAgent::start(field.sip(11), |_| true);
    let [alive, dead, other] = [11, 12, 13].map(|host| field.sip(host).to_string());
    let list = format!("1 sip:{alive} 8 0 weight=60;duid=a\n1 sip:{dead} 8 0 weight=30\n2 sip:{other}\n");
    let list = field.write("dispatcher.list", list);
    let file = field.folder().join("init.toml");
    let (file, listen) = (path_text(&file), field.sip(1).to_string());
    let init = |more: &[&str]| {
        let arguments = ["init", file, "--from-dispatcher", path_text(&list), "--listen", &listen];
        Tool::run(&field, &[&arguments, more].concat())
    };
    let (exit, said) = init(&[]);
    let expected = [format!("{alive}  answered 200 in "), format!("{dead}  nothing listens there")];
    assert!(exit.success() && expected.iter().all(|line| said.contains(line)), "{said}");
    let text = std::fs::read_to_string(file).expect("it is written");
    assert!(text.contains(&format!("{{ address = \"{dead}\", capacity = 0.5 }},\n")), "{text}");
    std::fs::write(file, "precious").expect("an own file");
    assert_eq!(init(&[]).0.code(), Some(1), "it exists");
    assert_eq!(std::fs::read_to_string(file).expect("it is there"), "precious");
    assert!(init(&["--force", "--no-probe"]).0.success());
    let (exit, said) = Tool::run(&field, &["check", file]);
    assert!(exit.success() && said.contains("2 pools"), "{said}");
    let folder = field.write("started/unused", "");
    let folder = folder.parent().expect("a folder");
    let proxy = RunningProxy::with_text(&field, folder, &text);
    let agent = Agent::bind(field.sip(2));
    agent.send(proxy.address(), &AgentRequest::new("INVITE", "first").bytes(agent.address()));
    assert_eq!(status(&agent.final_response("first")), Some(200));
}

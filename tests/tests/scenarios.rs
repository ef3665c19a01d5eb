//! Runs the SIPp scenarios against each other without a balancer. A failure here is a fault of a scenario; one that
//! happens only in `live` is a fault of the balancer.

use sarabande_tests::{CallLoad, LossyLink, SippCaller, SippServer, TestSite};

const FEW: CallLoad = CallLoad { calls: 10, rate: 50, hold_ms: 200 };

/// Runs `uac_NAME` against `uas_NAME`. Every call must succeed at both ends.
fn pair(name: &str) {
    let field = TestSite::new(&format!("pair_{name}"));
    let server = SippServer::start(&field, &format!("uas_{name}"), field.sip(11), 500);
    let at = server.address();
    let other = [at.ip().to_string(), at.port().to_string()];
    let keys = ["-key", "other_ip", &other[0], "-key", "other_port", &other[1]];
    SippCaller::start(&field, &format!("uac_{name}"), (field.sip(2), at), FEW, &keys).finish_clean();
    assert_eq!(server.finish_clean().successful, FEW.calls);
}

#[test]
fn each_scenario_fits_its_counterpart() {
    for name in ["call", "reinvite", "cancel", "auth", "callee_bye", "in_dialog", "peer"] {
        pair(name);
    }
}

/// SIPp's retransmissions carry every call over a link that loses 5 % each way.
#[test]
fn a_lossy_link_is_survived_without_a_balancer() {
    let field = TestSite::new("pair_loss");
    let server = SippServer::start(&field, "uas_direct", field.sip(11), 20_000);
    let (caller, link) = (field.sip(2), field.sip(3));
    let lossy = LossyLink::start(link, caller, server.address(), 50, 3);
    let load = CallLoad { calls: 200, rate: 50, hold_ms: 2000 };
    SippCaller::plain(&field, (caller, link), load).finish_clean();
    assert_eq!(server.finish_clean().successful, load.calls);
    assert!(lossy.lost() > 0, "nothing was lost");
}

//! A pool with a thousand members: a short status, small metrics, little memory.

use crate::running::{Server, get};

#[test]
fn a_thousand_idle_members_cost_little() {
    let member = |each: usize| format!("127.1.{}.{}:5060", each / 200, each % 200 + 1);
    let members: Vec<_> = (0..1_000).map(|each| format!("\"{}\"", member(each))).collect();
    let role = format!("[pool.servers]\nmembers = [{}]\nprobe = {{ enabled = false }}", members.join(", "));
    let server = Server::with_threads(2, "large", &role);
    for _ in 0..3 {
        let metrics = get(&server.admin, "/metrics");
        assert!(metrics.contains(&format!("sarabande_member_calls{{member=\"{}\"", member(999))));
        assert!(metrics.len() <= 1_000_000, "{} bytes of metrics", metrics.len());
    }
    let lines = |more: &[&str]| {
        let (code, out, errors) = server.ask(&[&["status"], more].concat());
        assert_eq!(code, Some(0), "{errors}");
        (out.lines().count(), out)
    };
    let (count, all) = lines(&[]);
    assert!(count <= 12 && all.contains("servers: 1000 members"), "{count} lines:\n{all}");
    let (count, pool) = lines(&["--pool", "servers"]);
    assert!(count > 1_000 && pool.contains(&member(500)), "{pool}");
    let drained = member(7);
    assert_eq!(server.ask(&["drain", &drained]).0, Some(0));
    let (count, down) = lines(&["--down"]);
    assert!(count <= 12 && down.contains(&drained), "{down}");
    let (code, _, errors) = server.ask(&["status", "--pool", "typo"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("no pool \"typo\"; there are: servers"), "{errors}");
    let memory = server.process.memory();
    assert!(memory <= 64 << 10, "{memory} KiB resident");
}

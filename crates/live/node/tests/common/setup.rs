//! Common set-ups of a shard, and common questions to it.

use super::*;
use elastic::estimate::EstimatorSettings;
use node::QueueReport;
use overload::MessageClass;
use testbed::Bed;

/// Sets the routing rules.
pub(crate) fn set_rules(bed: &mut Bed, rules: impl Into<Vec<Rule>>) {
    bed.set(|setup| setup.settings.routes = testbed::routes(rules.into(), setup));
}

/// A rule that sends these requests to this pool.
pub(crate) fn to_pool(pool: u16, conditions: Conditions) -> Rule {
    let target = Target::Pools(Pools::one(pool));
    Rule { name: format!("to-{pool}"), conditions, target, ..Rule::default() }
}

/// Condition for requests to users with this prefix.
pub(crate) fn users(prefix: &str) -> Conditions {
    let user = Field::Uri(UriPlace::RequestUri, Part::User);
    let texts = vec![(user, vec![Pattern::Prefix(prefix.as_bytes().to_owned())])];
    Conditions { texts, ..Conditions::default() }
}

/// A rule that sends all requests to the first pool, and to the second one if that fails.
pub(crate) fn both(failover: Failover) -> Rule {
    let choice = |pool| TargetPool { pool, priority: pool, weight: 1.0 };
    let pools = Pools { choices: vec![choice(0), choice(1)], failover };
    Rule { name: "both".to_owned(), target: Target::Pools(pools), ..Rule::default() }
}

/// A queue in front of members with this capacity in calls per second.
pub(crate) fn queue(maximum: f64) -> QueueSetup {
    let capacity = EstimatorSettings { maximum, ..EstimatorSettings::default() };
    QueueSetup { settings: QueueSettings::default(), source: CapacitySource::Fixed, capacity }
}

/// Limits an address to this rate and burst of new requests; further ones get 503.
pub(crate) fn rate(per_second: u32, burst: u32) -> RateSettings {
    let address = Some(SourceLimit { v4: 32, v6: 64, rate: Rate { per_second, burst } });
    RateSettings { address, refusal: AccessRefusal::Unavailable, ..RateSettings::default() }
}

/// The key of new tokens after a change. Tokens with the key before are still valid.
pub(crate) const NEW_KEY: TokenKey = TokenKey([8; 16]);

/// Changes the key of tokens.
pub(crate) fn change_key(bed: &mut Bed) {
    bed.set(|setup| setup.settings.tokens = Arc::new(Tokens::new(NEW_KEY, &[KEY], LIFETIME)));
}

/// The process is to stop in 20 s.
pub(crate) fn stop(bed: &mut Bed) {
    let stopping = Some(bed.now + Duration::from_secs(20));
    bed.set(|setup| setup.stopping = stopping);
}

/// Sets the settings of kept dialogs.
pub(crate) fn keep_dialogs(bed: &mut Bed, settings: DialogSettings) {
    bed.set(|setup| setup.settings.dialogs = Some(Arc::new(settings)));
}

/// The next messages have waited this long, after messages that waited long enough to start the law.
pub(crate) fn waited(bed: &mut Bed, waited: Duration) {
    // The law starts with waits above T1/4 for 100 ms.
    let standing = if waited.is_zero() { waited } else { waited.max(Duration::from_millis(126)) };
    for (pause, waited) in [(0, standing), (100, standing), (0, waited)] {
        bed.now += Duration::from_millis(pause);
        bed.input(ShardInput::Waited { waited, queue: 0, class: MessageClass::NewInvite });
    }
}

/// Known addresses of a name.
pub(crate) fn found(transport: Transport, addresses: &[SocketAddr]) -> Resolved {
    let addresses = addresses.iter().map(|&address| (address, 1.0)).collect();
    Resolved { transport, addresses, partial: false, fresh_for: Duration::from_secs(30) }
}

/// Returns the client's Via value with this branch.
pub(crate) fn via(branch: &str) -> String {
    format!("SIP/2.0/UDP {};branch=z9hG4bK-{branch};rport", client())
}

/// The receiver of a request answers it. Returns the messages sent.
pub(crate) fn respond(bed: &mut Bed, request: &Sent, status: u16) -> Vec<Sent> {
    let source = bed.setup.topology.ports[request.listener].local;
    bed.receive_by(request.flow, &answer(&request.bytes, source, status, request.to))
}

/// The same with exactly one message sent.
pub(crate) fn answered(bed: &mut Bed, request: &Sent, status: u16) -> Sent {
    let mut sent = respond(bed, request, status);
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

/// A request is forwarded and answered. Returns the response that its sender gets.
pub(crate) fn asked(bed: &mut Bed, from: SocketAddr, request: &Req, status: u16) -> Sent {
    let forwarded = bed.one_by(Flow::udp(0, from), &request.bytes());
    answered(bed, &forwarded, status)
}

/// Returns the INVITE of a new call as its member gets it, after the 100.
pub(crate) fn invited(bed: &mut Bed, call_id: &str) -> Sent {
    let mut sent = bed.receive(0, client(), &Req::new("INVITE", call_id, client()).bytes());
    assert_eq!((sent.len(), sent[0].status()), (2, 100), "{sent:#?}");
    sent.remove(1)
}

/// Returns the state of the first pool's queue.
pub(crate) fn queue_report(bed: &Bed) -> QueueReport {
    bed.shard.queue_reports().remove(0).expect("the pool has a queue")
}

/// Returns the number of transactions.
pub(crate) fn transactions(bed: &Bed) -> usize {
    bed.shard.proxy_report().map_or(0, |report| report.transactions)
}

/// Returns the requests of this method.
pub(crate) fn requests(sent: &[Sent], method: Method) -> Vec<Sent> {
    sent.iter().filter(|sent| sent.message().method() == Some(method)).cloned().collect()
}

/// Returns the status codes sent to the caller.
pub(crate) fn statuses(sent: &[Sent]) -> Vec<u16> {
    sent.iter().filter(|sent| sent.to == client()).filter_map(|sent| sent.message().status()).collect()
}

//! What a shard is set up with, and what it is asked, in most tests.

use super::*;
use elastic::estimate::Settings;
use node::QueueReport;
use overload::MessageClass;
use testbed::Bed;

/// The rules that requests go by.
pub(crate) fn set_rules(bed: &mut Bed, rules: impl Into<Vec<Rule>>) {
    bed.set(|setup| setup.settings.routes = testbed::routes(rules.into(), setup));
}

/// A rule for these requests: they go to this pool.
pub(crate) fn to_pool(pool: u16, conditions: Conditions) -> Rule {
    let target = Target::Pools(Pools::one(pool));
    Rule { name: format!("to-{pool}"), conditions, target, ..Rule::default() }
}

/// Requests to users that begin with this.
pub(crate) fn users(prefix: &str) -> Conditions {
    let user = Field::Uri(Place::RequestUri, Part::User);
    let texts = vec![(user, vec![Pattern::Prefix(prefix.as_bytes().to_owned())])];
    Conditions { texts, ..Conditions::default() }
}

/// A rule for all requests: the first pool, and the second one where that fails.
pub(crate) fn both(failover: Failover) -> Rule {
    let choice = |pool| Choice { pool, priority: pool, weight: 1.0 };
    let pools = Pools { choices: vec![choice(0), choice(1)], failover };
    Rule { name: "both".to_owned(), target: Target::Pools(pools), ..Rule::default() }
}

/// A queue in front of members that take so many calls a second.
pub(crate) fn queue(maximum: f64) -> QueueSetup {
    let capacity = Settings { maximum, ..Settings::default() };
    QueueSetup { settings: QueueSettings::default(), source: CapacitySource::Fixed, capacity }
}

/// What an address may begin a second, and at once; what is more gets 503.
pub(crate) fn rate(per_second: u32, burst: u32) -> RateSettings {
    let address = Some(SourceLimit { v4: 32, v6: 64, rate: Rate { per_second, burst } });
    RateSettings { address, refusal: Refusal::Unavailable, ..RateSettings::default() }
}

/// The key of new tokens after a change; those with the key before are still good.
pub(crate) const NEW_KEY: TokenKey = TokenKey([8; 16]);

/// Changes the key of tokens.
pub(crate) fn change_key(bed: &mut Bed) {
    bed.set(|setup| setup.settings.tokens = Arc::new(Tokens::new(NEW_KEY, &[KEY], LIFETIME)));
}

/// The process is about to stop in 20 s.
pub(crate) fn stop(bed: &mut Bed) {
    let stopping = Some(bed.now + Duration::from_secs(20));
    bed.set(|setup| setup.stopping = stopping);
}

/// Dialogs are kept in this way.
pub(crate) fn keep_dialogs(bed: &mut Bed, settings: DialogSettings) {
    bed.set(|setup| setup.settings.dialogs = Some(Arc::new(settings)));
}

/// The messages to come have waited so long: twice, since a wait counts that stays for 100 ms.
pub(crate) fn waited(bed: &mut Bed, waited: Duration) {
    for pause in [0, 100] {
        bed.now += Duration::from_millis(pause);
        bed.input(ShardInput::Waited { waited, queue: 0, class: MessageClass::NewInvite });
    }
}

/// Addresses of a name that are known now.
pub(crate) fn found(transport: Transport, addresses: &[SocketAddr]) -> Resolved {
    let addresses = addresses.iter().map(|&address| (address, 1.0)).collect();
    Resolved { transport, addresses, partial: false, fresh_for: Duration::from_secs(30) }
}

/// The Via value of the client with this branch.
pub(crate) fn via(branch: &str) -> String {
    format!("SIP/2.0/UDP {};branch=z9hG4bK-{branch};rport", client())
}

/// Whoever got this request answers it; what comes of that.
pub(crate) fn respond(bed: &mut Bed, request: &Sent, status: u16) -> Vec<Sent> {
    let source = bed.setup.topology.ports[request.listener].local;
    bed.receive_by(request.flow, &answer(&request.bytes, source, status, request.to))
}

/// The same, which has exactly one consequence.
pub(crate) fn answered(bed: &mut Bed, request: &Sent, status: u16) -> Sent {
    let mut sent = respond(bed, request, status);
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

/// A request goes on, and whoever gets it answers; what its sender hears.
pub(crate) fn asked(bed: &mut Bed, from: SocketAddr, request: &Req, status: u16) -> Sent {
    let forwarded = bed.one_by(Flow::udp(0, from), &request.bytes());
    answered(bed, &forwarded, status)
}

/// The INVITE of a new call as its member gets it, after the 100.
pub(crate) fn invited(bed: &mut Bed, call_id: &str) -> Sent {
    let mut sent = bed.receive(0, client(), &Req::new("INVITE", call_id, client()).bytes());
    assert_eq!((sent.len(), sent[0].status()), (2, 100), "{sent:#?}");
    sent.remove(1)
}

/// How the queue of the first pool is.
pub(crate) fn queue_report(bed: &Bed) -> QueueReport {
    bed.shard.queue_reports().remove(0).expect("the pool has a queue")
}

/// How many transactions there are.
pub(crate) fn transactions(bed: &Bed) -> usize {
    bed.shard.proxy_report().map_or(0, |report| report.transactions)
}

/// Those of what was sent that are requests of this method.
pub(crate) fn requests(sent: &[Sent], method: Method) -> Vec<Sent> {
    sent.iter().filter(|sent| sent.message().method() == Some(method)).cloned().collect()
}

/// The status codes that went back to the caller.
pub(crate) fn statuses(sent: &[Sent]) -> Vec<u16> {
    sent.iter().filter(|sent| sent.to == client()).filter_map(|sent| sent.message().status()).collect()
}

//! Effects of a step of the transaction layer.

use crate::medium::Sink;
use crate::table::Leg;
use transaction::{Effects, Id, KeptMessage, Sending, TransactionNews};

/// Sends messages at once, and collects the news for later, since the layer cannot be called while it runs.
pub(crate) struct Collect<'a, M> {
    sink: &'a mut dyn Sink<M>,
    /// A step has at most one piece of news, and ends at most one transaction.
    pub(crate) news: Option<(Id, Leg, TransactionNews)>,
    pub(crate) ended: Option<(Id, Leg)>,
}

impl<'a, M> Collect<'a, M> {
    pub(crate) fn new(sink: &'a mut dyn Sink<M>) -> Self {
        Self { sink, news: None, ended: None }
    }
}

impl<M: KeptMessage> Effects<Leg, M> for Collect<'_, M> {
    fn send(&mut self, _: Id, _: &Leg, message: &M, why: Sending) {
        self.sink.send(message, why);
    }

    fn tell(&mut self, id: Id, leg: &mut Leg, news: TransactionNews) {
        self.news = Some((id, *leg, news));
    }

    fn ended(&mut self, id: Id, leg: Leg) {
        self.ended = Some((id, leg));
    }
}

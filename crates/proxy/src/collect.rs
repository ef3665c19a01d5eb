//! What a step of the transactions has to say.

use crate::medium::Sink;
use crate::table::Leg;
use transaction::{Effects, Id, Message, News, Sending};

/// Passes on what is sent and collects the news: the layer can't be used while it runs.
pub(crate) struct Collect<'a, S> {
    sink: &'a mut S,
    /// A step tells one thing at most, and ends one transaction.
    pub(crate) news: Option<(Id, Leg, News)>,
    pub(crate) ended: Option<(Id, Leg)>,
}

impl<'a, S> Collect<'a, S> {
    pub(crate) fn new(sink: &'a mut S) -> Self {
        Self { sink, news: None, ended: None }
    }
}

impl<M: Message, S: Sink<M>> Effects<Leg, M> for Collect<'_, S> {
    fn send(&mut self, _: Id, _: &Leg, message: &M, why: Sending) {
        self.sink.send(message, why);
    }

    fn tell(&mut self, id: Id, leg: &mut Leg, news: News) {
        self.news = Some((id, *leg, news));
    }

    fn ended(&mut self, id: Id, leg: Leg) {
        self.ended = Some((id, leg));
    }
}

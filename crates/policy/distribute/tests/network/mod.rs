//! Networks of proxies that share out state: the laws side by side, and what must hold whatever happens.

mod entry;
mod laws;
mod model;
mod random;

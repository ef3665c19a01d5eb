//! Networks of proxies that distribute state: comparison of the laws, and properties that hold for any events.

mod entry;
mod laws;
mod model;
mod random;

//! All tests of the crate are one program, because linking many programs takes longer than running them.

mod calls;
mod cloud;
mod cpu;
mod event_queue;
mod gate;
mod link;
mod model;
mod overload;
mod queueing;
mod recovery;
mod servers;
mod settings;
mod state;

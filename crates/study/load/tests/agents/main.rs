//! A caller against answerers in virtual time.
mod calls;
mod faults;
mod net;
mod requests;
mod timing;

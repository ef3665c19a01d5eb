//! Header fields, one file for each: the fields that forwarding reads, and the fields of registrars and of
//! authentication.

pub(crate) mod call_id;
pub(crate) mod contact;
pub(crate) mod content_length;
pub(crate) mod cseq;
pub(crate) mod digest;
pub(crate) mod list;
pub(crate) mod max_breadth;
pub(crate) mod max_forwards;
pub(crate) mod name;
pub(crate) mod name_addr;
pub(crate) mod overload;
pub(crate) mod retry_after;
pub(crate) mod route;
pub(crate) mod via;

pub(crate) use name::Name;

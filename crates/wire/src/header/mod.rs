//! Header fields that forwarding reads, one file each.

pub(crate) mod call_id;
pub(crate) mod content_length;
pub(crate) mod cseq;
pub(crate) mod list;
pub(crate) mod max_breadth;
pub(crate) mod max_forwards;
pub(crate) mod name;
pub(crate) mod name_addr;
pub(crate) mod retry_after;
pub(crate) mod route;
pub(crate) mod via;

pub(crate) use name::Name;

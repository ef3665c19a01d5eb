//! What a request says, and whether it is valid.

pub(crate) mod route_header;
pub(crate) mod validate;

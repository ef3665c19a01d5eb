//! Reading and validation of requests.

pub(crate) mod route_header;
pub(crate) mod validate;

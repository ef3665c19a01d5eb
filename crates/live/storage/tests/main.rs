//! All tests of the crate are one program, since linking several takes longer than running them.

mod call_records;
mod embedded;
mod full_disk;
mod redis;
mod users;

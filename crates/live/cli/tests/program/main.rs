//! Tests of the program from outside: processes, pipes, files and exit codes.

mod errors;
mod examples;
mod large;
mod manual;
mod monitor;
mod monitor_keys;
mod monitoring;
mod pipes;
mod plan;
mod running;
mod watch;

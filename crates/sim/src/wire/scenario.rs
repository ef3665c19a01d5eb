//! A scenario of the simulator as a plan: the same file, on real bytes.

//! The programs of `examples/`, run as processes of their own.

mod readme;

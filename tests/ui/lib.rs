//! What the attribute says about mistakes, and what it accepts: see `main.rs`.

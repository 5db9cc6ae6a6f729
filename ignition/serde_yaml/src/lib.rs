//! `serde_norway` by the name of what it is a fork of, for nmstate, which names that: one YAML library in the program,
//! and not also its unmaintained ancestor.

pub use serde_norway::*;

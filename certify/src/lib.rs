//! Certification: is this the machine, does it work, and can it be proved?
//!
//! `plan` says what is done, `result` what came of it.

pub mod plan;
pub mod result;

pub use plan::{Plan, Sku, Step};

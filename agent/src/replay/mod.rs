//! Runs recorded instructions without a service, and keeps them from what they would destroy here.

pub mod cli;
mod recorded;
mod rewrite;

pub use recorded::{RecordedError, read};
pub use rewrite::{Withheld, rewrite};

#[cfg(test)]
mod tests;

//! Runs recorded instructions without a service, and prevents them from destroying anything here.

pub mod cli;
mod recorded;
mod rewrite;

pub use recorded::{RecordedError, read};
pub use rewrite::{Withheld, rewrite};

#[cfg(test)]
mod tests;

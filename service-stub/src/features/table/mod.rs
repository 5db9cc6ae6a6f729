//! The rules, feature by feature. Exclusions are in the order in which they are published.

pub mod generic;
pub mod networks;
pub mod operators;
pub mod platforms;

use super::row::{Level, Levels};

/// In full, with every version.
const ALWAYS: Levels = &[("", Level::Supported)];

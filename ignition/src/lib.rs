//! Ignition configs: the model, merging, `data:` URLs, and the configs Landfall hands to hosts.
//!
//! Ignition configures a CoreOS-style system in its initramfs, once, during the first boot; its config is one
//! JSON document. Two of them are made here: [`discovery`], carried by the live ISO, which starts the agent, and [`host`], put on
//! the installed disk. Users override parts of both, and overrides follow Ignition's own rules of merging
//! ([`model::Document::merge`]).

pub mod apply;
mod budget;
pub mod butane;
mod check;
pub mod cli;
pub mod customize;
pub mod data_url;
pub mod day2;
pub mod discovery;
mod environment;
mod error;
pub mod fetch;
#[doc(hidden)]
pub mod fuzzing;
pub mod host;
mod json;
pub mod model;
pub mod network;
mod overrides;
mod pack;
mod parts;
mod redact;
mod render;
mod report;
mod resource;
mod system;
mod translate;
pub mod yaml;

pub use budget::{AREA_BYTES, BudgetError, Part, check_budget};
pub use check::{ParseError, parse};
pub use discovery::Discovery;
pub use environment::Environment;
pub use error::BuildError;
pub use host::HostConfig;
pub use json::{Position, json_tree};
pub use overrides::{OverrideError, merge_override};
pub use pack::pack;
pub use parts::AgentBinary;
pub use redact::{redact, redact_url};
pub use render::{RenderError, RenderFault, render};
pub use report::{Entry, Report, Severity};
pub use resource::{Encoding, resource};
pub use translate::{TranslateError, merge_all, translate};

//! What configs refer to, fetched from real servers on loopback.
#![allow(clippy::unwrap_used)]

mod fetch;
mod server;

use ignition::model::Document;

/// A config that is valid.
fn parsed(config: &str) -> Document<'_> {
    let (config, _, report) = ignition::parse(config.as_bytes()).unwrap();
    assert!(!report.is_fatal(), "{report}");
    config
}

/// An error with its causes, as people see it.
fn told(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

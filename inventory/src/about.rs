//! When facts were taken: now, or when a capture was made.

use crate::Root;
use kernel::clock;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a capture says of itself.
pub(crate) const FILE: &str = "/landfall/capture.json";
const MAX_BYTES: usize = 4096;

/// The date in UTC; none of an older capture.
pub(crate) fn date(root: &Root) -> Option<String> {
    if root.is_live() {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        return Some(clock::utc_text(i64::try_from(since.as_secs()).ok()?));
    }
    let about: serde_json::Value = serde_json::from_slice(&root.read(FILE, MAX_BYTES).ok()?).ok()?;
    Some(about.get("date")?.as_str()?.to_owned())
}

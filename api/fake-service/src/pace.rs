//! How often a client may report: the service takes every report, and the real installer spares it most.

use crate::Request;
use std::collections::BTreeMap;

/// A percentage is this many points above the one before.
const STEP: u64 = 5;

/// The last percentage of each host, by the path that it is reported to.
#[derive(Default)]
pub(crate) struct Pace(BTreeMap<String, u64>);

impl Pace {
    /// A percentage that advances too little. The same one again is a request that was repeated.
    pub(crate) fn check(&mut self, request: &Request) -> Result<(), String> {
        if !request.ends_with("PUT", "/progress") {
            return Ok(());
        }
        let info = request.body["progress_info"].as_str().unwrap_or_default();
        let Some(percent) = info.strip_suffix('%').and_then(|digits| digits.parse::<u64>().ok()) else {
            self.0.remove(&request.path);
            return Ok(());
        };
        let last = self.0.insert(request.path.clone(), percent).unwrap_or_default();
        if percent == last || percent == 100 || percent >= last + STEP {
            return Ok(());
        }
        Err(format!("{percent}% is less than {STEP} points above {last}%"))
    }
}

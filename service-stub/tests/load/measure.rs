//! How long answers take.

use std::{collections::BTreeMap, fmt, sync::Mutex, time::Duration};

#[derive(Default)]
pub(crate) struct Latencies {
    kinds: Mutex<BTreeMap<String, Kind>>,
}

#[derive(Default)]
struct Kind {
    micros: Vec<u64>,
    /// Of a body, in bytes.
    largest: usize,
    failures: Vec<String>,
}

impl Latencies {
    pub(crate) fn note(&self, kind: &str, took: Duration, status: u16, body_bytes: usize) {
        let mut kinds = self.kinds.lock().unwrap();
        let kind = kinds.entry(kind.to_owned()).or_default();
        kind.micros.push(u64::try_from(took.as_micros()).unwrap());
        kind.largest = kind.largest.max(body_bytes);
        if !(200..300).contains(&status) {
            kind.failures.push(status.to_string());
        }
    }

    pub(crate) fn fail(&self, kind: &str, error: &dyn fmt::Display) {
        self.kinds.lock().unwrap().entry(kind.to_owned()).or_default().failures.push(error.to_string());
    }

    pub(crate) fn largest(&self, kind: &str) -> usize {
        self.kinds.lock().unwrap().get(kind).map_or(0, |kind| kind.largest)
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.kinds.lock().unwrap().get(kind).map_or(0, |kind| kind.micros.len())
    }

    pub(crate) fn total(&self) -> usize {
        self.kinds.lock().unwrap().values().map(|kind| kind.micros.len()).sum()
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        let kinds = self.kinds.lock().unwrap();
        kinds.iter().flat_map(|(name, kind)| kind.failures.iter().map(move |why| format!("{name}: {why}"))).collect()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:28} {:>8} {:>9} {:>9} {:>9}", "ms", "count", "p50", "p99", "max")?;
        for (name, kind) in self.kinds.lock().unwrap().iter() {
            let mut micros = kind.micros.clone();
            micros.sort_unstable();
            let at = |share: usize| {
                let micros = micros.get((micros.len() * share / 100).min(micros.len().saturating_sub(1)));
                Duration::from_micros(micros.copied().unwrap_or(0)).as_secs_f64() * 1000.0
            };
            write!(f, "\n{name:28} {:8} {:9.2} {:9.2} {:9.2}", micros.len(), at(50), at(99), at(100))?;
        }
        Ok(())
    }
}

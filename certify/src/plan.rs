//! What is done with which machines: `landfall certify PLAN.toml`.

mod read;

pub use read::{EXAMPLE, PlanError};

use inventory::report::{Difference, Expectation};
use kernel::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{collections::BTreeSet, time::Duration};

/// Longest plan with all that it names, as JSON.
pub const MAX_BYTES: usize = 4 << 20;
const MAX_STEPS: usize = 256;
const MAX_SKUS: usize = 256;
const MAX_HOSTS: u32 = 4096;
/// Longest name, in bytes.
const MAX_NAME: usize = 200;
/// Longest step.
const MAX_SECONDS: u64 = 30 * 86_400;
/// Kinds of load that `landfall burnin --only` knows.
const LOADS: [&str; 4] = ["cpu", "memory", "disk", "net"];

/// A plan, with the expectations that it names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it certifies.
    pub name: String,
    /// Who tests, in free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tester: Option<String>,
    /// What becomes of a host that is not as expected, and how many hosts there are.
    pub policy: Policy,
    /// Models of machines; a host belongs to the first that it matches.
    pub skus: Vec<Sku>,
    /// What is done, in order. The first is always the report.
    pub steps: Vec<Step>,
}

/// How a plan is carried out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What becomes of a host that differs from its SKU.
    pub mismatch: Mismatch,
    /// How many hosts are waited for; without it the steps begin with those that are present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
}

/// What becomes of a host that differs from its SKU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mismatch {
    /// It fails, and nothing is installed on it.
    #[default]
    Block,
    /// The differences are recorded.
    Note,
}

/// A model of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Sku {
    /// Its name.
    pub name: String,
    /// Which hosts it is for, as TOML of `landfall report --expect`; absent: all.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// What is expected of them, in the same form.
    pub expect: String,
}

/// One step. Times are seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Facts and a capture, compared with the SKU.
    Report,
    /// All pairs of hosts, by rounds; a single host examines its network.
    Network {
        /// How long each pair is tested.
        seconds: u64,
        /// The least throughput of a pair, Mbit/s.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_mbit: Option<u64>,
    },
    /// How long the installation disk takes to flush what was written.
    DiskSpeed {
        /// How long it is measured.
        seconds: u64,
        /// The most milliseconds of the 99th percentile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_ms: Option<f64>,
        /// Another disk than that of the installation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disk: Option<String>,
    },
    /// `landfall burnin`.
    Burnin {
        /// How long it runs.
        seconds: u64,
        /// Only these kinds of load; none: all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        only: Vec<String>,
        /// The most memory to test.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_bytes: Option<u64>,
        /// Only these disks are read; none: all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disks: Vec<String>,
        /// These disks are written, and all on them is lost.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        destroy: Vec<String>,
    },
    /// The host becomes a single node.
    Install,
    /// The installed system starts; before an installation, the live system starts again.
    Boot,
    /// The host's management controller cuts its power, and it starts again.
    PowerCut,
    /// The host's TPM signs what it booted, together with all that the host has sent.
    Attest,
}

/// What a report is compared with, and what comes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The SKU that the host belongs to, if any.
    pub sku: Option<String>,
    /// A line for each difference.
    pub differences: Vec<String>,
}

/// A mistake in a plan, and where.
#[derive(Debug, PartialEq)]
struct Fault {
    at: At,
    what: String,
}

/// A part of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Plan,
    Sku(usize),
    Step(usize),
}

impl Plan {
    /// A plan that came as JSON: it is as valid as one that was read from TOML, or an error says what is not.
    pub fn from_json(json: &[u8]) -> Result<Self, PlanError> {
        if json.len() > MAX_BYTES {
            return Err(PlanError::TooLarge { what: "the plan".to_owned(), max: MAX_BYTES });
        }
        let plan: Self = serde_json::from_slice(json).map_err(|error| PlanError::Json(error.to_string()))?;
        plan.fault().map_or(Ok(plan), |fault| Err(PlanError::Invalid(fault.at.to_string() + &fault.what)))
    }

    /// As JSON, the same bytes for the same plan.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a plan has only texts and numbers")
    }

    /// The SHA-256 of the plan's JSON, hexadecimal: runs with the same one did the same.
    pub fn sha256(&self) -> String {
        hex::lower(Sha256::digest(self.to_json()))
    }

    /// Compares the JSON of a report with the SKU that it belongs to.
    pub fn compare(&self, report: &Value) -> Comparison {
        if self.skus.is_empty() {
            return Comparison::default();
        }
        match self.skus.iter().find(|sku| sku.matches.as_deref().is_none_or(|text| lines(text, report).is_empty())) {
            Some(sku) => Comparison { sku: Some(sku.name.clone()), differences: lines(&sku.expect, report) },
            None => {
                let names = self.skus.iter().map(|sku| sku.name.as_str()).collect::<Vec<_>>().join(", ");
                Comparison { sku: None, differences: vec![format!("matches no SKU of the plan: {names}")] }
            }
        }
    }

    /// The first mistake.
    fn fault(&self) -> Option<Fault> {
        let plan = |what: String| Some(Fault { at: At::Plan, what });
        for (key, text) in [("name", Some(&self.name)), ("tester", self.tester.as_ref())] {
            if let Some(what) = text.and_then(|text| name_fault(key, text)) {
                return plan(what);
            }
        }
        if self.policy.hosts.is_some_and(|hosts| hosts == 0 || hosts > MAX_HOSTS) {
            return plan(format!("policy.hosts must be from 1 to {MAX_HOSTS}"));
        }
        if self.skus.len() > MAX_SKUS || self.steps.len() > MAX_STEPS {
            return plan(format!("a plan has at most {MAX_SKUS} SKUs and {MAX_STEPS} steps"));
        }
        let mut names = BTreeSet::new();
        for (index, sku) in self.skus.iter().enumerate() {
            let twice = || (!names.insert(&sku.name)).then(|| format!("the name '{}' is used twice", sku.name));
            if let Some(what) = name_fault("name", &sku.name).or_else(twice).or_else(|| sku.fault()) {
                return Some(Fault { at: At::Sku(index), what });
            }
        }
        if self.steps.first() != Some(&Step::Report) {
            return plan("the first step must be the report".to_owned());
        }
        // What is sent later would not be signed.
        let attested = self.steps.iter().position(|step| *step == Step::Attest);
        if let Some(index) = attested.filter(|at| self.steps.iter().skip(at + 1).any(Step::leaves_files)) {
            let what =
                "`attest` must come after the steps whose results it signs: report, network, disk-speed and burnin";
            return Some(Fault { at: At::Step(index), what: what.to_owned() });
        }
        let steps = self.steps.iter().enumerate();
        steps.filter_map(|(index, step)| step.fault().map(|what| Fault { at: At::Step(index), what })).next()
    }
}

fn name_fault(key: &str, text: &str) -> Option<String> {
    let plain = !text.trim().is_empty() && text.len() <= MAX_NAME && !text.chars().any(char::is_control);
    (!plain).then(|| format!("{key} must be one line of 1 to {MAX_NAME} bytes"))
}

/// The differences of a report from an expectation. A plan that was checked has only such that can be read.
fn lines(expectation: &str, report: &Value) -> Vec<String> {
    match expectation.parse::<Expectation>() {
        Ok(expectation) => expectation.differences(report).iter().map(Difference::to_string).collect(),
        Err(error) => vec![format!("the expectation cannot be used: {error}")],
    }
}

impl Sku {
    fn fault(&self) -> Option<String> {
        let texts = [("match", self.matches.as_ref()), ("expect", Some(&self.expect))];
        texts.into_iter().find_map(|(key, text)| {
            let error = text?.parse::<Expectation>().err()?;
            Some(format!("{key}: {}", error.reason()))
        })
    }
}

impl Step {
    /// As it is written in a plan.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Network { .. } => "network",
            Self::DiskSpeed { .. } => "disk-speed",
            Self::Burnin { .. } => "burnin",
            Self::Install => "install",
            Self::Boot => "boot",
            Self::PowerCut => "power-cut",
            Self::Attest => "attest",
        }
    }

    /// How long it was asked to take, if that was said.
    pub fn time(&self) -> Option<Duration> {
        match self {
            Self::Network { seconds, .. } | Self::DiskSpeed { seconds, .. } | Self::Burnin { seconds, .. } => {
                Some(Duration::from_secs(*seconds))
            }
            Self::Report | Self::Install | Self::Boot | Self::PowerCut | Self::Attest => None,
        }
    }

    fn leaves_files(&self) -> bool {
        match self {
            Self::Report | Self::Network { .. } | Self::DiskSpeed { .. } | Self::Burnin { .. } | Self::Attest => true,
            Self::Install | Self::Boot | Self::PowerCut => false,
        }
    }

    fn fault(&self) -> Option<String> {
        if self.time().is_some_and(|time| time.is_zero() || time.as_secs() > MAX_SECONDS) {
            return Some("`for` must be from 1s to 30d".to_owned());
        }
        match self {
            Self::DiskSpeed { max_ms: Some(ms), .. } if !ms.is_finite() || *ms <= 0.0 => {
                Some("max_ms must be more than 0".to_owned())
            }
            Self::DiskSpeed { disk: Some(disk), .. } => name_fault("disk", disk),
            Self::Burnin { only, disks, destroy, .. } => {
                let unknown = only.iter().find(|kind| !LOADS.contains(&kind.as_str()));
                let unknown = unknown.map(|kind| format!("only: '{kind}' is not one of {}", LOADS.join(", ")));
                unknown.or_else(|| disks.iter().chain(destroy).find_map(|disk| name_fault("disks and destroy", disk)))
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plan => Ok(()),
            Self::Sku(index) => write!(f, "SKU {}: ", index + 1),
            Self::Step(index) => write!(f, "step {}: ", index + 1),
        }
    }
}

#[cfg(test)]
mod tests;

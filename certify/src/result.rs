//! What came of a run: `certification.json`.

use crate::plan::{Mismatch, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Raised when a field changes its name or meaning; new fields leave it.
pub const SCHEMA_VERSION: u32 = 1;
/// The file by which a host's TPM vouches for its other files.
pub const ATTESTATION: &str = "attestation.json";

/// A run of a plan on some hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// Version of this form.
    pub schema_version: u32,
    /// Its identifier.
    pub id: String,
    /// What was done, with all expectations.
    pub plan: Plan,
    /// The SHA-256 of the plan's JSON without spaces, hexadecimal.
    pub plan_sha256: String,
    /// Version of the Landfall that led the run.
    pub tool_version: String,
    /// When it began, seconds since 1970.
    pub started_unix_seconds: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_seconds: Option<u64>,
    /// What follows from the hosts.
    pub verdict: Verdict,
    /// The hosts, by serial number.
    pub hosts: Vec<HostResult>,
}

/// What came of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostResult {
    /// The serial number of the machine; without one, the host's id.
    pub serial: String,
    /// Its maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// The id that the service knows it by.
    pub host_id: String,
    /// The SKU that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// What follows from the differences and the steps.
    pub verdict: Verdict,
    /// How it differs from the SKU, a line each.
    #[serde(default)]
    pub differences: Vec<String>,
    /// The steps of the plan, all of them and in their order.
    pub steps: Vec<StepResult>,
}

/// What came of one step on one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepResult {
    /// Its place in the plan, from 0.
    pub index: u32,
    /// What it does, as the plan names it.
    #[serde(rename = "do")]
    pub action: String,
    /// How far it came.
    pub state: State,
    /// How often it was begun.
    pub attempts: u32,
    /// When it was first begun, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_seconds: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_seconds: Option<u64>,
    /// What was found, a line each; of a failed step, why.
    #[serde(default)]
    pub findings: Vec<String>,
    /// What was measured; units stand at the end of the names.
    #[serde(default)]
    pub measurements: BTreeMap<String, f64>,
    /// Names of its files in the host's folder of the archive.
    #[serde(default)]
    pub files: Vec<String>,
}

/// How far a step came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was not begun.
    #[default]
    Waiting,
    /// It was begun.
    Running,
    /// Everything is as the plan requires.
    Passed,
    /// Something is not.
    Failed,
    /// It was left out, and its findings say why.
    Skipped,
    /// It could not be carried out.
    Error,
}

/// The outcome of a host, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every step passed.
    Pass,
    /// A step failed, or a host is not what the plan expects and the plan blocks such.
    Fail,
    /// Nothing failed, but not every step passed.
    #[default]
    Incomplete,
}

impl Run {
    /// What follows from the hosts. There must be at least one, and as many as the plan waits for.
    pub fn expected_verdict(&self) -> Verdict {
        let wanted = self.plan.policy.hosts.map_or(1, |hosts| usize::try_from(hosts).unwrap_or(usize::MAX));
        let verdict = |host: &HostResult| host.expected_verdict(&self.plan);
        match () {
            () if self.hosts.iter().any(|host| verdict(host) == Verdict::Fail) => Verdict::Fail,
            () if self.hosts.len() >= wanted && self.hosts.iter().all(|host| verdict(host) == Verdict::Pass) => {
                Verdict::Pass
            }
            () => Verdict::Incomplete,
        }
    }

    /// Sets all verdicts to what follows from the steps.
    pub fn judge(&mut self) {
        for host in &mut self.hosts {
            host.verdict = host.expected_verdict(&self.plan);
        }
        self.verdict = self.expected_verdict();
    }

    /// What does not follow from the plan and the steps, if anything.
    pub fn fault(&self) -> Option<String> {
        let must = |what: &str, is: Verdict, must: Verdict| {
            (is != must)
                .then(|| format!("the verdict of {what} is {}, but {} follows from the steps", is.name(), must.name()))
        };
        if self.schema_version != SCHEMA_VERSION {
            return Some(format!(
                "schema_version is {}, but this landfall knows {SCHEMA_VERSION}",
                self.schema_version
            ));
        }
        if self.plan_sha256 != self.plan.sha256() {
            return Some("plan_sha256 is not that of the plan".to_owned());
        }
        if !self.hosts.is_sorted_by(|a, b| a.serial < b.serial) {
            return Some("the hosts are not in the order of their serial numbers, or one occurs twice".to_owned());
        }
        for host in &self.hosts {
            let steps = || host.steps.iter().map(|step| step.action.as_str());
            let indexes = host.steps.iter().map(|step| step.index);
            if !steps().eq(self.plan.steps.iter().map(|step| step.name())) || !indexes.eq((0..).take(host.steps.len()))
            {
                return Some(format!("the steps of {} are not those of the plan", host.serial));
            }
            if let Some(fault) = must(&host.serial, host.verdict, host.expected_verdict(&self.plan)) {
                return Some(fault);
            }
        }
        must("the run", self.verdict, self.expected_verdict())
    }
}

impl HostResult {
    /// What follows from the differences and the steps.
    pub fn expected_verdict(&self, plan: &Plan) -> Verdict {
        let blocked = plan.policy.mismatch == Mismatch::Block && !self.differences.is_empty();
        match () {
            () if blocked || self.steps.iter().any(|step| step.state == State::Failed) => Verdict::Fail,
            () if !self.steps.is_empty() && self.steps.iter().all(|step| step.state == State::Passed) => Verdict::Pass,
            () => Verdict::Incomplete,
        }
    }

    /// Its folder in the archive: `hosts/`, and the serial number in the characters that names of files may have.
    pub fn folder(&self) -> String {
        let mut folder = "hosts/".to_owned();
        for byte in self.serial.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => folder.push(char::from(byte)),
                _ => folder += &format!("%{byte:02X}"),
            }
        }
        folder
    }

    /// The paths of its files in the archive.
    pub fn files(&self) -> impl Iterator<Item = String> {
        let folder = self.folder();
        self.steps.iter().flat_map(|step| &step.files).map(move |file| format!("{folder}/{file}"))
    }
}

impl Verdict {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Incomplete => "INCOMPLETE",
        }
    }
}

impl State {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Error => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Step;

    fn host(serial: &str, states: &[State]) -> HostResult {
        let step = |(index, state): (u32, &State)| StepResult {
            index,
            action: if index == 0 { "report" } else { "boot" }.to_owned(),
            state: *state,
            ..StepResult::default()
        };
        HostResult { serial: serial.to_owned(), steps: (0..).zip(states).map(step).collect(), ..HostResult::default() }
    }

    fn run(hosts: Vec<HostResult>) -> Run {
        let plan = Plan { name: "x".to_owned(), steps: vec![Step::Report, Step::Boot], ..Plan::default() };
        let plan_sha256 = plan.sha256();
        let mut run = Run { schema_version: SCHEMA_VERSION, plan, plan_sha256, hosts, ..Run::default() };
        run.judge();
        run
    }

    #[test]
    fn verdicts_follow_from_steps() {
        use State::*;
        for (states, verdict) in [
            ([Passed, Passed], Verdict::Pass),
            ([Passed, Failed], Verdict::Fail),
            ([Failed, Skipped], Verdict::Fail),
            ([Passed, Skipped], Verdict::Incomplete),
            ([Passed, Error], Verdict::Incomplete),
            ([Passed, Running], Verdict::Incomplete),
            ([Passed, Waiting], Verdict::Incomplete),
        ] {
            let run = run(vec![host("1", &states)]);
            assert_eq!((run.hosts[0].verdict, run.verdict, run.fault()), (verdict, verdict, None), "{states:?}");
        }
        let passed = || host("1", &[Passed, Passed]);
        assert_eq!(run(Vec::new()).verdict, Verdict::Incomplete, "no host");
        assert_eq!(run(vec![passed(), host("2", &[Passed, Failed])]).verdict, Verdict::Fail);
        assert_eq!(run(vec![passed(), host("2", &[Passed, Waiting])]).verdict, Verdict::Incomplete);
        let mut other = run(vec![HostResult { differences: vec!["x".to_owned()], ..passed() }]);
        assert_eq!(other.verdict, Verdict::Fail);
        other.plan.policy.mismatch = Mismatch::Note;
        assert_eq!(other.expected_verdict(), Verdict::Pass);
        other.plan.policy.hosts = Some(2);
        assert_eq!(other.expected_verdict(), Verdict::Incomplete);
    }

    type Case = (&'static dyn Fn(&mut Run), &'static str);

    #[test]
    fn what_does_not_follow_is_a_fault() {
        use State::*;
        let good = run(vec![host("1", &[Passed, Passed]), host("2", &[Passed, Failed])]);
        let fault = |change: &dyn Fn(&mut Run)| {
            let mut run = good.clone();
            change(&mut run);
            run.fault().expect("a fault")
        };
        let cases: [Case; 8] = [
            (&|run| run.schema_version = 2, "schema_version is 2, but this landfall knows 1"),
            (&|run| run.plan.name = "y".to_owned(), "plan_sha256 is not that of the plan"),
            (
                &|run| run.hosts.swap(0, 1),
                "the hosts are not in the order of their serial numbers, or one occurs twice",
            ),
            (
                &|run| run.hosts[1].serial = "1".to_owned(),
                "the hosts are not in the order of their serial numbers, or one occurs twice",
            ),
            (&|run| drop(run.hosts[1].steps.pop()), "the steps of 2 are not those of the plan"),
            (&|run| run.hosts[1].steps[1].index = 3, "the steps of 2 are not those of the plan"),
            (&|run| run.hosts[1].verdict = Verdict::Pass, "the verdict of 2 is PASS, but FAIL follows from the steps"),
            (&|run| run.verdict = Verdict::Pass, "the verdict of the run is PASS, but FAIL follows from the steps"),
        ];
        for (change, expected) in cases {
            assert_eq!(fault(change), expected);
        }
    }

    #[test]
    fn folders_are_plain_names_for_any_serial_number() {
        let folder = |serial: &str| host(serial, &[]).folder();
        assert_eq!(folder("ABC-12_3"), "hosts/ABC-12_3");
        assert_eq!(
            ["../x", "a b", "a%20b", "ü"].map(folder),
            ["hosts/%2E%2E%2Fx", "hosts/a%20b", "hosts/a%2520b", "hosts/%C3%BC"]
        );
    }

    #[test]
    fn the_checked_in_schema_is_the_current_one() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/certification.schema.json");
        let mut now = schemars::schema_for!(Run).to_value();
        now.sort_all_objects();
        let now = serde_json::to_string_pretty(&now).unwrap() + "\n";
        if std::env::var_os("LANDFALL_WRITE_SCHEMA").is_some() {
            std::fs::write(file, &now).unwrap();
        }
        let checked_in = std::fs::read_to_string(file).unwrap_or_default();
        let how = "LANDFALL_WRITE_SCHEMA=1 cargo test -p certify the_checked_in_schema";
        assert!(checked_in == now, "{file} does not match the types; to regenerate it: {how}");
    }
}

//! The verdicts of ignition-validate and ours, and whether they are the same.

use crate::differential::VERSIONS;
use ignition::{ParseError, parse};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The stable version that a program of today knows; one that doesn't is held to fewer rules.
const NEWEST_STABLE: &str = "3.6.0";
/// What a program of today says and Debian's does not, or the other way round.
const CHANGED: [&str; 5] = [
    "path conflicts with systemd unit or dropin",
    "filesystem overwrites partitioned device",
    "device matches disk with wipeTable enabled; filesystem will be wiped",
    "doesn't have Install section",
    "shouldExist is false for a partition and other partition(s) has start or size 0",
];

/// A verdict, and the findings as the program prints them.
pub(crate) type Verdict = (bool, String);

/// What the real program is, which is asked once.
pub(crate) struct Judge {
    program: PathBuf,
    /// Whether it is older than our rules.
    is_old: bool,
    /// How many of the versions it knows.
    pub versions: usize,
    /// Whether its errors name a value by its path, as those of Go since 1.27.
    has_paths: bool,
}

impl Judge {
    pub(crate) fn find() -> Option<Self> {
        let program = validator()?;
        let file = tempfile::NamedTempFile::new().unwrap();
        let knows = |version: &str| {
            fs::write(file.path(), json!({"ignition": {"version": version}}).to_string()).unwrap();
            theirs(&program, file.path()).0
        };
        let versions = VERSIONS.iter().take_while(|version| knows(version)).count();
        let is_old = !knows(NEWEST_STABLE);
        fs::write(file.path(), r#"{"ignition":{"version":"3.0.0"},"storage":{"files":[5]}}"#).unwrap();
        let has_paths = theirs(&program, file.path()).1.contains("Config.storage.files.0 ");
        Some(Self { program, is_old, versions, has_paths })
    }

    pub(crate) fn verdict(&self, file: &Path) -> Verdict {
        theirs(&self.program, file)
    }

    /// Findings as lines, with what the programs' words differ in made alike, and in no order.
    pub(crate) fn lines(&self, report: &str) -> Vec<String> {
        let known = report
            .lines()
            .map(str::trim_end)
            .filter(|line| !self.is_old || !CHANGED.iter().any(|changed| line.ends_with(changed)));
        let mut lines: Vec<_> = known.map(|line| self.alike(line)).collect();
        lines.sort();
        lines
    }

    fn alike(&self, line: &str) -> String {
        let line = line.trim_end_matches('.').replace(": Unused key", ": unused key").replace(
            "are not supported in spec versions older than 3.4.0",
            "are not supported or functional in spec versions older than 3.6.0",
        );
        // What follows a section's name may be secret, and is not shown here.
        if let Some((place, _)) = line.split_once(": found garbage after section name") {
            return format!("{place}: garbage");
        }
        // The words of Go's reader change with its versions.
        let is_known = self.has_paths && line.contains("cannot unmarshal");
        if line.starts_with("error at line") && !is_known {
            return line.split(": ").next().unwrap_or_default().to_owned();
        }
        // Errors of base64 are in a library's words.
        match line.split_once(": illegal base64 data").or(line.split_once(": the base64 of the data: URL")) {
            Some((place, _)) => format!("{place}: base64"),
            None => line,
        }
    }

    /// Whether it takes a config, without what only the other one refuses.
    fn takes(&self, (valid, report): &Verdict) -> bool {
        *valid || report.starts_with("error at $") && !self.lines(report).iter().any(|line| line.starts_with("error"))
    }

    pub(crate) fn is_same(&self, ours: &Verdict, theirs: &Verdict) -> bool {
        self.takes(ours) == self.takes(theirs) && self.lines(&ours.1) == self.lines(&theirs.1)
    }
}

pub(crate) fn ours(text: &[u8]) -> Verdict {
    match parse(text) {
        Ok((_, _, report)) => (!report.is_fatal(), report.to_string()),
        Err(ParseError::Invalid(report)) => (false, report.to_string()),
        Err(error) => (false, format!("couldn't parse config: {error}\n")),
    }
}

fn theirs(program: &Path, file: &Path) -> Verdict {
    let output = Command::new(program).arg(file).output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

fn validator() -> Option<PathBuf> {
    let unpacked =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/vm/packages/ignition/usr/bin/ignition-validate");
    let path = std::env::var_os("LANDFALL_IGNITION_VALIDATE").map_or(unpacked, PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    let why = format!("{} is missing; name an ignition-validate in LANDFALL_IGNITION_VALIDATE", path.display());
    testkit::skip::because(why);
    None
}

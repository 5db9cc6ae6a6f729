//! The step that measures a disk: `landfall disk speed`, fed with the step's own document.

use crate::action::{Named, Refusal, Run, args};
use api::{DiskSpeedCheckRequest, Step};
use std::{borrow::Cow, time::Duration};

/// The measurement watches its own time, and then puts back what was on the disk: it is ended only when it fails to.
const GRACE: Duration = Duration::from_secs(120);
/// Nobody waits a day for a disk.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

/// The request, and how many seconds it may take (agent contract §6.5).
pub(crate) fn speed(step: &Step) -> Result<Run, Refusal> {
    let [request, seconds] = args(step)?;
    let parsed: DiskSpeedCheckRequest =
        serde_json::from_str(request).map_err(|error| Refusal::Json { what: "disk speed check request", error })?;
    let refused = |what, kind, value: &str| Refusal::Type { what, kind, value: value.chars().take(80).collect() };
    if parsed.path.is_empty() {
        return Err(refused("path", "a disk", ""));
    }
    let timeout = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let timeout = timeout.ok_or_else(|| refused("timeout", "number of seconds", seconds))?.min(MAX_TIMEOUT);
    let words = ["disk", "speed", "--request", "-", "--json", "--timeout"].map(Cow::from);
    Ok(Run {
        args: words.into_iter().chain([Cow::from(format!("{:.2}", timeout.as_secs_f64()))]).collect(),
        stdin: request.as_bytes().to_vec(),
        deadline: Some(timeout + GRACE),
        // By SIGTERM, at which it stops and puts the contents back.
        dies_with_agent: true,
        answers_on_stderr: false,
        named: Named { target: Some(parsed.path.into()), ca_cert: None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::StepType;
    use std::path::Path;

    fn act(args: &[&str]) -> Result<Run, String> {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let step = Step { args, step_id: "x-1".into(), step_type: StepType::InstallationDiskSpeedCheck };
        speed(&step).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn the_path_goes_in_as_it_came_and_the_time_as_an_argument() {
        let request = r#"{"path":"/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}"#;
        let run = act(&[request, "480.00"]).unwrap();
        assert_eq!(run.args, ["disk", "speed", "--request", "-", "--json", "--timeout", "480.00"]);
        assert_eq!(run.stdin, request.as_bytes());
        assert_eq!(run.named.target.as_deref(), Some(Path::new("/dev/disk/by-path/pci-0000:00:1f.2-ata-1")));
        assert_eq!(run.deadline, Some(Duration::from_secs(600)));
        assert!(run.dies_with_agent);
        assert_eq!(act(&[request, "1e9"]).unwrap().args.last().unwrap(), "86400.00");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let request = r#"{"path":"/dev/loop9"}"#;
        let table: &[(&[&str], &str)] = &[
            (&[request], "installation-disk-speed-check cmd accepts 2 params in args, given args [{\"path\""),
            (&[], "installation-disk-speed-check cmd accepts 2 params in args, given args []"),
            (&["{", "480.00"], "validation failure list:\ndisk speed check request: "),
            (&["{}", "480.00"], "validation failure list:\ndisk speed check request: missing field `path`"),
            (&[r#"{"path":""}"#, "480.00"], "validation failure list:\npath in body"),
            (&[request, "soon"], "validation failure list:\ntimeout in body must be of type number"),
            (&[request, "-1"], "validation failure list:\ntimeout"),
            (&[request, "1e300"], "validation failure list:\ntimeout"),
            (&[request, "NaN"], "validation failure list:\ntimeout"),
        ];
        for (args, text) in table {
            let refused = act(args).unwrap_err();
            assert!(refused.starts_with(text), "{refused}");
        }
    }
}

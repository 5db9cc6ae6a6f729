//! How long a disk takes to flush: `landfall disk speed` (docs/compatibility.md#installation-disk-speed-check).

use super::{
    fields::Format::Any,
    kind::{Act, Deadline, Dry, IN_CONTAINER, Kind, Run, args, read},
    refusal::Refusal,
};
use crate::{
    confine::{Named, calls::CHANGE_FILES},
    privileges::{CHECK, Calls, NOTHING, Privileges, Reach, Rules, SELF},
    settings::Settings,
};
use api::{DiskSpeedCheckRequest, DiskSpeedCheckResponse, HostId, Step, StepType};
use caps::Capability::{CAP_IPC_LOCK, CAP_SYS_ADMIN};
use std::{borrow::Cow, time::Duration};

/// No measurement takes a day.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

pub(super) static KIND: Kind = Kind {
    step_type: StepType::InstallationDiskSpeedCheck,
    fields: &[("path", true, Any)],
    act: Act::Run(act),
    // The measurement puts back what was on the disk.
    deadline: Deadline::Requested { grace: Duration::from_secs(120) },
    dry: Dry::Answered(dry),
    failed: IN_CONTAINER,
    prints_json: true,
    answers_on_stderr: false,
    privileges: PRIVILEGES,
};

pub(super) const PRIVILEGES: Privileges = Privileges {
    // Locked buffers of the writer.
    capabilities: &[CAP_IPC_LOCK, CAP_SYS_ADMIN],
    reach: Reach::Only(RULES),
    ..CHECK
};

/// The disk of the request, and everything that shows what uses it.
const RULES: Rules = Rules {
    reads: &[SELF, &["/proc/cmdline", "/proc/misc", "/proc/swaps", "/run/udev/data", "/sys"]],
    reads_of_processes: &["comm", "mountinfo"],
    writes_its_disks: true,
    // If the contents can't be put back they are saved there.
    writes: &["/dev/null", "/tmp"],
    ioctls: &[BLKFLSBUF, BLKGETSIZE64, BLKSSZGET],
    calls: Calls::Only(&[CHANGE_FILES]),
    ..NOTHING
};

// Numbers of linux/fs.h, which 64-bit machines share.
pub(super) const BLKFLSBUF: u64 = 0x1261;
pub(super) const BLKSSZGET: u64 = 0x1268;
pub(super) const BLKGETSIZE64: u64 = 0x8008_1272;

/// The request, and how many seconds it may take.
fn act(step: &Step, _: &Settings, _: HostId) -> Result<Run, Refusal> {
    let [request, seconds] = args(step)?;
    let parsed: DiskSpeedCheckRequest = read(request, "disk speed check request")?;
    let refused = |what, kind, value: &str| Refusal::Type { what, kind, value: value.chars().take(80).collect() };
    if parsed.path.is_empty() {
        return Err(refused("path", "a disk", ""));
    }
    let timeout = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let timeout = timeout.ok_or_else(|| refused("timeout", "number of seconds", seconds))?.min(MAX_TIMEOUT);
    let words = ["disk", "speed", "--request", "-", "--json", "--timeout"].map(Cow::from);
    // Ended by SIGTERM, at which it stops and puts the contents back.
    Ok(Run {
        args: words.into_iter().chain([Cow::from(format!("{:.2}", timeout.as_secs_f64()))]).collect(),
        named: Named { targets: vec![parsed.path.into()], ..Named::default() },
        deadline: Some(timeout),
        ..Run::new([], request.as_bytes().to_vec())
    })
}

fn dry(step: &Step) -> Result<String, String> {
    let request =
        step.args.first().ok_or("installation-disk-speed-check cmd accepts 2 params in args, given args []")?;
    dry_answer(request).map_err(|error| error.to_string())
}

/// The answer of a host that is only pretended: every disk takes 1 ms.
pub(crate) fn dry_answer(request: &str) -> serde_json::Result<String> {
    let DiskSpeedCheckRequest { path } = serde_json::from_slice(request.as_bytes())?;
    serde_json::to_string(&DiskSpeedCheckResponse { io_sync_duration: 1, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn act(args: &[&str]) -> Result<Run, String> {
        super::super::tests::act_on(&KIND, args)
    }

    #[test]
    fn the_path_goes_in_as_it_came_and_the_time_as_an_argument() {
        let request = r#"{"path":"/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}"#;
        let run = act(&[request, "480.00"]).unwrap();
        assert_eq!(run.args, ["disk", "speed", "--request", "-", "--json", "--timeout", "480.00"]);
        assert_eq!(run.stdin, request.as_bytes());
        assert_eq!(run.named.targets, [Path::new("/dev/disk/by-path/pci-0000:00:1f.2-ata-1")]);
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

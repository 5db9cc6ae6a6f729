//! `installation-disk-speed-check`: how long writes to the installation disk take.

use super::install::keeps_partitions;
use super::kind::{Kind, Outcome, Replied, Situation, json};
use super::options::StepOptions;
use super::outputs::{self, MAX_ENTRIES, stored};
use crate::events;
use crate::http::Refusal;
use crate::model::HostRecord;
use crate::state::HostState;
use api::{DiskSpeedCheckRequest, DiskSpeedCheckResponse, kinds};
use serde_json::{Value, json};

/// How long a disk may take to be measured.
const LIMIT_S: u64 = 480;
/// Slower disks are reported: the threshold of every role (docs/compatibility.md#hardware-requirements), milliseconds.
const SLOW_MS: u64 = 10;

pub(crate) fn kind() -> Kind {
    Kind { limit_s: Some(LIMIT_S), succeeded, failed, ..Kind::new::<kinds::InstallationDiskSpeedCheck>(asked_in, ask) }
}

fn asked_in(state: HostState, added: bool) -> bool {
    !added && state == HostState::PreparingForInstallation
}

/// The installation disk, unless it was measured or has data that are to stay.
fn ask(situation: &Situation) -> Option<Vec<String>> {
    let path = disk_to_measure(&situation.settings.steps, situation.record)?.to_owned();
    let mut args = json::<kinds::InstallationDiskSpeedCheck>(&DiskSpeedCheckRequest { path })?;
    args.push(format!("{LIMIT_S}.00"));
    Some(args)
}

/// The installation disk of a host that is still to measure it.
pub(crate) fn disk_to_measure<'a>(options: &StepOptions, record: &'a HostRecord) -> Option<&'a str> {
    if !options.disk_speed_check || record.boots_from_disk() || keeps_partitions(record) {
        return None;
    }
    let host = &record.host;
    let mut names = [&host.installation_disk_id, &host.installation_disk_path].into_iter().filter(|id| !id.is_empty());
    let infos = stored(record.texts.disks_info.as_ref());
    let tested = |name: &String| infos.get(name).is_some_and(|info| info["disk_speed"]["tested"] == true);
    if names.clone().any(tested) { None } else { names.next().map(String::as_str) }
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    match replied.reply.output.as_str() {
        "" => Ok(Outcome::Nothing),
        output => Ok(store(0, parse(output)?)),
    }
}

fn failed(replied: &Replied) -> Result<Outcome, Refusal> {
    Ok(store(replied.reply.exit_code, parse(&replied.reply.output).unwrap_or_default()))
}

fn store(exit_code: i64, answer: DiskSpeedCheckResponse) -> Outcome {
    Outcome::Host(Box::new(move |change, record| {
        let paths = [&answer.path, &record.host.installation_disk_id, &record.host.installation_disk_path];
        let Some(path) = paths.into_iter().find(|path| !path.is_empty()).cloned() else { return Ok(()) };
        let took = answer.io_sync_duration;
        let mut infos = stored(record.texts.disks_info.as_ref());
        if infos.len() < MAX_ENTRIES || infos.contains_key(&path) {
            let mut speed = json!({"tested": true, "exit_code": exit_code, "speed_ms": took});
            if let Value::Object(fields) = &mut speed {
                fields.retain(|_, value| *value != 0);
            }
            infos.insert(path.clone(), json!({"path": path, "disk_speed": speed}));
        }
        record.texts.disks_info = Some(Value::Object(infos).to_string());
        if exit_code == 0 && took > SLOW_MS {
            let details = json!({"host_disk": path, "fdatasync_duration": took});
            events::host(change, record, events::kinds::DISK_SPEED_SLOWER_THAN_SUPPORTED, details);
        }
        Ok(())
    }))
}

/// A disk that was not measured has a negative duration.
fn parse(text: &str) -> Result<DiskSpeedCheckResponse, Refusal> {
    let mut answer = outputs::fields(text, "DiskSpeedCheckResponse")?;
    if answer.get("io_sync_duration").and_then(Value::as_i64).is_some_and(|duration| duration < 0) {
        answer.remove("io_sync_duration");
    }
    outputs::typed(Value::Object(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse(r#"{"path":"/dev/sda","io_sync_duration":-1}"#).unwrap().io_sync_duration, 0);
        assert!(matches!(parse(r#"{"io_sync_duration":"1"}"#), Err(Refusal::Application(status, _)) if status == 400));
    }
}

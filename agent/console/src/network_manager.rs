//! Tells NetworkManager, and systemd, what to do (NetworkManager's D-Bus API, "org.freedesktop.NetworkManager"; systemd's,
//! org.freedesktop.systemd1(5)).

use crate::{
    dbus::{Arg, Bus, BusError, Target, Value},
    network::Plan,
};
use kernel::Cancel;
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

const NAME: &str = "org.freedesktop.NetworkManager";
const MANAGER: Target = Target { destination: NAME, path: "/org/freedesktop/NetworkManager", interface: NAME };
const SETTINGS: Target = Target {
    destination: NAME,
    path: "/org/freedesktop/NetworkManager/Settings",
    interface: "org.freedesktop.NetworkManager.Settings",
};
const SYSTEMD: Target = Target {
    destination: "org.freedesktop.systemd1",
    path: "/org/freedesktop/systemd1",
    interface: "org.freedesktop.systemd1.Manager",
};
/// `NMCheckpointCreateFlags`: other checkpoints end, and new profiles and devices go when it is rolled back.
const CHECKPOINT_FLAGS: u32 = 1 | 2 | 4;
/// `NMActiveConnectionState`.
const ACTIVATED: u64 = 2;
const DEACTIVATING: u64 = 3;

/// How long activation may take: DHCP's own time limit, and a bit.
const ACTIVATION: Duration = Duration::from_secs(50);
const LOOK: Duration = Duration::from_millis(500);
/// After which NetworkManager takes it back while it is applied and looked at, whatever becomes of us.
const APPLY_S: u32 = 180;
/// How long a person has to keep the new network.
pub(crate) const TRIAL_S: u32 = 60;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("NetworkManager does not read {0}")]
    Unread(String),
    #[error("{0} could not be activated")]
    Inactive(String),
    #[error("NetworkManager's answer is not understood")]
    Answer,
}

/// Writes the profiles of `plan` to `directory` and activates them. NetworkManager takes all of it back after a while unless the
/// checkpoint, which is returned, is kept; after a failure it does so now.
pub(crate) fn apply(bus: &mut Bus, plan: &Plan, directory: &Path, stop: &Cancel) -> Result<String, ApplyError> {
    let args = [Arg::Paths(&[]), Arg::Number(APPLY_S), Arg::Number(CHECKPOINT_FLAGS)];
    let checkpoint = text(bus.call(MANAGER, "CheckpointCreate", &args)?)?;
    match activate(bus, plan, directory, stop) {
        Ok(()) => Ok(checkpoint),
        Err(error) => {
            // The first failure is the one to report.
            let _ = take_back(bus, &checkpoint);
            Err(error)
        }
    }
}

fn activate(bus: &mut Bus, plan: &Plan, directory: &Path, stop: &Cancel) -> Result<(), ApplyError> {
    let mut paths = Vec::new();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| ApplyError::Write { path: directory.to_owned(), source })?;
    for profile in &plan.profiles {
        let path = directory.join(&profile.name);
        write(&path, &profile.text).map_err(|source| ApplyError::Write { path: path.clone(), source })?;
        paths.push(path.to_string_lossy().into_owned());
    }
    let loaded = bus.call(SETTINGS, "LoadConnections", &[Arg::Texts(&paths)])?;
    if let [Value::Number(0), ..] = loaded[..] {
        return Err(ApplyError::Unread(paths.join(", ")));
    }
    for profile in &plan.profiles {
        let connection = text(bus.call(SETTINGS, "GetConnectionByUuid", &[Arg::Text(&profile.uuid)])?)?;
        // NetworkManager chooses the device, and needs no specific object.
        let args = [Arg::Path(&connection), Arg::Path("/"), Arg::Path("/")];
        let active = text(bus.call(MANAGER, "ActivateConnection", &args)?)?;
        if !is_activated(bus, &active, stop)? {
            return Err(ApplyError::Inactive(profile.name.clone()));
        }
    }
    Ok(())
}

/// Waits for it.
fn is_activated(bus: &mut Bus, active: &str, stop: &Cancel) -> Result<bool, ApplyError> {
    let target = Target { destination: NAME, path: active, interface: "org.freedesktop.DBus.Properties" };
    let property = [Arg::Text("org.freedesktop.NetworkManager.Connection.Active"), Arg::Text("State")];
    let mut waited = Duration::ZERO;
    while waited < ACTIVATION {
        match bus.call(target, "Get", &property) {
            Ok(values) => match values[..] {
                [Value::Number(ACTIVATED)] => return Ok(true),
                [Value::Number(DEACTIVATING..)] => return Ok(false),
                _ => {}
            },
            // What has failed is gone.
            Err(BusError::Failed { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if stop.sleep(LOOK) {
            return Ok(false);
        }
        waited += LOOK;
    }
    Ok(false)
}

/// Root's alone, and whole or not at all. NetworkManager passes over names that begin with a dot.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.draft"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    fs::rename(draft, path)
}

/// From now on there is as long as a person has.
pub(crate) fn extend(bus: &mut Bus, checkpoint: &str) -> Result<(), BusError> {
    let args = [Arg::Path(checkpoint), Arg::Number(TRIAL_S)];
    bus.call(MANAGER, "CheckpointAdjustRollbackTimeout", &args).map(drop)
}

/// Keeps what was applied.
pub(crate) fn keep(bus: &mut Bus, checkpoint: &str) -> Result<(), BusError> {
    bus.call(MANAGER, "CheckpointDestroy", &[Arg::Path(checkpoint)]).map(drop)
}

/// Takes it back now.
pub(crate) fn take_back(bus: &mut Bus, checkpoint: &str) -> Result<(), BusError> {
    bus.call(MANAGER, "CheckpointRollback", &[Arg::Path(checkpoint)]).map(drop)
}

/// Has systemd start a unit, again if it runs.
pub(crate) fn restart(bus: &mut Bus, unit: &str) -> Result<(), BusError> {
    bus.call(SYSTEMD, "RestartUnit", &[Arg::Text(unit), Arg::Text("replace")]).map(drop)
}

fn text(values: Vec<Value>) -> Result<String, ApplyError> {
    match values.into_iter().next() {
        Some(Value::Text(text)) => Ok(text),
        _ => Err(ApplyError::Answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dbus::tests::{Answer, fake},
        network::Profile,
    };
    use std::os::unix::fs::PermissionsExt;

    fn plan() -> Plan {
        let profile = Profile { name: "eth0.nmconnection".into(), text: "[connection]\n".into(), uuid: "u-1".into() };
        Plan { profiles: vec![profile], gateways: Vec::new() }
    }

    /// The result, what was called, and whether the profile was written.
    fn applied(state: u32) -> (Result<String, ApplyError>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let called = fake(&dir.path().join("bus"), move |member| match member {
            "CheckpointCreate" => Answer::Path("/c/1"),
            "LoadConnections" => Answer::Number(1),
            "GetConnectionByUuid" => Answer::Path("/s/1"),
            "ActivateConnection" => Answer::Path("/a/1"),
            "Get" => Answer::Property(state),
            _ => Answer::Nothing,
        });
        let mut bus = Bus::connect(&dir.path().join("bus")).unwrap();
        let result = apply(&mut bus, &plan(), dir.path(), &Cancel::in_simulated_time());
        let path = dir.path().join("eth0.nmconnection");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), "[connection]\n");
        if let Ok(checkpoint) = &result {
            extend(&mut bus, checkpoint).unwrap();
        }
        let mut called = called.lock().unwrap().clone();
        called.iter_mut().for_each(|call| *call = call.replace(dir.path().to_str().unwrap(), ""));
        (result, called)
    }

    #[test]
    fn profiles_are_applied_behind_a_checkpoint() {
        let (result, called) = applied(2);
        assert_eq!(result.unwrap(), "/c/1");
        let expected = [
            "CheckpointCreate [] 180 7",
            "LoadConnections [/eth0.nmconnection]",
            "GetConnectionByUuid u-1",
            "ActivateConnection /s/1 / /",
            "Get org.freedesktop.NetworkManager.Connection.Active State",
            "CheckpointAdjustRollbackTimeout /c/1 60",
        ];
        assert_eq!(called, expected);
    }

    #[test]
    fn what_is_not_activated_is_taken_back_at_once() {
        for state in [1, 4] {
            let (result, called) = applied(state);
            assert!(matches!(result, Err(ApplyError::Inactive(name)) if name == "eth0.nmconnection"));
            assert_eq!(called.last().unwrap(), "CheckpointRollback /c/1");
        }
    }
}

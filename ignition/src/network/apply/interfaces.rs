//! The machine's interfaces and their MAC addresses, from sysfs.

use super::{ApplyError, Mac};
use kernel::order::Gather;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

const PAUSE: Duration = Duration::from_secs(1);

/// How waiting for names ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing changed for the requested time.
    Stable,
    /// Time ran out; names may still change.
    TimedOut,
}

/// Waits until the machine has interfaces and their names have been the same for `stable`, `limit` at most. Interfaces appear,
/// and are renamed, while their drivers load.
pub fn settle(
    mut names: impl FnMut() -> Result<Vec<String>, ApplyError>,
    mut sleep: impl FnMut(Duration),
    stable: Duration,
    limit: Duration,
) -> Result<Settled, ApplyError> {
    let (mut waited, mut unchanged) = (Duration::ZERO, Duration::ZERO);
    let mut before = Vec::new();
    while unchanged < stable {
        if waited >= limit {
            return Ok(Settled::TimedOut);
        }
        let now = names()?;
        if !now.is_empty() && now == before {
            unchanged = unchanged.saturating_add(PAUSE);
            if unchanged >= stable {
                break;
            }
        } else {
            unchanged = Duration::ZERO;
        }
        before = now;
        sleep(PAUSE);
        waited = waited.saturating_add(PAUSE);
    }
    Ok(Settled::Stable)
}

/// The interface of each MAC address; the loopback interface left out. A bond's port is known by its own address: it shows that of the
/// bond, which the initramfs may have made already.
///
/// Where several have one address, as a bond and its ports or a virtual function and what stands before it, a device that
/// is not made of others comes first, then one that isn't part of another.
pub fn interfaces(sys: &Path) -> Result<BTreeMap<Mac, String>, ApplyError> {
    let dir = sys.join("class/net");
    let failed = |source| ApplyError::Read { path: dir.clone(), source };
    let mut found: BTreeMap<Mac, (bool, bool, String)> = BTreeMap::new();
    for entry in fs::read_dir(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|_| ApplyError::Text { path: entry.path() })?;
        let address = match fs::read_to_string(entry.path().join("address")) {
            // It isn't an interface (bonding_masters), or it has just gone.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            address => address.map_err(|source| ApplyError::Read { path: entry.path().join("address"), source })?,
        };
        let own = fs::read_to_string(entry.path().join("bonding_slave/perm_hwaddr")).ok();
        // Addresses of other lengths are of other kinds of networks.
        let mac = own.and_then(|own| own.trim().parse().ok()).or_else(|| address.trim().parse().ok());
        let (Some(mac), false) = (mac, name == "lo") else { continue };
        let rank = (!entry.path().join("device").exists(), entry.path().join("master").exists(), name);
        match found.get(&mac) {
            Some(known) if *known <= rank => {}
            _ => drop(found.insert(mac, rank)),
        }
    }
    Ok(found.into_iter().map(|(mac, (_, _, name))| (mac, name)).gather())
}

//! The disks stage of Ignition, for builders of images and tests (docs/compatibility.md#ignition-disks): partitions, arrays,
//! encrypted devices and file systems, on the disks that the caller names and no others. All is planned before the first write.

mod apply;
mod content;
mod names;
mod plan;

use anyhow::Context;
use diskwrite::{
    probe::Signature,
    repartition::{self, Found, TablePlan},
};
use ignition::apply::{AllowedDisk, DisksDone, DisksRequest};
use ignition::model::{Disk, Document};
use plan::{Devices, KnownDisk};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// An allowed disk as it is, with what becomes of its table.
struct Looked {
    at: Option<String>,
    found: Found,
    table: TablePlan,
    names: Vec<String>,
}

/// Plans a config's disks and, unless it is a dry run, makes them.
pub fn stage(request: &DisksRequest<'_>) -> anyhow::Result<DisksDone> {
    let looked = look(request.config, request.allowed)?;
    let readers: Vec<_> = looked.iter().map(|looked| reader(&looked.found)).collect();
    let known = |(looked, signatures): (&Looked, _)| KnownDisk {
        at: looked.at.clone(),
        table: looked.table.clone(),
        names: looked.names.clone(),
        signatures,
    };
    let signatures = readers.iter().map(|reader| reader as &dyn Fn(u64, u64) -> Vec<Signature>);
    let disks: Vec<_> = looked.iter().zip(signatures).map(known).collect();
    let resolve = |path: &Path| fs::canonicalize(path).ok();
    let devices = Devices::new(request.config, &disks, &resolve);
    let steps = plan::plan(request.config, &devices)?;
    let volumes = match request.dry_run {
        true => Vec::new(),
        false => apply::apply(&steps, &disks, &devices, request.fetcher)?,
    };
    Ok(DisksDone { actions: steps.into_iter().flat_map(|step| step.actions).collect(), volumes })
}

fn reader(found: &Found) -> impl Fn(u64, u64) -> Vec<Signature> {
    |start, len| found.signatures(start, len)
}

/// Looks at each allowed disk once, and plans its table.
fn look(config: &Document<'_>, allowed: &[AllowedDisk]) -> anyhow::Result<Vec<Looked>> {
    let mut named: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for AllowedDisk { name, device } in allowed {
        let path =
            fs::canonicalize(device).with_context(|| format!("--disks: {} can't be opened", device.display()))?;
        let place = named.iter().position(|(known, _)| *known == path).unwrap_or_else(|| {
            named.push((path.clone(), vec![path.display().to_string(), device.display().to_string()]));
            named.len() - 1
        });
        if let Some((_, names)) = named.get_mut(place) {
            names.extend(name.clone());
            names.dedup();
        }
    }
    for (place, disk) in config.storage.disks.iter().enumerate() {
        anyhow::ensure!(
            named.iter().any(|(path, names)| is_called(path, names, disk)),
            "{}: {} is not one of the devices given with --disks",
            table_at(place),
            disk.device
        );
    }
    let mut all = Vec::new();
    for (path, names) in named {
        let mut entries = config.storage.disks.iter().enumerate().filter(|(_, disk)| is_called(&path, &names, disk));
        let (at, disk) = entries.next().map(|(place, disk)| (table_at(place), disk)).unzip();
        anyhow::ensure!(entries.next().is_none(), "{} has two partition tables in the config", path.display());
        let wipe = disk.is_some_and(|disk| disk.wipe_table == Some(true));
        // A damaged table does not matter to a config that asks for none.
        let found = repartition::inspect(&path, wipe || disk.is_none())?;
        let place = at.clone().unwrap_or_default();
        let partitions = disk.map(|disk| plan::wanted(&place, &disk.partitions)).transpose()?.unwrap_or_default();
        let table = found.plan(wipe, &partitions).with_context(|| format!("{place}: {}", path.display()))?;
        all.push(Looked { at, found, table, names });
    }
    Ok(all)
}

fn table_at(place: usize) -> String {
    format!("$.storage.disks.{place}")
}

/// Whether the config means this device by its entry for a table.
fn is_called(path: &Path, names: &[String], disk: &Disk<'_>) -> bool {
    names.iter().any(|name| **name == *disk.device) || fs::canonicalize(&*disk.device).is_ok_and(|found| found == path)
}

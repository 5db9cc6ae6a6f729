//! Whether a disk may be made free, and in which order what lies on it goes.

use super::calls::Kernel;
use super::mapper::Mapped;
use super::stack::{Device, Layer, Stack};
use crate::disk::LIVE_MOUNTS;
use crate::in_use::{Use, uses};
use kernel::DevNumber;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, io, path::Path, time::Duration};

/// udev and LVM look at a device for a moment whenever it changes.
const LOOKS: u32 = 30;
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Where the running system has its root.
const ROOTS: [&str; 2] = ["/", "/sysroot"];

/// A device to take down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takedown {
    /// Kernel name, such as `dm-4`.
    pub device: String,
    /// Major and minor number, such as `253:4`.
    pub number: String,
    /// Its name in the device mapper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub layer: Layer,
    /// Other disks and partitions that it lies on. They stay as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_on: Vec<String>,
}

impl Takedown {
    /// Kernel name, with the device mapper's.
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("{} ({name})", self.device),
            None => self.device.clone(),
        }
    }
}

impl fmt::Display for Takedown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.label(), self.layer)?;
        match self.also_on.as_slice() {
            [] => Ok(()),
            [one] => write!(f, ", also on {one}, which stays as it is"),
            more => write!(f, ", also on {}, which stay as they are", more.join(", ")),
        }
    }
}

/// A reason not to touch anything.
#[derive(Debug)]
struct Refusal {
    text: String,
    /// It may pass by itself.
    fleeting: bool,
}

/// What will be done, from the top down, or why nothing will.
#[derive(Debug)]
pub(super) struct Plan {
    pub steps: Vec<(Takedown, Device)>,
    pub refusals: Vec<String>,
}

/// Looks at the stack until it is at rest: at what it is, and at who uses it.
pub(super) fn plan(read: &dyn Fn() -> io::Result<Stack>, kernel: &dyn Kernel) -> io::Result<Plan> {
    let mut looks = 1;
    loop {
        let stack = read()?;
        let refusals = refusals(&stack, kernel)?;
        if looks < LOOKS && refusals.iter().any(|refusal| refusal.fleeting) && refusals.iter().all(|r| r.fleeting) {
            looks += 1;
            kernel.pause(LOOK_PAUSE);
            continue;
        }
        let steps = stack.top_down.iter().filter_map(|number| stack.devices.get(number));
        let steps = steps.map(|device| (takedown(device), device.clone())).collect();
        return Ok(Plan { steps, refusals: refusals.into_iter().map(|refusal| refusal.text).collect() });
    }
}

fn takedown(device: &Device) -> Takedown {
    Takedown {
        device: device.node.name.clone(),
        number: device.node.number.to_string(),
        name: Some(device.mapper.0.clone()).filter(|name| !name.is_empty()),
        layer: device.layer.unwrap_or(Layer::Unknown),
        also_on: device.elsewhere.clone(),
    }
}

/// The device as the device mapper knows it.
pub(super) fn mapped(device: &Device) -> Option<Mapped> {
    let (name, uuid) = device.mapper.clone();
    (!name.is_empty()).then(|| Mapped { name, uuid, number: device.node.number, on: device.slaves.clone() })
}

fn refusals(stack: &Stack, kernel: &dyn Kernel) -> io::Result<Vec<Refusal>> {
    let mut found: Vec<Refusal> =
        stack.devices.values().filter_map(|device| kind_refusal(stack, device)).map(lasting).collect();
    let nodes: Vec<_> = stack.devices.values().map(|device| device.node.clone()).collect();
    let number_of = |path: &Path| kernel.number_of(path);
    let mut in_use = BTreeSet::new();
    for used in uses(&nodes, &kernel.usage()?, &number_of, &|_| Vec::new()) {
        let number = nodes.iter().find(|node| node.name == used.device()).map(|node| node.number);
        let Some(number) = number else { continue };
        let way = stack.way(number);
        match &used {
            Use::Mounted { at, .. } => {
                found.push(lasting(format!("{way} is mounted on {}{}", at.display(), role(at))));
            }
            Use::Swap { .. } => found.push(lasting(format!("{way} is swap"))),
            Use::Member { .. } | Use::Loop { .. } | Use::Held { .. } => {
                found.push(lasting(format!("{way} is in use by {}", used.user())))
            }
        }
        in_use.insert(number);
    }
    // Programs may have the disk itself open, as health monitors do.
    let quiet = stack.devices.keys().copied().filter(|number| !in_use.contains(number) && !is_disk(stack, *number));
    for open in kernel.openers(&quiet.collect()) {
        let text = format!("{} is open in {} (process {})", stack.way(open.number), open.program, open.pid);
        found.push(Refusal { text, fleeting: true });
        in_use.insert(open.number);
    }
    for device in stack.devices.values().filter(|device| !in_use.contains(&device.node.number)) {
        found.extend(unseen(stack, device, kernel));
    }
    Ok(found)
}

/// Whether it is the named disk itself.
fn is_disk(stack: &Stack, number: DevNumber) -> bool {
    stack.devices.get(&number).is_some_and(|device| device.from.is_none())
}

fn lasting(text: String) -> Refusal {
    Refusal { text, fleeting: false }
}

/// What this mount means for the use of the disk.
fn role(at: &Path) -> &'static str {
    if LIVE_MOUNTS.iter().any(|live| at == Path::new(live)) {
        ": this is the disk or USB stick that this system was booted from; choose another disk"
    } else if ROOTS.iter().any(|root| at == Path::new(root)) {
        ": this is the disk that this system runs from; choose another disk"
    } else {
        ""
    }
}

/// Devices that nothing here takes down.
fn kind_refusal(stack: &Stack, device: &Device) -> Option<String> {
    let cache_set = std::fs::read_link(device.node.dir.join("bcache/set")).ok();
    if let (None, Some(set)) = (device.layer, cache_set) {
        let set = set.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let way = stack.way(device.node.number);
        return Some(format!(
            "{way} is the cache of the bcache set {set}: stop it first (echo 1 > /sys/fs/bcache/{set}/stop)"
        ));
    }
    match device.layer? {
        Layer::Multipath => Some(format!(
            "{} is a multipath device, of which this is one path: use /dev/mapper/{}",
            stack.way(device.node.number),
            device.mapper.0
        )),
        Layer::Unknown => Some(format!("{} is of a kind that cannot be taken down", stack.way(device.node.number))),
        _ => None,
    }
}

/// Users that neither mounts nor processes show: mounts in containers, pools of ZFS, targets of iSCSI.
fn unseen(stack: &Stack, device: &Device, kernel: &dyn Kernel) -> Option<Refusal> {
    let way = || stack.way(device.node.number);
    let text = match mapped(device).filter(|_| device.layer.is_some()) {
        Some(mapped) => {
            let holders = u32::try_from(device.holders.len()).unwrap_or(u32::MAX);
            match kernel.open_count(&mapped) {
                Ok(count) if count <= holders => return None,
                Ok(count) => {
                    format!(
                        "{} is open {} times by something that cannot be seen from here",
                        way(),
                        count.saturating_sub(holders)
                    )
                }
                // Gone meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => format!("{} is changing", way()),
                Err(error) => return Some(lasting(format!("cannot ask the device mapper about {}: {error}", way()))),
            }
        }
        // What is held by another device of the stack is claimed by that.
        None if is_held(stack, device) => return None,
        None if kernel.is_claimed(&device.node.name, device.node.number) => format!(
            "{} is claimed by something that cannot be seen from here, such as a ZFS pool or a mount in a container",
            way()
        ),
        None => return None,
    };
    Some(Refusal { text, fleeting: true })
}

/// Whether something lies on it or, if it is a disk, on a part of it.
fn is_held(stack: &Stack, device: &Device) -> bool {
    let number = device.node.number;
    let mut parts = stack.devices.values().filter(|part| part.node.partition.is_some() && part.from == Some(number));
    // A disk with partitions is claimed where they are.
    !device.holders.is_empty() || parts.next().is_some()
}

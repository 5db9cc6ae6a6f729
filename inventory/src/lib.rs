//! Facts of a machine: what it is made of, how it booted, and what identifies it, in the form of the assisted-installer
//! service, and in full depth for certification ([`report`]). No helper programs: only SMBIOS, sysfs, procfs, netlink and
//! ioctls.
//!
//! All files are read and all devices asked through a [`Root`], the running system or a captured machine. A fact that can't be
//! read is left out, and the log says why; the same machine gives the same bytes.

mod about;
mod archive;
mod arm;
mod ask;
mod ata;
pub mod attest;
mod bmc;
mod boot;
pub mod capture;
pub mod cli;
mod cpu;
mod cxl;
mod disks;
mod ethnl;
mod ethtool;
#[doc(hidden)]
pub mod fuzzing;
mod gpu;
mod hostname;
pub mod identity;
mod limit;
mod megaraid;
mod memory;
mod mounts;
mod mpt;
mod net;
mod nvme;
mod optics;
mod pci;
mod raid;
pub mod report;
mod root;
mod scsi;
mod ses;
#[cfg(test)]
mod sg3;
mod smartarray;
pub mod smbios;
#[cfg(test)]
mod testing;
mod tpm;
mod vendor;

pub use ask::{PowerError, PowerSwitch};
pub use disks::disk_nodes;
pub use gpu::{GpuFilter, GpuFilterError};
pub use limit::Limits;
pub use root::{Root, RootError};

use api::Inventory;
use cpu::CpuInfo;
use smbios::Smbios;

/// A size, unless it is beyond the service's 64-bit integers: nothing that large exists.
pub(crate) fn possible_bytes(bytes: u64) -> Option<u64> {
    i64::try_from(bytes).is_ok().then_some(bytes)
}

/// What is reported where there is no management controller.
const NO_BMC: (&str, &str) = ("0.0.0.0", "::/0");

/// The inventory of a machine, the running one or a captured one.
pub fn collect(root: &Root) -> Inventory {
    collect_with(root, &GpuFilter::default())
}

/// The same, with a choice of what counts as graphics or accelerators.
pub fn collect_with(root: &Root, gpus: &GpuFilter) -> Inventory {
    // A management controller takes longer than all the rest.
    let controller = bmc::Machine::find(root);
    std::thread::scope(|scope| {
        let addresses = controller.map(|mut controller| scope.spawn(move || bmc::addresses(&mut controller)));
        let inventory = collect_from_host(root, gpus);
        let found = addresses.and_then(|addresses| addresses.join().ok()).unwrap_or_default();
        let text = |address: Option<String>, none: &str| address.unwrap_or_else(|| none.to_owned());
        Inventory {
            bmc_address: text(found.ipv4.map(|ip| ip.to_string()), NO_BMC.0),
            bmc_v6address: text(found.ipv6.map(|ip| ip.to_string()), NO_BMC.1),
            ..inventory
        }
    })
}

/// The same without asking the management controller, which takes longer than all the rest.
pub fn collect_without_controller(root: &Root, gpus: &GpuFilter) -> Inventory {
    let (ipv4, ipv6) = NO_BMC;
    Inventory { bmc_address: ipv4.to_owned(), bmc_v6address: ipv6.to_owned(), ..collect_from_host(root, gpus) }
}

fn collect_from_host(root: &Root, gpus: &GpuFilter) -> Inventory {
    let smbios = Smbios::read(root);
    let info = CpuInfo::read(root);
    let mounts = mounts::mounts(root);
    let boot = boot::boot(root, &mounts);
    let mut network = net::network(root);
    if !vendor::is_virtual(root, &info, &smbios) {
        net::name_by_firmware(root, &smbios, &mut network.interfaces);
    }
    Inventory {
        cpu: Some(cpu::cpu(root, &info, &smbios)),
        disks: disks::disks(root, &mounts, &mounts::swaps(root), boot::live_label(&boot).as_deref()),
        boot: Some(boot),
        gpus: gpu::gpus(root, gpus),
        hostname: hostname::hostname(root, &network.interfaces),
        interfaces: network.interfaces,
        memory: Some(memory::memory(root, &smbios)),
        routes: network.routes,
        system_vendor: Some(vendor::system_vendor(root, &info, &smbios)),
        tpm_version: boot::tpm_version(root),
        ..Inventory::default()
    }
}

//! Answers of the running system. The only file that opens devices.

use super::{
    Question,
    allowed::{Message, check},
    commands::{self, Target},
    controller, mpt,
    question::place_behind,
    table, tpm,
};
use kernel::tpm::{Device, READS, exchange};
use nix::fcntl::OFlag;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    mem::ManuallyDrop,
    os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    time::Duration,
};

/// Where drivers put the first management controller's node.
const IPMI_NODES: [&str; 3] = ["/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"];
/// One page, as all of sysfs.
const ATTRIBUTE_BYTES: u64 = 4096;

/// Asks the running system. May wait as long as the device does.
pub(super) fn answer(question: &Question) -> io::Result<Vec<u8>> {
    match question {
        Question::Table(table) => table::dump(*table).map_err(io::Error::other),
        Question::Measurement { path } => attribute(path),
        Question::FirstSector { disk } => read_at(disk, 0, 512),
        Question::IsoDescriptor { disk } => read_at(disk, 16 * 2048, 2048),
        Question::ScsiPage { disk, page } => commands::page(&target(disk)?, *page),
        Question::ScsiLog { disk, page } => commands::log(&target(disk)?, *page),
        Question::ScsiDefects { disk } => commands::defects(&target(disk)?),
        Question::EnclosurePage { node, page } => commands::diagnostic(&generic(node)?, *page),
        Question::AtaIdentify { disk } => commands::ata_identify(&target(disk)?),
        Question::AtaSmartData { disk } => commands::ata_smart_data(&target(disk)?),
        Question::AtaSmartThresholds { disk } => commands::ata_smart_thresholds(&target(disk)?),
        Question::AtaSmartLog { disk, log } => commands::ata_smart_log(&target(disk)?, *log),
        Question::NvmeController { controller } => commands::nvme_controller(&open_controller(controller)?),
        Question::NvmeHealth { controller } => commands::nvme_health(&open_controller(controller)?),
        Question::MegaRaid { host, ask } => commands::megaraid(&kernel::megaraid::open()?, *host, *ask),
        Question::SmartArray { node, ask } => commands::smart_array(&generic(node)?, *ask),
        Question::Mpt { generation, adapter, ask } => mpt::answer(&kernel::mpt::open(*generation)?, *adapter, *ask),
        Question::Cxl { memory, ask } => commands::cxl(&open_controller(&format!("cxl/{memory}"))?, *ask),
        Question::Ipmi { netfn, command, data } => ipmi(&open_ipmi()?, *netfn, *command, data),
        Question::SensorRecords => with_controller(|send| controller::sensor_records(send)),
        Question::PartData { device } => with_controller(|send| controller::part(send, *device)),
        Question::Events { count } => with_controller(|send| controller::events(send, *count)),
        Question::TpmCapability { tpm: name, capability, property } => {
            let mut device = open_tpm(name, READS)?;
            tpm::capability(&mut |command| exchange(&mut device, command), *capability, *property)
        }
        Question::TpmNv { tpm: name, index } => {
            let mut device = open_tpm(name, READS)?;
            tpm::nv(&mut |command| exchange(&mut device, command), *index)
        }
        Question::TpmPublic { tpm: name, handle } => {
            let mut device = open_tpm(name, READS)?;
            tpm::public(&mut |command| exchange(&mut device, command), *handle)
        }
        Question::Driver { interface } => kernel::ethtool::driver(interface),
        Question::FeatureNames { interface } => kernel::ethtool::feature_names(interface),
        Question::Features { interface } => kernel::ethtool::features(interface),
        Question::PrivateFlagNames { interface } => kernel::ethtool::private_flag_names(interface),
        Question::PrivateFlags { interface } => kernel::ethtool::private_flags(interface),
        Question::PermanentAddress { interface } => kernel::ethtool::permanent_address(interface),
        Question::LinkSettings { interface } => kernel::ethtool::link_settings(interface),
        Question::Ethtool { interface, what } => kernel::ethnl::get(interface, *what),
        Question::ModulePage { interface, page } => kernel::ethnl::module_page(interface, *page),
        Question::Cpuid { leaf, subleaf } => kernel::cpuid::leaf(*leaf, *subleaf),
        Question::Register { number } => register(*number),
    }
}

/// Of the first processor; those that are read are the same for all.
fn register(number: u32) -> io::Result<Vec<u8>> {
    check(Message::Register(number))?;
    let mut value = vec![0; 8];
    open_controller("cpu/0/msr")?.read_exact_at(&mut value, number.into())?;
    Ok(value)
}

fn attribute(path: &str) -> io::Result<Vec<u8>> {
    let file = open(path, false)?;
    if !file.metadata()?.is_file() {
        return Err(not("an attribute"));
    }
    let mut text = Vec::new();
    file.take(ATTRIBUTE_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Part of a disk, through the page cache: a reader that waits there can be killed, one of direct I/O can't.
fn read_at(disk: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    open_disk(disk)?.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn is_inside(node: &str) -> bool {
    node.split('/').all(|part| part != "..")
}

/// A disk, or a drive that only its RAID controller has.
fn target(name: &str) -> io::Result<Target> {
    Ok(match place_behind(name) {
        Some((host, drive)) => Target::MegaRaid { node: kernel::megaraid::open()?, host, drive },
        None => Target::Disk(open_disk(name)?),
    })
}

/// What only a generic SCSI node leads to.
fn generic(node: &str) -> io::Result<Target> {
    Ok(Target::Disk(ManuallyDrop::new(open_controller(node)?)))
}

/// Opens without waiting for a medium or for locks. It stays open until the process that asks ends: closing a disk may wait
/// for it (`blkdev_flush_mapping` of block/bdev.c) when the answer is there already.
fn open_disk(disk: &str) -> io::Result<ManuallyDrop<File>> {
    let file = open(&format!("/dev/{}", disk.replace('!', "/")), false)?;
    if !file.metadata()?.file_type().is_block_device() {
        return Err(not("a block device"));
    }
    Ok(ManuallyDrop::new(file))
}

fn open_controller(controller: &str) -> io::Result<File> {
    let file = open(&format!("/dev/{controller}"), false)?;
    if file.metadata()?.file_type().is_char_device() { Ok(file) } else { Err(not("a character device")) }
}

pub(super) fn open_ipmi() -> io::Result<File> {
    let mut first = None;
    for node in IPMI_NODES {
        match open(node, true) {
            Ok(file) if file.metadata()?.file_type().is_char_device() => return Ok(file),
            Ok(_) => {}
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| not("a management controller's node")))
}

/// Through the kernel's resource manager, so that no program waits for another; old kernels have only the TPM itself.
pub(crate) fn open_tpm(name: &str, limit: Duration) -> io::Result<Device> {
    let number = name.strip_prefix("tpm").filter(|number| number.parse::<u16>().is_ok());
    let number = number.ok_or_else(|| not("a TPM's name"))?;
    let managed = open(&format!("/dev/tpmrm{number}"), true);
    let file = managed.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => open(&format!("/dev/tpm{number}"), true),
        _ => Err(error),
    })?;
    if file.metadata()?.file_type().is_char_device() {
        Ok(Device { file, limit })
    } else {
        Err(not("a character device"))
    }
}

fn with_controller(work: impl FnOnce(controller::Send<'_>) -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    let node = open_ipmi()?;
    work(&mut |netfn, command, data| ipmi(&node, netfn, command, data))
}

pub(super) fn ipmi(node: &File, netfn: u8, command: u8, data: &[u8]) -> io::Result<Vec<u8>> {
    check(Message::Ipmi { netfn, command, data })?;
    kernel::ipmi::ipmi(node, netfn, command, data)
}

fn open(node: &str, write: bool) -> io::Result<File> {
    if !is_inside(node) {
        return Err(not("a device's name"));
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    OpenOptions::new().read(true).write(write).custom_flags(flags.bits()).open(node)
}

fn not(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("not {what}"))
}

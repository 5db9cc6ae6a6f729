//! Graphics processors and accelerators: memory, firmware and errors, as their drivers tell.

use super::finding::Finding;
use crate::{Root, pci::Function};
use kernel::order;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Base classes of PCI: display controllers and accelerators.
const CLASSES: [&str; 2] = ["03", "12"];
/// Directories below a PCI function where the kernel lists the device's nodes.
const NODES: [&str; 2] = ["drm", "accel"];
const NVIDIA: &str = "/proc/driver/nvidia";
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Files of amdgpu's, i915's and xe's, below the PCI function.
const FILES: [&str; 10] = [
    "mem_info_vram_total",
    "mem_info_vis_vram_total",
    "mem_info_vram_vendor",
    "vbios_version",
    "product_name",
    "product_number",
    "serial_number",
    "unique_id",
    "current_compute_partition",
    "current_memory_partition",
];

/// A graphics processor or an accelerator. Its link is that of the PCI function of the same address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Accelerator {
    /// PCI address.
    pub address: String,
    /// Nodes that programs use it by: card0, renderD128, accel0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of the driver, if it has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Model as the driver calls it, else the chip's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The maker's part number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// Name of the chip that is unique in the world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_serial: Option<String>,
    /// Its own memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_size_bytes: Option<u64>,
    /// Part of it that processors can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visible_memory_size_bytes: Option<u64>,
    /// Maker of the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_vendor: Option<String>,
    /// Version of its BIOS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vbios_version: Option<String>,
    /// Versions of its firmware, by part.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub firmware_versions: BTreeMap<String, String>,
    /// How it is divided for computing: SPX, DPX, CPX and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_partition: Option<String>,
    /// How its memory is divided: NPS1, NPS4 and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_partition: Option<String>,
    /// Errors of its memory and its parts since the driver was loaded, by part: umc_corrected, umc_uncorrected and the like;
    /// those that are zero are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

/// By PCI address.
pub(super) fn accelerators(root: &Root, functions: &[Function]) -> Vec<Accelerator> {
    let is_one = |function: &&Function| {
        let is_known = CLASSES.iter().any(|class| function.class_id.starts_with(class));
        (is_known || root.is_dir(format!("{}/{}/accel", crate::pci::DEVICES, function.address)))
            && function.physical_function.is_none()
    };
    functions.iter().filter(is_one).map(|function| accelerator(root, function)).collect()
}

fn accelerator(root: &Root, function: &Function) -> Accelerator {
    let dir = format!("{}/{}", crate::pci::DEVICES, function.address);
    let mut found = Accelerator {
        address: function.address.clone(),
        nodes: nodes(root, &dir),
        driver: function.driver.clone(),
        model: function.device.clone(),
        ..Accelerator::default()
    };
    // A driver would wake one that is off.
    if function.power_state.as_deref() == Some("D3cold") {
        return found;
    }
    match function.driver.as_deref() {
        Some("nvidia") => nvidia(root, &mut found),
        Some("amdgpu") => amdgpu(root, &dir, &mut found),
        Some("i915" | "xe") => intel(root, &dir, &mut found),
        Some("habanalabs") => habanalabs(root, &dir, &mut found),
        _ => {}
    }
    found
}

fn nodes(root: &Root, dir: &str) -> Vec<String> {
    let listed = NODES.iter().flat_map(|kind| root.list(format!("{dir}/{kind}")));
    let is_node = |name: &String| ["card", "render", "accel"].iter().any(|start| name.starts_with(start));
    let mut names: Vec<String> = listed.filter(is_node).collect();
    order::sort(&mut names);
    names
}

fn amdgpu(root: &Root, dir: &str, found: &mut Accelerator) {
    let mut texts = root.measurements(dir, &FILES.map(str::to_owned)).into_iter().map(|text| {
        let known = |text: &String| !matches!(text.as_str(), "" | "unknown" | "N/A" | "0");
        text.filter(known)
    });
    let mut next = || texts.next().flatten();
    found.memory_size_bytes = next().and_then(|bytes| bytes.parse().ok());
    found.visible_memory_size_bytes = next().and_then(|bytes| bytes.parse().ok());
    found.memory_vendor = next();
    found.vbios_version = next();
    found.model = next().or(found.model.take());
    found.part_number = next();
    found.serial_number = next();
    found.unique_serial = next();
    found.compute_partition = next();
    found.memory_partition = next();
    let versions = texts_of(root, &format!("{dir}/fw_version"), "_fw_version");
    found.firmware_versions.extend(versions.into_iter().filter(|(_, version)| version != "0x00000000"));
    for (part, counts) in texts_of(root, &format!("{dir}/ras"), "_err_count") {
        for line in counts.lines() {
            let kind = match line.split_once(':') {
                Some(("ue", count)) => Some(("uncorrected", count)),
                Some(("ce", count)) => Some(("corrected", count)),
                _ => None,
            };
            if let Some((kind, Ok(count @ 1..))) = kind.map(|(kind, count)| (kind, count.trim().parse())) {
                found.errors.insert(format!("{part}_{kind}"), count);
            }
        }
    }
}

/// Files of a directory whose names end so, without that end; those that are not empty.
fn texts_of(root: &Root, dir: &str, end: &str) -> Vec<(String, String)> {
    let names: Vec<String> = root.list(dir).into_iter().filter(|name| name.ends_with(end)).collect();
    let texts = root.measurements(dir, &names);
    let named = |(name, text): (String, Option<String>)| {
        Some((name.strip_suffix(end)?.to_owned(), text.filter(|text| !text.is_empty())?))
    };
    names.into_iter().zip(texts).filter_map(named).collect()
}

fn intel(root: &Root, dir: &str, found: &mut Accelerator) {
    let card = found.nodes.iter().find(|name| name.starts_with("card"));
    let card_bytes = card.and_then(|card| root.number(format!("{dir}/drm/{card}/lmem_total_bytes")));
    let tiles = root.list(dir).into_iter().filter(|name| name.starts_with("tile"));
    let tile_bytes = tiles.filter_map(|tile| root.attribute(format!("{dir}/{tile}/physical_vram_size_bytes")));
    let bytes = |text: String| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    found.memory_size_bytes = card_bytes.or_else(|| tile_bytes.filter_map(bytes).reduce(u64::saturating_add));
}

fn habanalabs(root: &Root, dir: &str, found: &mut Accelerator) {
    // Old kernels have them beside the PCI function's own, new ones below its node.
    let node_file =
        found.nodes.iter().find(|name| name.starts_with("accel")).map(|name| format!("{dir}/accel/{name}/device"));
    let versions = texts_of(root, node_file.as_deref().unwrap_or(dir), "_ver");
    found.firmware_versions.extend(versions);
}

/// `Model: \t\t NVIDIA A100-SXM4-40GB`
fn nvidia(root: &Root, found: &mut Accelerator) {
    let version = root.text(format!("{NVIDIA}/version"), MAX_TEXT_BYTES).unwrap_or_default();
    let is_version = |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let version = version.lines().next().and_then(|line| line.split_whitespace().find(is_version));
    found.driver_version = version.map(str::to_owned);
    let about = root.text(format!("{NVIDIA}/gpus/{}/information", found.address), MAX_TEXT_BYTES).unwrap_or_default();
    for (name, value) in about.lines().filter_map(|line| line.split_once(':')) {
        let value =
            Some(value.trim().to_owned()).filter(|value| !value.is_empty() && !value.contains('?') && value != "N/A");
        match name.trim() {
            "Model" => found.model = value.or(found.model.take()),
            "GPU UUID" => found.unique_serial = value,
            "Video BIOS" => found.vbios_version = value,
            "GPU Firmware" => found.firmware_versions.extend(value.map(|version| ("gpu".to_owned(), version))),
            _ => {}
        }
    }
}

pub(super) fn findings(accelerators: &[Accelerator]) -> Vec<Finding> {
    let mut found = Vec::new();
    for accelerator in accelerators {
        for (name, count) in &accelerator.errors {
            let text = format!("errors since its driver was loaded: {} {count}", name.replace('_', " "));
            let is_warning = name.ends_with("_uncorrected");
            found.push(Finding { is_warning, of: accelerator.address.clone(), text });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn function(address: &str, class_id: &str, driver: &str) -> Function {
        Function {
            address: address.to_owned(),
            class_id: class_id.to_owned(),
            driver: Some(driver.to_owned()),
            device: Some("chip".to_owned()),
            ..Function::default()
        }
    }

    #[test]
    fn amd() {
        let tree = Tree::new(&[]);
        for (file, content) in [
            ("mem_info_vram_total", "206141652992"),
            ("mem_info_vis_vram_total", "206141652992"),
            ("mem_info_vram_vendor", "hynix"),
            ("vbios_version", "113-MI3SRIOV-001"),
            ("product_name", "AMD Instinct"),
            ("serial_number", "PCB0001"),
            ("unique_id", "0123456789abcdef"),
            ("current_compute_partition", "SPX"),
            ("fw_version/smc_fw_version", "0x00557300"),
            ("fw_version/uvd_fw_version", "0x00000000"),
            ("ras/umc_err_count", "ue: 1\nce: 12"),
            ("ras/gfx_err_count", "ue: 0\nce: 0"),
            ("drm/card1/dev", "226:1"),
            ("drm/renderD129/dev", "226:129"),
            ("drm/by-path", ""),
        ] {
            tree.add(&format!("sys/bus/pci/devices/0000:05:00.0/{file}"), format!("{content}\n"));
        }
        let found = accelerators(
            &tree.root(),
            &[function("0000:05:00.0", "120000", "amdgpu"), function("0000:01:00.0", "020000", "ice")],
        );
        let [gpu] = &found[..] else { panic!("{found:?}") };
        assert_eq!((gpu.memory_size_bytes, gpu.memory_vendor.as_deref()), (Some(206_141_652_992), Some("hynix")));
        assert_eq!((gpu.model.as_deref(), gpu.part_number.as_deref()), (Some("AMD Instinct"), None));
        assert_eq!((gpu.serial_number.as_deref(), gpu.compute_partition.as_deref()), (Some("PCB0001"), Some("SPX")));
        assert_eq!(gpu.nodes, ["card1", "renderD129"]);
        assert_eq!(gpu.firmware_versions, [("smc".to_owned(), "0x00557300".to_owned())].into());
        assert_eq!(gpu.errors, [("umc_corrected".to_owned(), 12), ("umc_uncorrected".to_owned(), 1)].into());
        let warnings: Vec<_> = findings(&found).into_iter().map(|finding| (finding.is_warning, finding.text)).collect();
        assert_eq!(warnings[1], (true, "errors since its driver was loaded: umc uncorrected 1".to_owned()));
        assert!(!warnings[0].0);
    }

    #[test]
    fn nvidia_and_intel() {
        let tree = Tree::new(&[
            (
                "proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC version:  gcc 8.5.0\n",
            ),
            (
                "proc/driver/nvidia/gpus/0000:07:00.0/information",
                "Model: \t\t NVIDIA A100\nIRQ:   \t\t 31\nGPU UUID: \t GPU-01234567-89ab-cdef-0123-456789abcdef\nVideo BIOS: \t ??.??.??.??.??\nGPU Firmware: \t 550.54.15\n",
            ),
            ("sys/bus/pci/devices/0000:08:00.0/drm/card0/lmem_total_bytes", "8589934592\n"),
            ("sys/bus/pci/devices/0000:09:00.0/tile0/physical_vram_size_bytes", "0x400000000\n"),
            ("sys/bus/pci/devices/0000:09:00.0/accel/accel0/dev", "261:0\n"),
        ]);
        let functions = [
            function("0000:07:00.0", "030200", "nvidia"),
            function("0000:08:00.0", "030000", "i915"),
            function("0000:09:00.0", "0b4000", "xe"),
        ];
        let found = accelerators(&tree.root(), &functions);
        assert_eq!(
            (found[0].model.as_deref(), found[0].driver_version.as_deref()),
            (Some("NVIDIA A100"), Some("550.54.15"))
        );
        assert_eq!((found[0].vbios_version.as_ref(), found[0].firmware_versions.len()), (None, 1));
        assert_eq!(found[0].unique_serial.as_deref(), Some("GPU-01234567-89ab-cdef-0123-456789abcdef"));
        assert_eq!((found[1].memory_size_bytes, found[1].model.as_deref()), (Some(8 << 30), Some("chip")));
        assert_eq!(
            (found[2].memory_size_bytes, found[2].nodes.as_slice()),
            (Some(16 << 30), &["accel0".to_owned()][..])
        );
        let off = Function { power_state: Some("D3cold".to_owned()), ..functions[0].clone() };
        assert_eq!(accelerators(&tree.root(), &[off])[0].driver_version, None);
    }
}

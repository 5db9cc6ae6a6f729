//! The machine as its maker names it: model, boards, chassis.

use super::devicetree;
use crate::{
    Root,
    cpu::CpuInfo,
    smbios::{self, Baseboard, Chassis, Smbios},
    vendor,
};
use serde::{Deserialize, Serialize};

pub(super) const DMI: &str = "/sys/class/dmi/id";

/// The machine, from SMBIOS, or from what the kernel shows of it in /sys/class/dmi/id where the table can't be read. Where
/// there is neither, from the device tree or from /proc/sysinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct System {
    /// Maker, model, serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<smbios::System>,
    /// Boards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baseboards: Vec<Baseboard>,
    /// Chassis, of a blade also the one around it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chassis: Vec<Chassis>,
    /// Texts of the maker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oem_strings: Vec<String>,
    /// Whether it is a virtual machine; absent where neither processor nor firmware is known.
    #[serde(rename = "virtual", skip_serializing_if = "Option::is_none")]
    pub is_virtual: Option<bool>,
    /// What runs a virtual machine, as far as it shows itself: KVM, QEMU, VMware, Hyper-V, Xen, z/VM and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
}

pub(super) fn system(root: &Root, smbios: &Smbios) -> System {
    let is_virtual = is_virtual(root, smbios);
    let mut found = System {
        product: smbios.system(),
        baseboards: smbios.baseboards(),
        chassis: smbios.chassis(),
        oem_strings: smbios.oem_strings(),
        is_virtual,
        hypervisor: is_virtual.filter(|is_virtual| *is_virtual).and_then(|_| vendor::hypervisor(root)),
    };
    if smbios.table_bytes().is_empty() {
        let text = |name: &str| root.attribute(format!("{DMI}/{name}")).filter(|text| !text.is_empty());
        let product = smbios::System {
            manufacturer: text("sys_vendor"),
            product_name: text("product_name"),
            version: text("product_version"),
            serial_number: text("product_serial"),
            uuid: text("product_uuid").map(|uuid| uuid.to_lowercase()),
            sku_number: text("product_sku"),
            family: text("product_family"),
            ..smbios::System::default()
        };
        let board = Baseboard {
            manufacturer: text("board_vendor"),
            product: text("board_name"),
            version: text("board_version"),
            serial_number: text("board_serial"),
            asset_tag: text("board_asset_tag"),
            ..Baseboard::default()
        };
        let chassis = Chassis {
            manufacturer: text("chassis_vendor"),
            version: text("chassis_version"),
            serial_number: text("chassis_serial"),
            asset_tag: text("chassis_asset_tag"),
            ..Chassis::default()
        };
        found.product =
            Some(product).filter(|product| *product != smbios::System::default()).or_else(|| devicetree::product(root));
        found.baseboards.extend(Some(board).filter(|board| *board != Baseboard::default()));
        found.chassis.extend(Some(chassis).filter(|chassis| *chassis != Chassis::default()));
    }
    found
}

/// A machine is not a physical one just because nothing is known of it.
fn is_virtual(root: &Root, smbios: &Smbios) -> Option<bool> {
    let is_virtual = vendor::is_virtual(root, &CpuInfo::read(root), smbios);
    let is_described = root.exists("/proc/cpuinfo") || root.is_dir(DMI) || !smbios.table_bytes().is_empty();
    (is_virtual || is_described).then_some(is_virtual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn without_a_table_the_kernel_tells() {
        let tree = Tree::new(&[
            ("sys/class/dmi/id/sys_vendor", "Some Maker\n"),
            ("sys/class/dmi/id/product_uuid", "4C4C4544-0046-4A10-8051-B4C04F4D3532\n"),
            ("sys/class/dmi/id/board_name", "0ABC\n"),
        ]);
        let found = system(&tree.root(), &Smbios::default());
        let product = found.product.unwrap();
        assert_eq!(product.manufacturer.as_deref(), Some("Some Maker"));
        assert_eq!(product.uuid.as_deref(), Some("4c4c4544-0046-4a10-8051-b4c04f4d3532"));
        assert_eq!((found.baseboards.len(), found.chassis.len()), (1, 0));
        assert_eq!(system(&Tree::new(&[]).root(), &Smbios::default()), System::default());
    }
}

//! The USB bus: controllers, hubs and devices.

use super::place::pci_address;
use crate::Root;
use kernel::order;
use serde::{Deserialize, Serialize};

const DEVICES: &str = "/sys/bus/usb/devices";
/// Class codes, two hexadecimal digits (usb.org, defined class codes).
const CLASSES: [(&str, &str); 17] = [
    ("01", "audio"),
    ("02", "communications"),
    ("03", "human interface"),
    ("06", "image"),
    ("07", "printer"),
    ("08", "mass storage"),
    ("09", "hub"),
    ("0a", "communications data"),
    ("0b", "smart card"),
    ("0d", "content security"),
    ("0e", "video"),
    ("11", "billboard"),
    ("dc", "diagnostics"),
    ("e0", "wireless controller"),
    ("ef", "miscellaneous"),
    ("fe", "application specific"),
    ("ff", "vendor specific"),
];

/// A device on the USB bus. The root hubs, called usb1 and so on, stand for the controllers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsbDevice {
    /// Kernel name: bus, and the ports on the way, such as 1-4.2.
    pub name: String,
    /// PCI address of its controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// Maker, 4 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<String>,
    /// The maker's number of the product, 4 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_id: Option<String>,
    /// Maker, as the device says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// Product, as the device says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Release of the device, such as 1.10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Version of USB that it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usb_version: Option<String>,
    /// Speed of its link, megabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<f64>,
    /// What it is, or what its interfaces are, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Drivers of its interfaces, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<String>,
}

/// By bus and ports.
pub(super) fn usb_devices(root: &Root) -> Vec<UsbDevice> {
    // Interfaces are called as their device, a colon and a number.
    let (interfaces, mut names): (Vec<_>, Vec<_>) = root.list(DEVICES).into_iter().partition(|name| name.contains(':'));
    order::sort_by_key(&mut names, |name| {
        let ports = name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u32>().ok());
        (ports.collect::<Vec<_>>(), name.clone())
    });
    names.into_iter().map(|name| usb_device(root, name, &interfaces)).collect()
}

fn usb_device(root: &Root, name: String, interfaces: &[String]) -> UsbDevice {
    let dir = format!("{DEVICES}/{name}");
    let text = |file: &str| root.attribute(format!("{dir}/{file}")).filter(|text| !text.is_empty());
    // A root hub's interface is called after its bus and port 0.
    let hub_interface = name.strip_prefix("usb").map(|bus| format!("{bus}-0"));
    let start = format!("{}:", hub_interface.as_deref().unwrap_or(&name));
    let device_interfaces = || interfaces.iter().filter(|interface| interface.starts_with(&start));
    // Class 0 says that each interface has its own.
    let classes: Vec<String> = match text("bDeviceClass").filter(|class| class != "00") {
        Some(class) => vec![class],
        None => {
            device_interfaces().filter_map(|name| root.attribute(format!("{DEVICES}/{name}/bInterfaceClass"))).collect()
        }
    };
    let class = |code: String| {
        CLASSES
            .iter()
            .find(|(known, _)| *known == code)
            .map_or_else(|| format!("class {code}"), |(_, name)| (*name).to_owned())
    };
    let driver = |name: &String| {
        let target = root.link_target(format!("{DEVICES}/{name}/driver"))?;
        Some(target.file_name()?.to_str()?.to_owned())
    };
    UsbDevice {
        pci_address: root.resolve(&dir).and_then(|sys| pci_address(&sys)),
        vendor_id: text("idVendor"),
        product_id: text("idProduct"),
        manufacturer: text("manufacturer"),
        model: text("product"),
        serial: text("serial"),
        revision: text("bcdDevice").and_then(|digits| revision(&digits)),
        usb_version: text("version"),
        speed_mbps: text("speed").and_then(|speed| speed.parse().ok()).filter(|speed: &f64| speed.is_finite()),
        classes: each_once(classes.into_iter().map(class).collect()),
        drivers: each_once(device_interfaces().filter_map(driver).collect()),
        name,
    }
}

/// `0110` is 1.10.
fn revision(digits: &str) -> Option<String> {
    let (major, minor) = digits.split_at_checked(2)?;
    Some(format!("{}.{minor}", major.trim_start_matches('0').parse::<u32>().unwrap_or(0)))
}

fn each_once(mut names: Vec<String>) -> Vec<String> {
    order::sort(&mut names);
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn a_controller_and_a_stick() {
        let tree = Tree::new(&[]);
        let controller = "sys/devices/pci0000:00/0000:00:14.0/usb1";
        let add = |name: &str, path: &str, files: &[(&str, &str)]| {
            for (file, content) in files {
                tree.add(&format!("{controller}{path}/{file}"), format!("{content}\n"));
            }
            tree.link(&format!("sys/bus/usb/devices/{name}"), &format!("../../../../{controller}{path}"));
        };
        add("usb1", "", &[("speed", "480"), ("bDeviceClass", "09"), ("idVendor", "1d6b"), ("serial", "0000:00:14.0")]);
        add("1-0:1.0", "/1-0:1.0", &[("bInterfaceClass", "09")]);
        add("1-10", "/1-10", &[("speed", "1.5"), ("bDeviceClass", "00")]);
        let stick = [
            ("speed", "5000"),
            ("bDeviceClass", "00"),
            ("bcdDevice", "0110"),
            ("version", " 3.20"),
            ("product", "Stick"),
            ("serial", "AC00017"),
        ];
        add("1-2", "/1-2", &stick);
        add("1-2:1.0", "/1-2/1-2:1.0", &[("bInterfaceClass", "08")]);
        add("1-2:1.1", "/1-2/1-2:1.1", &[("bInterfaceClass", "77")]);
        tree.link(&format!("{controller}/1-2/1-2:1.0/driver"), "../../../../../../bus/usb/drivers/usb-storage");
        tree.link(&format!("{controller}/1-0:1.0/driver"), "../../../../../bus/usb/drivers/hub");
        let found = usb_devices(&tree.root());
        assert_eq!(found.iter().map(|device| device.name.as_str()).collect::<Vec<_>>(), ["usb1", "1-2", "1-10"]);
        assert_eq!(
            (found[0].classes.as_slice(), found[0].drivers.as_slice()),
            (&["hub".to_owned()][..], &["hub".to_owned()][..])
        );
        assert_eq!(found[0].pci_address.as_deref(), Some("0000:00:14.0"));
        let stick = &found[1];
        assert_eq!((stick.revision.as_deref(), stick.usb_version.as_deref()), (Some("1.10"), Some("3.20")));
        assert_eq!((stick.speed_mbps, stick.serial.as_deref()), (Some(5000.0), Some("AC00017")));
        assert_eq!(
            (stick.classes.as_slice(), stick.drivers.as_slice()),
            (&["class 77".to_owned(), "mass storage".to_owned()][..], &["usb-storage".to_owned()][..])
        );
        assert_eq!((found[2].speed_mbps, found[2].classes.len()), (Some(1.5), 0));
    }
}

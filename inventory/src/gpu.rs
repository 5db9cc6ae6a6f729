//! Graphics and accelerators (contract §7.8): ids only. Their names come from a table that lives with the service's side.

use crate::Root;
use api::Gpu;

const DEVICES: &str = "/sys/bus/pci/devices";
/// PCI base class and subclass: VGA, 3D, other display, processing accelerator.
const CLASSES: [&str; 4] = ["0300", "0302", "0380", "1200"];
/// Stands for a name that is not known here.
const UNKNOWN: &str = "unknown";

/// `gpus`, by PCI address. A function that can't be understood is left out, the others stay.
pub(crate) fn gpus(root: &Root) -> Vec<Gpu> {
    let function = |address: String| {
        let function = parse(&root.attribute(format!("{DEVICES}/{address}/modalias"))?)?;
        CLASSES.contains(&function.class.as_str()).then(|| Gpu {
            address,
            device_id: function.device,
            name: UNKNOWN.to_owned(),
            vendor: UNKNOWN.to_owned(),
            vendor_id: function.vendor,
        })
    };
    root.list(DEVICES).into_iter().filter_map(function).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    vendor: String,
    device: String,
    class: String,
}

/// `pci:v000010DEd000015F8sv000010DEsd0000118Fbc03sc02i00`
fn parse(modalias: &str) -> Option<Function> {
    let rest = modalias.strip_prefix("pci:v")?;
    let (vendor, rest) = hex(rest, 8)?;
    let (device, rest) = hex(rest.strip_prefix('d')?, 8)?;
    let (_, rest) = hex(rest.strip_prefix("sv")?, 8)?;
    let (_, rest) = hex(rest.strip_prefix("sd")?, 8)?;
    let (base, rest) = hex(rest.strip_prefix("bc")?, 2)?;
    let (sub, _) = hex(rest.strip_prefix("sc")?, 2)?;
    let id = |long: &str| long.strip_prefix("0000").map(str::to_lowercase);
    Some(Function { vendor: id(vendor)?, device: id(device)?, class: format!("{base}{sub}").to_lowercase() })
}

fn hex(text: &str, digits: usize) -> Option<(&str, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    number.bytes().all(|b| b.is_ascii_hexdigit()).then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn by_class() {
        let tree = Tree::new(&[
            ("sys/bus/pci/devices/0000:06:00.0/modalias", "pci:v000010DEd000015F8sv000010DEsd0000118Fbc03sc02i00\n"),
            ("sys/bus/pci/devices/0000:04:00.0/modalias", "pci:v00001AF4d00001050sv00001AF4sd00001100bc03sc00i00\n"),
            ("sys/bus/pci/devices/0000:05:00.0/modalias", "pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00\n"),
            ("sys/bus/pci/devices/odd/modalias", "pci:v0000€€€€"),
        ]);
        let found = gpus(&tree.root());
        let short = |gpu: &Gpu| (gpu.address.clone(), gpu.vendor_id.clone(), gpu.device_id.clone());
        let own = |a: &str, v: &str, d: &str| (a.to_owned(), v.to_owned(), d.to_owned());
        assert_eq!(
            found.iter().map(short).collect::<Vec<_>>(),
            [own("0000:04:00.0", "1af4", "1050"), own("0000:06:00.0", "10de", "15f8")]
        );
        assert_eq!((found[0].name.as_str(), found[0].vendor.as_str()), ("unknown", "unknown"));
    }

    #[test]
    fn noise() {
        for bad in ["", "pci:", "usb:v1", "pci:v000010DEd000015F8", "pci:v000010DEd000015F8sv000010DEsd0000118Fbc0"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

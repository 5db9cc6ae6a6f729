//! Graphics and accelerators (docs/compatibility.md#gpus).

mod filter;

pub use filter::{GpuFilter, GpuFilterError};

use crate::{
    Root,
    pci::{
        self,
        names::{Ids, Names},
    },
};
use api::Gpu;

const DEVICES: &str = "/sys/bus/pci/devices";
/// Stands for a name that is not known.
const UNKNOWN: &str = "unknown";

/// `gpus`, by PCI address. A function that can't be understood is left out, the others stay; without `pci.ids` they are
/// listed without names.
pub(crate) fn gpus(root: &Root, filter: &GpuFilter) -> Vec<Gpu> {
    let function = |address: String| {
        let ids = pci::parse_modalias(&root.attribute(format!("{DEVICES}/{address}/modalias"))?)?;
        let [base, sub, _] = ids.class;
        let class = format!("{base:02x}{sub:02x}");
        let [vendor, device] = [ids.vendor, ids.device].map(|id| format!("{id:04x}"));
        filter.wants(&class, &vendor, &device).then_some((address, ids))
    };
    let found: Vec<_> = root.list(DEVICES).into_iter().filter_map(function).collect();
    let ids: Vec<_> = found.iter().map(|(_, ids)| Ids { subsystem: None, ..*ids }).collect();
    let names = Names::read(root, &ids);
    let entry = |(address, ids): (String, Ids)| {
        let known = |name: Option<&str>| name.unwrap_or(UNKNOWN).to_owned();
        Gpu {
            address,
            name: known(names.device(ids.vendor, ids.device)),
            vendor: known(names.vendor(ids.vendor)),
            device_id: format!("{:04x}", ids.device),
            vendor_id: format!("{:04x}", ids.vendor),
        }
    };
    found.into_iter().map(entry).collect()
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
        let found = gpus(&tree.root(), &GpuFilter::default());
        let short = |gpu: &Gpu| (gpu.address.clone(), gpu.vendor_id.clone(), gpu.device_id.clone());
        let own = |a: &str, v: &str, d: &str| (a.to_owned(), v.to_owned(), d.to_owned());
        assert_eq!(
            found.iter().map(short).collect::<Vec<_>>(),
            [own("0000:04:00.0", "1af4", "1050"), own("0000:06:00.0", "10de", "15f8")]
        );
        assert_eq!((found[0].name.as_str(), found[0].vendor.as_str()), ("unknown", "unknown"));
    }

    #[test]
    fn names_and_filters() {
        let tree = Tree::new(&[
            ("sys/bus/pci/devices/0000:03:00.0/modalias", "pci:v00001DA3d00001020sv00001DA3sd00000001bc12sc00i00\n"),
            ("sys/bus/pci/devices/0000:06:00.0/modalias", "pci:v000010DEd000015F8sv000010DEsd0000118Fbc03sc02i00\n"),
            (
                "usr/share/hwdata/pci.ids",
                "10de  NVIDIA Corporation\n\t15f8  GP100GL [Tesla P100 PCIe 16GB]\n1da3  Habana\n",
            ),
        ]);
        let named = |filter: &GpuFilter| {
            gpus(&tree.root(), filter).iter().map(|gpu| format!("{} / {}", gpu.vendor, gpu.name)).collect::<Vec<_>>()
        };
        let both = ["Habana / unknown", "NVIDIA Corporation / GP100GL [Tesla P100 PCIe 16GB]"];
        assert_eq!(named(&GpuFilter::default()), both);
        assert_eq!(named(&GpuFilter::parse("models: ['1200 1da3 1020']").unwrap()), both[..1]);
        assert_eq!(named(&GpuFilter::parse("vendors:\n- 0302 10DE").unwrap()), both[1..]);
        assert!(named(&GpuFilter::parse("vendors: ['0300 10de']").unwrap()).is_empty());
    }

    #[test]
    fn noise() {
        for bad in ["", "pci:", "usb:v1", "pci:v000010DEd000015F8", "pci:v000010DEd000015F8sv000010DEsd0000118Fbc0"] {
            assert_eq!(pci::parse_modalias(bad), None, "{bad}");
        }
    }
}

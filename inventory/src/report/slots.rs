//! Expansion slots, and what the PCI bus has in them.

use crate::{
    pci::Function,
    smbios::{self, Smbios},
};
use serde::{Deserialize, Serialize};

/// An expansion slot with the PCI functions of its card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Slot {
    /// What the firmware says of it.
    #[serde(flatten)]
    pub slot: smbios::Slot,
    /// Addresses of the PCI functions in it; none when it is empty or the firmware does not say where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
}

/// The slots in the firmware's order.
pub(super) fn slots(smbios: &Smbios, functions: &[Function]) -> Vec<Slot> {
    let slot = |slot: smbios::Slot| {
        let functions = slot.bus_address.as_deref().map(|address| at(address, functions)).unwrap_or_default();
        Slot { slot, functions }
    };
    smbios.slots().into_iter().map(slot).collect()
}

/// The functions of the device at an address. Some firmware names the port above the slot instead of the card in it: then
/// the card is what is below.
fn at(address: &str, functions: &[Function]) -> Vec<String> {
    let Some((device, _)) = address.rsplit_once('.') else { return Vec::new() };
    let is_there = |function: &&Function| function.address.rsplit_once('.').is_some_and(|(own, _)| own == device);
    let is_port = |function: &Function| function.class_id.starts_with("0604") && function.parent.is_none();
    let port = functions.iter().find(|function| function.address == address && is_port(function));
    let in_it = functions.iter().filter(|function| match port {
        Some(port) => function.parent.as_ref() == Some(&port.address),
        None => is_there(function),
    });
    in_it.map(|function| function.address.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(address: &str, parent: Option<&str>, class_id: &str) -> Function {
        Function {
            address: address.to_owned(),
            parent: parent.map(str::to_owned),
            class_id: class_id.to_owned(),
            ..Function::default()
        }
    }

    #[test]
    fn the_card_or_the_port_above_it() {
        let functions = [
            function("0000:16:02.0", None, "060400"),
            function("0000:16:02.1", None, "060400"),
            function("0000:17:00.0", Some("0000:16:02.0"), "020000"),
            function("0000:17:00.1", Some("0000:16:02.0"), "020000"),
        ];
        let card = ["0000:17:00.0", "0000:17:00.1"];
        assert_eq!(at("0000:17:00.0", &functions), card);
        assert_eq!(at("0000:16:02.0", &functions), card);
        assert_eq!(at("0000:16:02.1", &functions), [""; 0]);
        assert_eq!(at("0000:18:00.0", &functions), [""; 0]);
        assert_eq!(at("odd", &functions), [""; 0]);
    }
}

//! Power supplies: what the firmware lists (SMBIOS type 39) together with what the management controller stores of them (FRU).

use super::management::ManagementController;
use crate::{
    bmc::{Part, SupplyRating},
    smbios::{Smbios, Supply},
};
use serde::{Deserialize, Serialize};

/// A power supply, of the firmware, the management controller, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PowerSupplyUnit {
    /// Where it is, else what it is called.
    pub name: String,
    /// Maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Part number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// Revision of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What it gives for ever, W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_watts: Option<u16>,
    /// Whether it is in its place, as the firmware says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_present: Option<bool>,
    /// Whether it had no power from outside when the machine booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_unplugged: Option<bool>,
    /// Whether it can be changed while the machine runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_hot_replaceable: Option<bool>,
    /// How it was when the machine booted: OK, Non-critical, Critical.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_supply_state: Option<String>,
    /// What it can do, as the management controller stores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating: Option<SupplyRating>,
    /// Name of its data (FRU) in the management controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fru: Option<String>,
}

/// Both lists in one: a serial number that is in both is one supply.
pub(super) fn supplies(smbios: &Smbios, controller: Option<&ManagementController>) -> Vec<PowerSupplyUnit> {
    let is_supply = |part: &&Part| {
        part.power_supply.is_some() || part.entity.as_ref().is_some_and(|entity| entity.starts_with("power supply"))
    };
    let mut parts: Vec<&Part> = controller.iter().flat_map(|controller| &controller.frus).filter(is_supply).collect();
    let listed = smbios.supplies().into_iter().map(|supply| {
        let is_it = |part: &&Part| supply.serial_number.is_some() && serial(part) == supply.serial_number.as_ref();
        let part = parts.iter().position(is_it).map(|at| parts.remove(at));
        joined(supply, part)
    });
    let mut units: Vec<PowerSupplyUnit> = listed.collect();
    units.extend(parts.into_iter().map(from_part));
    units
}

fn serial(part: &Part) -> Option<&String> {
    let product = part.product.as_ref().and_then(|product| product.serial_number.as_ref());
    product.or_else(|| part.board.as_ref()?.serial_number.as_ref())
}

fn joined(supply: Supply, part: Option<&Part>) -> PowerSupplyUnit {
    let stored = part.map(from_part).unwrap_or_default();
    PowerSupplyUnit {
        name: supply.location.clone().or_else(|| supply.name.clone()).unwrap_or_else(|| "power supply".to_owned()),
        manufacturer: supply.manufacturer.or(stored.manufacturer),
        model: supply.name.or(stored.model),
        part_number: supply.part_number.or(stored.part_number),
        serial_number: supply.serial_number.or(stored.serial_number),
        revision: supply.revision.or(stored.revision),
        capacity_watts: supply.capacity_watts.filter(|watts| *watts > 0).or(stored.capacity_watts),
        is_present: supply.is_present,
        is_unplugged: supply.is_unplugged,
        is_hot_replaceable: supply.is_hot_replaceable.or(stored.is_hot_replaceable),
        power_supply_state: supply.status,
        rating: stored.rating,
        fru: stored.fru,
    }
}

fn from_part(part: &Part) -> PowerSupplyUnit {
    let (product, board) = (part.product.clone().unwrap_or_default(), part.board.clone().unwrap_or_default());
    PowerSupplyUnit {
        name: part.name.clone(),
        manufacturer: product.manufacturer.or(board.manufacturer),
        model: product.product.or(board.product),
        part_number: product.part_number.or(board.part_number),
        serial_number: product.serial_number.or(board.serial_number),
        revision: product.version,
        capacity_watts: part.power_supply.as_ref().map(|rating| rating.capacity_watts),
        is_hot_replaceable: part.power_supply.as_ref().map(|rating| rating.is_hot_swappable),
        rating: part.power_supply.clone(),
        fru: Some(part.name.clone()),
        ..PowerSupplyUnit::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bmc::PartProduct;

    /// A supply of 1600 W with two strings: where it is, and its serial number.
    fn listed(place: &str, serial: &str) -> Vec<u8> {
        let mut bytes = vec![39, 0x16, 1, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0x40, 6, 0xa3, 0x11];
        bytes.extend([0xff; 6]);
        bytes.extend([place.as_bytes(), &[0], serial.as_bytes(), &[0, 0]].concat());
        bytes
    }

    fn stored(name: &str, serial: &str) -> Part {
        let product = PartProduct { serial_number: Some(serial.to_owned()), ..PartProduct::default() };
        let rating = SupplyRating { capacity_watts: 1600, is_hot_swappable: true, ..SupplyRating::default() };
        Part { name: name.to_owned(), product: Some(product), power_supply: Some(rating), ..Part::default() }
    }

    #[test]
    fn one_serial_number_is_one_supply() {
        let smbios = Smbios::parse([listed("Bay 1", "S1"), listed("Bay 2", "S2")].concat());
        let frus = vec![Part::default(), stored("PSU2", "S2"), stored("PSU3", "S3")];
        let controller = ManagementController { frus, ..ManagementController::default() };
        let found = supplies(&smbios, Some(&controller));
        let shown: Vec<_> = found.iter().map(|unit| (unit.name.as_str(), unit.fru.as_deref())).collect();
        assert_eq!(shown, [("Bay 1", None), ("Bay 2", Some("PSU2")), ("PSU3", Some("PSU3"))]);
        assert_eq!(found[1].power_supply_state.as_deref(), Some("OK"));
        assert!(found[1].rating.is_some() && found[2].is_hot_replaceable == Some(true));
        assert_eq!(supplies(&Smbios::default(), None), []);
    }
}

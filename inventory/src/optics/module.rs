//! What is known of an optical module or a cable. Facts only.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A pluggable module: optics, or a cable with its plugs, as its memory describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Module {
    /// Its form: SFP, QSFP+, QSFP28, QSFP-DD, OSFP and the like.
    pub form: String,
    /// What its memory follows: SFF-8472, SFF-8636, or CMIS and its version.
    pub specification: String,
    /// Maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The maker's IEEE OUI, lower case with colons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_oui: Option<String>,
    /// The maker's part number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<String>,
    /// Revision of the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// Day it was made, with the maker's number of the lot if there is one: 2024-03-31 A1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturing_date: Option<String>,
    /// Version of its firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// Connector of the fibre, or that there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connector: Option<String>,
    /// What sends in it, such as 850 nm VCSEL or unequalized copper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub technology: Option<String>,
    /// What it is made for, such as 100GBASE-SR4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<String>,
    /// Nominal signalling rate, megabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_rate_mbps: Option<u32>,
    /// How far it reaches by kind of fibre (single_mode, om1 to om5), or how long the cable is (cable), metres.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reach_meters: BTreeMap<String, f64>,
    /// Wavelength of the laser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wavelength_nanometers: Option<f64>,
    /// The most power it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_power_watts: Option<f64>,
    /// State of the module (CMIS): low power, powering up, ready, powering down, fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Temperature of the module, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<f64>,
    /// Supply voltage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voltage_millivolts: Option<f64>,
    /// Its lanes, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// Limits the maker sets, by the name of what is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ModuleLimits>,
    /// Flags that are raised, such as `rx power low alarm, lane 2`. Those of QSFP and CMIS were raised at some time since
    /// they were last read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised_flags: Vec<String>,
}

/// What is measured of one lane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Signal {
    /// Number of the lane, from 1 on.
    pub number: u32,
    /// Light that arrives; -40 stands for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_power_dbm: Option<f64>,
    /// Light that is sent; -40 stands for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_power_dbm: Option<f64>,
    /// Current of the laser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias_milliamperes: Option<f64>,
}

/// Limits of one measurement, in the unit of its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModuleLimits {
    /// The field that they limit, such as `rx_power_dbm`.
    pub name: String,
    /// Below it something is wrong.
    pub low_alarm: f64,
    /// Below it something may go wrong.
    pub low_warning: f64,
    /// Above it something may go wrong.
    pub high_warning: f64,
    /// Above it something is wrong.
    pub high_alarm: f64,
}

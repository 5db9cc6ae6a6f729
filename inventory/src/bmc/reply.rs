//! Replies of a management controller that say what it is (IPMI 2.0 20.1, 20.8). Pure but for the asking.

use super::{Controller, NETFN_APP};
use uuid::{Uuid, Variant};

const GET_DEVICE_ID: u8 = 0x01;
const GET_DEVICE_GUID: u8 = 0x08;
const GET_SYSTEM_GUID: u8 = 0x37;
const GET_USER_ACCESS: u8 = 0x44;
/// The current channel, and the first user.
const THIS_CHANNEL: u8 = 0x0e;
const FIRST_USER: u8 = 1;
/// What a controller may have, from bit 0 on.
const FUNCTIONS: [&str; 8] = [
    "sensors",
    "sensor record repository",
    "event log",
    "FRU data",
    "event receiver",
    "event generator",
    "bridge",
    "chassis control",
];

/// What a controller says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceId {
    /// Such as `2.88`.
    pub firmware_version: String,
    /// Four bytes of the vendor's own, as hexadecimal digits.
    pub auxiliary_firmware: Option<String>,
    /// Such as `2.0`.
    pub ipmi_version: String,
    /// IANA private enterprise number.
    pub manufacturer: Option<u32>,
    pub product: u16,
    /// What it has.
    pub functions: Vec<String>,
}

/// How many users a controller has; it is not asked who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Users {
    pub most: u8,
    pub enabled: u8,
}

/// Get Device ID.
pub(crate) fn device_id(controller: &mut impl Controller) -> Option<DeviceId> {
    parse_device_id(&controller.request(NETFN_APP, GET_DEVICE_ID, &[])?)
}

/// Get User Access (IPMI 2.0, 22.27), of a LAN channel; users are the same on all.
pub(crate) fn users(controller: &mut impl Controller, channel: Option<u8>) -> Option<Users> {
    let channel = channel.unwrap_or(THIS_CHANNEL);
    let reply = controller.request(NETFN_APP, GET_USER_ACCESS, &[channel, FIRST_USER])?;
    Some(Users { most: reply.first()? & 0x3f, enabled: reply.get(1)? & 0x3f })
}

/// The GUID of the system, else the controller's own.
pub(crate) fn guid(controller: &mut impl Controller) -> Option<String> {
    let mut ask = |command| parse_guid(&controller.request(NETFN_APP, command, &[])?);
    ask(GET_SYSTEM_GUID).or_else(|| ask(GET_DEVICE_GUID))
}

fn parse_device_id(reply: &[u8]) -> Option<DeviceId> {
    let ([_, _, major, minor, ipmi, functions, m0, m1, m2, p0, p1], auxiliary) = reply.split_first_chunk::<11>()?;
    Some(DeviceId {
        // The minor version is BCD; bit 7 of the other says that the controller is being updated.
        firmware_version: format!("{}.{minor:02x}", major & 0x7f),
        auxiliary_firmware: auxiliary.first_chunk::<4>().map(|bytes| format!("{:08x}", u32::from_be_bytes(*bytes))),
        // The minor version is in the upper half.
        ipmi_version: format!("{}.{}", ipmi & 0xf, ipmi >> 4),
        manufacturer: Some(u32::from_le_bytes([*m0, *m1, m2 & 0xf, 0]))
            .filter(|number| !matches!(number, 0 | 0xf_ffff)),
        product: u16::from_le_bytes([*p0, *p1]),
        functions: FUNCTIONS
            .iter()
            .enumerate()
            .filter(|(bit, _)| functions >> bit & 1 == 1)
            .map(|(_, name)| (*name).to_owned())
            .collect(),
    })
}

/// 16 bytes. The specification has them backwards (20.8), most controllers have SMBIOS's order, some the usual one: the first
/// of these that gives a UUID of a known version is right.
fn parse_guid(reply: &[u8]) -> Option<String> {
    let mut bytes: [u8; 16] = reply.get(..16)?.try_into().ok()?;
    if bytes.iter().all(|byte| *byte == 0) || bytes.iter().all(|byte| *byte == 0xff) {
        return None;
    }
    let [smbios, usual] = [Uuid::from_bytes_le(bytes), Uuid::from_bytes(bytes)];
    bytes.reverse();
    let is_sound = |uuid: &Uuid| uuid.get_variant() == Variant::RFC4122 && (1..=5).contains(&uuid.get_version_num());
    let found = [smbios, usual, Uuid::from_bytes(bytes)].into_iter().find(is_sound);
    // Of an unsound one the kernel's reading, which is what other tools show.
    Some(found.unwrap_or(smbios).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idrac() {
        // Device 20h, firmware 2.41, IPMI 2.0, Dell (674), product 100h, auxiliary 40.40.
        let reply = [0x20, 0x01, 0x02, 0x41, 0x02, 0xdf, 0xa2, 0x02, 0x00, 0x00, 0x01, 0x00, 0x28, 0x28, 0x28];
        let found = parse_device_id(&reply).unwrap();
        assert_eq!((found.firmware_version.as_str(), found.ipmi_version.as_str()), ("2.41", "2.0"));
        assert_eq!(found.auxiliary_firmware.as_deref(), Some("00282828"));
        assert_eq!((found.manufacturer, found.product), (Some(674), 0x100));
        assert_eq!(found.functions.len(), 7);
        let short = parse_device_id(&reply[..11]).unwrap();
        assert_eq!((short.firmware_version.as_str(), short.auxiliary_firmware), ("2.41", None));
        assert_eq!(parse_device_id(&reply[..10]), None);
        // IPMI 1.5, in firmware update (bit 7), manufacturer unspecified.
        let old = parse_device_id(&[0, 0, 0x81, 0x09, 0x51, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!((old.firmware_version.as_str(), old.ipmi_version.as_str()), ("1.09", "1.5"));
        assert_eq!(old.manufacturer, None);
    }

    #[test]
    fn guids() {
        let uuid: Uuid = "5a204df8-6d8c-4fae-93d3-5c1ca22bb1f7".parse().unwrap();
        let mut backwards = uuid.into_bytes();
        backwards.reverse();
        for reply in [uuid.to_bytes_le(), uuid.into_bytes(), backwards] {
            assert_eq!(parse_guid(&reply), Some(uuid.to_string()));
            assert_eq!(parse_guid(&reply[1..]), None);
        }
        assert_eq!(parse_guid(&[1; 16]).as_deref(), Some("01010101-0101-0101-0101-010101010101"));
        assert_eq!((parse_guid(&[0; 16]), parse_guid(&[0xff; 16])), (None, None));
    }
}

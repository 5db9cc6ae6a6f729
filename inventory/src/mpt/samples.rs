//! Pages of a SAS adapter made up for tests, written field by field as the kernel's header has them.

use crate::testing::structure;

/// What the driver tells of its adapter, in slot 3 of bus 2.
pub(crate) fn info() -> Vec<u8> {
    structure(92, &[(40, &[0, 11, 0, 20]), (44, &[0, 0, 39, 7]), (84, &(2u32 << 8 | 3).to_le_bytes())])
}

/// The processor at 55 °C, the board at 104 °F.
pub(crate) fn temperatures() -> Vec<u8> {
    structure(24, &[(0, &[5, 6, 7, 0]), (16, &[55, 0, 2]), (20, &[104, 0, 1])])
}

/// A volume of 1 TB with drives of these numbers.
pub(crate) fn volume(handle: u16, level: u8, state: u8, drives: &[u8]) -> Vec<u8> {
    let words = u8::try_from(10 + drives.len()).unwrap();
    let mut page = structure(
        40,
        &[
            (0, &[0x0a, words, 0, 0x28]),
            (4, &handle.to_le_bytes()),
            (6, &[state, level]),
            (12, &[2]),
            (16, &1_953_525_167_u64.to_le_bytes()),
            (24, &128u32.to_le_bytes()),
            (28, &512u16.to_le_bytes()),
            (36, &[u8::try_from(drives.len()).unwrap()]),
        ],
    );
    drives.iter().for_each(|drive| page.extend([0, 0, *drive, 0]));
    page
}

pub(crate) fn name(handle: u16) -> Vec<u8> {
    let fields: [(usize, &[u8]); 4] = [
        (0, &[3, 16, 1, 8]),
        (4, &handle.to_le_bytes()),
        (32, b"system"),
        (48, &0x0d4e_5ab1_c3a9_e9f8_u64.to_le_bytes()),
    ];
    structure(64, &fields)
}

/// A SAS disk that is a drive of a volume.
pub(crate) fn drive(number: u8, handle: u16, state: u8) -> Vec<u8> {
    structure(
        120,
        &[
            (0, &[5, 30, 0, 0x0a]),
            (4, &handle.to_le_bytes()),
            (7, &[number]),
            (16, b"SEAGATE "),
            (24, b"ST1000NX0453    "),
            (40, b"NS02"),
            (44, b"W4712ABC            "),
            (80, &[state, 0, 0, 0x06]),
            (88, &1_953_525_167_u64.to_le_bytes()),
            (112, &512u16.to_le_bytes()),
        ],
    )
}

/// The device of a drive, in a slot of the first enclosure.
pub(crate) fn device(slot: u16) -> Vec<u8> {
    structure(
        56,
        &[
            (0, &[9, 0, 0, 0x0f, 14, 0, 0x12]),
            (8, &slot.to_le_bytes()),
            (10, &1u16.to_le_bytes()),
            (12, &0x5000_c500_a1b2_c3d5_u64.to_le_bytes()),
            (24, &0x20u16.to_le_bytes()),
            (36, &0x5000_c500_a1b2_c3d4_u64.to_le_bytes()),
        ],
    )
}

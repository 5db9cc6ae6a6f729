//! Answers of a controller made up for tests, written field by field as the kernel's header has them.

/// Bytes of a structure that fields are put into.
struct Structure(Vec<u8>);

impl Structure {
    fn new(len: usize) -> Self {
        Self(vec![0; len])
    }

    fn put(mut self, at: usize, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }
}

/// A controller with two flash components, of which the second is its firmware.
pub(crate) fn controller() -> Vec<u8> {
    Structure::new(2048)
        .put(180, 2u32.to_le_bytes())
        .put(184, "BIOS")
        .put(192, "6.36.00.3")
        .put(256, "APP")
        .put(264, "4.680.00-8519")
        .put(0x540, "PERC H740P Mini")
        .put(0x590, "23A01PK")
        .put(0x5d0, 8192u16.to_le_bytes())
        .put(0x5d4, 2u16.to_le_bytes())
        .put(0x640, "51.16.0-4076")
        .put(0x7c9, [61])
        .0
}

pub(crate) fn battery(kind: u8, state: u32, charge: u16, is_good: bool) -> Vec<u8> {
    Structure::new(64)
        .put(0, [kind])
        .put(2, 3921u16.to_le_bytes())
        .put(6, 34u16.to_le_bytes())
        .put(8, state.to_le_bytes())
        .put(34, charge.to_le_bytes())
        .put(42, [u8::from(is_good)])
        .0
}

/// A list of drives, and an enclosure behind them.
pub(crate) fn drives(numbers: &[u16]) -> Vec<u8> {
    let count = numbers.len() + 1;
    let mut list = Structure::new(8 + 24 * 256).put(4, u32::try_from(count).unwrap().to_le_bytes());
    for (index, number) in numbers.iter().enumerate() {
        list = list.put(8 + 24 * index, number.to_le_bytes());
    }
    list.put(8 + 24 * (count - 1), 252u16.to_le_bytes()).put(8 + 24 * (count - 1) + 6, [0x0d]).0
}

/// A SAS drive (kind 2) or a SATA drive (3) of 1 TB in a slot of enclosure 32.
pub(crate) fn drive(number: u16, slot: u8, kind: u16, state: u16) -> Vec<u8> {
    let (vendor, model) = if kind == 3 { ("ATA     ", "INTEL SSDSC2KB96") } else { ("SEAGATE ", "ST1000NX0453    ") };
    let name = [&[0, 0x83, 0, 12, 1, 3, 0, 8][..], &0x5000_c500_a1b2_c3d4_u64.to_be_bytes()].concat();
    Structure::new(512)
        .put(0, number.to_le_bytes())
        .put(4 + 8, vendor)
        .put(4 + 16, model)
        .put(4 + 32, "NS02")
        .put(100, name)
        .put(167, [4])
        .put(168, 3u32.to_le_bytes())
        .put(172, 5u32.to_le_bytes())
        .put(176, 1u32.to_le_bytes())
        .put(184, state.to_le_bytes())
        .put(187, [3])
        .put(188, (kind << 12 | 2).to_le_bytes())
        .put(232, 1_953_525_168_u64.to_le_bytes())
        .put(256, 32u16.to_le_bytes())
        .put(259, [slot])
        .put(370, [u8::from(kind == 3)])
        .put(402, [29])
        .put(404, 512u16.to_le_bytes())
        .0
}

pub(crate) fn volumes(numbers: &[u8]) -> Vec<u8> {
    let mut list = Structure::new(8 + 16 * 64).put(0, u32::try_from(numbers.len()).unwrap().to_le_bytes());
    for (index, number) in numbers.iter().enumerate() {
        list = list.put(8 + 16 * index, [*number]);
    }
    list.0
}

/// A volume of that level over arrays.
pub(crate) fn volume(level: u8, state: u8, arrays: &[u16]) -> Vec<u8> {
    let mut info = Structure::new(384)
        .put(4, "data")
        .put(23, [0x05])
        .put(32, [level])
        .put(35, [7])
        .put(37, [u8::try_from(arrays.len()).unwrap()])
        .put(38, [state])
        .put(40, [1])
        .put(256, 3_905_945_600_u64.to_le_bytes());
    for (index, array) in arrays.iter().enumerate() {
        info = info.put(64 + 24 * index + 16, array.to_le_bytes());
    }
    info.0
}

/// Arrays with their numbers and drives.
pub(crate) fn configuration(arrays: &[(u16, &[u16])]) -> Vec<u8> {
    let len = 32 + 288 * arrays.len();
    let mut whole = Structure::new(len.max(4096))
        .put(0, u32::try_from(len).unwrap().to_le_bytes())
        .put(4, u16::try_from(arrays.len()).unwrap().to_le_bytes())
        .put(6, 288u16.to_le_bytes());
    for (index, (number, drives)) in arrays.iter().enumerate() {
        let at = 32 + 288 * index;
        whole = whole.put(at + 8, [u8::try_from(drives.len()).unwrap()]).put(at + 10, number.to_le_bytes());
        for (row, drive) in drives.iter().enumerate() {
            whole = whole.put(at + 32 + 8 * row, drive.to_le_bytes());
        }
    }
    whole.0
}

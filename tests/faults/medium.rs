//! What a disk holds after something went wrong, by a table reader of the tests' own.

use testkit::disk::MIB;

/// A generator that says where it starts; LANDFALL_SEED gives the same again.
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new() -> Self {
        Self { state: testkit::seed::of_run() | 1 }
    }

    /// xorshift64* by Vigna.
    pub(crate) fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap() % end.max(1)
    }

    /// From 0 up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).unwrap()) / f64::from(u32::MAX)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// What was there before, table and all; at most one of two tables is gone.
    Untouched,
    /// The old table leads to what is no longer there.
    OldTable,
    /// Nothing leads anywhere.
    NoTable,
    /// The image's table is there.
    NewTable,
}

/// The disk GUID of the old system.
const OLD_GUID: [u8; 16] = *b"the old system..";

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The disk GUID of the table whose header is at this sector, if all of it is sound (UEFI 2.10, 5.3.2).
fn table(medium: &[u8], lba: u64, sector: u32) -> Option<[u8; 16]> {
    let sector = u64::from(sector);
    let header = &medium[at(lba * sector)..][..92];
    if &header[..8] != b"EFI PART" || number(header, 12, 4) != 92 {
        return None;
    }
    let mut zeroed = header.to_vec();
    zeroed[16..20].fill(0);
    let start = at(number(header, 72, 8).checked_mul(sector)?);
    let entries = medium.get(start..start + at(number(header, 80, 4) * number(header, 84, 4)))?;
    let sound = u64::from(crc(&zeroed)) == number(header, 16, 4) && u64::from(crc(entries)) == number(header, 88, 4);
    sound.then(|| header[56..72].try_into().unwrap())
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}

/// What a machine would make of `medium`, which held `before`.
pub(crate) fn judge(medium: &[u8], before: &[u8], sector: u32) -> State {
    let last = u64::try_from(medium.len()).unwrap() / u64::from(sector) - 1;
    let tables = [table(medium, 1, sector), table(medium, last, sector)];
    if tables.iter().flatten().any(|guid| *guid != OLD_GUID) {
        return State::NewTable;
    }
    let middle = at(MIB)..medium.len() - at(MIB);
    match tables {
        [None, None] => State::NoTable,
        _ if medium[middle.clone()] == before[middle] => State::Untouched,
        _ => State::OldTable,
    }
}

fn put(medium: &mut [u8], offset: usize, bytes: &[u8]) {
    medium[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// A disk with one old partition full of data and sound tables at both ends.
pub(crate) fn with_old_system(disk_bytes: u64, sector: u32) -> Vec<u8> {
    let mut medium = vec![0xE5; at(disk_bytes)];
    medium[..at(MIB)].fill(0);
    let (size, last) = (u64::from(sector), disk_bytes / u64::from(sector) - 1);
    let array_sectors = 16384 / size;
    let mut entries = vec![0; 16384];
    put(&mut entries, 0, &[7; 32]);
    put(&mut entries, 32, &(MIB / size).to_le_bytes());
    put(&mut entries, 40, &((disk_bytes - 2 * MIB) / size).to_le_bytes());
    put(&mut entries, 56, b"o\0l\0d\0");
    for (own, other, array) in [(1, last, 2), (last, 1, last - array_sectors)] {
        let mut header = [0; 92];
        put(&mut header, 0, b"EFI PART\0\0\x01\0\x5C\0\0\0");
        put(&mut header, 24, &own.to_le_bytes());
        put(&mut header, 32, &other.to_le_bytes());
        put(&mut header, 40, &(2 + array_sectors).to_le_bytes());
        put(&mut header, 48, &(last - array_sectors - 1).to_le_bytes());
        put(&mut header, 56, &OLD_GUID);
        put(&mut header, 72, &array.to_le_bytes());
        put(&mut header, 80, &[128, 0, 0, 0, 128, 0, 0, 0]);
        put(&mut header, 88, &crc(&entries).to_le_bytes());
        let sum = crc(&header);
        put(&mut header, 16, &sum.to_le_bytes());
        put(&mut medium, at(own * size), &header);
        put(&mut medium, at(array * size), &entries);
    }
    put(&mut medium, 446, &[0, 0, 2, 0, 0xEE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    put(&mut medium, 510, &[0x55, 0xAA]);
    assert_eq!([table(&medium, 1, sector), table(&medium, last, sector)], [Some(OLD_GUID); 2]);
    medium
}

/// The same with what LVM, RAID and ZFS leave wherever they leave it.
pub(crate) fn full_of_leftovers(disk_bytes: u64, sector: u32) -> Vec<u8> {
    let mut medium = with_old_system(disk_bytes, sector);
    // LVM2: a label in the second sector, by its magic and type.
    put(&mut medium, 512, b"LABELONE");
    put(&mut medium, 512 + 24, b"LVM2 001");
    // MD: 1.2 at 4 KiB, 1.0 at 8 KiB before the end, 0.90 in the last whole 64 KiB.
    let md = 0xA92B_4EFCu32.to_le_bytes();
    put(&mut medium, 4096, &md);
    put(&mut medium, at((disk_bytes - 8192) / 4096 * 4096), &md);
    put(&mut medium, at(disk_bytes / 65536 * 65536 - 65536), &md);
    // ZFS: four labels of 256 KiB, two at each end, with uberblocks in their second half.
    for label in [0, 256 << 10, disk_bytes - (512 << 10), disk_bytes - (256 << 10)] {
        for uberblock in 0..8 {
            put(&mut medium, at(label) + (128 << 10) + uberblock * 4096, &0x00BA_B10Cu64.to_le_bytes());
        }
    }
    medium
}

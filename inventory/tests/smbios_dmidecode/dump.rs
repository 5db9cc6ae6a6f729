//! Dumps as `dmidecode --dump-bin` writes them, and what dmidecode reads in one.

use inventory::{Root, smbios::Smbios};
use std::{collections::BTreeMap, fs, path::Path, process::Command};

/// Bytes before the table: the entry point, padded.
pub(crate) const HEAD_BYTES: usize = 32;

/// A table in the making.
pub(crate) struct Dump {
    version: (u8, u8),
    table: Vec<u8>,
    count: u16,
}

impl Dump {
    pub(crate) fn new(version: (u8, u8)) -> Self {
        Self { version, table: Vec::new(), count: 0 }
    }

    /// Adds a structure: the formatted area behind its header, and its strings. Handles are numbers in order.
    pub(crate) fn add(&mut self, kind: u8, body: &[u8], strings: &[&[u8]]) -> &mut Self {
        self.table.extend([kind, u8::try_from(body.len() + 4).unwrap()]);
        self.table.extend(self.count.to_le_bytes());
        self.table.extend(body);
        for string in strings {
            self.table.extend(*string);
            self.table.push(0);
        }
        self.table.extend(if strings.is_empty() { &[0, 0][..] } else { &[0] });
        self.count += 1;
        self
    }

    /// Adds a structure of `len` bytes with these fields: where they stand, and their bytes. Each text is a separate string.
    pub(crate) fn fields(
        &mut self,
        kind: u8,
        len: usize,
        fields: &[(usize, &[u8])],
        texts: &[(usize, &str)],
    ) -> &mut Self {
        let mut bytes = vec![0; len];
        for (at, value) in fields {
            bytes[*at..at + value.len()].copy_from_slice(value);
        }
        for (n, (at, _)) in texts.iter().enumerate() {
            bytes[*at] = u8::try_from(n + 1).unwrap();
        }
        let strings: Vec<_> = texts.iter().map(|(_, text)| text.as_bytes()).collect();
        self.add(kind, &bytes[4..], &strings)
    }

    /// The finished dump, with the entry point that its version has.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.add(127, &[], &[]);
        let (major, minor) = self.version;
        let len = self.table.len();
        let mut head = vec![0; HEAD_BYTES];
        if major >= 3 {
            head[..5].copy_from_slice(b"_SM3_");
            head[6..11].copy_from_slice(&[0x18, major, minor, 0, 1]);
            head[12..16].copy_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
            head[16] = 32;
        } else {
            head[..4].copy_from_slice(b"_SM_");
            head[5..8].copy_from_slice(&[0x1f, major, minor]);
            head[0x10..0x15].copy_from_slice(b"_DMI_");
            head[0x16..0x18].copy_from_slice(&u16::try_from(len).unwrap().to_le_bytes());
            head[0x18] = 32;
            head[0x1c..0x1e].copy_from_slice(&self.count.to_le_bytes());
            head[0x1e] = major << 4 | minor;
        }
        seal(&mut head);
        head.extend(&self.table);
        head
    }
}

/// Sets the checksums of an entry point.
pub(crate) fn seal(head: &mut [u8]) {
    if head.starts_with(b"_SM3_") {
        head[5] = 0;
        head[5] = checksum(&head[..0x18]);
    } else {
        (head[4], head[0x15]) = (0, 0);
        head[0x15] = checksum(&head[0x10..0x1f]);
        head[4] = checksum(&head[..0x1f]);
    }
}

fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum - i32::from(*byte)).rem_euclid(256).try_into().unwrap()
}

/// A dump as the kernel shows it.
pub(crate) fn read(dump: &[u8]) -> Smbios {
    let tree = tempfile::tempdir().unwrap();
    let tables = tree.path().join("sys/firmware/dmi/tables");
    fs::create_dir_all(&tables).unwrap();
    fs::write(tables.join("smbios_entry_point"), &dump[..HEAD_BYTES]).unwrap();
    fs::write(tables.join("DMI"), &dump[HEAD_BYTES..]).unwrap();
    Smbios::read(&Root::open(tree.path()).unwrap())
}

/// What dmidecode prints of one structure: its keys, each with its value or its list. Texts are trimmed.
pub(crate) struct Block {
    pub kind: u8,
    pub values: BTreeMap<String, Vec<String>>,
}

/// What dmidecode prints of a dump, by type and handle, since there is firmware that gives structures of two types the same
/// handle (QEMU does); `None` when dmidecode is missing.
pub(crate) fn dmidecode(dump: &[u8]) -> Option<BTreeMap<(u8, u16), Block>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), dump).unwrap();
    let Some(output) = run(file.path()) else {
        testkit::skip::because("dmidecode is missing");
        return None;
    };
    let mut blocks = BTreeMap::new();
    let text = String::from_utf8(output).unwrap();
    for block in text.split("\n\n").filter_map(|block| block.split_once("Handle 0x").map(|(_, block)| block)) {
        let mut lines = block.lines();
        let mut head = lines.next().unwrap().split([',', ' ']).filter(|word| !word.is_empty());
        let handle = u16::from_str_radix(head.next().unwrap(), 16).unwrap();
        let kind: u8 = head.nth(2).unwrap().parse().unwrap();
        let mut values = BTreeMap::<String, Vec<String>>::new();
        let mut key = String::new();
        for line in lines.skip(1) {
            if let Some(item) = line.strip_prefix("\t\t") {
                values.get_mut(&key).unwrap().push(item.trim().to_owned());
            } else if let Some((name, value)) = line.trim_start().split_once(':') {
                name.clone_into(&mut key);
                let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
                values.insert(key.clone(), value.into_iter().collect());
            }
        }
        assert!(blocks.insert((kind, handle), Block { kind, values }).is_none(), "{handle:#06x} twice");
    }
    Some(blocks)
}

fn run(dump: &Path) -> Option<Vec<u8>> {
    let run = |program| Command::new(program).arg("--from-dump").arg(dump).output().ok();
    // Often not in the PATH of those who are not root.
    let output = run("dmidecode").or_else(|| run("/usr/sbin/dmidecode"))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

//! Makes journal files small enough to look at, byte by byte.
#![allow(clippy::cast_possible_truncation)] // Files of a few kilobytes.

use super::hash;

/// How a file is laid out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    pub keyed: bool,
    pub compact: bool,
}

/// A record: time in microseconds, and fields.
pub(crate) type Record<'a> = (u64, &'a [&'a str]);

const HEADER: usize = 264;
const BUCKETS: usize = 8;
const TABLE: usize = HEADER + 16;

/// Where things are in a made file.
pub(crate) struct Made {
    pub bytes: Vec<u8>,
    /// The file's array of entries.
    pub array: usize,
    pub entries: Vec<usize>,
}

fn put(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
}

fn object(bytes: &mut Vec<u8>, kind: u8, flags: u8, payload: &[u8]) -> usize {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let at = bytes.len();
    bytes.extend([kind, flags, 0, 0, 0, 0, 0, 0]);
    bytes.extend((payload.len() as u64 + 16).to_le_bytes());
    bytes.extend(payload);
    at
}

impl Form {
    fn offset(self, value: usize) -> Vec<u8> {
        if self.compact { (value as u32).to_le_bytes().into() } else { (value as u64).to_le_bytes().into() }
    }

    fn array(self, bytes: &mut Vec<u8>, entries: &[usize]) -> usize {
        let items = entries.iter().flat_map(|entry| self.offset(*entry));
        let payload: Vec<u8> = [0; 8].into_iter().chain(items).collect();
        object(bytes, 6, 0, &payload)
    }

    /// A file with these records, numbered from `first`.
    pub(crate) fn file(self, first: u64, records: &[Record]) -> Made {
        let mut bytes = vec![0; HEADER];
        bytes[..8].copy_from_slice(b"LPKSHHRH");
        bytes[12] = if self.keyed { 4 } else { 0 } | if self.compact { 16 } else { 0 };
        bytes[24..40].copy_from_slice(b"file id of tests");
        bytes[72..88].copy_from_slice(b"who counts these");
        put(&mut bytes, 88, HEADER);
        put(&mut bytes, 104, TABLE);
        put(&mut bytes, 112, BUCKETS * 16);
        object(&mut bytes, 4, 0, &[0; BUCKETS * 16]);
        let mut known: Vec<(&str, usize, Vec<usize>)> = Vec::new();
        let mut entries = Vec::new();
        for (number, (time, fields)) in records.iter().enumerate() {
            let mut items = Vec::new();
            for field in *fields {
                let there = known.iter().position(|(text, ..)| text == field);
                let index = there.unwrap_or_else(|| {
                    known.push((field, self.data(&mut bytes, field), Vec::new()));
                    known.len() - 1
                });
                items.push(index);
            }
            let mut payload = Vec::new();
            payload.extend((first + number as u64).to_le_bytes());
            payload.extend(time.to_le_bytes());
            payload.extend(time.to_le_bytes());
            payload.extend(b"one boot of many");
            payload.extend((first + number as u64).to_le_bytes());
            for index in &items {
                payload.extend(self.offset(known[*index].1));
                payload.extend(if self.compact { vec![] } else { vec![0; 8] });
            }
            let entry = object(&mut bytes, 3, 0, &payload);
            items.iter().for_each(|index| known[*index].2.push(entry));
            entries.push(entry);
        }
        let array = self.array(&mut bytes, &entries);
        put(&mut bytes, 176, array);
        for (_, at, of) in &known {
            let (first, rest) = of.split_first().unwrap();
            put(&mut bytes, at + 40, *first);
            put(&mut bytes, at + 56, of.len());
            if !rest.is_empty() {
                let array = self.array(&mut bytes, rest);
                put(&mut bytes, at + 48, array);
            }
        }
        let arena = bytes.len() - HEADER;
        put(&mut bytes, 96, arena);
        Made { bytes, array, entries }
    }

    fn data(self, bytes: &mut Vec<u8>, field: &str) -> usize {
        let hash = if self.keyed {
            hash::keyed(*b"file id of tests", field.as_bytes())
        } else {
            hash::jenkins(field.as_bytes())
        };
        let mut payload = hash.to_le_bytes().to_vec();
        payload.resize(if self.compact { 56 } else { 48 }, 0);
        payload.extend(field.as_bytes());
        let at = object(bytes, 1, 0, &payload);
        let bucket = TABLE + (hash % BUCKETS as u64) as usize * 16;
        let mut place = bucket;
        loop {
            let next = u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap()) as usize;
            if next == 0 {
                break;
            }
            place = next + 24;
        }
        put(bytes, place, at);
        put(bytes, bucket + 8, at);
        at
    }
}

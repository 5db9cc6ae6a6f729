//! The log of boots that systemd keeps (`/var/log/wtmp`): records of 384 bytes, utmp(5).

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

const RECORD: usize = 384;
/// Of `ut_type`: the time of a boot.
const BOOT_TIME: i16 = 2;
/// A log of ten years of daily boots is far smaller.
const MAX_RECORDS: usize = 1 << 20;

/// Boots in the log. One that is not there has none.
pub(crate) fn count(path: &Path) -> io::Result<usize> {
    match File::open(path) {
        Ok(file) => records(BufReader::new(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn records(mut log: impl Read) -> io::Result<usize> {
    let mut record = [0; RECORD];
    let mut boots = 0;
    for _ in 0..MAX_RECORDS {
        match log.read_exact(&mut record) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        if i16::from_le_bytes([record[0], record[1]]) == BOOT_TIME {
            boots += 1;
        }
    }
    Ok(boots)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;

    #[test]
    fn boots_are_counted_among_logins() {
        let record = |kind: i16| {
            let mut record = [0_u8; RECORD];
            record[..2].copy_from_slice(&kind.to_le_bytes());
            record
        };
        let log = [record(2), record(7), record(1), record(2)].concat();
        assert_eq!(records(log.as_slice()).unwrap(), 2);
        assert_eq!(records(log.get(..RECORD + 5).unwrap()).unwrap(), 1, "a record that is being written");
        assert_eq!(count(Path::new("/nonexistent/wtmp")).unwrap(), 0);
    }
}

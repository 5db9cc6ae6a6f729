//! Logs of ATA SMART: errors and self-tests (ACS-4 9.19, 9.20; older disks ACS-2 A.10, A.15). Pure; the bytes are hostile.

use super::{AtaHealth, SECTOR_BYTES, is_sum_zero};
use kernel::bytes::le16;

/// Where the summary of errors counts them.
const ERRORS_AT: usize = 452;
/// Descriptors of self-tests, and the number of the newest one; 0 stands for none.
const TESTS_AT: usize = 2;
const TEST_BYTES: usize = 24;
const TESTS: usize = 21;
const NEWEST_AT: usize = 508;

impl AtaHealth {
    /// Takes what the summary of errors and the log of self-tests say; those cut short or with a wrong checksum say nothing.
    pub(crate) fn read_logs(&mut self, errors: Option<&[u8]>, tests: Option<&[u8]>) {
        self.logged_errors = errors.and_then(whole).and_then(|log| le16(log, ERRORS_AT)).map(u64::from);
        let results = tests.and_then(whole).map(results).unwrap_or_default();
        self.last_self_test = results.first().map(|result| word(*result).to_owned());
        let failed = u64::try_from(results.iter().filter(|result| word(**result) == "failed").count()).ok();
        self.failed_self_tests = failed.filter(|_| !results.is_empty());
    }
}

fn whole(log: &[u8]) -> Option<&[u8; SECTOR_BYTES]> {
    log.first_chunk().filter(|log| is_sum_zero(&log[..]) && log[0] != 0)
}

/// Results of the self-tests, the newest first. The log is a ring.
fn results(log: &[u8; SECTOR_BYTES]) -> Vec<u8> {
    let Some(newest) = usize::from(log[NEWEST_AT]).checked_sub(1).filter(|newest| *newest < TESTS) else {
        return Vec::new();
    };
    let descriptor = |back: usize| {
        let at = TESTS_AT + (newest + TESTS - back) % TESTS * TEST_BYTES;
        log.get(at..at + TEST_BYTES).filter(|descriptor| descriptor.iter().any(|byte| *byte != 0))
    };
    (0..TESTS).filter_map(descriptor).filter_map(|descriptor| Some(descriptor.get(1)? >> 4)).collect()
}

fn word(result: u8) -> &'static str {
    match result {
        0 => "passed",
        1 | 2 => "aborted",
        0xf => "running",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut log = vec![0; SECTOR_BYTES];
        log[0] = 1;
        for (at, bytes) in fields {
            log[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        log[511] = log.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg();
        log
    }

    fn read(errors: &[u8], tests: &[u8]) -> (Option<u64>, Option<String>, Option<u64>) {
        let mut health = AtaHealth::default();
        health.read_logs(Some(errors), Some(tests));
        (health.logged_errors, health.last_self_test, health.failed_self_tests)
    }

    #[test]
    fn errors_and_self_tests() {
        let errors = sealed(&[(452, &[3, 1])]);
        // A short test that passed after an extended one that could not read, which are the last and the first of the ring.
        let tests = sealed(&[(2, &[1, 0x00, 9, 0]), (482, &[2, 0x79, 8, 0]), (508, &[1])]);
        assert_eq!(read(&errors, &tests), (Some(259), Some("passed".to_owned()), Some(1)));
        let failed = sealed(&[(2, &[1, 0x00, 9, 0]), (26, &[2, 0x7a, 10, 0]), (508, &[2])]);
        assert_eq!(read(&sealed(&[]), &failed), (Some(0), Some("failed".to_owned()), Some(1)));
        assert_eq!(read(&sealed(&[]), &sealed(&[])), (Some(0), None, None));
    }

    #[test]
    fn logs_that_are_damaged_say_nothing() {
        let mut errors = sealed(&[(452, &[3])]);
        errors[0] = 9;
        let tests = sealed(&[(2, &[1, 0x70, 9, 0]), (508, &[22])]);
        assert_eq!(read(&errors, &tests), (None, None, None));
        assert_eq!(read(&errors[..511], &[]), (None, None, None));
    }
}

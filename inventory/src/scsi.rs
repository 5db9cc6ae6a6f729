//! What a SCSI disk counts in its logs: pages of LOG SENSE (SPC-5 7.3, SBC-4 6.4, SPL-4 9.2.8) and the list of its defects (SBC-4
//! 5.21). Pure; the bytes are hostile.

use kernel::bytes::{be16, be32};
use serde::{Deserialize, Serialize};

/// Page that lists the others.
pub(crate) const SUPPORTED: u8 = 0x00;
const WRITE: u8 = 0x02;
const READ: u8 = 0x03;
const VERIFY: u8 = 0x05;
const NON_MEDIUM: u8 = 0x06;
const TEMPERATURE: u8 = 0x0d;
const START_STOP: u8 = 0x0e;
const SELF_TEST: u8 = 0x10;
const SOLID_STATE: u8 = 0x11;
const BACKGROUND: u8 = 0x15;
const PORTS: u8 = 0x18;
const INFORMATIONAL: u8 = 0x2f;
/// The pages that are read.
pub(crate) const PAGES: [u8; 11] = [
    WRITE,
    READ,
    VERIFY,
    NON_MEDIUM,
    TEMPERATURE,
    START_STOP,
    SELF_TEST,
    SOLID_STATE,
    BACKGROUND,
    PORTS,
    INFORMATIONAL,
];
const HEADER_BYTES: usize = 4;
/// Additional sense code of a predicted failure.
const FAILURE_PREDICTED: u8 = 0x5d;
const SAS: u8 = 6;
const PHY_BYTES: usize = 48;
/// More than any disk has.
const MAX_PHYS: usize = 16;

/// What a SCSI disk says of its health. Counters are of its whole life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScsiLog {
    /// Whether it predicts its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_failing: Option<bool>,
    /// Additional sense code and qualifier of its last warning, four hexadecimal digits; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning_code: Option<String>,
    /// Temperature, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u8>,
    /// Temperature above which it may not be operated, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_temperature_celsius: Option<u8>,
    /// Hours it was on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<u64>,
    /// Year and week it was made in, such as 2019-W07.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufactured: Option<String>,
    /// Endurance used up, percent of the maker's estimate, for a solid-state disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<u8>,
    /// Defects that it found since it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grown_defects: Option<u64>,
    /// Reads that were corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_corrected_errors: Option<u64>,
    /// Reads that could not be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_uncorrected_errors: Option<u64>,
    /// Bytes read, as the maker counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Writes that were corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_corrected_errors: Option<u64>,
    /// Writes that could not be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_uncorrected_errors: Option<u64>,
    /// Bytes written, as the maker counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Verifications that were corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify_corrected_errors: Option<u64>,
    /// Verifications that could not be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify_uncorrected_errors: Option<u64>,
    /// Errors of other kinds than of the medium.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_medium_errors: Option<u64>,
    /// Errors that its scan in the background found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_scan_errors: Option<u64>,
    /// Times it was started and stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_stop_cycles: Option<u64>,
    /// Times it may be started and stopped in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specified_start_stop_cycles: Option<u64>,
    /// Times its heads were loaded and unloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_cycles: Option<u64>,
    /// Times its heads may be loaded and unloaded in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specified_load_cycles: Option<u64>,
    /// Result of the last self-test: passed, aborted, failed or running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_self_test: Option<String>,
    /// Self-tests that failed, of the last 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_self_tests: Option<u64>,
    /// Its SAS links, by port and phy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phys: Vec<ScsiPhy>,
}

/// A SAS link of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScsiPhy {
    /// Relative port.
    pub port: u16,
    /// Number of the phy.
    pub id: u8,
    /// Speed of the link, megabits a second; absent when it is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
    /// Words that were not valid.
    pub invalid_dwords: u32,
    /// Errors of running disparity.
    pub disparity_errors: u32,
    /// Losses of synchronisation.
    pub sync_losses: u32,
    /// Resets that failed.
    pub reset_problems: u32,
}

/// The codes of the pages that a disk has.
pub(crate) fn supported(page: &[u8]) -> &[u8] {
    body(page, SUPPORTED).unwrap_or_default()
}

impl ScsiLog {
    /// Takes what a page says.
    pub(crate) fn read(&mut self, page: &[u8]) {
        let Some(code) = page.first().map(|byte| byte & 0x3f) else { return };
        let parameter = |wanted: u16| parameters(page).find(|(code, _)| *code == wanted).map(|(_, data)| data);
        let count = |wanted: u16| parameter(wanted).and_then(number);
        match code {
            WRITE => {
                self.write_corrected_errors = count(3);
                self.written_bytes = count(5);
                self.write_uncorrected_errors = count(6);
            }
            READ => {
                self.read_corrected_errors = count(3);
                self.read_bytes = count(5);
                self.read_uncorrected_errors = count(6);
            }
            VERIFY => {
                self.verify_corrected_errors = count(3);
                self.verify_uncorrected_errors = count(6);
            }
            NON_MEDIUM => self.non_medium_errors = count(0),
            TEMPERATURE => {
                let celsius =
                    |code| parameter(code).and_then(|data| data.get(1)).copied().filter(|c| *c != 0xff && *c > 0);
                self.temperature_celsius = celsius(0).or(self.temperature_celsius);
                self.reference_temperature_celsius = celsius(1);
            }
            START_STOP => {
                self.manufactured = parameter(1).and_then(date);
                self.specified_start_stop_cycles = count(3);
                self.start_stop_cycles = count(4);
                self.specified_load_cycles = count(5);
                self.load_cycles = count(6);
            }
            SELF_TEST => self.self_tests(page),
            SOLID_STATE => self.used_percent = parameter(1).and_then(|data| data.get(3)).copied(),
            BACKGROUND => {
                self.power_on_hours =
                    parameter(0).and_then(|data| be32(data, 0)).map(|minutes| u64::from(minutes) / 60);
                self.background_scan_errors =
                    len(parameters(page).filter(|(code, _)| (1..=0x800).contains(code)).count());
            }
            PORTS => self.phys = phys(page),
            INFORMATIONAL => {
                let [asc, ascq] = parameter(0).and_then(|data| data.first_chunk().copied()).unwrap_or_default();
                self.is_failing = parameter(0).map(|_| asc == FAILURE_PREDICTED);
                self.warning_code = (asc != 0).then(|| format!("{asc:02x}{ascq:02x}"));
                let celsius = parameter(0).and_then(|data| data.get(2)).copied().filter(|c| *c != 0xff && *c > 0);
                self.temperature_celsius = self.temperature_celsius.or(celsius);
            }
            _ => {}
        }
    }

    /// Takes the header of a list of grown defects, of READ DEFECT DATA (12), or of (10), which is shorter.
    pub(crate) fn read_defects(&mut self, header: &[u8]) {
        let (Some(flags), Some(bytes)) =
            (header.get(1), if header.len() < 8 { be16(header, 2).map(u32::from) } else { be32(header, 4) })
        else {
            return;
        };
        let is_valid = flags >> 3 & 1 == 1;
        let descriptor = if flags & 7 == 0 { 4 } else { 8 };
        self.grown_defects = is_valid.then(|| u64::from(bytes) / descriptor);
    }

    fn self_tests(&mut self, page: &[u8]) {
        // Places that were never used are empty.
        let used =
            parameters(page).filter(|(code, data)| (1..=20).contains(code) && data.iter().any(|byte| *byte != 0));
        let results: Vec<u8> = used.filter_map(|(_, data)| Some(data.first()? & 0xf)).collect();
        let Some(last) = results.first() else { return };
        self.last_self_test = Some(
            match last {
                0 => "passed",
                1 | 2 => "aborted",
                0xf => "running",
                _ => "failed",
            }
            .to_owned(),
        );
        self.failed_self_tests = len(results.iter().filter(|result| (3..=7).contains(*result)).count());
    }

    /// Whether anything is known.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn len(count: usize) -> Option<u64> {
    u64::try_from(count).ok()
}

/// Of the page with that code.
fn body(page: &[u8], code: u8) -> Option<&[u8]> {
    let ([found, _, len @ ..], body) = page.split_first_chunk::<HEADER_BYTES>()?;
    let len = usize::from(u16::from_be_bytes(*len));
    (found & 0x3f == code).then(|| body.get(..len).unwrap_or(body))
}

/// Codes and data of a page's parameters, up to one that is cut.
fn parameters(page: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = page.first().and_then(|code| body(page, code & 0x3f)).unwrap_or_default();
    std::iter::from_fn(move || {
        let ([high, low, _, len], after) = rest.split_first_chunk()?;
        let (data, after) = after.split_at_checked(usize::from(*len))?;
        rest = after;
        Some((u16::from_be_bytes([*high, *low]), data))
    })
}

/// A counter of any length.
fn number(data: &[u8]) -> Option<u64> {
    let significant = data.iter().position(|byte| *byte != 0).and_then(|at| data.get(at..)).unwrap_or_default();
    (!data.is_empty() && significant.len() <= 8)
        .then(|| significant.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Year and week, in digits.
fn date(data: &[u8]) -> Option<String> {
    let digits = std::str::from_utf8(data.get(..6)?).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    let (year, week) = digits.split_at_checked(4)?;
    (year != "0000").then(|| format!("{year}-W{week}"))
}

/// The phys of all SAS ports.
fn phys(page: &[u8]) -> Vec<ScsiPhy> {
    let mut phys = Vec::new();
    for (port, data) in parameters(page).filter(|(_, data)| data.first().is_some_and(|kind| kind & 0xf == SAS)) {
        let count = data.get(3).copied().map_or(0, usize::from);
        let mut rest = data.get(4..).unwrap_or_default();
        for _ in 0..count {
            let (Some(id), Some(more)) = (rest.get(1), rest.get(3)) else { break };
            let counter = |at: usize| be32(rest, at);
            if let (Some(rate), Some(invalid), Some(disparity), Some(sync), Some(reset)) =
                (rest.get(5), counter(32), counter(36), counter(40), counter(44))
                && phys.len() < MAX_PHYS
            {
                phys.push(ScsiPhy {
                    port,
                    id: *id,
                    speed_mbps: speed_mbps(rate & 0xf),
                    invalid_dwords: invalid,
                    disparity_errors: disparity,
                    sync_losses: sync,
                    reset_problems: reset,
                });
            }
            let Some(next) = rest.get(usize::from(*more) + 4..) else { break };
            rest = next;
        }
    }
    phys
}

/// Addresses of the ports and of what is attached to them, for what must be removed from captures.
pub(crate) fn addresses(page: &[u8]) -> Vec<String> {
    let ports = parameters(page).flat_map(|(_, data)| data.get(4..).unwrap_or_default().chunks(PHY_BYTES));
    ports.flat_map(|phy| phy.get(8..24).unwrap_or_default().chunks_exact(8)).map(kernel::hex::lower).collect()
}

/// Negotiated logical link rate.
fn speed_mbps(code: u8) -> Option<u32> {
    [1500, 3000, 6000, 12_000, 22_500].get(usize::from(code.checked_sub(8)?)).copied()
}

/// Reads the bytes as each page.
pub(crate) fn fuzz(answer: &[u8]) {
    let mut log = ScsiLog::default();
    supported(answer);
    addresses(answer);
    log.read_defects(answer);
    for code in PAGES {
        let mut page = answer.to_vec();
        if let Some(first) = page.first_mut() {
            *first = code;
        }
        log.read(&page);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A page of parameters.
    pub(crate) fn page(code: u8, parameters: &[(u16, &[u8])]) -> Vec<u8> {
        let one = |(code, data): &(u16, &[u8])| {
            [&code.to_be_bytes()[..], &[3, u8::try_from(data.len()).unwrap()], data].concat()
        };
        let body: Vec<u8> = parameters.iter().flat_map(one).collect();
        [&[code, 0][..], &u16::try_from(body.len()).unwrap().to_be_bytes(), &body].concat()
    }

    fn read(pages: &[Vec<u8>]) -> ScsiLog {
        let mut log = ScsiLog::default();
        pages.iter().for_each(|page| log.read(page));
        log
    }

    /// A page of each kind that is read.
    pub(crate) fn pages() -> Vec<Vec<u8>> {
        let scan = [&[0, 0, 0x0e, 0x10][..], &[0, 8, 0, 1, 0, 0, 0, 1]].concat();
        let first = [&[6, 0, 0, 1][..], &phy(0, 0xb, [1, 2, 3, 4])].concat();
        let second = [&[6, 0, 0, 1][..], &phy(1, 0, [0; 4])].concat();
        let test = |result: u8| [&[1 << 5 | result, 0, 0, 99][..], &[0; 12]].concat();
        let mut tests = vec![test(0), test(7)];
        tests.resize(20, vec![0; 16]);
        let tests: Vec<(u16, &[u8])> = (1..).zip(tests.iter().map(Vec::as_slice)).collect();
        vec![
            page(0x02, &[(0, &[1]), (3, &[0, 0, 0, 7]), (5, &5_000_000_000_u64.to_be_bytes()), (6, &[0, 0])]),
            page(0x03, &[(3, &[1, 0]), (6, &[2])]),
            page(0x05, &[(3, &[0]), (6, &[1])]),
            page(0x06, &[(0, &[0, 9])]),
            page(0x0d, &[(0, &[0, 31]), (1, &[0, 65])]),
            page(
                0x0e,
                &[
                    (1, b"201907"),
                    (2, b"      "),
                    (3, &[0, 0, 0x27, 0x10]),
                    (4, &[0, 0, 0, 42]),
                    (5, &[0, 9, 0x27, 0xc0]),
                    (6, &[0, 0, 1, 0]),
                ],
            ),
            page(0x10, &tests),
            page(0x11, &[(1, &[0, 0, 0, 12])]),
            page(0x15, &[(0, &scan), (1, &[0; 20]), (2, &[0; 20])]),
            page(0x18, &[(1, &first), (2, &second)]),
            page(0x2f, &[(0, &[0x5d, 0x10, 33])]),
        ]
    }

    #[test]
    fn every_page() {
        let mut found = read(&pages());
        assert_eq!(found.phys.len(), 2);
        found.phys.clear();
        let expected = ScsiLog {
            write_corrected_errors: Some(7),
            written_bytes: Some(5_000_000_000),
            write_uncorrected_errors: Some(0),
            read_corrected_errors: Some(256),
            read_uncorrected_errors: Some(2),
            verify_corrected_errors: Some(0),
            verify_uncorrected_errors: Some(1),
            non_medium_errors: Some(9),
            is_failing: Some(true),
            warning_code: Some("5d10".to_owned()),
            temperature_celsius: Some(31),
            reference_temperature_celsius: Some(65),
            power_on_hours: Some(60),
            manufactured: Some("2019-W07".to_owned()),
            used_percent: Some(12),
            background_scan_errors: Some(2),
            specified_start_stop_cycles: Some(10_000),
            start_stop_cycles: Some(42),
            specified_load_cycles: Some(600_000),
            load_cycles: Some(256),
            last_self_test: Some("passed".to_owned()),
            failed_self_tests: Some(1),
            ..ScsiLog::default()
        };
        assert_eq!(found, expected);
        let well = read(&[page(0x0d, &[(0, &[0, 0xff])]), page(0x2f, &[(0, &[0, 0, 28, 0])])]);
        assert_eq!((well.is_failing, well.warning_code, well.temperature_celsius), (Some(false), None, Some(28)));
        assert_eq!(number(&[0, 0, 1, 2, 3, 4, 5, 6, 7, 8]), Some(0x0102_0304_0506_0708));
        assert_eq!((number(&[1; 9]), number(&[])), (None, None));
    }

    #[test]
    fn self_tests_newest_first() {
        let test = |result: u8| [&[1 << 5 | result, 0, 0, 99][..], &[0; 12]].concat();
        let (passed, failed, empty) = (test(0), test(7), vec![0; 16]);
        let found = read(&[page(0x10, &[(1, &passed), (2, &failed), (3, &empty)])]);
        assert_eq!((found.last_self_test.as_deref(), found.failed_self_tests), (Some("passed"), Some(1)));
        assert!(read(&[page(0x10, &[(1, &empty)])]).is_empty());
    }

    /// A phy of a port, with a speed and counters.
    fn phy(id: u8, rate: u8, counters: [u32; 4]) -> Vec<u8> {
        let mut phy = vec![0; 48];
        (phy[1], phy[3], phy[5]) = (id, 44, 0x10 | rate);
        phy[8..16].copy_from_slice(&0x5000_c500_a1b2_c3d5_u64.to_be_bytes());
        phy[16..24].copy_from_slice(&0x500e_004a_aaaa_aa1f_u64.to_be_bytes());
        for (index, counter) in counters.iter().enumerate() {
            phy[32 + 4 * index..36 + 4 * index].copy_from_slice(&counter.to_be_bytes());
        }
        phy
    }

    #[test]
    fn links() {
        let first = [&[6, 0, 0, 1][..], &phy(0, 0xb, [1, 2, 3, 4])].concat();
        let second = [&[6, 0, 0, 1][..], &phy(1, 0, [0; 4])].concat();
        let whole = page(0x18, &[(1, &first), (2, &second), (3, &[0, 0, 0, 9])]);
        let found = read(std::slice::from_ref(&whole)).phys;
        let expected = ScsiPhy {
            port: 1,
            id: 0,
            speed_mbps: Some(12_000),
            invalid_dwords: 1,
            disparity_errors: 2,
            sync_losses: 3,
            reset_problems: 4,
        };
        assert_eq!(found, [expected, ScsiPhy { port: 2, id: 1, ..ScsiPhy::default() }]);
        assert_eq!(addresses(&whole)[..2], ["5000c500a1b2c3d5", "500e004aaaaaaa1f"]);
        assert!(read(&[page(0x18, &[(1, &[6, 0, 0, 255, 0, 0, 0, 0])])]).phys.is_empty());
    }

    #[test]
    fn defects() {
        let defects = |header: &[u8]| {
            let mut log = ScsiLog::default();
            log.read_defects(header);
            log.grown_defects
        };
        assert_eq!(defects(&[0, 0x0c, 0, 0, 0, 0, 0, 24]), Some(3));
        assert_eq!(defects(&[0, 0x08, 0, 0, 0, 0, 0, 24]), Some(6));
        assert_eq!((defects(&[0, 0x0d, 0, 16]), defects(&[0, 0x15, 0, 16]), defects(&[0])), (Some(2), None, None));
    }

    proptest! {
        #[test]
        fn noise_never_panics(answer in prop::collection::vec(any::<u8>(), 0..600)) {
            fuzz(&answer);
        }

        #[test]
        fn a_page_cut_anywhere_has_the_parameters_before_the_cut(len in 0..40usize) {
            let whole = page(0x02, &[(3, &[0, 0, 0, 7]), (6, &[0, 0, 0, 8])]);
            let mut log = ScsiLog::default();
            log.read(whole.get(..len).unwrap_or(&whole));
            prop_assert_eq!(log.write_corrected_errors, (len >= 12).then_some(7));
            prop_assert_eq!(log.write_uncorrected_errors, (len >= 20).then_some(8));
        }
    }
}

use super::super::nvme::{Command, Status};
use super::*;

/// A controller with these data structures; some commands it refuses.
#[derive(Default)]
struct Fake {
    controller: Vec<u8>,
    namespaces: Vec<u8>,
    refuses: Vec<u32>,
    logs: Vec<[u8; 4]>,
    taken: Vec<(u8, u32)>,
}

impl Fake {
    /// Format with all secure erases, and Sanitize.
    fn new(namespaces: &[u8], fna: u8) -> Self {
        let mut controller = vec![0; IDENTIFY_BYTES];
        (controller[256], controller[524], controller[328]) = (0b10, fna, 0b11);
        let namespaces = namespaces.iter().flat_map(|id| [*id, 0, 0, 0]).collect();
        Self { controller, namespaces, ..Self::default() }
    }
}

impl Controller for Fake {
    fn admin(&mut self, command: &Command, data: &mut [u8]) -> io::Result<Result<(), Status>> {
        let answer: &[u8] = match (command.opcode, command.cdw10) {
            (0x06, 1) => &self.controller,
            (0x06, 2) => &self.namespaces,
            (0x06, 0) => &[],
            (0x02, _) => &self.logs.remove(0),
            (opcode, cdw10) => {
                self.taken.push((opcode, cdw10));
                return Ok(if self.refuses.contains(&cdw10) { Err(Status(0x4002)) } else { Ok(()) });
            }
        };
        data[..answer.len()].copy_from_slice(answer);
        Ok(Ok(()))
    }
}

fn erased(disk: &mut Fake) -> Result<String, String> {
    erase(disk, 1, Duration::ZERO, &mut |_| {}).map_err(|problem| match problem {
        Problem::Refused(reason) => format!("refused: {reason}"),
        Problem::Failed(error) => format!("failed: {error}"),
    })
}

#[test]
fn a_new_key_comes_first_and_then_what_the_disk_takes() {
    let mut disk = Fake::new(&[1], 0b100);
    assert_eq!(erased(&mut disk).unwrap(), "NVMe Format NVM, cryptographic erase");
    assert_eq!(disk.taken, [(0x80, 0x400)]);
    let mut disk = Fake { refuses: vec![0x400], ..Fake::new(&[1], 0b100) };
    assert_eq!(erased(&mut disk).unwrap(), "NVMe Format NVM, user data erase");
    let logs = vec![[0, 0, 2, 0], [0, 0x80, 2, 0], [0xFF, 0xFF, 1, 0]];
    let mut disk = Fake { refuses: vec![0x400, 0x200], logs, ..Fake::new(&[1], 0b100) };
    assert_eq!(erased(&mut disk).unwrap(), "NVMe Sanitize, crypto erase");
    assert!(disk.logs.is_empty());
}

#[test]
fn other_namespaces_are_spared() {
    let mut disk = Fake::new(&[1, 2], 0b110);
    let reason = erased(&mut disk).unwrap_err();
    assert!(reason.starts_with("refused:") && reason.ends_with("other namespaces: 2"), "{reason}");
    assert!(disk.taken.is_empty());
    assert_eq!(erased(&mut Fake::new(&[1, 2], 0b100)).unwrap(), "NVMe Format NVM, cryptographic erase");
}

#[test]
fn every_refusal_is_reported() {
    let mut disk = Fake { refuses: vec![0x200, 0b1100, 0b1010], ..Fake::new(&[1], 0) };
    let reason = erased(&mut disk).unwrap_err();
    for way in ["user data erase: invalid field (NVMe status 0x4002)", "Sanitize, crypto", "Sanitize, block"] {
        assert!(reason.contains(way), "{way}: {reason}");
    }
}

#[test]
fn a_failed_sanitize_is_left() {
    let mut disk = Fake { refuses: vec![0x200], logs: vec![[0, 0, 3, 0]], ..Fake::new(&[1], 0) };
    assert!(erased(&mut disk).unwrap_err().starts_with("failed: NVMe Sanitize, crypto erase"));
    assert_eq!(disk.taken.last(), Some(&(0x84, 1)));
}

#[test]
fn a_disk_that_did_not_erase_is_found_out() {
    let sample = |at, data: &[u8]| (at, data.to_vec());
    let before = [sample(0, b"abc"), sample(4096, b"\0\0\0"), sample(8192, b"def")];
    assert_eq!(changed(&before, &[sample(0, b"\0\0\0"), sample(4096, b"\0\0\0"), sample(8192, b"xyz")]), Ok(9));
    assert_eq!(changed(&before, &[sample(0, b"\0\0\0"), sample(4096, b"\0\0\0"), sample(8192, b"def")]), Err(8192));
}

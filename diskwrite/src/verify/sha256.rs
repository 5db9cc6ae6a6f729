//! The SHA-256 of the source as it comes, and files of such sums.

use super::{Tap, VerifyError};
use crate::options::Source;
use crate::trust::parse_sha256;
use kernel::hex;
use sha2::{Digest, Sha256};
use std::{io::Read, path::Path};

/// Sums of many thousand files.
const SUMS_BYTES: u64 = 1 << 20;

/// Compares the source with a sum.
pub(super) struct Sum {
    expected: [u8; 32],
    hasher: Sha256,
}

impl Sum {
    pub(super) fn new(expected: [u8; 32]) -> Self {
        Self { expected, hasher: Sha256::new() }
    }
}

impl Tap for Sum {
    fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    fn finish(self: Box<Self>) -> Result<(), VerifyError> {
        let found = self.hasher.finalize();
        if found[..] == self.expected {
            tracing::info!("the image's SHA-256 is {}", hex::lower(&self.expected));
            return Ok(());
        }
        Err(VerifyError::Sha256 { expected: hex::lower(&self.expected), found: hex::lower(found) })
    }
}

/// The sum a file of sums has for this source.
pub(super) fn from_sums(path: &Path, source: &Source) -> Result<[u8; 32], VerifyError> {
    let error = |source| VerifyError::ReadSums { path: path.into(), source };
    let mut text = Vec::new();
    std::fs::File::open(path).map_err(error)?.take(SUMS_BYTES).read_to_end(&mut text).map_err(error)?;
    let name = match source {
        Source::File(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
        Source::Url(url) => {
            let path = url.split(['?', '#']).next().unwrap_or_default();
            path.rsplit('/').next().map(str::to_owned)
        }
        Source::Stdin | Source::Osmet(_) => None,
    };
    let name = name.unwrap_or_else(|| "-".into());
    find(&String::from_utf8_lossy(&text), &name).ok_or_else(|| VerifyError::NoSum { path: path.into(), name })
}

/// The sum of `name` among lines as `sha256sum` writes them, plain or with `--tag`; of a single line, whatever its name.
pub(super) fn find(text: &str, name: &str) -> Option<[u8; 32]> {
    let entries: Vec<_> = text.lines().filter_map(entry).collect();
    // Two sums for one name would leave the choice to chance.
    let mut same = entries.iter().filter(|(_, file)| file.rsplit('/').next() == Some(name)).map(|(sum, _)| *sum);
    match (same.next(), &entries[..]) {
        (Some(sum), _) => same.all(|other| other == sum).then_some(sum),
        (None, [(sum, _)]) => Some(*sum),
        (None, _) => None,
    }
}

fn entry(line: &str) -> Option<([u8; 32], &str)> {
    let line = line.trim();
    if let Some(tagged) = line.strip_prefix("SHA256 (") {
        let (name, sum) = tagged.rsplit_once(") = ")?;
        return Some((parse_sha256(sum)?, name));
    }
    let (sum, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    Some((parse_sha256(sum)?, name.trim_start().trim_start_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_is_that_of_the_name() {
        let (a, b) = ("aa".repeat(32), "bb".repeat(32));
        let text = format!("{a}  other.xz\n# {b}\n{b} *dir/image.xz\n");
        assert_eq!(find(&text, "image.xz"), Some([0xbb; 32]));
        assert_eq!(find(&text, "missing"), None);
        assert_eq!(find(&format!("SHA256 (image.xz) = {a}\n"), "image.xz"), Some([0xaa; 32]));
        // One line is for the one image, whether named or not.
        assert_eq!(find(&a, "image.xz"), Some([0xaa; 32]));
        assert_eq!(find(&format!("{a}  x\n"), "image.xz"), Some([0xaa; 32]));
        assert_eq!(find(&format!("{a}  x\n{b}  x\n"), "x"), None);
        assert_eq!(find("", "x"), None);
    }

    #[test]
    fn sum_is_over_all_pieces() {
        let expected = parse_sha256("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").unwrap();
        let feed = |pieces: [&[u8]; 2]| {
            let mut tap = Box::new(Sum::new(expected));
            pieces.into_iter().for_each(|piece| tap.update(piece));
            tap.finish()
        };
        assert!(feed([b"ab", b"c"]).is_ok());
        let error = feed([b"ab", b""]).unwrap_err().to_string();
        assert!(error.contains(" is fb8e20fc") && error.contains("not ba7816bf"), "{error}");
    }
}

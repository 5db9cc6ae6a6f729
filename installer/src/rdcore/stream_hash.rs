//! `rdcore stream-hash`: passes data on a piece at a time, each after its hash was found right.

use anyhow::{Context, anyhow, bail};
use clap::Args;
use kernel::hex;
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    path::PathBuf,
};

const MAX_PIECE_BYTES: usize = 64 << 20;
/// Longer than the first line, and than a hash.
const MAX_LINE_BYTES: u64 = 256;

/// Copy standard input to standard output as far as its hashes are right
///
/// The first line of the file is `stream-hash sha256 BYTES`; each further one, the hash of so many bytes, or fewer at the end. Of a piece
/// whose hash is wrong no byte is written.
#[derive(Debug, Args)]
pub struct StreamHash {
    /// File with the hashes
    #[arg(value_name = "hash-file")]
    hash_file: PathBuf,
}

impl StreamHash {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let path = self.hash_file;
        let hashes = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        pass(&mut BufReader::new(hashes), &mut io::stdin().lock(), &mut io::stdout().lock())
    }
}

/// A line with its end; empty behind the last.
fn line(hashes: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    hashes.take(MAX_LINE_BYTES).read_line(&mut line)?;
    Ok(line)
}

/// Length of a piece, from the first line.
fn piece_bytes(line: &str) -> anyhow::Result<usize> {
    if line.is_empty() {
        bail!("hash file is empty");
    }
    let unreadable = || anyhow!("couldn't parse hash file header");
    let words = line.strip_prefix("stream-hash ").and_then(|line| line.strip_suffix('\n')).ok_or_else(unreadable)?;
    let (algorithm, bytes) = words.split_once(' ').ok_or_else(unreadable)?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if algorithm.is_empty() || !algorithm.bytes().all(is_name) || !bytes.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(unreadable());
    }
    if algorithm != "sha256" {
        bail!("unknown digest algorithm {algorithm}");
    }
    match bytes.parse().context("couldn't parse chunk size")? {
        0 => bail!("chunk size cannot be zero"),
        bytes if bytes > MAX_PIECE_BYTES => bail!("chunk size {bytes} is greater than maximum {MAX_PIECE_BYTES}"),
        bytes => Ok(bytes),
    }
}

fn pass(hashes: &mut impl BufRead, input: &mut impl Read, output: &mut impl Write) -> anyhow::Result<()> {
    let first = line(hashes).context("reading hash file")?;
    let max = u64::try_from(piece_bytes(&first)?)?;
    let mut piece = Vec::new();
    let mut offset: u64 = 0;
    loop {
        let line = line(hashes).context("couldn't read hash from hash file")?;
        if line.is_empty() {
            break;
        }
        let text = line.trim_end_matches(['\n', '\r']);
        let expected: [u8; 32] = hex::parse(text).ok_or_else(|| anyhow!("couldn't decode hash: {text:?}"))?;
        piece.clear();
        input.by_ref().take(max).read_to_end(&mut piece).context("reading input")?;
        if piece.is_empty() {
            bail!("premature end of input data at offset {offset}");
        }
        let found: [u8; 32] = Sha256::digest(&piece).into();
        if expected != found {
            let [expected, found] = [expected, found].map(hex::lower);
            bail!("hash mismatch at offset {offset}; expected {expected}, found {found}");
        }
        output.write_all(&piece).context("writing output")?;
        offset = offset.saturating_add(u64::try_from(piece.len())?);
    }
    output.flush().context("writing output")?;
    // There must be no data without a hash.
    if input.take(1).read_to_end(&mut piece).context("draining input")? != 0 {
        bail!("found extra input data at offset {offset}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(pieces: &[&str]) -> String {
        pieces.iter().map(|piece| hex::lower(Sha256::digest(piece)) + "\n").collect()
    }

    /// What comes out, and why it ended.
    fn run(hashes: &str, input: &str) -> (String, String) {
        let mut out = Vec::new();
        let ended = pass(&mut hashes.as_bytes(), &mut input.as_bytes(), &mut out);
        (String::from_utf8(out).unwrap(), ended.err().map(|error| error.to_string()).unwrap_or_default())
    }

    #[test]
    fn pieces_pass_up_to_the_first_that_is_wrong() {
        let file = |pieces: &[&str]| format!("stream-hash sha256 4\n{}", hashes(pieces));
        let table = [
            (file(&[]), "", "", ""),
            (file(&["land", "fall"]), "landfall", "landfall", ""),
            (file(&["land", "fa"]), "landfa", "landfa", ""),
            (file(&["land", "fall"]), "land", "land", "premature end of input data at offset 4"),
            (file(&["land"]), "landf", "land", "found extra input data at offset 4"),
            (file(&[]), "x", "", "found extra input data at offset 0"),
            // A short piece is the last.
            (file(&["la", "nd"]), "land", "", "hash mismatch at offset 0"),
            (file(&["land", "fall", "here"]), "landfAllhere", "land", "hash mismatch at offset 4; expected "),
        ];
        for (file, input, expected, problem) in table {
            let (out, error) = run(&file, input);
            assert!(
                out == expected && error.starts_with(problem) && error.is_empty() == problem.is_empty(),
                "{out} {error}"
            );
        }
        let unended = file(&["land"]);
        assert_eq!(run(unended.trim_end(), "land"), ("land".into(), String::new()));
        assert_eq!(run(&unended.to_uppercase().replace("STREAM-HASH SHA256", "stream-hash sha256"), "land").1, "");
    }

    #[test]
    fn doubtful_files_are_refused() {
        let unreadable = "couldn't parse hash file header";
        let table = [
            ("", "hash file is empty"),
            ("\n", unreadable),
            ("stream-hash sha256 4", unreadable),
            ("stream-hash sha256 4 \n", unreadable),
            ("stream-hash  4\n", unreadable),
            ("stream-hash sha256 -4\n", unreadable),
            ("stream-hash SHA256 4\n", unreadable),
            ("stream-hash sha1 4\n", "unknown digest algorithm sha1"),
            ("stream-hash sha256 \n", "couldn't parse chunk size"),
            ("stream-hash sha256 99999999999999999999\n", "couldn't parse chunk size"),
            ("stream-hash sha256 00\n", "chunk size cannot be zero"),
            ("stream-hash sha256 67108865\n", "chunk size 67108865 is greater than maximum 67108864"),
            ("stream-hash sha256 4\n\n", "couldn't decode hash: \"\""),
            ("stream-hash sha256 4\nabc\n", "couldn't decode hash: \"abc\""),
        ];
        for (file, problem) in table {
            assert_eq!(run(file, "land"), (String::new(), problem.into()), "{file:?}");
        }
        assert_eq!(run(&format!("stream-hash sha256 {}", "1".repeat(1 << 20)), "").1, unreadable);
    }
}

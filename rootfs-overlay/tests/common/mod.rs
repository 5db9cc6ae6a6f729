//! Live ISOs to test on: recorded ones with file contents cut out, when they are there.

use std::io::Read;
use std::path::{Path, PathBuf};

/// The three live ISOs, 2021 to 2023.
pub(crate) const LIVE: [&str; 3] =
    ["embed-areas-2021-12.iso", "embed-areas-2022-02.iso", "embed-areas-2023-07.x86_64.iso"];
/// An ISO that is no live ISO.
pub(crate) const SYNTHETIC: &str = "synthetic.iso";

/// A copy of the recorded ISO `name` in `directory`, where this machine has it.
pub(crate) fn iso(name: &str, directory: &Path) -> Option<PathBuf> {
    let packed = testkit::recordings::path(&format!("data/iso/{name}.xz"))?;
    let file = std::fs::File::open(packed).expect("a recorded ISO can be read");
    let mut bytes = Vec::new();
    liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes).expect("a recorded ISO unpacks");
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("a temporary file can be written");
    Some(path)
}

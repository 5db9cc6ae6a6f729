//! The placeholders in `openshift-install` for the image, version and architecture of its release, which are filled in when it is taken out
//! of the release image (docs/compatibility.md#openshift-install-of-a-release).
//!
//! Each is a NUL, a name, a NUL, a run of `X` and a NUL. The value takes its place from the first NUL on, and ends with a NUL. Only the
//! first of each counts.

use std::{fs::File, io, os::unix::fs::FileExt};

const CHUNK_BYTES: usize = 1 << 20;

/// What a program says of the release that it comes from.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub image: String,
    pub version: String,
    pub architecture: String,
}

struct Placeholder {
    what: &'static str,
    name: &'static str,
    room_bytes: usize,
}

const IMAGE: Placeholder = Placeholder { what: "image", name: "_RELEASE_IMAGE_LOCATION_", room_bytes: 300 };
const VERSION: Placeholder = Placeholder { what: "version", name: "_RELEASE_VERSION_LOCATION_", room_bytes: 64 };
/// Missing in programs before 4.10.
const ARCHITECTURE: Placeholder =
    Placeholder { what: "architecture", name: "_RELEASE_ARCHITECTURE_LOCATION_", room_bytes: 64 };

impl Placeholder {
    fn bytes(&self) -> Vec<u8> {
        let parts = [&[0], self.name.as_bytes(), &[0], &vec![b'X'; self.room_bytes], &[0]];
        parts.concat()
    }
}

/// Why a program can't be made one of its release.
#[derive(Debug, thiserror::Error)]
pub enum PlaceholderError {
    #[error("the program can't be read or written")]
    Io(#[from] io::Error),
    #[error("the release's {what} has {bytes} bytes, the program has room for {limit_bytes}")]
    TooLong { what: &'static str, bytes: usize, limit_bytes: usize },
    /// It has one of the others.
    #[error("the program has no placeholder for the release's image")]
    NoImage,
}

/// Fills in what the program has a place for. One without any place is left as it is: it was built for its release.
pub(super) fn fill(file: &File, values: &Values) -> Result<(), PlaceholderError> {
    let all = [(IMAGE, &values.image), (VERSION, &values.version), (ARCHITECTURE, &values.architecture)];
    let mut places = Vec::new();
    for (placeholder, value) in &all {
        let bytes = placeholder.bytes();
        let limit_bytes = bytes.len() - 1;
        if value.len() > limit_bytes {
            return Err(PlaceholderError::TooLong { what: placeholder.what, bytes: value.len(), limit_bytes });
        }
        places.push((bytes, None));
    }
    find(file, &mut places)?;
    let [(_, image), others @ ..] = places.as_slice() else { return Ok(()) };
    if image.is_none() && others.iter().any(|(_, place)| place.is_some()) {
        return Err(PlaceholderError::NoImage);
    }
    for ((_, place), (_, value)) in places.iter().zip(&all) {
        if let Some(offset) = place {
            file.write_all_at(&[value.as_bytes(), &[0]].concat(), *offset)?;
        }
    }
    Ok(())
}

/// Where each first is.
fn find(file: &File, places: &mut [(Vec<u8>, Option<u64>)]) -> io::Result<()> {
    let longest = places.iter().map(|(bytes, _)| bytes.len()).max().unwrap_or(0);
    let mut chunk = vec![0; CHUNK_BYTES];
    // The end of the chunk before, in which a placeholder may have begun.
    let (mut kept, mut offset) = (0, 0_u64);
    loop {
        let length = file.read_at(&mut chunk[kept..], offset + to_u64(kept))?;
        if length == 0 {
            return Ok(());
        }
        let filled = &chunk[..kept + length];
        // All begin with a NUL and this; alone it is rarer than a NUL.
        for (at, _) in filled.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'_') {
            let rest = &filled[at - 1..];
            for (bytes, place) in places.iter_mut().filter(|(_, place)| place.is_none()) {
                if rest.starts_with(bytes) {
                    *place = Some(offset + to_u64(at - 1));
                }
            }
        }
        if places.iter().all(|(_, place)| place.is_some()) {
            return Ok(());
        }
        let drop = filled.len().saturating_sub(longest - 1);
        chunk.copy_within(drop..kept + length, 0);
        kept = kept + length - drop;
        offset += to_u64(drop);
    }
}

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn values() -> Values {
        let [image, version, architecture] = ["r.io/release@sha256:0", "4.22.9", "linux/amd64"].map(str::to_owned);
        Values { image, version, architecture }
    }

    fn filled(content: &[u8], values: &Values) -> Result<Vec<u8>, PlaceholderError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        fill(&file, values)?;
        let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes.len(), content.len());
        Ok(bytes)
    }

    fn text_at(bytes: &[u8], at: usize) -> &str {
        std::str::from_utf8(bytes[at..].split(|byte| *byte == 0).next().unwrap()).unwrap()
    }

    #[test]
    fn each_first_placeholder_gets_its_value_wherever_it_is() {
        // Also across the ends of chunks.
        for before in
            [0, 1, 17, CHUNK_BYTES - 400, CHUNK_BYTES - 327, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES - 5]
        {
            let parts = [
                vec![b'_'; before],
                VERSION.bytes(),
                IMAGE.bytes(),
                b"between".to_vec(),
                IMAGE.bytes(),
                b"end".to_vec(),
            ];
            let bytes = filled(&parts.concat(), &values()).unwrap();
            assert_eq!(text_at(&bytes, before), "4.22.9", "{before}");
            let image = before + VERSION.bytes().len();
            assert_eq!(text_at(&bytes, image), "r.io/release@sha256:0", "{before}");
            let second = image + IMAGE.bytes().len() + 7;
            assert_eq!(&bytes[second..second + IMAGE.bytes().len()], IMAGE.bytes(), "{before}");
        }
    }

    #[test]
    fn lengths_are_those_that_programs_are_built_with() {
        assert_eq!([IMAGE, VERSION, ARCHITECTURE].map(|placeholder| placeholder.bytes().len()), [327, 93, 98]);
    }

    #[test]
    fn what_has_no_room_or_only_half_of_the_placeholders_is_refused() {
        let longest = "v".repeat(92);
        let bytes =
            filled(&[IMAGE.bytes(), VERSION.bytes()].concat(), &Values { version: longest.clone(), ..values() });
        assert_eq!(text_at(&bytes.unwrap(), 327), longest);
        let long = filled(b"", &Values { version: "v".repeat(93), ..values() }).unwrap_err();
        assert_eq!(long.to_string(), "the release's version has 93 bytes, the program has room for 92");
        assert!(matches!(filled(&VERSION.bytes(), &values()), Err(PlaceholderError::NoImage)));
        let cut = &IMAGE.bytes()[..300];
        assert_eq!(filled(cut, &values()).unwrap(), cut, "a program without any is left as it is");
    }
}

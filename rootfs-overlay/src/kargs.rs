//! The kernel arguments inside a live ISO: the room its boot loader configurations keep for them (service contract §8.5), with
//! further ones appended.

use crate::iso9660::{Extent, Iso, IsoError};
use crate::patched::Patch;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// No area is longer, bytes.
const MAX_AREA_BYTES: u64 = 2048;
/// No list of areas is longer, bytes.
const MAX_INFO_BYTES: u64 = 64 << 10;
/// Where older ISOs list their areas: a magic, then numbers of 64 bits.
const HEADER: Extent = Extent { offset: 32_672, len: 72 };

/// Why arguments can't be appended.
#[derive(Debug, thiserror::Error)]
pub enum KargsError {
    /// The image can't be opened.
    #[error("{} can't be opened", path.display())]
    Open {
        /// The image.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The image can't be read.
    #[error("what the ISO says of its kernel arguments can't be read")]
    Iso(#[from] IsoError),
    /// The list of areas is no such list.
    #[error("coreos/kargs.json in the ISO can't be read")]
    Info(#[source] serde_json::Error),
    /// There is none.
    #[error("the ISO has no room for kernel arguments: it is no CoreOS live ISO, or one made before there was")]
    None,
    /// An area that can't be one.
    #[error("the ISO's area for kernel arguments at offset {offset} is broken: {reason}")]
    Area {
        /// Offset in the image.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// No room.
    #[error("the kernel arguments take {needed} bytes, and the ISO has room for {room}")]
    TooLong {
        /// Length of all arguments.
        needed: usize,
        /// Length of the area without its end.
        room: usize,
    },
}

#[derive(Deserialize)]
struct Info {
    files: Vec<InfoFile>,
    size: u64,
}

#[derive(Deserialize)]
struct InfoFile {
    path: String,
    offset: u64,
    #[serde(default = "hash")]
    pad: String,
    #[serde(default = "line_break")]
    end: String,
}

fn hash() -> String {
    "#".to_owned()
}

fn line_break() -> String {
    "\n".to_owned()
}

struct Area {
    extent: Extent,
    pad: u8,
    end: Vec<u8>,
}

/// The changes that append `arguments` in every place of the ISO at `path` that has them.
pub fn append_patches(path: &Path, arguments: &[String]) -> Result<Vec<Patch>, KargsError> {
    let file = File::open(path).map_err(|source| KargsError::Open { path: path.to_owned(), source })?;
    let mut iso = Iso::open(BufReader::new(file))?;
    let areas = areas(&mut iso)?;
    let patch = |area: &Area| {
        let content = iso.read(area.extent)?;
        let bytes = appended(area, &content, arguments)?;
        Ok(Patch { offset: area.extent.offset, bytes })
    };
    areas.iter().map(patch).collect()
}

fn areas<R: Read + Seek>(iso: &mut Iso<R>) -> Result<Vec<Area>, KargsError> {
    let whole = iso.len();
    let area = |base: Extent, offset: u64, len: u64, pad: u8, end: Vec<u8>| {
        let at = base.offset.saturating_add(offset);
        let bad = |reason| KargsError::Area { offset: at, reason };
        let last = offset.checked_add(len).ok_or_else(|| bad("its length is no length"))?;
        if len == 0 || len > MAX_AREA_BYTES || last > base.len {
            return Err(bad("it is empty, too long, or reaches past its file"));
        }
        Ok(Area { extent: Extent { offset: at, len }, pad, end })
    };
    if let Some(extent) = iso.find_optional("COREOS/KARGS.JSON")? {
        if extent.len > MAX_INFO_BYTES {
            return Err(KargsError::Area { offset: extent.offset, reason: "the list of areas is too long" });
        }
        let info: Info = serde_json::from_slice(&iso.read(extent)?).map_err(KargsError::Info)?;
        let mut areas = Vec::new();
        for file in info.files {
            let base = iso.find(&file.path)?;
            let [pad] = file.pad.as_bytes() else {
                return Err(KargsError::Area { offset: base.offset, reason: "its padding is not one byte" });
            };
            areas.push(area(base, file.offset, info.size, *pad, file.end.into_bytes())?);
        }
        return if areas.is_empty() { Err(KargsError::None) } else { Ok(areas) };
    }
    let header = iso.read(HEADER)?;
    let rest = header.strip_prefix(b"coreKarg").ok_or(KargsError::None)?;
    let mut numbers = rest.chunks_exact(8).filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    let len = numbers.next().unwrap_or(0);
    let base = Extent { offset: 0, len: whole };
    // The second number is where the default arguments are; then places up to the first zero.
    let places = numbers.skip(1).take_while(|offset| *offset != 0);
    places.map(|offset| area(base, offset, len, b'#', b"\n".to_vec())).collect()
}

/// `content` with the arguments behind those it has.
fn appended(area: &Area, content: &[u8], arguments: &[String]) -> Result<Vec<u8>, KargsError> {
    let bad = |reason| KargsError::Area { offset: area.extent.offset, reason };
    let used = content.iter().rposition(|byte| *byte != area.pad).map_or(0, |at| at + 1);
    let used = content.get(..used).unwrap_or_default();
    let own = used.strip_suffix(area.end.as_slice()).ok_or_else(|| bad("its arguments have no end"))?;
    let mut bytes = own.to_vec();
    for argument in arguments {
        if !bytes.is_empty() {
            bytes.push(b' ');
        }
        bytes.extend_from_slice(argument.as_bytes());
    }
    let (needed, room) = (bytes.len(), content.len().saturating_sub(area.end.len()));
    if needed > room {
        return Err(KargsError::TooLong { needed, room });
    }
    bytes.extend_from_slice(&area.end);
    bytes.resize(content.len(), area.pad);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(len: u64) -> Area {
        Area { extent: Extent { offset: 7, len }, pad: b'#', end: b"\n".to_vec() }
    }

    fn text(content: &[u8], arguments: &[&str]) -> Result<String, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let area = area(content.len().try_into().unwrap());
        let bytes = appended(&area, content, &arguments).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn arguments_go_behind_those_that_are_there() {
        assert_eq!(text(b"a=1 b\n##########", &["c=2", "d"]).unwrap(), "a=1 b c=2 d\n####");
        assert_eq!(text(b"\n#####", &["c"]).unwrap(), "c\n####");
        assert_eq!(text(b"a\n#", &[]).unwrap(), "a\n#");
        assert_eq!(text(b"a\n#", &["b"]).unwrap_err(), "the kernel arguments take 3 bytes, and the ISO has room for 2");
        assert!(text(b"a####", &["b"]).unwrap_err().contains("no end"));
        assert!(text(b"#####", &["b"]).unwrap_err().contains("no end"));
    }

    #[test]
    fn real_isos_have_room_in_every_boot_loader() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/iso");
        for (name, places) in [("2021-12.iso", 2), ("2022-02.iso", 2), ("2023-07.x86_64.iso", 2)] {
            let path = folder.join(format!("embed-areas-{name}.xz"));
            let Ok(packed) = File::open(&path) else {
                println!("skipped: {} is not there", path.display());
                continue;
            };
            let mut file = tempfile::NamedTempFile::new().unwrap();
            io::copy(&mut liblzma::read::XzDecoder::new(packed), &mut file).unwrap();
            let patches = append_patches(file.path(), &["quiet".to_owned(), "x=y".to_owned()]).unwrap();
            assert_eq!(patches.len(), places, "{name}");
            for patch in &patches {
                let text = String::from_utf8_lossy(&patch.bytes);
                let (line, padding) = text.split_once('\n').unwrap();
                assert!(line.ends_with(" quiet x=y") && line.contains("ignition.platform.id=metal"), "{name}: {line}");
                assert!(padding.bytes().all(|byte| byte == b'#'), "{name}");
            }
        }
        assert!(matches!(append_patches(Path::new("/dev/null"), &[]), Err(KargsError::Iso(_))));
    }
}

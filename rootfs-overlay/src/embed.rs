//! Finds the area for the Ignition config in a live ISO, in every layout of CoreOS images so far.

use crate::iso9660::{Extent, Iso, IsoError};
use serde::{Deserialize, Serialize};
use std::io::{Read, Seek};

/// A larger file is not a description.
const MAX_INFO_BYTES: u64 = 64 << 10;
/// Maximum size of an area, which is read into memory. It is 256 KiB on every image so far.
const MAX_AREA_BYTES: u64 = 64 << 20;
/// Where images up to 2021 describe the area: in the system area before the volume descriptor.
const HEADER: Extent = Extent { offset: 32744, len: 24 };

/// Where an area was found described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// `coreos/igninfo.json` names a file and a part of it (since 2023).
    IgnitionInfo,
    /// The whole of `images/ignition.img` (since 2021).
    IgnitionImage,
    /// A header in the system area, `coreiso+` (before).
    SystemArea,
}

/// Room for Ignition config and network settings in a live ISO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbedArea {
    /// Its bytes in the image.
    pub extent: Extent,
    /// How it was found.
    pub layout: Layout,
}

/// Why there is no area.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The image can't be read.
    #[error(transparent)]
    Iso(#[from] IsoError),
    /// No area is described, or its file is missing.
    #[error("finding initrd embed area")]
    Missing(#[source] IsoError),
    /// The description can't be read.
    #[error("decoding igninfo")]
    Info(#[source] serde_json::Error),
    /// The area exceeds its file or image.
    #[error("the embed area ({len} bytes at offset {offset}) exceeds {within} ({available} bytes)")]
    Outside {
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// File or image it should be in.
        within: String,
        /// Length of that in bytes.
        available: u64,
    },
    /// It is larger than any real one.
    #[error("the description gives the embed area {len} bytes; the limit is {MAX_AREA_BYTES}")]
    TooLarge { len: u64 },
}

/// `coreos/igninfo.json`.
#[derive(Deserialize)]
struct IgnitionInfo {
    file: String,
    offset: Option<u64>,
    length: Option<u64>,
}

/// Finds the area.
pub fn locate<R: Read + Seek>(iso: &mut Iso<R>) -> Result<EmbedArea, EmbedError> {
    let area = if let Some(extent) = iso.find_optional("COREOS/IGNINFO.JSO")? {
        if extent.len > MAX_INFO_BYTES {
            return Err(EmbedError::TooLarge { len: extent.len });
        }
        let info: IgnitionInfo = serde_json::from_slice(&iso.read(extent)?).map_err(EmbedError::Info)?;
        let file = iso.find(&info.file.to_uppercase()).map_err(EmbedError::Missing)?;
        let offset = info.offset.unwrap_or(0);
        let len = info.length.unwrap_or_else(|| file.len.saturating_sub(offset));
        let extent = within(file, offset, len, &info.file)?;
        EmbedArea { extent, layout: Layout::IgnitionInfo }
    } else {
        match iso.find("IMAGES/IGNITION.IMG") {
            Ok(extent) => EmbedArea { extent, layout: Layout::IgnitionImage },
            Err(error) if error.is_absence() => {
                let image = Extent { offset: 0, len: iso.len() };
                let (offset, len) = header(&iso.read(HEADER)?).ok_or(EmbedError::Missing(error))?;
                EmbedArea { extent: within(image, offset, len, "the ISO image")?, layout: Layout::SystemArea }
            }
            Err(error) => return Err(EmbedError::Missing(error)),
        }
    };
    if area.extent.len > MAX_AREA_BYTES {
        return Err(EmbedError::TooLarge { len: area.extent.len });
    }
    Ok(area)
}

fn within(file: Extent, offset: u64, len: u64, name: &str) -> Result<Extent, EmbedError> {
    match offset.checked_add(len) {
        Some(end) if end <= file.len && len > 0 => Ok(Extent { offset: file.offset + offset, len }),
        _ => Err(EmbedError::Outside { offset, len, within: name.chars().take(200).collect(), available: file.len }),
    }
}

/// Offset and length in the header of the system area: magic and two little-endian 64-bit numbers.
fn header(bytes: &[u8]) -> Option<(u64, u64)> {
    let rest = bytes.strip_prefix(b"coreiso+")?;
    let (offset, rest) = rest.split_first_chunk()?;
    Some((u64::from_le_bytes(*offset), u64::from_le_bytes(*rest.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::image;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn located(bytes: Vec<u8>) -> Result<EmbedArea, EmbedError> {
        locate(&mut Iso::open(Cursor::new(bytes)).unwrap())
    }

    fn with_info(info: &str) -> Result<EmbedArea, EmbedError> {
        located(image(&[
            ("COREOS/IGNINFO.JSO", info.as_bytes()),
            ("IMAGES/CDBOOT.IMG", &[0; 9000]),
            ("IMAGES/IGNITION.IMG", &[0; 4096]),
        ]))
    }

    #[test]
    fn igninfo_may_name_a_file_or_a_part_of_one() {
        let whole = with_info(r#"{"file": "images/cdboot.img"}"#).unwrap();
        assert_eq!((whole.layout, whole.extent.len), (Layout::IgnitionInfo, 9000));
        let part = with_info(r#"{"file": "images/cdboot.img", "offset": 4096, "length": 2048}"#).unwrap();
        assert_eq!(part.extent, Extent { offset: whole.extent.offset + 4096, len: 2048 });
        let rest = with_info(r#"{"file": "images/cdboot.img", "offset": 4096}"#).unwrap();
        assert_eq!(rest.extent.end(), whole.extent.end());
        for outside in
            [r#""offset": 9000"#, r#""offset": 1, "length": 9000"#, r#""offset": 18446744073709551615, "length": 2"#]
        {
            let result = with_info(&format!(r#"{{"file": "images/cdboot.img", {outside}}}"#));
            assert!(matches!(result, Err(EmbedError::Outside { available: 9000, .. })), "{outside}");
        }
        assert!(matches!(with_info(r#"{"file": "images/x"}"#), Err(EmbedError::Missing(IsoError::NotFound { .. }))));
        assert!(matches!(with_info("{"), Err(EmbedError::Info(_))));
    }

    #[test]
    fn older_images_have_the_file_and_the_oldest_a_header() {
        let area = located(image(&[("IMAGES/IGNITION.IMG", &[0; 4096])])).unwrap();
        assert_eq!((area.layout, area.extent.len), (Layout::IgnitionImage, 4096));

        // The area followed the volume.
        let mut old = image(&[("ZIPL.PRM", b"x")]);
        assert_eq!(old.len(), 40960);
        old.resize(40960 + 2048, 0);
        assert!(matches!(located(old.clone()), Err(EmbedError::Missing(_))));
        let header =
            |offset: u64, len: u64| [b"coreiso+".as_slice(), &offset.to_le_bytes(), &len.to_le_bytes()].concat();
        old[32744..32768].copy_from_slice(&header(40960, 2048));
        let extent = Extent { offset: 40960, len: 2048 };
        assert_eq!(located(old.clone()).unwrap(), EmbedArea { extent, layout: Layout::SystemArea });
        old[32744..32768].copy_from_slice(&header(40960, 1 << 40));
        assert!(matches!(located(old), Err(EmbedError::Outside { .. })));
    }

    proptest! {
        #[test]
        fn no_description_makes_it_panic(info in "[\\[\\]{}\":,a-z0-9]{0,80}", offset in any::<u64>(), len in any::<u64>()) {
            let _ = with_info(&info);
            if let Ok(area) = with_info(&format!(r#"{{"file":"images/cdboot.img","offset":{offset},"length":{len}}}"#)) {
                prop_assert!(area.extent.len <= 9000);
            }
        }
    }
}

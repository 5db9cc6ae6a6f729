//! Optical modules and cables, from their memory. Pure; the bytes are hostile.
//!
//! A module is read half a page at a time. The first half says what it is, and which others it has.

mod cmis;
mod codes;
#[cfg(test)]
mod ethtool;
mod image;
mod module;
mod qsfp;
mod sfp;
#[cfg(test)]
mod tests;

pub(crate) use image::Image;
pub use module::{Module, ModuleLimits, Signal};

use image::{Places, half};
use kernel::ethnl::ModulePage;

/// What is read first.
pub(crate) const FIRST: ModulePage = sfp::A0;

/// How a kind of module is read.
struct Kind {
    further: fn(&Image) -> Vec<ModulePage>,
    parse: fn(&Image) -> Module,
    places: Places,
}

fn kind(identifier: u8) -> Option<Kind> {
    match identifier {
        0x03 | 0x0b => Some(Kind { further: sfp::further, parse: sfp::parse, places: sfp::PLACES }),
        0x0c | 0x0d | 0x11 => Some(Kind { further: qsfp::further, parse: qsfp::parse, places: qsfp::PLACES }),
        0x18 | 0x19 | 0x1b | 0x1e..=0x21 => {
            Some(Kind { further: cmis::further, parse: cmis::parse, places: cmis::PLACES })
        }
        _ => None,
    }
}

/// The halves to read besides these; what they say may lead to more.
pub(crate) fn further(image: &Image) -> Vec<ModulePage> {
    let kind = half(image, FIRST).byte(0).and_then(kind);
    let wanted = kind.map(|kind| (kind.further)(image)).unwrap_or_default();
    wanted.into_iter().filter(|page| !image.contains_key(page)).collect()
}

/// What the halves that could be read say; `None` without a module, or for one of another kind.
pub(crate) fn parse(image: &Image) -> Option<Module> {
    let identifier = half(image, FIRST).byte(0)?;
    let module = (kind(identifier)?.parse)(image);
    Some(Module { form: codes::form(identifier), ..module })
}

/// The serial number in one half of a module's memory.
pub(crate) fn serial(half_page: &[u8], upper: bool) -> Option<String> {
    // The half with the identification of newer modules repeats the identifier.
    let places = kind(*half_page.first()?)?.places;
    if upper != (places.serial >= 128) {
        return None;
    }
    let page = ModulePage { upper, ..FIRST };
    half(&Image::from([(page, half_page.to_vec())]), page).text(places.serial, 16)
}

/// Reads these bytes as all halves of a module.
pub(crate) fn fuzz(bytes: &[u8]) {
    let mut halves = bytes.chunks(kernel::ethnl::MODULE_PAGE_BYTES).map(<[u8]>::to_vec);
    let first = halves.next().unwrap_or_default();
    serial(&first, false);
    let mut image = Image::from([(FIRST, first)]);
    for _ in 0..2 {
        let pages: Vec<_> = further(&image).into_iter().zip(halves.by_ref()).collect();
        image.extend(pages);
    }
    for half in image.values() {
        serial(half, true);
    }
    parse(&image);
}

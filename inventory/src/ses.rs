//! What an enclosure says of itself, its bays, fans, power supplies and sensors (SES-3 6.1.2, 6.1.4, 6.1.11, 6.1.13). Pure; the
//! bytes are hostile.

use kernel::bytes::{be16, be64};
use serde::{Deserialize, Serialize};

/// The pages of RECEIVE DIAGNOSTIC RESULTS that are read: what there is, how it is, what it is called, what is in it.
pub(crate) const PAGES: [u8; 4] = [0x01, 0x02, 0x07, 0x0a];
const HEADER_BYTES: usize = 8;
/// More than any enclosure has.
const MAX_ELEMENTS: usize = 2048;
const SLOT: u8 = 0x01;
const ARRAY_SLOT: u8 = 0x17;
/// Kinds of elements that are reported, by their code.
const KINDS: [(u8, &str); 9] = [
    (0x02, "power supply"),
    (0x03, "fan"),
    (0x04, "temperature"),
    (0x06, "alarm"),
    (0x07, "controller"),
    (0x0b, "UPS"),
    (0x12, "voltage"),
    (0x13, "current"),
    (0x18, "expander"),
];
/// What elements of a kind say is wrong with them: kind, byte of their status, bit, words (SES-3 7.3).
pub(crate) const PROBLEMS: [(&str, usize, u8, &str); 29] = [
    ("power supply", 3, 6, "failed"),
    ("power supply", 3, 3, "too hot"),
    ("power supply", 3, 2, "warm"),
    ("power supply", 3, 1, "no input"),
    ("power supply", 3, 0, "no output"),
    ("power supply", 2, 3, "voltage too high"),
    ("power supply", 2, 2, "voltage too low"),
    ("power supply", 2, 1, "current too high"),
    ("fan", 3, 6, "failed"),
    ("temperature", 1, 6, "failed"),
    ("temperature", 3, 3, CRITICALLY_HIGH),
    ("temperature", 3, 2, HIGH),
    ("temperature", 3, 1, CRITICALLY_LOW),
    ("temperature", 3, 0, LOW),
    ("alarm", 1, 6, "failed"),
    ("controller", 1, 6, "failed"),
    ("UPS", 3, 6, "failed"),
    ("UPS", 2, 7, "input too low"),
    ("UPS", 2, 6, "input too high"),
    ("UPS", 2, 4, "no input"),
    ("voltage", 1, 6, "failed"),
    ("voltage", 1, 1, CRITICALLY_HIGH),
    ("voltage", 1, 3, HIGH),
    ("voltage", 1, 0, CRITICALLY_LOW),
    ("voltage", 1, 2, LOW),
    ("current", 1, 6, "failed"),
    ("current", 1, 1, CRITICALLY_HIGH),
    ("current", 1, 3, HIGH),
    ("expander", 1, 6, "failed"),
];
const CRITICALLY_HIGH: &str = "critically high";
const HIGH: &str = "high";
const CRITICALLY_LOW: &str = "critically low";
const LOW: &str = "low";
/// States of an element, by their code.
const STATES: [&str; 9] = [
    "unsupported",
    "ok",
    "critical",
    "noncritical",
    "unrecoverable",
    "not installed",
    "unknown",
    "not available",
    "no access",
];
/// States of a whole enclosure from bit 0 of the status page's second byte on.
const CONDITIONS: [&str; 3] = ["unrecoverable", "critical", "noncritical"];
const SAS: u8 = 6;
const PHY_BYTES: usize = 28;

/// An enclosure of disks, by SCSI enclosure services.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Enclosure {
    /// SCSI address: host, channel, target, LUN.
    pub name: String,
    /// PCI address of the controller that leads to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// Vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Firmware revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// World-wide name, such as 0x500304801f3f4a3f.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// What is wrong with any part of it, as it says itself: unrecoverable, critical, noncritical.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
}

/// A bay of an enclosure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnclosureBay {
    /// SCSI address of the enclosure.
    pub enclosure: String,
    /// Number of the slot as it is printed on the enclosure, or its place in the list of slots.
    pub number: u32,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// State: ok, or such as not installed or critical.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether the enclosure senses a fault, or its lamp is to show one.
    pub is_faulty: bool,
    /// Whether its lamp is to show where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_lit: Option<bool>,
    /// The disk in it, without /dev.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// SAS address of what is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
}

/// A fan, a power supply, a sensor or another part of an enclosure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnclosurePart {
    /// SCSI address of the enclosure.
    pub enclosure: String,
    /// Kind of part: power supply, fan, temperature, alarm, controller, UPS, voltage, current or expander.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its place among those of its kind, from 0 on.
    pub number: u32,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// State: ok, or such as not installed or critical.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether its failure is predicted.
    pub is_failing: bool,
    /// What is wrong with it, as it says itself: such as failed, no input, or critically high.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Speed of a fan, revolutions per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_rpm: Option<u32>,
    /// Temperature, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<i32>,
    /// Voltage, millivolts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voltage_millivolts: Option<i32>,
    /// Current, milliamperes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_milliamperes: Option<i32>,
}

/// What an enclosure's pages say.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub wwn: Option<String>,
    pub conditions: Vec<String>,
    pub bays: Vec<EnclosureBay>,
    pub parts: Vec<EnclosurePart>,
}

/// An element of the configuration.
struct Element {
    kind: u8,
    /// Its place among those of its kind; `None` stands for all of them.
    number: Option<u32>,
}

/// The pages in the order of [`PAGES`]; all but the first may be missing.
pub(crate) fn content(pages: [&[u8]; 4]) -> Option<Content> {
    let [configuration, status, names, additional] = pages;
    let (wwn, elements) = elements(configuration)?;
    let states: Vec<[u8; 4]> = body(status, 0x02).map(|body| body.as_chunks().0.to_vec()).unwrap_or_default();
    let names = body(names, 0x07).map(texts).unwrap_or_default();
    let places = body(additional, 0x0a).map(|body| places(body, &elements)).unwrap_or_default();
    let flags = status.get(1).filter(|_| !states.is_empty()).copied().unwrap_or(0);
    let mut content = Content {
        wwn,
        conditions: CONDITIONS
            .iter()
            .enumerate()
            .filter(|(bit, _)| flags >> bit & 1 == 1)
            .map(|(_, name)| (*name).to_owned())
            .collect(),
        ..Content::default()
    };
    for (index, element) in elements.iter().enumerate() {
        let Some(number) = element.number else { continue };
        let bytes = states.get(index).copied();
        let [flags, second, third, fourth] = bytes.unwrap_or_default();
        let state = bytes.and_then(|_| STATES.get(usize::from(flags & 0xf))).map(|state| (*state).to_owned());
        let name = names.get(index).cloned().flatten();
        if matches!(element.kind, SLOT | ARRAY_SLOT) {
            let place = places.iter().find(|place| place.index == index);
            content.bays.push(EnclosureBay {
                number: place.and_then(|place| place.slot).map_or(number, u32::from),
                name,
                state,
                is_faulty: fourth >> 5 & 3 != 0,
                is_lit: bytes.map(|_| third >> 1 & 1 == 1),
                wwn: place.and_then(|place| place.address).map(|address| format!("0x{address:016x}")),
                ..EnclosureBay::default()
            });
        } else if let Some((_, kind)) = KINDS.iter().find(|(code, _)| *code == element.kind) {
            // In hundredths.
            let thousandths = i32::from(i16::from_be_bytes([third, fourth])) * 10;
            content.parts.push(EnclosurePart {
                kind: (*kind).to_owned(),
                number,
                name,
                state,
                is_failing: flags >> 6 & 1 == 1,
                problems: problems(kind, bytes.unwrap_or_default()),
                // In tens.
                speed_rpm: (element.kind == 0x03 && bytes.is_some())
                    .then(|| u32::from(u16::from_be_bytes([second & 7, third])) * 10),
                // From -19 °C on.
                temperature_celsius: (element.kind == 0x04 && third > 0).then(|| i32::from(third) - 20),
                voltage_millivolts: (element.kind == 0x12 && bytes.is_some()).then_some(thousandths),
                current_milliamperes: (element.kind == 0x13 && bytes.is_some()).then_some(thousandths),
                ..EnclosurePart::default()
            });
        }
    }
    Some(content)
}

/// What is wrong with an element of that kind.
fn problems(kind: &str, status: [u8; 4]) -> Vec<String> {
    let is_set = |at: usize, bit: u8| status.get(at).is_some_and(|byte| byte >> bit & 1 == 1);
    let found = PROBLEMS.iter().filter(|(one, at, bit, _)| *one == kind && is_set(*at, *bit));
    found.map(|(.., name)| (*name).to_owned()).collect()
}

/// Behind the header of the page with that code.
fn body(page: &[u8], code: u8) -> Option<&[u8]> {
    let len = usize::from(be16(page, 2)?) + 4;
    (*page.first()? == code).then_some(page.get(..len).unwrap_or(page)).and_then(|page| page.get(HEADER_BYTES..))
}

/// The enclosure's own name, and all elements in the order in which the other pages have them: of each type first what
/// stands for all.
fn elements(page: &[u8]) -> Option<(Option<String>, Vec<Element>)> {
    let mut rest = body(page, 0x01)?;
    let (mut wwn, mut types) = (None, 0);
    for enclosure in 0..=*page.get(1)? {
        let len = usize::from(*rest.get(3)?) + 4;
        let (descriptor, after) = rest.split_at_checked(len)?;
        if enclosure == 0 {
            wwn = be64(descriptor, 4).filter(|name| *name != 0).map(|name| format!("0x{name:016x}"));
        }
        types += usize::from(*descriptor.get(2)?);
        rest = after;
    }
    let mut elements: Vec<Element> = Vec::new();
    for [kind, count, ..] in rest.as_chunks::<4>().0.iter().take(types) {
        // A type may come more than once: for a subenclosure, say.
        let before = u32::try_from(elements.iter().filter(|e| e.kind == *kind && e.number.is_some()).count()).ok()?;
        elements.push(Element { kind: *kind, number: None });
        elements.extend((0..u32::from(*count)).map(|number| Element { kind: *kind, number: Some(before + number) }));
        if elements.len() > MAX_ELEMENTS {
            return None;
        }
    }
    Some((wwn, elements))
}

/// The names of all elements.
fn texts(mut rest: &[u8]) -> Vec<Option<String>> {
    let mut texts = Vec::new();
    while let Some(len) = be16(rest, 2) {
        let Some(name) = rest.get(4..4 + usize::from(len)) else { break };
        let name = kernel::bytes::text(name);
        let name = name.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        texts.push((!name.is_empty()).then(|| name.to_owned()));
        rest = rest.get(4 + usize::from(len)..).unwrap_or_default();
    }
    texts
}

/// What is in an element.
struct Place {
    /// Of the element, among all.
    index: usize,
    slot: Option<u8>,
    /// SAS address.
    address: Option<u64>,
}

fn places(mut rest: &[u8], elements: &[Element]) -> Vec<Place> {
    let mut places = Vec::new();
    while let Some([flags, len, which, index, ..]) = rest.first_chunk::<8>() {
        let Some((descriptor, after)) = rest.split_at_checked(usize::from(*len) + 2) else { break };
        rest = after;
        let (is_valid, names_element) = (flags >> 7 == 0, flags >> 4 & 1 == 1);
        let is_slot = descriptor.get(5).is_some_and(|kind| kind >> 6 == 0);
        if !is_valid || !names_element || flags & 0xf != SAS || !is_slot {
            continue;
        }
        // Those that stand for all may be counted or not.
        let index = if which & 3 == 1 {
            Some(usize::from(*index))
        } else {
            let counted = elements.iter().enumerate().filter(|(_, element)| element.number.is_some());
            counted.map(|(place, _)| place).nth(usize::from(*index))
        };
        let Some(index) = index else { continue };
        let phys = descriptor.get(8..).unwrap_or_default().chunks_exact(PHY_BYTES);
        let address = phys.filter_map(|phy| be64(phy, 12)).find(|address| *address != 0);
        places.push(Place { index, slot: descriptor.get(7).copied().filter(|slot| *slot != 0xff), address });
    }
    places
}

/// Names that must be removed from captures, of the pages [`PAGES`].
pub(crate) fn secrets(page: &[u8]) -> Vec<String> {
    match page.first() {
        Some(0x01) => elements(page)
            .and_then(|(wwn, _)| wwn)
            .map(|name| name.trim_start_matches("0x").to_owned())
            .into_iter()
            .collect(),
        Some(0x0a) => {
            let mut names = Vec::new();
            let mut rest = body(page, 0x0a).unwrap_or_default();
            while let Some([_, len]) = rest.first_chunk() {
                let Some((descriptor, after)) = rest.split_at_checked(usize::from(*len) + 2) else { break };
                rest = after;
                for phy in descriptor.get(8..).unwrap_or_default().chunks_exact(PHY_BYTES) {
                    names.extend(phy.get(4..20).unwrap_or_default().chunks_exact(8).map(kernel::hex::lower));
                }
            }
            names
        }
        _ => Vec::new(),
    }
}

/// Reads the bytes, cut where their first ones say, as all pages.
pub(crate) fn fuzz(answer: &[u8]) {
    let Some(([a, b, c], rest)) = answer.split_first_chunk() else { return };
    let mut rest = rest;
    let mut pages: Vec<&[u8]> = Vec::new();
    for len in [a, b, c] {
        let (page, after) = rest.split_at(rest.len().min(usize::from(*len)));
        pages.push(page);
        rest = after;
    }
    if let [a, b, c] = pages[..] {
        content([a, b, c, rest]);
    }
    let _ = (secrets(answer), secrets(rest));
}

#[cfg(test)]
pub(crate) mod tests;

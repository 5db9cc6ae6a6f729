//! How fast PCI Express links run, and what keeps them from running faster.

use super::Function;
use crate::Root;
use kernel::order::Gather;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// A PCI Express link (`current_link_speed` and its like in sysfs).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Link {
    /// Speed of a lane now, GT/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_gts: Option<f64>,
    /// Lanes in use now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width_lanes: Option<u32>,
    /// Highest speed of the function, GT/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_speed_gts: Option<f64>,
    /// Most lanes of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_width_lanes: Option<u32>,
    /// Whether it runs below what both of its ends are made for. Absent of ports, and where an end does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<bool>,
    /// What keeps it from running as fast as the function could, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
}

/// The link of a function; `None` when it has none, as conventional PCI and functions inside the processor.
pub(super) fn read(root: &Root, dir: &Path) -> Option<Link> {
    // One missing file spares the others.
    let max_width = root.attribute(dir.join("max_link_width"))?;
    let text = |name: &str| root.attribute(dir.join(name));
    let link = Link {
        speed_gts: text("current_link_speed").as_deref().and_then(speed),
        width_lanes: text("current_link_width").as_deref().and_then(width),
        max_speed_gts: text("max_link_speed").as_deref().and_then(speed),
        max_width_lanes: width(&max_width),
        ..Link::default()
    };
    (link != Link::default()).then_some(link)
}

/// `16.0 GT/s PCIe`, of older kernels `8 GT/s`; `Unknown` of a link that is down.
fn speed(text: &str) -> Option<f64> {
    let number: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

/// 0 is no link; 63 and 255 are read from where there is none.
fn width(text: &str) -> Option<u32> {
    text.parse().ok().filter(|lanes| (1..=32).contains(lanes))
}

/// Compares each link with what its two ends could do.
///
/// Below a root port there is a link, below that link's end (a switch) only the switch's inside, below which there are links
/// again.
///
/// A port with nothing below it has no link, whatever its register says.
pub(super) fn judge(functions: &mut [Function]) {
    let parents: BTreeSet<String> = functions.iter().filter_map(|function| function.parent.clone()).gather();
    for port in functions.iter_mut().filter(|f| f.class_id.starts_with("0604") && !parents.contains(&f.address)) {
        port.link = None;
    }
    let idlers = idlers(functions);
    let above: BTreeMap<String, (Option<String>, Option<Link>)> =
        functions.iter().map(|f| (f.address.clone(), (f.parent.clone(), f.link.clone()))).gather();
    let parent_of = |address: &String| above.get(address).and_then(|(parent, _)| parent.as_ref());
    for function in functions {
        let depth = std::iter::successors(function.parent.as_ref(), |address| parent_of(address)).take(64).count();
        let Some(link) = function.link.as_mut().filter(|_| depth % 2 == 1) else { continue };
        let Some((port, Some(port_link))) =
            function.parent.as_ref().and_then(|port| Some((port, above.get(port)?.1.as_ref())))
        else {
            continue;
        };
        let (degraded, limited_by) = verdict(link, port, port_link, idlers.contains(device(&function.address)));
        link.degraded = degraded;
        link.limited_by = limited_by;
    }
}

/// Devices whose links slow down when idle: graphics processors with all their functions (sound, USB), and the switches
/// some of them have on board.
fn idlers(functions: &[Function]) -> BTreeSet<String> {
    let by_address: BTreeMap<&str, &Function> = functions.iter().map(|f| (f.address.as_str(), f)).gather();
    let mut idlers = BTreeSet::new();
    for display in functions.iter().filter(|f| f.class_id.starts_with("03") || f.class_id.starts_with("12")) {
        let above = |function: &&Function| by_address.get(function.parent.as_deref()?).copied();
        let on_board = std::iter::successors(Some(display), above).take(64);
        let on_board = on_board.take_while(|function| function.vendor_id == display.vendor_id);
        idlers.extend(on_board.map(|function| device(&function.address).to_owned()));
    }
    idlers
}

/// An address without the function.
fn device(address: &str) -> &str {
    address.rsplit_once('.').map_or(address, |(device, _)| device)
}

fn verdict(link: &Link, port: &str, port_link: &Link, may_idle: bool) -> (Option<bool>, Option<String>) {
    let (Some(speed), Some(width), Some(max_speed), Some(max_width), Some(port_speed), Some(port_width)) = (
        link.speed_gts,
        link.width_lanes,
        link.max_speed_gts,
        link.max_width_lanes,
        port_link.max_speed_gts,
        port_link.max_width_lanes,
    ) else {
        return (None, None);
    };
    let (wanted_speed, wanted_width) = (max_speed.min(port_speed), max_width.min(port_width));
    let (is_slow, is_narrow) = (speed < wanted_speed, width < wanted_width);
    if is_slow && !is_narrow && may_idle {
        let reason = format!("speed: graphics processors lower it when idle; both ends can do {wanted_speed} GT/s");
        return (Some(false), Some(reason));
    }
    if is_slow || is_narrow {
        let now = format!("{speed} GT/s x{width}");
        return (Some(true), Some(format!("training: {now}, both ends can do {wanted_speed} GT/s x{wanted_width}")));
    }
    let is_limited = port_speed < max_speed || port_width < max_width;
    (Some(false), is_limited.then(|| format!("port {port}: at most {port_speed} GT/s x{port_width}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(now: (f64, u32), max: (f64, u32)) -> Option<Link> {
        Some(Link {
            speed_gts: Some(now.0),
            width_lanes: Some(now.1),
            max_speed_gts: Some(max.0),
            max_width_lanes: Some(max.1),
            ..Link::default()
        })
    }

    fn at(address: &str, parent: Option<&str>, class_id: &str, link: Option<Link>) -> Function {
        Function {
            address: address.to_owned(),
            parent: parent.map(str::to_owned),
            class_id: class_id.to_owned(),
            link,
            ..Function::default()
        }
    }

    /// What is said of a device at a port.
    fn judged(port: Option<Link>, class_id: &str, device: Option<Link>) -> (Option<bool>, Option<String>) {
        let mut functions = [at("port", None, "060400", port), at("device", Some("port"), class_id, device)];
        judge(&mut functions);
        assert_eq!(functions[0].link.as_ref().and_then(|link| link.degraded), None);
        functions[1].link.clone().map(|link| (link.degraded, link.limited_by)).unwrap_or_default()
    }

    #[test]
    fn both_ends_decide() {
        let port = || link((8.0, 8), (16.0, 16));
        let (degraded, why) = judged(port(), "020000", link((8.0, 8), (16.0, 8)));
        assert_eq!(degraded, Some(true));
        assert_eq!(why.unwrap(), "training: 8 GT/s x8, both ends can do 16 GT/s x8");
        let (degraded, why) = judged(port(), "010802", link((16.0, 2), (16.0, 4)));
        assert_eq!((degraded, why.unwrap().contains("x2, ")), (Some(true), true));
        assert_eq!(judged(port(), "010802", link((8.0, 4), (8.0, 4))), (Some(false), None));
        let narrow = link((8.0, 4), (8.0, 4));
        let (degraded, why) = judged(narrow, "020000", link((8.0, 4), (16.0, 8)));
        assert_eq!((degraded, why.as_deref()), (Some(false), Some("port port: at most 8 GT/s x4")));
        assert_eq!(judged(None, "020000", link((2.5, 1), (16.0, 8))), (None, None));
        assert_eq!(judged(port(), "020000", None), (None, None));
    }

    #[test]
    fn idle_graphics_processors_are_not_degraded_but_narrow_ones_are() {
        let port = || link((2.5, 16), (16.0, 16));
        let (degraded, why) = judged(port(), "030000", link((2.5, 16), (16.0, 16)));
        assert_eq!((degraded, why.is_some()), (Some(false), true));
        assert_eq!(judged(port(), "030200", link((2.5, 8), (16.0, 16))).0, Some(true));
    }

    #[test]
    fn sound_and_switch_of_an_idle_graphics_card_are_not_degraded() {
        let idle = || link((2.5, 16), (16.0, 16));
        let mut functions = [
            at("0000:00:01.0", None, "060400", idle()),
            at("0000:01:00.0", Some("0000:00:01.0"), "060400", idle()),
            at("0000:02:00.0", Some("0000:01:00.0"), "060400", link((16.0, 16), (16.0, 16))),
            at("0000:03:00.0", Some("0000:02:00.0"), "030000", link((16.0, 16), (16.0, 16))),
            at("0000:00:02.0", None, "060400", idle()),
            at("0000:04:00.0", Some("0000:00:02.0"), "030000", idle()),
            at("0000:04:00.1", Some("0000:00:02.0"), "040300", idle()),
            at("0000:00:03.0", None, "060400", idle()),
            at("0000:05:00.0", Some("0000:00:03.0"), "060400", idle()),
            at("0000:06:00.0", Some("0000:05:00.0"), "060400", link((16.0, 16), (16.0, 16))),
            at("0000:07:00.0", Some("0000:06:00.0"), "030200", link((16.0, 16), (16.0, 16))),
        ];
        // The last one's switch is another maker's, which does not slow down.
        functions[10].vendor_id = "10de".to_owned();
        judge(&mut functions);
        let degraded = [1, 3, 5, 6, 8, 10].map(|at| functions[at].link.as_ref().unwrap().degraded.unwrap());
        assert_eq!(degraded, [false, false, false, false, true, false]);
    }

    #[test]
    fn the_inside_of_a_switch_is_no_link() {
        let mut functions = [
            at("root", None, "060400", link((16.0, 16), (16.0, 16))),
            at("up", Some("root"), "060400", link((8.0, 16), (16.0, 16))),
            at("down", Some("up"), "060400", link((8.0, 4), (16.0, 4))),
            at("disk", Some("down"), "010802", link((8.0, 4), (16.0, 4))),
        ];
        judge(&mut functions);
        let degraded = functions.map(|function| function.link.unwrap().degraded);
        assert_eq!(degraded, [None, Some(true), None, Some(true)]);
    }

    #[test]
    fn texts_of_kernels() {
        assert_eq!(["16.0 GT/s PCIe", "8 GT/s", "2.5 GT/s"].map(speed), [Some(16.0), Some(8.0), Some(2.5)]);
        assert_eq!(["Unknown", "Unknown speed", "", "inf", "-1"].map(speed), [None; 5]);
        assert_eq!(["0", "16", "63", "255", ""].map(width), [None, Some(16), None, None, None]);
    }
}

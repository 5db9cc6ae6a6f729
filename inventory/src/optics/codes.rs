//! Codes of modules (SFF-8024 rev 4.12). Pure.

/// Forms, by identifier (table 4-1).
const FORMS: [(u8, &str); 15] = [
    (0x03, "SFP"),
    (0x0b, "DWDM-SFP"),
    (0x0c, "QSFP"),
    (0x0d, "QSFP+"),
    (0x11, "QSFP28"),
    (0x18, "QSFP-DD"),
    (0x19, "OSFP"),
    (0x1a, "SFP-DD"),
    (0x1b, "DSFP"),
    (0x1e, "QSFP+ with CMIS"),
    (0x1f, "SFP-DD with CMIS"),
    (0x20, "SFP+ with CMIS"),
    (0x21, "OSFP-XD"),
    (0x22, "OIF-ELSFP"),
    (0x23, "CDFP"),
];
/// Connectors (table 4-3).
const CONNECTORS: [(u8, &str); 14] = [
    (0x01, "SC"),
    (0x07, "LC"),
    (0x08, "MT-RJ"),
    (0x0b, "optical pigtail"),
    (0x0c, "MPO 1x12"),
    (0x0d, "MPO 2x16"),
    (0x21, "copper pigtail"),
    (0x22, "RJ45"),
    (0x23, "none"),
    (0x24, "MXC 2x16"),
    (0x25, "CS"),
    (0x26, "SN"),
    (0x27, "MPO 2x12"),
    (0x28, "MPO 1x16"),
];
/// What sends, by its code (SFF-8636 table 6-18; CMIS table 8-33).
const TECHNOLOGIES: [&str; 16] = [
    "850 nm VCSEL",
    "1310 nm VCSEL",
    "1550 nm VCSEL",
    "1310 nm FP",
    "1310 nm DFB",
    "1550 nm DFB",
    "1310 nm EML",
    "1550 nm EML",
    "other",
    "1490 nm DFB",
    "unequalized copper",
    "passively equalized copper",
    "copper, equalized at both ends",
    "copper, equalized at the far end",
    "copper, equalized at the near end",
    "copper, linearly equalized",
];
/// Extended specification compliance (table 4-4).
const EXTENDED: [(u8, &str); 49] = [
    (0x01, "100G AOC or 25GAUI AOC"),
    (0x02, "100GBASE-SR4 or 25GBASE-SR"),
    (0x03, "100GBASE-LR4 or 25GBASE-LR"),
    (0x04, "100GBASE-ER4 or 25GBASE-ER"),
    (0x05, "100GBASE-SR10"),
    (0x06, "100G CWDM4"),
    (0x07, "100G PSM4"),
    (0x08, "100G ACC or 25GAUI ACC"),
    (0x0b, "100GBASE-CR4, 25GBASE-CR CA-25G-L or 50GBASE-CR2 with RS-FEC"),
    (0x0c, "25GBASE-CR CA-25G-S or 50GBASE-CR2 with BASE-R FEC"),
    (0x0d, "25GBASE-CR CA-25G-N or 50GBASE-CR2 without FEC"),
    (0x10, "40GBASE-ER4"),
    (0x11, "4 x 10GBASE-SR"),
    (0x12, "40G PSM4"),
    (0x16, "10GBASE-T"),
    (0x17, "100G CLR4"),
    (0x18, "100G AOC or 25GAUI AOC"),
    (0x19, "100G ACC or 25GAUI ACC"),
    (0x1a, "100GE-DWDM2"),
    (0x1b, "100G 1550nm WDM"),
    (0x1c, "10GBASE-T short reach"),
    (0x1d, "5GBASE-T"),
    (0x1e, "2.5GBASE-T"),
    (0x1f, "40G SWDM4"),
    (0x20, "100G SWDM4"),
    (0x21, "100G PAM4 BiDi"),
    (0x22, "4WDM-10"),
    (0x23, "4WDM-20"),
    (0x24, "4WDM-40"),
    (0x25, "100GBASE-DR"),
    (0x26, "100GBASE-FR1"),
    (0x27, "100GBASE-LR1"),
    (0x28, "100GBASE-SR1"),
    (0x29, "100GBASE-SR1, 200GBASE-SR2 or 400GBASE-SR4"),
    (0x2a, "100GBASE-FR1"),
    (0x2b, "100GBASE-LR1"),
    (0x30, "active copper cable with 50GAUI"),
    (0x31, "active optical cable with 50GAUI"),
    (0x32, "active copper cable with 50GAUI"),
    (0x33, "active optical cable with 50GAUI"),
    (0x3f, "100GBASE-CR1, 200GBASE-CR2 or 400GBASE-CR4"),
    (0x40, "50GBASE-CR, 100GBASE-CR2 or 200GBASE-CR4"),
    (0x41, "50GBASE-SR, 100GBASE-SR2 or 200GBASE-SR4"),
    (0x42, "50GBASE-FR or 200GBASE-DR4"),
    (0x43, "200GBASE-FR4"),
    (0x45, "50GBASE-LR"),
    (0x46, "200GBASE-LR4"),
    (0x47, "400GBASE-DR4"),
    (0x48, "400GBASE-FR4"),
];
/// Media interfaces of multi-mode fibre (table 4-6).
const MULTI_MODE: [(u8, &str); 20] = [
    (1, "10GBASE-SW"),
    (2, "10GBASE-SR"),
    (3, "25GBASE-SR"),
    (4, "40GBASE-SR4"),
    (5, "40GE SWDM4"),
    (6, "40GE BiDi"),
    (7, "50GBASE-SR"),
    (8, "100GBASE-SR10"),
    (9, "100GBASE-SR4"),
    (10, "100GE SWDM4"),
    (11, "100GE BiDi"),
    (12, "100GBASE-SR2"),
    (13, "100GBASE-SR1"),
    (14, "200GBASE-SR4"),
    (15, "400GBASE-SR16"),
    (16, "400GBASE-SR8"),
    (17, "400GBASE-SR4"),
    (18, "800GBASE-SR8"),
    (26, "400GBASE-SR4.2"),
    (27, "200GBASE-SR2"),
];
/// Media interfaces of single-mode fibre (table 4-7).
const SINGLE_MODE: [(u8, &str); 32] = [
    (1, "10GBASE-LW"),
    (2, "10GBASE-EW"),
    (3, "10G-ZW"),
    (4, "10GBASE-LR"),
    (5, "10GBASE-ER"),
    (6, "10G-ZR"),
    (7, "25GBASE-LR"),
    (8, "25GBASE-ER"),
    (9, "40GBASE-LR4"),
    (10, "40GBASE-FR"),
    (11, "50GBASE-FR"),
    (12, "50GBASE-LR"),
    (13, "100GBASE-LR4"),
    (14, "100GBASE-ER4"),
    (15, "100G PSM4"),
    (16, "100G CWDM4"),
    (17, "100G 4WDM-10"),
    (18, "100G 4WDM-20"),
    (19, "100G 4WDM-40"),
    (20, "100GBASE-DR"),
    (21, "100GBASE-FR1"),
    (22, "100GBASE-LR1"),
    (23, "200GBASE-DR4"),
    (24, "200GBASE-FR4"),
    (25, "200GBASE-LR4"),
    (26, "400GBASE-FR8"),
    (27, "400GBASE-LR8"),
    (28, "400GBASE-DR4"),
    (29, "400GBASE-FR4"),
    (30, "400GBASE-LR4-6"),
    (62, "400ZR"),
    (63, "400ZR, single wavelength"),
];
/// Media interfaces of BASE-T (table 4-10).
const TWISTED_PAIR: [(u8, &str); 4] = [(1, "1000BASE-T"), (2, "2.5GBASE-T"), (3, "5GBASE-T"), (4, "10GBASE-T")];

fn named(table: &[(u8, &str)], code: u8) -> Option<String> {
    table.iter().find(|(known, _)| *known == code).map(|(_, name)| (*name).to_owned())
}

/// The form of a module; the number for one that is not known.
pub(super) fn form(code: u8) -> String {
    named(&FORMS, code).unwrap_or_else(|| format!("identifier {code:02x}h"))
}

pub(super) fn technology(code: u8) -> Option<String> {
    TECHNOLOGIES.get(usize::from(code)).map(|name| (*name).to_owned())
}

pub(super) fn connector(code: u8) -> Option<String> {
    named(&CONNECTORS, code)
}

/// `None` for none; the number for one that is not known.
pub(super) fn extended(code: u8) -> Option<String> {
    (code != 0).then(|| named(&EXTENDED, code).unwrap_or_else(|| format!("extended code {code:02x}h")))
}

/// The media interface of a kind of media (CMIS 5.2, table 8-19).
pub(super) fn media(kind: u8, code: u8) -> Option<String> {
    let table: &[(u8, &str)] = match kind {
        1 => &MULTI_MODE,
        2 => &SINGLE_MODE,
        3 => return Some("passive copper cable".to_owned()),
        4 => return Some("active cable".to_owned()),
        5 => &TWISTED_PAIR,
        _ => return None,
    };
    (code != 0).then(|| named(table, code).unwrap_or_else(|| format!("media interface {code:02x}h")))
}

/// Names of the bits that are set, bit 7 first; an empty name is of none.
pub(super) fn bits(byte: u8, names: [&str; 8]) -> impl Iterator<Item = String> {
    let set = names.into_iter().enumerate().filter(move |(place, name)| !name.is_empty() && byte << place & 0x80 != 0);
    set.map(|(_, name)| name.to_owned())
}

//! The linker's map of a program (lld's `-Map`): which function or table lies where, and how long it is.

use std::collections::BTreeMap;

/// Crates of the toolchain. A function of theirs that is made for a type of another crate is counted to that one.
const STANDARD: [&str; 3] = ["core", "alloc", "std"];

/// Bytes in the program by the name of their crate. What no crate is known for goes by the kind of its section.
pub(crate) fn bytes_by_crate(map: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in map.lines() {
        // Address, address when loaded, length, alignment, and what was put in: FILE:(.SECTION). Other lines are of symbols, and of
        // sections of the program.
        let Some((numbers, section)) = line.split_once(":(.") else { continue };
        let mut words = numbers.split_whitespace();
        let (Some(address), _, Some(bytes), _) = (words.next(), words.next(), words.next(), words.next()) else {
            continue;
        };
        let (Some(address), Some(bytes)) = (hexadecimal(address), hexadecimal(bytes)) else { continue };
        let section = section.trim_end_matches(')');
        if address == 0 || bytes == 0 || !is_loaded(section) {
            continue;
        }
        let file = words.next_back().unwrap_or_default();
        *found.entry(owner(section, file)).or_insert(0) += bytes;
    }
    found
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

/// Whether the section takes room in the file, and is not about it.
fn is_loaded(section: &str) -> bool {
    let kinds = ["text", "rodata", "data", "eh_frame", "gcc_except_table", "tdata", "init_array", "got", "rel"];
    kinds.iter().any(|kind| section.starts_with(kind))
}

fn owner(section: &str, file: &str) -> String {
    if let Some(name) = section.split_once("_ZN").and_then(|(_, symbol)| legacy(symbol)) {
        return name;
    }
    if let Some(name) = section.split_once("_R").and_then(|(_, symbol)| modern(symbol)) {
        return name;
    }
    // C: an object in the library of the crate that brings it, or in one of the system.
    if let Some((library, _)) = file.rsplit_once(".rlib(") {
        let name = library.rsplit('/').next().unwrap_or(library);
        let name = name.strip_prefix("lib").unwrap_or(name);
        return name.split_once('-').map_or(name, |(name, _)| name).to_owned();
    }
    if let Some((library, _)) = file.rsplit_once(".a(") {
        return format!("[{}.a]", library.rsplit('/').next().unwrap_or(library));
    }
    format!("[{}]", section.split('.').next().unwrap_or(section))
}

/// The crate of a mangled path `4core3fmt…E`: of an implementation, the first crate that is not the toolchain's.
fn legacy(symbol: &str) -> Option<String> {
    let digits = symbol.len() - symbol.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let len: usize = symbol.get(..digits)?.parse().ok()?;
    let first = symbol.get(digits..digits.checked_add(len)?)?;
    if !first.contains('$') {
        return Some(first.to_owned());
    }
    let text = first.replace("..", "::");
    let paths = text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_' || char == ':'));
    let crates: Vec<_> = paths
        .filter_map(|path| path.split_once("::"))
        .map(|(name, _)| name.trim_start_matches('_'))
        .filter(|name| name.starts_with(|char: char| char.is_ascii_lowercase()))
        .collect();
    crates.iter().find(|name| !STANDARD.contains(name)).or(crates.first()).map(|name| (*name).to_owned())
}

/// The same of the newer mangling, where a crate is `Cs`, a hash, `_`, and its name behind its length.
fn modern(symbol: &str) -> Option<String> {
    let names = symbol.match_indices("Cs").filter_map(|(at, _)| {
        let (_, rest) = symbol.get(at..)?.split_once('_')?;
        let digits = rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let len: usize = rest.get(..digits)?.parse().ok()?;
        rest.get(digits..digits.checked_add(len)?)
    });
    let names: Vec<_> = names.collect();
    names.iter().find(|name| !STANDARD.contains(name)).or(names.first()).map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_belongs_to_a_crate() {
        let map = "\
             VMA              LMA     Size Align Out     In      Symbol
            1000             1000     5000     1 .text
            1000             1000      100     1         a.o:(.text._ZN5agent3cli3run17h0123456789abcdefE)
            1000             1000      100     1                 agent::cli::run
            1100             1100       20     1         a.o:(.text._ZN9inventory4read17h0123456789abcdefE)
            1200             1200       30     1         a.o:(.text._ZN66_$LT$alloc..vec..Vec$LT$api..host..Host$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0E)
            1300             1300       40     1         a.o:(.text._ZN73_$LT$core..option..Option$LT$T$GT$$u20$as$u20$core..fmt..Debug$GT$3fmt17h0E)
            1400             1400        5     1         a.o:(.text._RINvNtNtCsaz6eC2DG7lh_3std3sys9backtrace1)
            1500             1500      200    16         /x/libzstd_sys-0123.rlib(zstd.o):(.text)
            1700             1700       50    16         /x/libc.a(memcpy.lo):(.text)
            1800             1800       60     1         <internal>:(.rodata.str)
               0                0       70     1         a.o:(.debug_info)
               0                0       70     1         <internal>:(.comment)
";
        let expected = [
            ("[libc.a]", 0x50),
            ("[rodata]", 0x60),
            ("agent", 0x100),
            ("api", 0x30),
            ("core", 0x40),
            ("inventory", 0x20),
            ("std", 0x5),
            ("zstd_sys", 0x200),
        ];
        assert_eq!(bytes_by_crate(map), expected.map(|(name, bytes)| (name.to_owned(), bytes)).into());
    }
}

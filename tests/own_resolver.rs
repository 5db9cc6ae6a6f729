//! No part of the program asks the C library for the address of a name: musl's resolver gives up where a server refuses half of
//! the question.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

/// What a program takes from shared libraries, by its ELF dynamic symbol table's strings (System V gABI, figure 4-8).
fn imported(program: &[u8]) -> BTreeSet<&str> {
    const DYNAMIC_SYMBOLS: u32 = 11;
    let number = |at: usize, len: usize| {
        let bytes = program[at..at + len].iter().rev();
        bytes.fold(0usize, |number, byte| number << 8 | usize::from(*byte))
    };
    let (sections, size, count) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2));
    let section = |index: usize| sections + index * size;
    let place = |header: usize| (number(header + 0x18, 8), number(header + 0x20, 8));
    let is_dynamic = |header: &usize| number(header + 4, 4) == usize::try_from(DYNAMIC_SYMBOLS).unwrap();
    let symbols = (0..count).map(section).find(is_dynamic).expect("the test needs a dynamically linked program");
    let (names, _) = place(section(number(symbols + 0x28, 4)));
    let (at, len) = place(symbols);
    let name = |symbol: usize| {
        let start = names + number(symbol, 4);
        let end = start + program[start..].iter().position(|byte| *byte == 0).unwrap();
        std::str::from_utf8(&program[start..end]).unwrap()
    };
    (at..at + len).step_by(24).map(name).collect()
}

#[test]
fn the_c_library_is_not_asked_for_names() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_landfall")).unwrap();
    let imported = imported(&program);
    assert!(["poll", "connect", "getifaddrs"].iter().all(|used| imported.contains(used)), "{imported:?}");
    let asks =
        ["getaddrinfo", "gethostbyname", "gethostbyname_r", "gethostbyaddr", "getnameinfo", "res_query", "res_search"];
    let found: Vec<_> = asks.iter().filter(|name| imported.contains(*name)).collect();
    assert!(
        found.is_empty(),
        "{found:?}: something resolves names by the C library (ToSocketAddrs of a text, a ureq::Agent not made by \
         api::http); use resolve::Names, resolve::connect or api::http"
    );
}

#![no_main]

use netcheck::codec::lldp::Advertisement;

/// Chassis (a name), port (a name), time to live: without these three there is no advertisement.
const MANDATORY: [u8; 14] = [0x02, 0x03, 7, b's', b'w', 0x04, 0x03, 7, b'p', b'1', 0x06, 0x02, 0, 120];

// As it came, and behind the mandatory elements. No terminal is commanded by what is understood.
libfuzzer_sys::fuzz_target!(|payload: &[u8]| {
    check(payload);
    let whole = [&MANDATORY[..], payload].concat();
    assert!(Advertisement::parse(&whole).is_some());
    check(&whole);
});

fn check(payload: &[u8]) {
    let Some(found) = Advertisement::parse(payload) else { return };
    assert!(found.management_addresses.len() + found.vlans.len() <= payload.len() / 2);
    let names = found.vlans.iter().map(|vlan| &vlan.name).chain([&found.chassis.value, &found.port.value]);
    let texts = [&found.port_description, &found.system_name, &found.system_description];
    for text in names.chain(texts.into_iter().flatten()) {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

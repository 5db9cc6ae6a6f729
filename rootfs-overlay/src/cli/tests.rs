//! The command lines, as coreos-installer has them.

use super::*;
use clap::{CommandFactory, Parser};

#[derive(Debug, Parser)]
#[command(name = "test")]
enum Program {
    Iso(Iso),
    Pxe(Pxe),
    Dev(Dev),
    Pack(Pack),
}

#[test]
fn the_command_line_is_consistent() {
    Program::command().debug_assert();
}

#[test]
fn the_flags_are_those_of_coreos_installer() {
    for good in [
        "iso ignition embed -f -i a.ign -o - live.iso",
        "iso ignition embed --force --ignition-file a.ign --output b.iso live.iso",
        "iso ignition embed live.iso",
        "iso ignition show live.iso",
        "iso ignition remove -o b.iso live.iso",
        "iso embed -c a.ign -f live.iso",
        "iso show live.iso",
        "iso remove --output b.iso live.iso",
        "iso network embed -k a -k b --keyfile c -f live.iso -o -",
        "iso network extract -C d live.iso",
        "iso network extract --directory d live.iso",
        "iso network remove live.iso",
        "iso kargs modify -a a -d b -r a=b=c --append d --delete e --replace f=g=h -o x live.iso",
        "iso kargs reset live.iso",
        "iso kargs show -d live.iso",
        "iso kargs show --default live.iso",
        "iso customize --dest-ignition a --dest-device b --dest-console ttyS0 --dest-karg-append d --dest-karg-delete e \
         --network-keyfile f --network-nmstate g --ignition-ca h --pre-install i --post-install j --installer-config k \
         --live-ignition l --live-karg-append m --live-karg-delete n --live-karg-replace o=p=q -f -o r live.iso",
        "iso reset -o x live.iso",
        "iso extract pxe -o d live.iso",
        "iso extract pxe --output-dir d live.iso",
        "iso extract minimal-iso --output-rootfs a --rootfs-url b live.iso c",
        "iso extract minimal-iso live.iso",
        "pxe customize --dest-ignition a --live-ignition b -o c initrd",
        "pxe ignition wrap -i a -o b",
        "pxe ignition wrap",
        "pxe ignition unwrap",
        "pxe ignition unwrap a",
        "pxe network wrap -k a --keyfile b --output c",
        "pxe network unwrap -C d a",
        "dev show iso --ignition live.iso",
        "dev show iso --kargs live.iso",
        "dev show initrd - a b*",
        "dev extract initrd -v -C d initrd a",
        "pack minimal-iso --consume a b",
    ] {
        let words = std::iter::once("test").chain(good.split_whitespace());
        Program::try_parse_from(words).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    for bad in [
        "iso",
        "iso ignition",
        "iso ignition embed",
        "iso ignition show -o a live.iso",
        "iso ignition show a b",
        "iso network embed live.iso",
        "iso kargs show",
        "iso customize --dest-console tty9 live.iso",
        "iso customize --dest-device a --dest-device b live.iso",
        "iso extract minimal-iso",
        "pxe customize initrd",
        "pxe customize --live-karg-append a -o b initrd",
        "pxe network wrap",
        "dev show iso --ignition --kargs live.iso",
        "dev show initrd",
        "pack minimal-iso a",
    ] {
        let words = std::iter::once("test").chain(bad.split_whitespace());
        assert!(Program::try_parse_from(words).is_err(), "{bad}");
    }
}

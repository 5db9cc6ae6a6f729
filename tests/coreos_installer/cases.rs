//! The rows of commands.

/// What of an outcome may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Code,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Files, their permissions and content.
    Files,
}

/// Commands one after the other in the same directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Separated by `;`, their words by spaces, with `~` for a space inside of a word; `< FILE` is standard input.
    pub lines: &'static str,
    /// What differs from the released program, and why.
    pub differs: Option<(&'static [Part], &'static str)>,
}

impl Case {
    /// The files that are named, but those that are elsewhere.
    pub(crate) fn needs(&self) -> Vec<String> {
        let words = self.lines.split([' ', ';']).filter(|word| !word.is_empty() && !word.starts_with('/'));
        words.map(str::to_owned).collect()
    }
}

pub(crate) const fn same(lines: &'static str) -> Case {
    Case { lines, differs: None }
}

pub(crate) const fn but(parts: &'static [Part], reason: &'static str, lines: &'static str) -> Case {
    Case { lines, differs: Some((parts, reason)) }
}

const LOOKS: &str = "our help teaches more";

pub(crate) const CASES: &[Case] = &[
    // Ignition configs.
    same("iso ignition embed -i a.ign 2021.iso; iso ignition show 2021.iso; iso ignition remove 2021.iso"),
    same("iso ignition embed -i a.ign 2022.iso; iso ignition show 2022.iso; iso ignition remove 2022.iso"),
    same("iso ignition embed -i a.ign 2023.iso; iso ignition show 2023.iso; iso ignition remove 2023.iso"),
    same("iso ignition embed -i a.ign full.iso; iso ignition show full.iso; iso ignition remove full.iso"),
    // Landfall baked in changes nothing of all that.
    same("iso ignition embed -i a.ign baked.iso; iso ignition show baked.iso; iso ignition remove baked.iso"),
    same("iso kargs modify -a a=b baked.iso; iso kargs show baked.iso; iso kargs reset baked.iso"),
    same("iso network embed -k eth0.nmconnection baked.iso; iso network extract baked.iso; iso reset baked.iso"),
    same("iso customize --dest-device /dev/sda --live-karg-append a baked.iso; iso ignition show baked.iso"),
    same("iso extract pxe -o . baked.iso"),
    same("iso ignition embed -i a.ign plain.iso; iso ignition show plain.iso; iso reset plain.iso"),
    same("iso ignition embed 2023.iso < a.ign; iso ignition show 2023.iso"),
    same("iso ignition embed -i many.ign 2023.iso; iso ignition show 2023.iso"),
    same("iso ignition embed -i big.ign 2023.iso; iso ignition show 2023.iso"),
    same("iso ignition embed -i huge.ign 2023.iso"),
    same("iso ignition embed -i big.ign full.iso"),
    same("iso ignition embed -i a.ign 2023.iso; iso ignition embed -i b.ign 2023.iso; iso ignition show 2023.iso"),
    same(
        "iso ignition embed -i a.ign 2023.iso; iso ignition embed --force --ignition-file b.ign 2023.iso; iso ignition show 2023.iso",
    ),
    same("iso ignition embed -i a.ign -o new.iso 2023.iso; iso ignition show new.iso; iso ignition show 2023.iso"),
    same("iso ignition embed -i a.ign -o 2022.iso 2023.iso"),
    same("iso ignition embed -i a.ign -o none/new.iso 2023.iso"),
    same("iso ignition embed -i a.ign -o - 2023.iso"),
    same("iso ignition embed -i a.ign 2023.iso; iso ignition remove -o new.iso 2023.iso"),
    same("iso ignition embed -i a.ign 2023.iso; iso ignition remove -o - 2023.iso"),
    but(
        &[Part::Stderr],
        "we warn of what is not a config",
        "iso ignition embed -i butane.bu 2023.iso; iso ignition show 2023.iso",
    ),
    but(&[Part::Stderr], "we warn of what is not a config", "iso ignition embed 2023.iso; iso ignition show 2023.iso"),
    same("iso ignition show 2023.iso"),
    same("iso ignition remove 2023.iso"),
    same("iso ignition show missing.iso"),
    same("iso ignition embed -i missing.ign 2023.iso"),
    same("iso ignition show empty.iso"),
    same("iso ignition show zeros.iso"),
    same("iso ignition show cut.iso"),
    same("iso ignition show synthetic.iso"),
    same("iso ignition show a.ign"),
    same("iso ignition show mismatched.iso"),
    same("iso embed -c a.ign 2023.iso; iso show 2023.iso; iso remove 2023.iso"),
    same("iso embed --config a.ign -f -o - 2023.iso; iso show 2023.iso"),
    // Network settings.
    same("iso network embed -k eth0.nmconnection 2023.iso; iso network extract 2023.iso; iso network remove 2023.iso"),
    same(
        "iso network embed -k eth0.nmconnection -k bond0.nmconnection 2023.iso; iso network extract 2023.iso; iso network extract -C out 2023.iso",
    ),
    same("iso network embed -k eth0.nmconnection -k ./eth0.nmconnection 2023.iso"),
    same("iso network embed -k eth0.nmconnection 2021.iso"),
    same("iso network embed -k eth0.nmconnection 2022.iso"),
    same("iso network embed -k eth0.nmconnection plain.iso"),
    same("iso network embed -k missing.nmconnection 2023.iso"),
    same("iso network embed -k / 2023.iso"),
    same(
        "iso network embed -k eth0.nmconnection full.iso; iso network embed -k bond0.nmconnection full.iso; iso network extract full.iso",
    ),
    same(
        "iso network embed -k eth0.nmconnection full.iso; iso network embed -f -k bond0.nmconnection full.iso; iso network extract full.iso",
    ),
    same(
        "iso network embed -k eth0.nmconnection full.iso; iso ignition embed -i a.ign full.iso; iso network remove full.iso; iso ignition show full.iso",
    ),
    same(
        "iso network embed -k eth0.nmconnection -o new.iso full.iso; iso network extract -C . new.iso; iso network remove -o - new.iso",
    ),
    same("iso network extract 2023.iso"),
    same("iso network remove 2023.iso"),
    // Kernel arguments.
    same(
        "iso kargs show 2021.iso; iso kargs show --default 2021.iso; iso kargs modify -a quiet 2021.iso; iso kargs show 2021.iso; iso kargs reset 2021.iso",
    ),
    same(
        "iso kargs show 2022.iso; iso kargs show -d 2022.iso; iso kargs modify -a quiet 2022.iso; iso kargs show 2022.iso; iso kargs reset 2022.iso",
    ),
    same(
        "iso kargs show 2023.iso; iso kargs show -d 2023.iso; iso kargs modify -a quiet 2023.iso; iso kargs show 2023.iso; iso kargs reset 2023.iso",
    ),
    same(
        "iso kargs show full.iso; iso kargs modify -a a=b -a c~d -d ignition.firstboot full.iso; iso kargs show full.iso; iso kargs show -d full.iso",
    ),
    same(
        "iso kargs modify -r ignition.platform.id=metal=qemu full.iso; iso kargs show full.iso; iso kargs modify -d ignition.platform.id=qemu full.iso; iso kargs show full.iso",
    ),
    same("iso kargs modify -a x -a x -d x full.iso; iso kargs modify -d x full.iso; iso kargs show full.iso"),
    same("iso kargs modify --append a --delete b --replace c=d=e -o - full.iso"),
    same(
        "iso kargs modify -a a -o new.iso full.iso; iso kargs reset -o newer.iso new.iso; iso kargs show new.iso; iso kargs show newer.iso",
    ),
    same("iso kargs modify -r a full.iso"),
    same("iso kargs modify -r a=b=c=d full.iso"),
    same("iso kargs modify full.iso; iso kargs show full.iso"),
    same(
        "iso kargs modify -a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa full.iso",
    ),
    same("iso kargs show plain.iso"),
    same("iso kargs modify -a a plain.iso"),
    same("iso kargs show mismatched.iso"),
    same("iso kargs show synthetic.iso"),
    same("iso kargs modify -a a 2023.iso; iso ignition embed -i a.ign 2023.iso; iso reset 2023.iso"),
    same("iso kargs modify -a a full.iso; iso reset -o new.iso full.iso; iso reset -o - full.iso"),
    // Customizing.
    same("iso customize --dest-device /dev/sda full.iso; iso ignition show full.iso"),
    same("iso customize --dest-ignition a.ign full.iso; iso ignition show full.iso"),
    same("iso customize --dest-ignition b.ign --dest-device /dev/sda full.iso; iso ignition show full.iso"),
    same("iso customize --dest-ignition old.ign full.iso; iso ignition show full.iso"),
    same("iso customize --dest-ignition luks.ign full.iso; iso ignition show full.iso"),
    same("iso customize --dest-ignition many.ign full.iso; iso ignition show full.iso"),
    same("iso customize --dest-ignition big.ign 2023.iso; iso ignition show 2023.iso"),
    same("iso customize --dest-ignition a.ign --dest-ignition b.ign full.iso; iso ignition show full.iso"),
    same(
        "iso customize --dest-ignition unknown-key.ign --live-ignition unknown-key.ign full.iso; iso ignition show full.iso",
    ),
    same("iso customize --dest-ignition unknown-version.ign full.iso"),
    same("iso customize --dest-ignition bad-version.ign full.iso"),
    same("iso customize --dest-ignition bad-type.ign full.iso"),
    same("iso customize --live-ignition bad.ign full.iso"),
    same("iso customize --dest-ignition butane.bu full.iso"),
    same("iso customize --dest-ignition missing.ign full.iso"),
    same(
        "iso customize --dest-console ttyS0 --dest-console tty0 --dest-karg-append a=b --dest-karg-append 1 --dest-karg-delete quiet full.iso; iso ignition show full.iso",
    ),
    same(
        "iso customize --dest-karg-append console=ttyS0 --dest-karg-append console=ttyS1,115200n8 full.iso; iso ignition show full.iso",
    ),
    same("iso customize --dest-karg-append console=ttyS9z full.iso"),
    same("iso customize --dest-console ttyS0 2023.iso"),
    same("iso customize --dest-device /dev/sda 2021.iso"),
    same(
        "iso customize --network-keyfile eth0.nmconnection full.iso; iso network extract full.iso; iso ignition show full.iso",
    ),
    same(
        "iso customize --network-keyfile eth0.nmconnection --dest-device /dev/sda full.iso; iso network extract full.iso; iso ignition show full.iso",
    ),
    same("iso customize --network-keyfile eth0.nmconnection --network-keyfile ./eth0.nmconnection full.iso"),
    same("iso customize --network-keyfile eth0.nmconnection plain.iso"),
    same(
        "iso customize --network-nmstate nmstate.yaml --dest-device /dev/sda full.iso; iso network extract full.iso; iso ignition show full.iso",
    ),
    same("iso customize --network-nmstate nmstate.yaml --network-nmstate nmstate.yaml full.iso"),
    same("iso customize --network-nmstate bad-nmstate.yaml full.iso"),
    same("iso customize --network-nmstate missing.yaml full.iso"),
    same("iso customize --ignition-ca ca.pem full.iso; iso ignition show full.iso"),
    same("iso customize --ignition-ca ca.pem --dest-ignition a.ign full.iso; iso ignition show full.iso"),
    same("iso customize --pre-install pre.sh --post-install post.sh full.iso; iso ignition show full.iso"),
    same("iso customize --pre-install pre.sh --pre-install ./pre.sh full.iso"),
    same("iso customize --post-install missing.sh full.iso"),
    same(
        "iso customize --installer-config install.yaml --installer-config second.yaml full.iso; iso ignition show full.iso",
    ),
    same(
        "iso customize --installer-config install.yaml --installer-config install.yaml --dest-device /dev/vda full.iso; iso ignition show full.iso",
    ),
    same("iso customize --installer-config bad-install.yaml full.iso"),
    same("iso customize --installer-config a.ign full.iso"),
    same("iso customize --live-ignition a.ign --live-ignition b.ign full.iso; iso ignition show full.iso"),
    same(
        "iso customize --live-karg-append a --live-karg-delete ignition.firstboot --live-karg-replace ignition.platform.id=metal=qemu full.iso; iso kargs show full.iso; iso ignition show full.iso",
    ),
    same("iso customize --live-karg-append a plain.iso"),
    same("iso customize --live-karg-replace a full.iso"),
    same("iso customize full.iso"),
    same("iso customize 2023.iso; iso ignition embed -i a.ign 2023.iso; iso customize 2023.iso"),
    same("iso kargs modify -a a full.iso; iso customize --dest-device /dev/sda full.iso"),
    same(
        "iso kargs modify -a a full.iso; iso ignition embed -i a.ign full.iso; iso customize -f --dest-device /dev/sda full.iso; iso kargs show full.iso; iso ignition show full.iso",
    ),
    same("iso customize --dest-device /dev/sda -o new.iso full.iso; iso ignition show new.iso"),
    same("iso customize --dest-device /dev/sda --live-karg-append a -o - full.iso"),
    same(
        "iso customize --dest-ignition a.ign --dest-device /dev/sda --dest-console ttyS0,115200n8 --dest-karg-append a --dest-karg-delete b --network-keyfile eth0.nmconnection --network-nmstate nmstate.yaml --ignition-ca ca.pem --pre-install pre.sh --post-install post.sh --installer-config install.yaml --live-ignition b.ign --live-karg-append c -o new.iso full.iso; iso ignition show new.iso; iso network extract new.iso",
    ),
    same("iso customize --network-nmstate bond.yaml full.iso; iso network extract full.iso"),
    same("iso customize --network-nmstate a.ign full.iso; iso network extract full.iso"),
    same("iso customize --dest-console ttyS0 --dest-device~x full.iso"),
    same(
        "iso customize --dest-device /dev/disk/by-id/a:~b#c --dest-karg-append a:~b --dest-karg-append '' --dest-karg-append true full.iso; iso ignition show full.iso",
    ),
    same("iso customize --installer-config a.ign full.iso"),
    same("iso customize --installer-config empty.iso full.iso; iso ignition show full.iso"),
    same("iso customize --post-install empty.iso --ignition-ca empty.iso full.iso; iso ignition show full.iso"),
    same("pxe ignition wrap -i empty.iso -o new.img; pxe ignition unwrap new.img; dev show initrd new.img"),
    // Extraction, and what it is made of.
    same("iso extract pxe full.iso"),
    same("iso extract pxe -o out 2023.iso"),
    same("iso extract pxe --output-dir out 2021.iso; iso extract pxe --output-dir out 2021.iso"),
    same("iso extract pxe synthetic.iso"),
    same(
        "pack minimal-iso full.iso minimal.iso; iso extract minimal-iso full.iso new.iso; iso kargs show new.iso; iso kargs show -d new.iso; iso kargs modify -a x new.iso; iso kargs reset new.iso",
    ),
    same(
        "pack minimal-iso --consume full.iso minimal.iso; iso extract minimal-iso --rootfs-url https://a.example/rootfs.img --output-rootfs rootfs.img full.iso new.iso; iso kargs show new.iso",
    ),
    same("pack minimal-iso full.iso minimal.iso; iso extract minimal-iso full.iso"),
    same("pack minimal-iso full.iso minimal.iso; iso extract minimal-iso full.iso minimal.iso"),
    same("pack minimal-iso full.iso minimal.iso; iso extract minimal-iso --rootfs-url a~b full.iso new.iso"),
    same(
        "pack minimal-iso full.iso minimal.iso; iso kargs modify -a a full.iso; iso extract minimal-iso full.iso new.iso",
    ),
    same("pack minimal-iso no-miniso.iso minimal.iso"),
    but(
        &[Part::Files, Part::Stderr],
        "a description that doesn't fit is not begun, and all of it is what doesn't fit",
        "pack minimal-iso no-room.iso minimal.iso",
    ),
    same("iso extract minimal-iso 2023.iso new.iso"),
    same("iso extract minimal-iso no-miniso.iso new.iso"),
    same("iso extract minimal-iso full.iso new.iso"),
    same("iso extract minimal-iso plain.iso new.iso"),
    // PXE.
    same("pxe ignition wrap -i a.ign -o new.img; pxe ignition unwrap new.img; dev show initrd new.img"),
    same("pxe ignition wrap < many.ign"),
    same("pxe ignition wrap -i big.ign -o a.ign; pxe ignition unwrap < a.ign"),
    same("pxe ignition wrap -i missing.ign"),
    same("pxe ignition wrap -i a.ign -o none/new.img"),
    same("pxe ignition unwrap live-gzip.img"),
    same("pxe ignition unwrap garbage.img"),
    same("pxe ignition unwrap cut.img"),
    same("pxe ignition unwrap missing.img"),
    same(
        "pxe network wrap -k eth0.nmconnection -k bond0.nmconnection -o new.img; pxe network unwrap new.img; pxe network unwrap -C out new.img; dev show initrd new.img *bond*",
    ),
    same("pxe network wrap -k eth0.nmconnection -k ./eth0.nmconnection"),
    same("pxe network wrap -k eth0.nmconnection"),
    same("pxe network unwrap live-xz.img"),
    same("pxe customize --dest-device /dev/sda -o new.img live-plain.img; pxe ignition unwrap new.img"),
    same(
        "pxe customize --dest-ignition a.ign --network-keyfile eth0.nmconnection -o new.img live-gzip.img; pxe ignition unwrap new.img; pxe network unwrap new.img",
    ),
    same("pxe customize --live-ignition a.ign -o - live-xz.img"),
    same(
        "pxe customize --dest-console ttyS0 --pre-install pre.sh -o new.img live-zstd.img; pxe ignition unwrap new.img",
    ),
    same("pxe customize --network-keyfile eth0.nmconnection -o new.img live-plain.img"),
    same("pxe customize -o new.img live-plain.img"),
    but(
        &[Part::Stderr],
        "an output that exists is noticed before anything is done",
        "pxe customize --dest-device /dev/sda -o a.ign live-plain.img",
    ),
    same("pxe customize --dest-device /dev/sda -o new.img old-live.img"),
    same("pxe customize --live-ignition a.ign -o new.img old-live.img"),
    same("pxe customize --dest-device /dev/sda -o new.img other.img"),
    same("pxe customize --dest-device /dev/sda -o new.img garbage.img"),
    same("pxe customize --dest-device /dev/sda -o none/new.img live-plain.img"),
    same("pxe customize --dest-device /dev/sda -o new.img missing.img"),
    same(
        "pxe customize --live-ignition a.ign -o new.img live-plain.img; pxe customize --live-ignition a.ign -o newer.img new.img",
    ),
    same("iso extract minimal-iso no-room.iso new.iso"),
    // Paths that are other things.
    same("iso ignition embed -i a.ign -o / 2023.iso"),
    same("iso ignition embed -i a.ign -o . 2023.iso"),
    same("iso ignition embed -i a.ign -o a.ign/new.iso 2023.iso"),
    same("iso ignition show /"),
    same("iso ignition embed -i / 2023.iso"),
    same("iso ignition embed -i a.ign /"),
    same("iso network embed -k .. full.iso"),
    same("iso network embed -k eth0.nmconnection full.iso; iso network extract -C eth0.nmconnection full.iso"),
    same("iso extract pxe -o a.ign 2023.iso"),
    same("iso extract minimal-iso full.iso /"),
    same("iso extract minimal-iso --output-rootfs a.ign full.iso a.ign"),
    same("pxe ignition wrap -i a.ign -o /"),
    same("pxe customize -o / live-plain.img"),
    same("pxe customize -o new.img /"),
    same("pxe network unwrap /"),
    same("dev show initrd /"),
    same("dev show initrd missing.img"),
    same("dev extract initrd -C a.ign live-xz.img a.ign"),
    same("pack minimal-iso missing.iso full.iso"),
    same("pack minimal-iso full.iso missing.iso"),
    same("pack minimal-iso zeros.iso full.iso"),
    same(
        "pack osmet --checksum 0000000000000000000000000000000000000000000000000000000000000000 --description a~b --output new.osmet missing.img",
    ),
    // Development.
    same("dev show iso 2021.iso; dev show iso --ignition 2021.iso; dev show iso --kargs 2021.iso"),
    same("dev show iso 2022.iso; dev show iso --ignition 2022.iso; dev show iso --kargs 2022.iso"),
    same("dev show iso 2023.iso; dev show iso --ignition 2023.iso; dev show iso --kargs 2023.iso"),
    same("dev show iso full.iso; dev show iso --ignition full.iso; dev show iso --kargs full.iso"),
    same("dev show iso plain.iso; dev show iso --kargs plain.iso"),
    same("dev show iso synthetic.iso; dev show iso --kargs synthetic.iso"),
    same("dev show iso zeros.iso"),
    same("dev show initrd live-plain.img"),
    same("dev show initrd live-gzip.img"),
    same("dev show initrd - usr/* *.bin < live-zstd.img"),
    same("dev show initrd live-xz.img ***"),
    same("dev show initrd garbage.img"),
    same("dev extract initrd -v -C out live-xz.img"),
    same("dev extract initrd live-zstd.img etc/*"),
    same("dev extract initrd -C out live-gzip.img; dev extract initrd -C out live-gzip.img"),
    // Wrong usage.
    same("iso ignition embed"),
    same("iso ignition show 2023.iso 2022.iso"),
    same("iso ignition show -o a 2023.iso"),
    same("iso network embed 2023.iso"),
    same("iso kargs show"),
    same("iso kargs modify -a"),
    same("iso customize"),
    same("iso customize --dest-device a --dest-device b full.iso"),
    same("iso customize --dest-console tty9 full.iso"),
    same("iso customize --dest-console console=ttyS0 full.iso"),
    same("iso extract minimal-iso"),
    same("pxe customize live-plain.img"),
    same("pxe network wrap"),
    same("dev show iso --ignition --kargs 2023.iso"),
    same("pack minimal-iso full.iso"),
    same("pack osmet"),
    but(&[Part::Stderr], "our help is in our own words", "iso"),
    but(&[Part::Stderr], LOOKS, "iso ignition"),
    but(&[Part::Stderr], LOOKS, "pxe"),
    but(&[Part::Stdout], LOOKS, "iso kargs modify --help"),
];

//! A live ISO that knows nothing of landfall, baked, then handed out by the service as any other: the agent starts from what the real
//! Ignition merged of the fragment in the initrd and the config in the embed area.

#![allow(clippy::unwrap_used)]

mod common;

use common::{LIMIT, ok, turn};
use qemu_tests::{
    images::{Compression, Drivers, LiveIso, SectorSize, live_iso},
    media, paths,
    rack::{Rack, RackConfig},
    service,
};
use rootfs_overlay::{
    area::Output,
    bake::{
        content::{Content, Ingredients},
        iso::IsoFile,
        program::Program,
        splice,
    },
};
use std::{collections::BTreeMap, fs, path::Path};

/// The bare live ISO with the program under test in it.
fn baked(directory: &Path) -> Option<std::path::PathBuf> {
    let program = match Program::read(Some(&ok(service::binary()))) {
        Ok(program) => program,
        Err(error) => {
            testkit::skip::because(error);
            return None;
        }
    };
    let content = ok(Content::new(Ingredients {
        program,
        agent: true,
        service: None,
        ca_pem: None,
        agent_toml: None,
        rendezvous: BTreeMap::new(),
        rendezvous_options: None,
    }));
    let base = ok(live_iso(&LiveIso { drivers: Drivers::Cloud, ..LiveIso::default() }));
    let out = directory.join("baked.iso");
    let iso = ok(IsoFile::open(&base));
    ok(splice::write(&Output::NewFile(out.clone()), &ok(iso.baked(&content, None))));
    println!("{} bytes became {}", iso.base_bytes(), fs::metadata(&out).unwrap().len());
    Some(out)
}

#[test]
fn the_agent_of_a_baked_iso_registers_where_the_embedded_config_says() {
    let _turn = turn();
    let directory = tempfile::tempdir_in(paths::target_dir()).unwrap();
    let Some(iso) = baked(directory.path()) else { return };
    let image = ok(media::os_image(SectorSize::B512, Compression::Raw, Drivers::Cloud));
    let mut rack = ok(Rack::start(RackConfig::new("baked", 1, iso, image), Box::new(|_| Ok(()))));
    ok(rack.power_on());
    ok(rack.discover(LIMIT));
    let hosts = ok(rack.hosts());
    assert_eq!(hosts.len(), 1);
    println!("baked: registered {:.0} s after power-on", rack.elapsed().as_secs_f64());
}

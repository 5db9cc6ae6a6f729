//! A live ISO that knows nothing of landfall, baked, then handed out by the service as any other: the agent starts from what the real
//! Ignition merged of the fragment in the initrd and the config in the embed area.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{LIMIT, ok, turn};
use qemu_tests::{
    images::{Compression, Drivers, LiveIso, SectorSize},
    media, paths,
    rack::{Rack, RackConfig},
    service,
};
use rootfs_overlay::bake::program::Program;

#[test]
fn the_agent_of_a_baked_iso_registers_where_the_embedded_config_says() {
    let _turn = turn();
    let directory = tempfile::tempdir_in(paths::target_dir()).unwrap();
    let program = ok(service::binary());
    if let Err(error) = Program::read(Some(&program)) {
        return testkit::skip::because(error);
    }
    let iso = common::bake(&LiveIso::default(), &program, directory.path());
    let image = ok(media::os_image(SectorSize::B512, Compression::Raw, Drivers::Cloud));
    let mut rack = ok(Rack::start(RackConfig::new("baked", 1, iso, image), Box::new(|_| Ok(()))));
    ok(rack.power_on());
    ok(rack.discover(LIMIT));
    let hosts = ok(rack.hosts());
    assert_eq!(hosts.len(), 1);
    println!("baked: registered {:.0} s after power-on", rack.elapsed().as_secs_f64());
}

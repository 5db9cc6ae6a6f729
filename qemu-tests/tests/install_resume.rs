//! The image's server goes away while a machine writes, and comes back.

mod common;

use api::HostStage;
use common::{LIMIT, finish_installation, ok, rack, start_installation, turn};
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media,
    switch::Link,
    view::HostView,
    vm::Firmware,
};
use std::{thread::sleep, time::Duration};

#[test]
fn half_an_image_is_not_fetched_twice() {
    let _turn = turn();
    let mut rack = rack("resume", 1, Firmware::Bios, SectorSize::B512, Compression::Gzip);
    let image_bytes = ok(ok(media::os_image(SectorSize::B512, Compression::Gzip, Drivers::Cloud)).metadata()).len();
    ok(rack.discover(LIMIT));
    start_installation(&mut rack);
    // Slow enough that the middle can't be missed.
    let slow = Link { delay: Duration::from_millis(10), ..Link::default() };
    rack.switch().set_port(rack.uplink_port(), slow);
    let half = |view: &HostView| view.written().is_some_and(|percent| percent >= 50);
    let past = |view: &HostView| matches!(view.stage, Some(HostStage::Rebooting | HostStage::Joined | HostStage::Done));
    ok(rack.wait("half of the image on the disk", LIMIT, |views| views.iter().any(|view| half(view) || past(view))));
    let views = ok(rack.views());
    assert_eq!(
        views[0].stage,
        Some(HostStage::WritingImageToDisk),
        "the image was written before the server could be stopped"
    );
    ok(rack.service().kill());
    let before = rack.switch().counters(rack.uplink_port()).received_bytes;
    rack.switch().heal();
    sleep(Duration::from_secs(20));
    ok(rack.service().restart());
    // Later the installed system fetches other things.
    ok(rack.wait("the rest on the disk", LIMIT, |views| views.iter().any(past)));
    let fetched_after = rack.switch().counters(rack.uplink_port()).received_bytes - before;
    assert!(
        fetched_after < image_bytes * 3 / 4,
        "{fetched_after} bytes came after half of an image of {image_bytes} was there: it was fetched from its start again"
    );
    finish_installation(&mut rack);
    println!(
        "resume: {:.0} s, {fetched_after} of {image_bytes} bytes after the interruption",
        rack.elapsed().as_secs_f64()
    );
}

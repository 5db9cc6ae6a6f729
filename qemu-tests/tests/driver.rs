//! The driver, the switch and the uplink under real guests: a busybox in an initramfs, started without a boot loader.

#[path = "common/tiny.rs"]
mod tiny;

use api::Mac;
use qemu_tests::{
    paths,
    switch::Switch,
    uplink::{HOST, Uplink},
    vm::{Bus, DirectKernel, Disk, Vm, VmError},
};
use std::{
    io::{Read, Write},
    net::TcpListener,
    time::{Duration, Instant},
};

/// Fifty times what a boot takes under TCG on a busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(600);

#[test]
fn a_machine_has_the_hardware_asked_for_and_reboots_and_ends() {
    let began = Instant::now();
    let dir = paths::scratch_dir().unwrap();
    // The first boot marks the disk; the second sees the mark.
    let init = r#"
        modprobe -a virtio_blk
        echo "@@ identity uuid=$(cat /sys/class/dmi/id/product_uuid) serial=$(cat /sys/class/dmi/id/product_serial)"
        for d in vda vdb; do q=/sys/block/$d
            echo "@@ disk $d serial=$(cat $q/serial) sector=$(cat $q/queue/logical_block_size) sectors=$(cat $q/size)"; done
        case "$(head -c 4 /dev/vda)" in
            mark) echo "@@ second boot"; poweroff -f;;
            *) echo "@@ first boot"; printf mark | dd of=/dev/vda conv=fsync 2>/dev/null; reboot -f;;
        esac"#;
    let disk = |name: &str, sector_bytes| Disk {
        path: dir.path().join(name),
        size_bytes: 64 << 20,
        serial: name.to_uppercase(),
        sector_bytes,
        bus: Bus::Virtio,
    };
    let mut vm = Vm::builder("driver", "hardware")
        .memory_mib(256)
        .kernel(kernel(dir.path(), init))
        .identity("11223344-5566-7788-99aa-bbccddeeff00", "SER-1")
        .disk(disk("small", 512))
        .disk(disk("large", 4096))
        .start()
        .unwrap();
    let identity = vm.wait_for("identity", BOOT_LIMIT).unwrap();
    assert_eq!(identity.value("uuid"), Some("11223344-5566-7788-99aa-bbccddeeff00"));
    assert_eq!(identity.value("serial"), Some("SER-1"));
    for (name, serial, sector) in [("vda", "SMALL", "512"), ("vdb", "LARGE", "4096")] {
        let disk = vm.wait_for(&format!("disk {name}"), BOOT_LIMIT).unwrap();
        assert_eq!(
            (disk.value("serial"), disk.value("sector"), disk.value("sectors")),
            (Some(serial), Some(sector), Some("131072"))
        );
    }
    let (first, _) = vm.wait_for_after(0, "first boot", BOOT_LIMIT).unwrap();
    let (second, _) = vm.wait_for_after(first, "identity", BOOT_LIMIT).unwrap();
    assert!(second > first);
    vm.wait_for("second boot", BOOT_LIMIT).unwrap();
    vm.wait_end(BOOT_LIMIT).unwrap();
    // A clean end does not replace a missing marker.
    let error = vm.wait_for("third boot", BOOT_LIMIT).unwrap_err();
    assert!(matches!(error, VmError::Ended { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("second boot") && text.contains("driver/hardware.log"), "{text}");
    println!("driver, one machine: {:.1} s", began.elapsed().as_secs_f64());
}

#[test]
fn a_missed_timer_is_cured_by_one_new_start() {
    let dir = paths::scratch_dir().unwrap();
    // What the kernel would say, on every boot until the disk has as many marks as `patience`.
    let init = |patience: usize| {
        format!(
            r#"
            modprobe -a virtio_blk
            marks=$(head -c 8 /dev/vda | tr -d '\000')
            echo "@@ marks $marks"
            [ ${{#marks}} -lt {patience} ] || {{ echo "@@ up"; exec sleep 1000; }}
            printf "${{marks}}x" | dd of=/dev/vda conv=fsync 2>/dev/null
            echo "Kernel panic - not syncing: IO-APIC + timer doesn't work!"; exec sleep 1000"#
        )
    };
    let start = |name: &str, patience| {
        let disk = Disk {
            path: dir.path().join(name),
            size_bytes: 1 << 20,
            serial: "D".into(),
            sector_bytes: 512,
            bus: Bus::Virtio,
        };
        Vm::builder("driver", name)
            .memory_mib(256)
            .kernel(kernel(dir.path(), &init(patience)))
            .disk(disk)
            .start()
            .unwrap()
    };
    start("timer-once", 1).wait_for("up", BOOT_LIMIT).unwrap();
    let error = start("timer-twice", 2).wait_for("up", BOOT_LIMIT).unwrap_err();
    assert!(matches!(error, VmError::Panicked { .. }), "{error}");
}

#[test]
fn machines_share_a_segment_with_addresses_a_gateway_and_cables_that_can_be_cut() {
    let began = Instant::now();
    let dir = paths::scratch_dir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    // The two guests get .15 and .16, in whichever order; each pings both and so the other.
    let init = format!(
        r#"
        modprobe -a virtio_net
        ip link set lo up; ip link set eth0 up
        udhcpc -i eth0 -q -f -n -t 20 -T 1 -s /dhcp >/dev/null 2>&1
        echo "@@ address $(ip -4 -o addr show dev eth0 | awk '{{print $4}}')"
        echo "@@ fetched $(wget -q -O - http://{HOST}:{port}/)"
        other=10.0.2.15; ip addr show dev eth0 | grep -q 'inet 10.0.2.15/' && other=10.0.2.16
        was=; n=0
        while :; do
            now=unreachable; ping -c 1 -W 1 $other >/dev/null 2>&1 && now=reachable
            [ "$now" = "$was" ] || {{ echo "@@ peer $now"; was=$now; }}
            up=$(cat /sys/class/net/eth0/carrier); [ "$up" = "$carrier" ] || {{ echo "@@ carrier $up"; carrier=$up; }}
            usleep 200000
        done"#
    );
    let kernel = kernel(dir.path(), &init);
    let switch = Switch::start(1).unwrap();
    let mut uplink = Uplink::start(&switch, &paths::log_dir("driver").unwrap()).unwrap();
    let ports = ["a", "b"].map(|name| switch.add_port(name).unwrap());
    let mut vms = ["a", "b"].map(|name| {
        let number = u8::from(name == "b");
        Vm::builder("driver", format!("segment-{name}"))
            .memory_mib(256)
            .kernel(kernel.clone())
            .nic(Mac([0x52, 0x54, 0, 0, 0, number]), switch.port_path(ports[usize::from(number)]))
            .start()
            .unwrap()
    });
    let mut addresses = Vec::new();
    for vm in &mut vms {
        addresses.push(vm.wait_for("address", BOOT_LIMIT).unwrap().text);
        assert_eq!(vm.wait_for("fetched", BOOT_LIMIT).unwrap().text, "fetched hello");
    }
    addresses.sort();
    assert_eq!(addresses, ["address 10.0.2.15/24", "address 10.0.2.16/24"]);
    let mut from = [0; 2];
    let mut both = |vms: &mut [Vm; 2], wanted: &str| {
        for (vm, from) in vms.iter_mut().zip(&mut from) {
            *from = vm.wait_for_after(*from, wanted, BOOT_LIMIT).unwrap().0;
        }
    };
    both(&mut vms, "peer reachable");
    switch.partition(&ports[..1], &ports[1..]);
    both(&mut vms, "peer unreachable");
    assert!(ports.iter().any(|port| switch.counters(*port).cut > 0));
    switch.heal();
    both(&mut vms, "peer reachable");
    assert_eq!(vms[0].status().unwrap(), "running");
    vms[0].set_link(0, false).unwrap();
    vms[0].wait_for("carrier 0", BOOT_LIMIT).unwrap();
    vms[0].set_link(0, true).unwrap();
    both(&mut vms, "peer reachable");
    vms[0].quit().unwrap();
    assert!(vms[0].wait_end(BOOT_LIMIT).unwrap().success());
    assert!(matches!(vms[0].check(), Err(VmError::Ended { .. })));
    uplink.check().unwrap();
    println!("driver, segment of two machines: {:.1} s", began.elapsed().as_secs_f64());
}

fn kernel(dir: &std::path::Path, init: &str) -> DirectKernel {
    let (kernel, initrd) = tiny::build(dir, init);
    DirectKernel {
        kernel,
        initrd,
        arguments: "console=ttyS0 quiet panic=-1 no_timer_check tsc=unstable cryptomgr.notests".into(),
    }
}

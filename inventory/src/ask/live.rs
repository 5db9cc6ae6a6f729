//! Questions to the running system: interfaces of the tests' own as `ethtool` sees them, and devices that can't answer.

use super::{Cxl, MegaRaid, Mpt, Question, SmartArray, SmartLog};
use crate::{Root, ethnl, ethtool, optics};
use kernel::{ethnl::Get, order::Gather};
use nix::sched::{CloneFlags, unshare};
use std::{
    collections::BTreeMap,
    io,
    process::{Command, Stdio},
    thread,
};

/// Runs in its own network namespace, where `pair0` and `pair1` are a virtual cable and `tap0` is a tap device. It ends
/// with the thread.
fn in_namespace(test: fn(&Root)) {
    let exists = |tool: &str| Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !testkit::skip::unless("root and ethtool", nix::unistd::geteuid().is_root() && exists("ethtool").is_ok()) {
        return;
    }
    let inside = move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        run("ip", "link add pair0 type veth peer name pair1");
        run("ip", "tuntap add dev tap0 mode tap");
        test(&Root::open("/").unwrap());
    };
    thread::spawn(inside).join().unwrap();
}

fn run(tool: &str, arguments: &str) -> String {
    let done = Command::new(tool).args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "{tool} {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Its lines of a name, a colon and a value.
fn ethtool_fields(arguments: &str) -> BTreeMap<String, String> {
    let shown = run("ethtool", arguments);
    let line = |line: &str| line.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    shown.lines().filter_map(line).gather()
}

#[test]
fn drivers_are_those_of_ethtool() {
    in_namespace(|root| {
        for name in ["pair0", "tap0", "lo"] {
            let Ok(reply) = root.ask(&Question::Driver { interface: name.to_owned() }) else {
                assert_eq!(name, "lo", "the loopback device alone has no driver");
                continue;
            };
            let (found, printed) = (ethtool::parse_driver(&reply), ethtool_fields(&format!("-i {name}")));
            assert_eq!(found.name.as_deref(), Some(printed["driver"].as_str()));
            let empty_or = |text: Option<String>| text.unwrap_or_default();
            assert_eq!(empty_or(found.version), printed["version"], "{name}");
            assert_eq!(empty_or(found.firmware), printed["firmware-version"].replace("N/A", ""), "{name}");
        }
    });
}

#[test]
fn features_are_those_of_ethtool() {
    in_namespace(|root| {
        run("ethtool", "-K pair0 gro off tx-nocache-copy on");
        for name in ["pair0", "tap0", "lo"] {
            let names = root.ask(&Question::FeatureNames { interface: name.to_owned() }).unwrap();
            let states = root.ask(&Question::Features { interface: name.to_owned() }).unwrap();
            let features = ethtool::parse_features(&names, &states);
            let printed = ethtool_fields(&format!("-k {name}"));
            // The tool has its own names for what it also sums up.
            let own = [
                ("rx-gro", "generic-receive-offload"),
                ("tx-generic-segmentation", "generic-segmentation-offload"),
                ("rx-lro", "large-receive-offload"),
                ("rx-hashing", "receive-hashing"),
                ("rx-ntuple-filter", "ntuple-filters"),
                ("tx-vlan-hw-insert", "tx-vlan-offload"),
                ("rx-vlan-hw-parse", "rx-vlan-offload"),
                ("rx-checksum", "rx-checksumming"),
            ];
            let mut compared = 0;
            for feature in &features {
                let theirs =
                    own.iter().find(|(kernel, _)| *kernel == feature.name).map_or(&*feature.name, |(_, tool)| tool);
                let Some(printed) = printed.get(theirs) else { continue };
                let state = if feature.is_on { "on" } else { "off" };
                assert_eq!(printed.split(' ').next(), Some(state), "{name}: {}", feature.name);
                assert_eq!(printed.contains("[fixed]"), feature.is_fixed, "{name}: {}: {printed}", feature.name);
                compared += 1;
            }
            assert!(features.len() > 40 && compared > features.len() - 5, "{compared} of {}", features.len());
            let of = |feature: &str| features.iter().find(|f| f.name == feature).map(|f| f.is_on);
            assert_eq!(of("rx-gro"), Some(name != "pair0"));
        }
    });
}

#[test]
fn links_and_permanent_addresses() {
    in_namespace(|root| {
        let settings = root.ask(&Question::LinkSettings { interface: "pair0".to_owned() }).unwrap();
        let settings = ethtool::parse_link_settings(&settings).unwrap();
        let printed = ethtool_fields("pair0");
        assert_eq!((settings.duplex, printed["Duplex"].as_str()), (Some("full"), "Full"));
        assert_eq!((settings.port, printed["Port"].as_str()), (Some("twisted pair"), "Twisted Pair"));
        assert_eq!((settings.is_autonegotiating, printed["Auto-negotiation"].as_str()), (Some(false), "off"));
        let address = root.ask(&Question::PermanentAddress { interface: "pair0".to_owned() }).unwrap();
        assert_eq!(ethtool::parse_address(&address), None, "{}", run("ethtool", "-P pair0"));
        let flags = root.ask(&Question::PrivateFlagNames { interface: "pair0".to_owned() });
        assert!(flags.is_err(), "{flags:?}");
    });
}

#[test]
fn messages_of_ethtool_are_understood() {
    in_namespace(|root| {
        run("ip", "link set pair0 up");
        let ask = |what| root.ask(&Question::Ethtool { interface: "pair0".to_owned(), what });
        // A virtual cable has neither speeds nor counters, but its driver answers.
        assert_eq!(ethnl::parse_link_modes(&ask(Get::LinkModes).unwrap()), ethnl::LinkModes::default());
        assert_eq!(ethnl::parse_link_state(&ask(Get::LinkState).unwrap()).down_reason, None);
        assert_eq!(ethnl::parse_errors(&ask(Get::Statistics).unwrap()).len(), 0);
        for refused in
            [ask(Get::Fec), root.ask(&Question::ModulePage { interface: "pair0".to_owned(), page: optics::FIRST })]
        {
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        }
        let interface = "none0".to_owned();
        let error = root.ask(&Question::Ethtool { interface, what: Get::LinkModes }).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    });
}

#[test]
fn a_leaf_that_no_processor_has() {
    let root = Root::open("/").unwrap();
    let ask = |leaf| root.ask(&Question::Cpuid { leaf, subleaf: 0 });
    assert_eq!(ask(0x0fff_ffff).unwrap_err().kind(), io::ErrorKind::Unsupported);
    assert_eq!(ask(0).is_ok_and(|registers| registers.len() == 16), cfg!(target_arch = "x86_64"));
}

#[test]
fn what_is_no_such_device_refuses() {
    let root = Root::open("/").unwrap();
    for disk in ["loop0", "zram0", "no-such-disk", "null", "../sda", "megaraid9999.1", ""] {
        let disk = || disk.to_owned();
        for question in [
            Question::ScsiPage { disk: disk(), page: 0x83 },
            Question::ScsiLog { disk: disk(), page: 0 },
            Question::ScsiDefects { disk: disk() },
            Question::EnclosurePage { node: disk(), page: 1 },
            Question::SmartArray { node: disk(), ask: SmartArray::Controller },
            Question::MegaRaid { host: 9999, ask: MegaRaid::Controller },
            Question::Mpt { generation: 3, adapter: 9999, ask: Mpt::Volumes },
            Question::Cxl { memory: disk(), ask: Cxl::Health },
            // A register that is not on the list.
            Question::Register { number: 0x1b },
            Question::AtaIdentify { disk: disk() },
            Question::AtaSmartData { disk: disk() },
            Question::AtaSmartThresholds { disk: disk() },
            Question::AtaSmartLog { disk: disk(), log: SmartLog::Errors },
            Question::NvmeController { controller: disk() },
            Question::NvmeHealth { controller: disk() },
            Question::TpmNv { tpm: disk(), index: 1 },
            Question::TpmPublic { tpm: format!("tpm{}", disk()), handle: 1 },
        ] {
            let error = root.ask(&question).unwrap_err();
            assert_ne!(error.kind(), io::ErrorKind::TimedOut, "{question:?}: {error}");
        }
    }
    for interface in ["", "lo\0", "a-name-that-is-far-too-long", "none0"] {
        let error = root.ask(&Question::Driver { interface: interface.to_owned() }).unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::TimedOut, "{interface}: {error}");
    }
}

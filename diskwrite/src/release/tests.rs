//! Trees as sysfs has them, and a kernel that takes apart what it is told to, if it may.

use super::calls::Opener;
use super::mapper::Mapped;
use super::*;
use kernel::Cancel;
use kernel::{
    DevNumber,
    block::{LoopDevice, Usage},
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::symlink,
};

/// `(name, number)` of disks and partitions, below `devices/`.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// `sda3` is below `sda` when both are told as `sda/sda3`.
    fn dir(&self, path: &str) -> PathBuf {
        self.0.path().join("devices").join(path)
    }

    fn put(&self, path: &str, file: &str, text: &str) -> &Self {
        let path = self.dir(path).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn disk(&self, path: &str, number: &str) -> &Self {
        self.put(path, "dev", number);
        if let Some((_, part)) = path.split_once('/') {
            let digits = part.trim_start_matches(|c: char| !c.is_ascii_digit()).rsplit('p').next().unwrap();
            self.put(path, "partition", digits);
        }
        self
    }

    fn on(&self, path: &str, slaves: &[&str]) -> &Self {
        for slave in slaves {
            for (dir, kind, to) in [(*slave, "holders", path), (path, "slaves", *slave)] {
                let links = self.dir(dir).join(kind);
                fs::create_dir_all(&links).unwrap();
                symlink(self.dir(to), links.join(to.rsplit('/').next().unwrap())).unwrap();
            }
        }
        self
    }

    fn mapped(&self, path: &str, number: &str, name: &str, uuid: &str, slaves: &[&str]) -> &Self {
        self.disk(path, number).put(path, "size", "2048\n");
        self.put(path, "dm/name", name).put(path, "dm/uuid", uuid).on(path, slaves)
    }

    fn array(&self, path: &str, number: &str, slaves: &[&str]) -> &Self {
        self.disk(path, number).put(path, "md/array_state", "clean\n").on(path, slaves)
    }

    fn kernel(&self) -> Fake<'_> {
        Fake { tree: self, state: RefCell::default() }
    }

    fn down(&self, disk: &str, kernel: &Fake<'_>) -> Result<Vec<String>, ReleaseError> {
        let read = || Stack::read(&live(), &self.dir(disk));
        let done = take_down(Path::new("/dev/x"), &read, kernel, &Cancel::default())?;
        Ok(done.iter().map(Takedown::to_string).collect())
    }

    /// What `down` takes, in order, by kernel names.
    fn order(&self, disk: &str) -> Vec<String> {
        let read = || Stack::read(&live(), &self.dir(disk));
        let kernel = self.kernel();
        let done = take_down(Path::new("/dev/x"), &read, &kernel, &Cancel::default()).unwrap();
        assert_eq!(kernel.state.borrow().log, done.iter().map(|step| step.device.clone()).collect::<Vec<_>>());
        done.into_iter().map(|step| step.device).collect()
    }

    fn exists(&self, path: &str) -> bool {
        self.dir(path).exists()
    }
}

#[derive(Default)]
struct State {
    mounts: String,
    swaps: String,
    nodes: BTreeMap<PathBuf, DevNumber>,
    loops: Vec<LoopDevice>,
    openers: Vec<Opener>,
    claimed: BTreeSet<String>,
    /// Opens of mapped devices but those by their holders.
    open: BTreeMap<String, u32>,
    stubborn: BTreeSet<String>,
    /// How many looks until all that is open is not any more.
    opens_end: Option<u32>,
    /// Devices that were made to fail, in order.
    cut: Vec<String>,
    /// Devices whose contents were erased, in order.
    forgotten: Vec<String>,
    /// Devices that went, in order.
    log: Vec<String>,
    pauses: u32,
    /// What arrays are after so many pauses.
    rest_after: u32,
}

struct Fake<'a> {
    tree: &'a Tree,
    state: RefCell<State>,
}

impl Fake<'_> {
    /// As the kernel, which takes down only what nothing lies on.
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
        if self.state.borrow().stubborn.contains(&name) {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let dirs = fs::read_dir(dir)
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.join("partition").exists());
        for part in dirs.chain([dir.to_owned()]) {
            assert_eq!(fs::read_dir(part.join("holders")).map_or(0, Iterator::count), 0, "something is on {name}");
        }
        for slave in fs::read_dir(dir.join("slaves")).unwrap().flatten() {
            fs::remove_file(fs::canonicalize(slave.path()).unwrap().join("holders").join(&name)).unwrap();
        }
        fs::remove_dir_all(dir).unwrap();
        self.state.borrow_mut().log.push(name);
        Ok(())
    }
}

impl Kernel for Fake<'_> {
    fn usage(&self) -> io::Result<Usage> {
        let State { mounts, swaps, loops, .. } = &*self.state.borrow();
        Ok(Usage { mountinfo: mounts.clone(), swaps: swaps.clone(), loops: loops.clone(), members: Vec::new() })
    }

    fn number_of(&self, path: &Path) -> Option<DevNumber> {
        self.state.borrow().nodes.get(path).copied()
    }

    fn openers(&self, numbers: &BTreeSet<DevNumber>) -> Vec<Opener> {
        let state = self.state.borrow();
        let end = state.opens_end.is_some_and(|looks| state.pauses >= looks);
        state.openers.iter().filter(|opener| !end && numbers.contains(&opener.number)).cloned().collect()
    }

    fn is_claimed(&self, name: &str, _: DevNumber) -> bool {
        self.state.borrow().claimed.contains(name)
    }

    fn open_count(&self, device: &Mapped) -> io::Result<u32> {
        let holders = fs::read_dir(self.tree.dir(&format!("dm-{}", device.number.minor)).join("holders"));
        let holders = u32::try_from(holders.map_or(0, Iterator::count)).unwrap();
        Ok(holders + self.state.borrow().open.get(&device.name).copied().unwrap_or_default())
    }

    fn cut(&self, device: &Mapped, sectors: u64) -> io::Result<bool> {
        assert_eq!(sectors, 2048);
        let mut state = self.state.borrow_mut();
        assert!(state.log.is_empty(), "something wrote before it was cut off");
        state.cut.push(device.name.clone());
        if device.name == "stuck" { Err(io::Error::from_raw_os_error(libc::EBUSY)) } else { Ok(true) }
    }

    fn forget_contents(&self, name: &str, _: DevNumber) -> io::Result<()> {
        self.state.borrow_mut().forgotten.push(name.to_owned());
        Ok(())
    }

    fn remove(&self, device: &Mapped) -> io::Result<()> {
        self.remove_dir(&self.tree.dir(&format!("dm-{}", device.number.minor)))
    }

    fn write(&self, attribute: &Path, value: &str) -> io::Result<()> {
        let dir = attribute.parent().unwrap().parent().unwrap();
        match attribute.file_name().unwrap().to_str().unwrap() {
            "array_state" => assert_eq!(value, "clear"),
            "stop" => assert_eq!(value, "1"),
            other => panic!("{other}"),
        }
        self.remove_dir(dir)
    }

    fn pause(&self, _: Duration) {
        let mut state = self.state.borrow_mut();
        state.pauses += 1;
        if state.rest_after == state.pauses {
            self.tree.put("md127", "md/array_state", "clean");
        }
    }
}

fn live() -> Root {
    Root::open("/").unwrap()
}

fn number(text: &str) -> DevNumber {
    DevNumber::parse(text).unwrap()
}

/// Each C library has a text of its own.
fn busy() -> io::Error {
    nix::errno::Errno::EBUSY.into()
}

#[test]
fn volumes_over_encryption_over_an_array_over_partitions() {
    let tree = Tree::new();
    tree.disk("sda", "8:0").disk("sda/sda1", "8:1").disk("sda/sda2", "8:2").disk("sda/sda3", "8:3");
    tree.array("md127", "9:127", &["sda/sda1", "sda/sda2"]);
    tree.mapped("dm-0", "253:0", "luks", "CRYPT-LUKS2-1", &["md127"]);
    tree.mapped("dm-1", "253:1", "vg-a", "LVM-1", &["dm-0"]).mapped("dm-2", "253:2", "vg-b", "LVM-2", &["dm-0"]);
    // Encryption on a volume on a third partition.
    tree.mapped("dm-3", "253:3", "v2-c", "LVM-3", &["sda/sda3"]).mapped("dm-9", "253:9", "c", "CRYPT-x", &["dm-3"]);
    // The devices of the others; sdaa is not sda.
    tree.disk("sdaa", "65:160").mapped("dm-5", "253:5", "other", "LVM-9", &["sdaa"]);
    let order = tree.order("sda");
    let at = |name: &str| order.iter().position(|device| device == name).unwrap_or_else(|| panic!("{name}: {order:?}"));
    for (above, below) in [("dm-1", "dm-0"), ("dm-2", "dm-0"), ("dm-0", "md127"), ("dm-9", "dm-3")] {
        assert!(at(above) < at(below), "{order:?}");
    }
    assert_eq!(order.len(), 6);
    assert!(tree.exists("dm-5") && tree.exists("sdaa/holders/dm-5"));
}

#[test]
fn a_thin_pools_hidden_parts_go_last() {
    let tree = Tree::new();
    tree.disk("vda", "252:0").mapped("dm-0", "253:0", "vg-pool_tmeta", "LVM-a-tmeta", &["vda"]);
    tree.mapped("dm-1", "253:1", "vg-pool_tdata", "LVM-a-tdata", &["vda"]);
    tree.mapped("dm-2", "253:2", "vg-pool-tpool", "LVM-a-tpool", &["dm-0", "dm-1"]);
    tree.mapped("dm-3", "253:3", "vg-pool", "LVM-a-pool", &["dm-2"]).mapped(
        "dm-4",
        "253:4",
        "vg-thin",
        "LVM-b",
        &["dm-2"],
    );
    let order = tree.order("vda");
    assert_eq!(order[2], "dm-2");
    assert_eq!(order[..2].iter().collect::<BTreeSet<_>>().len() + order[3..].len(), 4);
    assert!(order[3..].contains(&"dm-0".to_owned()) && order[3..].contains(&"dm-1".to_owned()), "{order:?}");
}

#[test]
fn a_multipath_device_stays_and_its_partitions_go() {
    let tree = Tree::new();
    tree.disk("sda", "8:0").disk("sdb", "8:16").disk("sda/sda1", "8:1");
    tree.mapped("dm-0", "253:0", "mpatha", "mpath-3600", &["sda", "sdb"]);
    tree.mapped("dm-1", "253:1", "mpatha1", "part1-mpath-3600", &["dm-0"]);
    tree.mapped("dm-2", "253:2", "vg-x", "LVM-x", &["dm-1"]);
    let kernel = tree.kernel();
    // One path is not the disk.
    let error = tree.down("sda", &kernel).unwrap_err().to_string();
    assert_eq!(
        error,
        "/dev/x is in use, and nothing was changed: sda → dm-0 (mpatha) is a multipath device, of which this is one path: \
         use /dev/mapper/mpatha"
    );
    let done = tree.down("dm-0", &kernel).unwrap();
    assert_eq!(done, ["dm-2 (vg-x), LVM volume", "dm-1 (mpatha1), partition of a multipath device"]);
    assert!(tree.exists("dm-0") && tree.exists("sda/holders/dm-0"));
    assert_eq!(kernel.state.borrow().forgotten, ["dm-2", "dm-1"], "what is in them is gone before they are");
}

#[test]
fn what_also_lies_on_other_disks_is_said_and_only_it_goes() {
    let tree = Tree::new();
    tree.disk("sda", "8:0").disk("sdb", "8:16").disk("sdb/sdb1", "8:17").disk("sdc", "8:32");
    tree.mapped("dm-0", "253:0", "vg-both", "LVM-1", &["sda", "sdb/sdb1"]);
    tree.mapped("dm-1", "253:1", "vg-far", "LVM-2", &["sdb/sdb1"]);
    tree.array("md127", "9:127", &["dm-0", "sdc"]).put("md127", "md/array_state", "active\n");
    tree.disk("md127/md127p1", "259:0").mapped("dm-7", "253:7", "top", "CRYPT-1", &["md127/md127p1"]);
    let kernel = tree.kernel();
    kernel.state.borrow_mut().rest_after = 5;
    let done = tree.down("sda", &kernel).unwrap();
    assert_eq!(
        done,
        [
            "dm-7 (top), unlocked encryption, also on sdb1, sdc, which stay as they are",
            "md127, RAID array, also on sdb1, sdc, which stay as they are",
            "dm-0 (vg-both), LVM volume, also on sdb1, which stays as it is",
        ]
    );
    assert!(kernel.state.borrow().pauses >= 5, "the array was stopped before it was at rest");
    assert!(tree.exists("dm-1"));
    assert_eq!(kernel.state.borrow().forgotten, Vec::<String>::new(), "the other disks were written to");
}

/// A pool writes its metadata a last time.
#[test]
fn what_writes_at_its_end_is_cut_off_from_other_disks_first() {
    let pool = |tree: &Tree, below: &[&str]| {
        tree.mapped("dm-0", "253:0", "vg-pool_tmeta", "LVM-a-tmeta", below);
        tree.mapped("dm-1", "253:1", "vg-pool-tpool", "LVM-a-tpool", &["dm-0"]);
        tree.mapped("dm-2", "253:2", "vg-thin", "LVM-b", &["dm-1"]);
    };
    let tree = Tree::new();
    tree.disk("sda", "8:0").disk("sdb", "8:16").array("md127", "9:127", &["sda", "sdb"]);
    pool(&tree, &["md127"]);
    let kernel = tree.kernel();
    assert_eq!(tree.down("sda", &kernel).unwrap().len(), 4);
    assert_eq!(kernel.state.borrow().cut, ["vg-pool_tmeta"]);
    // All that it lies on is to be wiped.
    let alone = Tree::new();
    pool(alone.disk("sda", "8:0"), &["sda"]);
    let kernel = alone.kernel();
    assert_eq!(alone.down("sda", &kernel).unwrap().len(), 3);
    assert!(kernel.state.borrow().cut.is_empty());
    // Nothing goes where that fails.
    let stuck = Tree::new();
    stuck.disk("sda", "8:0").disk("sdb", "8:16").mapped("dm-0", "253:0", "stuck", "", &["sda", "sdb"]);
    stuck.mapped("dm-1", "253:1", "top", "", &["dm-0"]);
    let error = stuck.down("sda", &stuck.kernel()).unwrap_err().to_string();
    assert!(error.contains(&format!("dm-0 (stuck): cannot be cut off from sdb: {}", busy())), "{error}");
    assert!(error.ends_with("nothing was changed") && stuck.exists("dm-1"), "{error}");
}

#[test]
fn an_array_that_finds_no_rest_is_not_stopped_over_other_disks() {
    let tree = Tree::new();
    tree.disk("sda", "8:0").disk("sdb", "8:16").array("md127", "9:127", &["sda", "sdb"]);
    tree.put("md127", "md/array_state", "active\n");
    let error = tree.down("sda", &tree.kernel()).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot take down the devices on /dev/x: md127: it has been 'active' for a long time, and stopping it now would write to sdb; \
         nothing was changed"
    );
    // All its members are to be wiped anyway.
    let alone = Tree::new();
    alone.disk("sda", "8:0").array("md127", "9:127", &["sda"]).put("md127", "md/array_state", "active\n");
    assert_eq!(alone.down("sda", &alone.kernel()).unwrap(), ["md127, RAID array"]);
}

fn used_tree() -> Tree {
    let tree = Tree::new();
    tree.disk("sda", "8:0").disk("sda/sda3", "8:3").disk("sda/sda4", "8:4");
    tree.mapped("dm-4", "253:4", "vg0-root", "LVM-1", &["sda/sda3"]);
    tree.mapped("dm-5", "253:5", "vg0-idle", "LVM-2", &["sda/sda3"]);
    tree
}

fn refused(set: impl FnOnce(&mut State)) -> String {
    let tree = used_tree();
    let kernel = tree.kernel();
    set(&mut kernel.state.borrow_mut());
    let error = tree.down("sda", &kernel).unwrap_err();
    assert!(kernel.state.borrow().log.is_empty() && tree.exists("dm-5"), "something was changed");
    let text = error.to_string();
    text.strip_prefix("/dev/x is in use, and nothing was changed: ").unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn users_of_a_part_of_it_are_named_and_nothing_changes() {
    let mounted = |number: &str, at: &str| format!("30 1 {number} / {at} rw - xfs /dev/x rw\n");
    assert_eq!(
        refused(|state| state.mounts = mounted("253:4", "/x\\040y")),
        "sda3 → dm-4 (vg0-root) is mounted on /x y"
    );
    assert_eq!(
        refused(|state| state.mounts = mounted("8:4", "/run/media/iso")),
        "sda4 is mounted on /run/media/iso: this is the disk or USB stick that this system was booted from; choose another disk"
    );
    assert_eq!(
        refused(|state| state.mounts = mounted("253:4", "/sysroot")),
        "sda3 → dm-4 (vg0-root) is mounted on /sysroot: this is the disk that this system runs from; choose another disk"
    );
    let swap = |state: &mut State| {
        state.swaps = "Filename\n/dev/dm-4 partition 1 0 -2\n".into();
        state.nodes.insert("/dev/dm-4".into(), number("253:4"));
    };
    assert_eq!(refused(swap), "sda3 → dm-4 (vg0-root) is swap");
    let loop_device =
        LoopDevice { name: "loop3".into(), numbers: vec![number("7:3")], backing: number("8:4"), offset_bytes: 0 };
    assert_eq!(refused(|state| state.loops = vec![loop_device.clone()]), "sda4 is in use by loop3");
    let opener = |number| Opener { number, pid: 812, program: "qemu-kvm".into() };
    assert_eq!(
        refused(|state| state.openers = vec![opener(number("253:4"))]),
        "sda3 → dm-4 (vg0-root) is open in qemu-kvm (process 812)"
    );
    assert_eq!(
        refused(|state| state.open = BTreeMap::from([("vg0-root".into(), 2)])),
        "sda3 → dm-4 (vg0-root) is open 2 times by something that cannot be seen from here"
    );
    assert_eq!(
        refused(|state| state.claimed = BTreeSet::from(["sda4".into()])),
        "sda4 is claimed by something that cannot be seen from here, such as a ZFS pool or a mount in a container"
    );
    // All at once.
    let all = refused(|state| {
        state.mounts = mounted("8:4", "/a") + &mounted("253:4", "/b");
        state.open.insert("vg0-root".into(), 1);
    });
    assert_eq!(all, "sda4 is mounted on /a; sda3 → dm-4 (vg0-root) is mounted on /b");
}

#[test]
fn monitors_and_momentary_users_of_the_disk_do_not_block_it() {
    let tree = used_tree();
    let kernel = tree.kernel();
    let opener = |text| Opener { number: number(text), pid: 3, program: "smartd".into() };
    kernel.state.borrow_mut().openers = vec![opener("8:0"), opener("253:5")];
    kernel.state.borrow_mut().opens_end = Some(3);
    assert_eq!(tree.down("sda", &kernel).unwrap().len(), 2);
    assert_eq!(kernel.state.borrow().pauses, 3);
}

#[test]
fn every_step_is_tried_and_every_failure_reported() {
    let tree = used_tree();
    tree.mapped("dm-6", "253:6", "inner", "CRYPT-1", &["dm-4"]);
    let kernel = tree.kernel();
    kernel.state.borrow_mut().stubborn.insert("dm-6".into());
    let error = tree.down("sda", &kernel).unwrap_err();
    let ReleaseError::Failed { failures, taken_down, .. } = &error else { panic!("{error}") };
    assert_eq!(failures.len(), 2);
    assert_eq!(taken_down.iter().map(|step| &*step.device).collect::<Vec<_>>(), ["dm-5"]);
    let text = error.to_string();
    assert!(text.contains(&format!("dm-6 (inner): {}", busy())), "{text}");
    assert!(text.contains("dm-4 (vg0-root): not tried, as dm-6 (inner) is still on it"), "{text}");
    assert!(text.ends_with("taken down so far: dm-5 (vg0-idle)"), "{text}");
}

#[test]
fn bcache_goes_where_it_is_cached_and_not_where_it_caches() {
    let tree = Tree::new();
    tree.disk("sda", "8:0").disk("bcache0", "252:0").put("bcache0", "bcache/state", "clean").on("bcache0", &["sda"]);
    assert_eq!(tree.down("sda", &tree.kernel()).unwrap(), ["bcache0, bcache device"]);
    tree.disk("sdb", "8:16").put("sdb", "bcache/x", "");
    symlink(tree.dir("fs/bcache/0123-45"), tree.dir("sdb/bcache/set")).unwrap();
    let error = tree.down("sdb", &tree.kernel()).unwrap_err().to_string();
    assert!(error.contains("sdb is the cache of the bcache set 0123-45: stop it first"), "{error}");
}

#[test]
fn a_circle_or_a_free_disk_is_no_harm() {
    let tree = Tree::new();
    tree.disk("sda", "8:0");
    assert_eq!(tree.down("sda", &tree.kernel()).unwrap(), Vec::<String>::new());
    tree.mapped("dm-0", "253:0", "a", "", &["sda"]).mapped("dm-1", "253:1", "b", "", &["dm-0"]).on("dm-0", &["dm-1"]);
    let stack = Stack::read(&live(), &tree.dir("sda")).unwrap();
    assert_eq!(stack.top_down.len(), 2);
    // A signal ends it between two steps.
    let read = || Stack::read(&live(), &tree.dir("sda"));
    let cancel = Cancel::default();
    cancel.cancel();
    let error = take_down(Path::new("/dev/x"), &read, &tree.kernel(), &cancel).unwrap_err();
    assert_eq!(error.to_string(), "stopped while taking down the devices on /dev/x; nothing was changed");
}

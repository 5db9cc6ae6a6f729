//! Whole changes of a firmware whose variables are files of a directory.

use super::*;
use diskwrite::LayoutPartition;
use std::process::Command;

/// A machine started by UEFI; its variables are in a directory that goes with it.
pub(super) struct Machine {
    root: tempfile::TempDir,
    pub variables: Variables,
}

pub(super) fn machine() -> Machine {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("sys/firmware/efi/efivars")).unwrap();
    let variables = Variables::open(root.path()).unwrap();
    Machine { root, variables }
}

impl Machine {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let name = format!("{name}-8be4df61-93ca-11d2-aa0d-00e098032b8c");
        self.root.path().join("sys/firmware/efi/efivars").join(name)
    }

    /// As the firmware has it.
    pub(super) fn put(&self, name: &str, value: &[u8]) {
        fs::write(self.path(name), [&7u32.to_le_bytes(), value].concat()).unwrap();
    }

    pub(super) fn state(&self) -> BootState {
        BootState::read(&self.variables).unwrap()
    }
}

/// That of an image with sectors of 512 bytes (docs/compatibility.md#disk-layout).
pub(super) fn esp_partition() -> HardDrive {
    HardDrive::gpt(2, 4096, 260_096, std::array::from_fn(|index| u8::try_from(index).unwrap() + 1))
}

fn tool(program: &str, image: &Path, args: &[&str]) {
    let output = Command::new(program).env("MTOOLS_SKIP_CHECK", "1").arg("-i").arg(image).args(args).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file system of `bytes` with these files in it, made by the tools that make the test images.
pub(super) fn file_system(image: &Path, bytes: u64, width: &str, files: &[&str]) {
    File::create(image).unwrap().set_len(bytes).unwrap();
    let made = Command::new("mkfs.vfat").args(["-F", width, "-n", "EFI-SYSTEM"]).arg(image).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut directories = Vec::new();
    for file in files {
        for (at, _) in file.match_indices('/') {
            if !directories.contains(&&file[..at]) {
                directories.push(&file[..at]);
                tool("mmd", image, &[&format!("::{}", &file[..at])]);
            }
        }
        tool("mcopy", image, &["/dev/null", &format!("::{file}")]);
    }
}

/// A disk whose EFI system partition holds these files.
fn disk<'a>(dir: &'a Path, files: &[&str]) -> Source<'a> {
    let (image, bytes) = (dir.join("disk"), 4 << 20);
    file_system(&image, bytes, "12", files);
    let guid = |first: u8| std::array::from_fn(|at| u8::try_from(at).unwrap() + first);
    let esp = LayoutPartition {
        number: 2,
        type_guid: EFI_SYSTEM.to_bytes_le(),
        guid: guid(1),
        name: "EFI-SYSTEM".into(),
        first_lba: 4096,
        sectors: 260_096,
        // The image is the partition.
        start: 0,
        len: bytes,
    };
    let root = LayoutPartition { number: 4, type_guid: [1; 16], guid: guid(100), name: "root".into(), ..esp.clone() };
    let layout = Layout { size_bytes: bytes, sector_bytes: 512, partitions: vec![root, esp] };
    Source { path: dir, file: File::open(&image).unwrap(), layout }
}

fn partitions(disk: &Source<'_>) -> Partitions {
    Partitions {
        target: disk.layout.partitions.iter().map(|partition| partition.guid).collect(),
        ..Partitions::default()
    }
}

fn set_disk(machine: &Machine, disk: &Source<'_>) -> Result<Done, BootOrderError> {
    set_uefi(&machine.variables, disk, &partitions(disk), Architecture::X86_64, false)
}

fn changes(done: &Done) -> Vec<String> {
    let Done::Uefi { plan, .. } = done else { panic!("{done:?}") };
    plan.changes.iter().map(Change::to_string).collect()
}

#[test]
fn a_disk_comes_before_the_medium_and_a_second_time_changes_nothing() {
    let (machine, dir) = (machine(), tempfile::tempdir().unwrap());
    let disk = disk(dir.path(), &["EFI/BOOT/BOOTX64.EFI", "EFI/redhat/shimx64.efi"]);
    machine.put("BootOrder", &[3, 0, 1, 0]);
    let cd = LoadOption { path: Vec::new(), ..LoadOption::file("UEFI DVD", esp_partition(), "") };
    machine.put("Boot0003", &cd.to_bytes());
    machine.put("Boot0001", &cd.to_bytes());
    machine.put("BootCurrent", &[3, 0]);
    let hd = r"HD(2,GPT,04030201-0605-0807-090a-0b0c0d0e0f10,0x1000,0x3f800)/\EFI\redhat\shimx64.efi";
    let planned = set_uefi(&machine.variables, &disk, &partitions(&disk), Architecture::X86_64, true).unwrap();
    assert_eq!(machine.state().next, None);
    let done = set_disk(&machine, &disk).unwrap();
    assert_eq!(done, planned);
    assert_eq!(
        changes(&done),
        [
            format!("write Boot0000 Red Hat Enterprise Linux: {hd}"),
            "set BootOrder to 0000,0003,0001".into(),
            "set BootNext to 0000".into()
        ]
    );
    assert_eq!(fs::read(machine.path("BootOrder")).unwrap(), [7, 0, 0, 0, 0, 0, 3, 0, 1, 0]);
    assert_eq!(changes(&set_disk(&machine, &disk).unwrap()), [""; 0]);
    // What the firmware does with it at the next start.
    fs::remove_file(machine.path("BootNext")).unwrap();
    assert_eq!(changes(&set_disk(&machine, &disk).unwrap()), ["set BootNext to 0000"]);
}

#[test]
fn installing_again_and_again_leaves_one_entry() {
    let (machine, dir) = (machine(), tempfile::tempdir().unwrap());
    let mut disk = disk(dir.path(), &["EFI/BOOT/BOOTX64.EFI", "EFI/fedora/shimx64.efi"]);
    for round in 0..20 {
        disk.layout.partitions[1].guid = [round; 16];
        set_disk(&machine, &disk).unwrap();
        let state = machine.state();
        assert_eq!((state.order, state.next, state.entries.len()), (vec![0], Some(0), 1));
        let entry = state.entries[&0].clone().unwrap();
        assert_eq!(entry.partition().unwrap().guid(), Some([round; 16]));
        assert_eq!((&*entry.description, entry.loader()), ("Fedora CoreOS", Some(r"\EFI\fedora\shimx64.efi")));
    }
}

#[test]
fn loaders_are_looked_for_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let look = |files: &[&str], architecture, secure| {
        let source = disk(dir.path(), files);
        let read = |offset: u64, buf: &mut [u8]| source.file.read_exact_at(buf, offset);
        let loader = esp::find(&Fat::open(&read).unwrap(), architecture, secure);
        loader.map(|loader| (loader.label, loader.path, loader.has_fallback)).map_err(|error| error.to_string())
    };
    use Architecture::{Aarch64, X86_64};
    let all = [
        "EFI/BOOT/BOOTX64.EFI",
        "EFI/BOOT/BOOTAA64.EFI",
        "EFI/redhat/grubx64.efi",
        "EFI/centos/shimx64.efi",
        "EFI/fedora/shimaa64.efi",
    ];
    let centos = ("CentOS Stream CoreOS", r"\EFI\centos\shimx64.efi".to_owned(), true);
    assert_eq!(look(&all, X86_64, false), Ok(centos.clone()));
    assert_eq!(look(&all, X86_64, true), Ok(centos));
    assert_eq!(look(&all, Aarch64, true), Ok(("Fedora CoreOS", r"\EFI\fedora\shimaa64.efi".to_owned(), true)));
    let unsigned = ["EFI/redhat/grubx64.efi", "EFI/BOOT/BOOTX64.EFI"];
    let grub = ("Red Hat Enterprise Linux", r"\EFI\redhat\grubx64.efi".to_owned(), true);
    assert_eq!(look(&unsigned, X86_64, false), Ok(grub));
    let refused = look(&unsigned, X86_64, true).unwrap_err();
    assert!(refused.contains(r"\EFI\redhat\shimx64.efi") && !refused.contains("grub"), "{refused}");
    let fallback = ("CoreOS", r"\EFI\BOOT\BOOTX64.EFI".to_owned(), true);
    assert_eq!(look(&["EFI/BOOT/BOOTX64.EFI"], X86_64, false), Ok(fallback));
    assert!(!look(&["EFI/redhat/shimx64.efi"], X86_64, false).unwrap().2);
    assert!(look(&["EFI/other/shimx64.efi"], X86_64, false).is_err());
}

#[test]
fn a_disk_without_a_place_for_loaders_is_named() {
    let (machine, dir) = (machine(), tempfile::tempdir().unwrap());
    let mut disk = disk(dir.path(), &[]);
    let error = set_disk(&machine, &disk).unwrap_err();
    assert!(matches!(error, BootOrderError::Loader { source: LoaderError::None { .. }, .. }), "{error}");
    disk.layout.partitions[1].len = 100;
    let error = set_disk(&machine, &disk).unwrap_err();
    assert!(matches!(error, BootOrderError::Loader { source: LoaderError::Fat(_), .. }), "{error}");
    disk.layout.partitions.pop();
    assert!(matches!(set_disk(&machine, &disk), Err(BootOrderError::NoEsp { .. })));
    assert_eq!(machine.state(), BootState::default());
}

#[test]
fn firmware_that_forgets_is_noticed() {
    let option = LoadOption::file("x", esp_partition(), r"\x");
    let state = |order: &[u16], next, entry: &LoadOption| BootState {
        order: order.to_vec(),
        next,
        entries: [(1, Ok(entry.clone()))].into(),
        ..BootState::default()
    };
    let verified = |state: &BootState| verify(state, 1, &option).map_err(|error| error.to_string());
    assert_eq!(verified(&state(&[1, 2], Some(1), &option)), Ok(()));
    let start = "the firmware did not retain the change: ";
    assert_eq!(
        verified(&state(&[2, 1], Some(1), &option)),
        Err(format!("{start}BootOrder is 0002,0001, not 0001 first"))
    );
    assert_eq!(verified(&state(&[1], None, &option)), Err(format!("{start}BootNext is unset, not 0001")));
    let other = LoadOption::file("y", esp_partition(), r"\x");
    assert!(verified(&state(&[1], Some(1), &other)).unwrap_err().contains("Boot0001 is y: HD"));
    assert!(
        verified(&BootState::default())
            .unwrap_err()
            .ends_with("Boot0001 is gone, not x: HD(2,GPT,04030201-0605-0807-090a-0b0c0d0e0f10,0x1000,0x3f800)/\\x")
    );
}

#[test]
fn a_bios_has_nothing_to_set() {
    assert!(Variables::open(tempfile::tempdir().unwrap().path()).is_none());
}

//! Plans: what comes first, what goes, what is never touched.

use super::*;

const SHIM: &str = r"\EFI\redhat\shimx64.efi";
const RHEL: &str = "Red Hat Enterprise Linux";

fn partition(guid: u8) -> HardDrive {
    HardDrive::gpt(2, 4096, 260_096, [guid; 16])
}

fn target() -> Target {
    let label = RHEL.to_owned();
    Target { label, partition: partition(1), loader: SHIM.to_owned(), architecture: Architecture::X86_64 }
}

fn disks(others: &[u8], unknown: bool) -> Partitions {
    Partitions { target: [[1; 16]].into(), others: others.iter().map(|guid| [*guid; 16]).collect(), unknown }
}

fn state(order: &[u16], entries: &[(u16, LoadOption)]) -> BootState {
    let entries = entries.iter().map(|(number, option)| (*number, Ok(option.clone()))).collect();
    BootState { order: order.to_vec(), entries, ..BootState::default() }
}

fn changes(state: &BootState, partitions: &Partitions) -> Vec<String> {
    let plan = plan(state, &target(), partitions).unwrap();
    plan.changes.iter().map(Change::to_string).collect()
}

/// A network, or a drive: nothing of a partition.
fn network(label: &str) -> LoadOption {
    LoadOption { path: Vec::new(), ..LoadOption::file(label, partition(0), "") }
}

#[test]
fn the_new_entry_is_first_and_the_rest_keeps_its_order() {
    let state = state(&[7, 3, 9], &[(3, network("PXE")), (7, network("DVD"))]);
    let plan = plan(&state, &target(), &disks(&[], false)).unwrap();
    let entry = Change::Entry { number: 0, option: target().entry(), instead_of: None };
    assert_eq!(plan.changes, [entry, Change::Order(vec![0, 7, 3, 9]), Change::Next(0)]);
}

#[test]
fn numbers_that_mean_something_are_not_taken() {
    let mut state = state(&[0, 2], &[(1, network("x"))]);
    (state.current, state.next) = (Some(3), Some(4));
    state.entries.insert(5, LoadOption::parse(&[]));
    assert_eq!(plan(&state, &target(), &disks(&[], false)).unwrap().number, 6);
    let full = BootState { order: (0..=u16::MAX).collect(), ..BootState::default() };
    assert_eq!(plan(&full, &target(), &disks(&[], false)), Err(Full));
}

#[test]
fn an_equal_entry_is_used_again_and_its_doubles_go() {
    let mut state = state(&[3, 5, 4], &[(3, network("DVD")), (4, target().entry()), (5, target().entry())]);
    assert_eq!(
        changes(&state, &disks(&[], false)),
        ["set BootOrder to 0004,0003", "set BootNext to 0004", "delete Boot0005 Red Hat Enterprise Linux"]
    );
    state.entries.remove(&5);
    (state.order, state.next) = (vec![4, 3], Some(4));
    assert_eq!(changes(&state, &disks(&[], false)), [""; 0]);
    // One that the firmware doesn't try is none.
    state.entries.insert(4, Ok(LoadOption { attributes: 0, ..target().entry() }));
    assert_eq!(changes(&state, &disks(&[], false)).len(), 1);
}

#[test]
fn entries_that_lead_nowhere_go_and_the_first_gives_its_number() {
    let old = |label: &str, guid, loader: &str| LoadOption::file(label, partition(guid), loader);
    let state = state(
        &[9, 8, 6, 7],
        &[
            (6, old(RHEL, 66, SHIM)),
            (7, old("Fedora CoreOS", 67, r"\EFI\fedora\shimx64.efi")),
            (8, old("renamed", 68, r"\efi\CENTOS\shimx64.efi")),
            (9, network("PXE")),
        ],
    );
    let planned = changes(&state, &disks(&[], false));
    assert!(
        planned[0].starts_with("write Boot0006 Red Hat")
            && planned[0].ends_with("(in place of Red Hat Enterprise Linux)")
    );
    assert_eq!(
        planned[1..],
        [
            "set BootOrder to 0006,0009",
            "set BootNext to 0006",
            "delete Boot0007 Fedora CoreOS",
            "delete Boot0008 renamed"
        ]
    );
    // With a disk that can't be read only what has the very label is ours for sure.
    let planned = changes(&state, &disks(&[], true));
    assert_eq!(planned[1..], ["set BootOrder to 0006,0009,0008,0007", "set BootNext to 0006"]);
    // On other disks are other systems.
    let planned = changes(&state, &disks(&[66, 67, 68], false));
    assert_eq!(planned[1..], ["set BootOrder to 0000,0009,0008,0006,0007", "set BootNext to 0000"]);
}

#[test]
fn entries_of_other_systems_stay() {
    let windows = LoadOption::file("Windows Boot Manager", partition(99), r"\EFI\Microsoft\Boot\bootmgfw.efi");
    let fallback = LoadOption::file("UEFI OS", partition(98), r"\EFI\BOOT\BOOTX64.EFI");
    let label_only = network(RHEL);
    let mbr = HardDrive { table: 1, signature_kind: 1, ..partition(97) };
    let mbr = LoadOption::file("old", mbr, SHIM);
    let arm = LoadOption::file("arm", partition(96), r"\EFI\redhat\shimaa64.efi");
    let entries = [windows, fallback, label_only, mbr, arm];
    let numbered: Vec<_> = (1..).zip(entries).collect();
    let state = state(&[1, 2, 3, 4, 5], &numbered);
    let planned = changes(&state, &disks(&[], false));
    assert_eq!(planned[1..], ["set BootOrder to 0000,0001,0002,0003,0004,0005", "set BootNext to 0000"]);
}

#[test]
fn another_loader_of_the_same_partition_was_the_overwritten_systems() {
    let before = LoadOption::file("Fedora CoreOS", partition(1), r"\EFI\fedora\shimx64.efi");
    let planned = changes(&state(&[2], &[(2, before)]), &disks(&[1], false));
    assert!(planned[0].ends_with("(in place of Fedora CoreOS)"), "{planned:?}");
    // Even of the same disk, only what is ours.
    let virtio = LoadOption::file("UEFI VIRTIO", partition(1), r"\EFI\BOOT\BOOTX64.EFI");
    assert_eq!(changes(&state(&[2], &[(2, virtio)]), &disks(&[], false))[1], "set BootOrder to 0000,0002");
}

#[test]
fn variables_are_recognized_by_their_names() {
    assert_eq!(["Boot0000", "Boot00aF", "BootFFFF"].map(entry_number), [Some(0), Some(0xaf), Some(0xffff)]);
    assert_eq!(
        ["BootOrder", "BootNext", "Boot+001", "Boot001", "Boot00000", "Driver0000"].map(entry_number),
        [None; 6]
    );
}

/// Carrying a plan out leaves nothing to plan, whatever the firmware held; at each step in between the first of the order is an entry
/// that is there.
#[test]
fn any_state_is_put_right_at_once() {
    let mut random = fastrand::Rng::with_seed(3);
    let labels = [RHEL, "Fedora CoreOS", "PXE"];
    for _ in 0..5000 {
        let mut state = BootState::default();
        for _ in 0..random.usize(..8) {
            let option = LoadOption::file(labels[random.usize(..3)], partition(random.u8(..4)), SHIM);
            state.entries.insert(random.u16(..8), Ok(option));
        }
        state.order = (0..random.usize(..6)).map(|_| random.u16(..8)).collect();
        state.order.sort_unstable();
        state.order.dedup();
        random.shuffle(&mut state.order);
        let partitions = disks(&[2], random.bool());
        let planned = plan(&state, &target(), &partitions).unwrap();
        for change in planned.changes {
            match change {
                Change::Entry { number, option, .. } => drop(state.entries.insert(number, Ok(option))),
                Change::Order(order) => {
                    assert!(state.entries.contains_key(&order[0]));
                    state.order = order;
                }
                Change::Next(number) => state.next = Some(number),
                Change::Delete { number, .. } => {
                    assert!(!state.order.contains(&number) && state.next != Some(number));
                    drop(state.entries.remove(&number).unwrap());
                }
            }
        }
        assert_eq!((state.order[0], state.next), (planned.number, Some(planned.number)));
        assert_eq!(state.entries[&planned.number], Ok(target().entry()));
        assert_eq!(plan(&state, &target(), &partitions).unwrap().changes, []);
    }
}

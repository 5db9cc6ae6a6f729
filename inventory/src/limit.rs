//! Inventories of hosts with thousands of disks, cut to the size the service takes (docs/compatibility.md#truncation). Pure.

use api::{Disk, Inventory, Truncation};

/// Limits that a service may set; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Longest inventory, bytes of JSON.
    pub output_max_bytes: Option<u64>,
    /// Smallest disk worth reporting, bytes.
    pub disk_min_bytes: Option<u64>,
}

impl Limits {
    /// Leaves out what the limits demand, and says so in `truncation` where the service has to know.
    ///
    /// Small disks go first, and with a limit on the size those that nothing can be installed to. If the rest is still
    /// too long, as many disks stay as fit; if that is not enough, only processors and memory.
    pub fn apply(self, mut inventory: Inventory) -> Inventory {
        if let Some(min) = self.disk_min_bytes {
            inventory.disks.retain(|disk| disk.size_bytes >= min);
        }
        let Some(max) = self.output_max_bytes else { return inventory };
        inventory.disks.retain(|disk| disk.installation_eligibility.eligible);
        if len_bytes(&inventory) <= max {
            return inventory;
        }
        let disks = std::mem::take(&mut inventory.disks);
        let total = disks.len();
        inventory.truncation = Some(partial(total, total, max));
        let room = max.saturating_sub(len_bytes(&inventory));
        inventory.disks = as_many_as_fit(disks, room);
        inventory.truncation = Some(partial(total - inventory.disks.len(), total, max));
        if len_bytes(&inventory) <= max { inventory } else { minimal(inventory, total, max) }
    }
}

fn partial(dropped: usize, total: usize, max: u64) -> Truncation {
    let reason = format!("left out {dropped} of {total} eligible disks to fit {max} bytes");
    Truncation { kind: "partial".to_owned(), reasons: vec![reason] }
}

fn minimal(inventory: Inventory, total: usize, max: u64) -> Inventory {
    let reason = format!("inventory exceeds {max} bytes even without its {total} eligible disks");
    let mut cpu = inventory.cpu.unwrap_or_default();
    cpu.flags = None;
    Inventory {
        cpu: Some(cpu),
        memory: inventory.memory,
        truncation: Some(Truncation { kind: "full".to_owned(), reasons: vec![reason] }),
        ..Inventory::default()
    }
}

fn as_many_as_fit(disks: Vec<Disk>, mut room: u64) -> Vec<Disk> {
    let fits = |disk: &Disk| {
        // With the comma behind it.
        let len = serde_json::to_vec(disk).map_or(u64::MAX, |json| size(json.len())).saturating_add(1);
        let left = room.checked_sub(len);
        room = left.unwrap_or(room);
        left.is_some()
    };
    disks.into_iter().filter(fits).collect()
}

fn len_bytes(inventory: &Inventory) -> u64 {
    serde_json::to_vec(inventory).map_or(u64::MAX, |json| size(json.len()))
}

fn size(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Cpu, Eligibility, Memory};

    fn inventory(disks: usize) -> Inventory {
        let disk = |number: usize| Disk {
            name: format!("sd{number}"),
            size_bytes: if number.is_multiple_of(2) { 1 << 30 } else { 100 << 30 },
            installation_eligibility: Eligibility { eligible: !number.is_multiple_of(3), not_eligible_reasons: None },
            ..Disk::default()
        };
        Inventory {
            hostname: "h".repeat(400),
            cpu: Some(Cpu { count: 4, flags: Some(vec!["f".repeat(100)]), ..Cpu::default() }),
            memory: Some(Memory { physical_bytes: 5, ..Memory::default() }),
            disks: (0..disks).map(disk).collect(),
            ..Inventory::default()
        }
    }

    #[test]
    fn no_limit_no_change() {
        assert_eq!(Limits::default().apply(inventory(50)), inventory(50));
    }

    #[test]
    fn filters_are_no_truncation() {
        let small = Limits { disk_min_bytes: Some(2 << 30), ..Limits::default() }.apply(inventory(12));
        assert_eq!((small.disks.len(), &small.truncation), (6, &None));
        let roomy = Limits { output_max_bytes: Some(1 << 20), ..Limits::default() }.apply(inventory(12));
        assert_eq!((roomy.disks.len(), &roomy.truncation), (8, &None));
    }

    #[test]
    fn disks_go_first_and_then_all() {
        for max in 200..2500 {
            let cut = Limits { output_max_bytes: Some(max), ..Limits::default() }.apply(inventory(30));
            let kind = cut.truncation.as_ref().map(|truncation| truncation.kind.as_str());
            assert!(kind == Some("full") || len_bytes(&cut) <= max, "{max}");
            assert_eq!(cut.memory.as_ref().map(|memory| memory.physical_bytes), Some(5));
            assert_eq!(cut.cpu.as_ref().map(|cpu| cpu.count), Some(4));
            match kind {
                Some("full") => assert!(max < 1000 && cut.disks.is_empty() && cut.hostname.is_empty(), "{max}"),
                Some("partial") => assert!(max > 600 && cut.disks.len() < 20, "{max}"),
                _ => panic!("{max} bytes are enough?"),
            }
        }
        let most = Limits { output_max_bytes: Some(2500), ..Limits::default() }.apply(inventory(30));
        assert!(most.disks.len() > 5);
    }
}

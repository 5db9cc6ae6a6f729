//! How much memory a decoder may take.

use std::{fs, path::Path};

const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes that can be had without anything being swapped out or killed: of the machine, and of the control groups this process
/// is in. `None` if the kernel does not tell.
pub(crate) fn available_bytes() -> Option<u64> {
    let machine = from_meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    Some(available_in(Path::new(CGROUPS), Path::new(group)).into_iter().fold(machine, u64::min))
}

fn from_meminfo(text: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What `group` below `root`, and each group around it that has a limit, has left.
fn available_in(root: &Path, group: &Path) -> Vec<u64> {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let available = |group: &Path| {
        let dir = root.join(group);
        Some(number(&dir.join("memory.max"))?.saturating_sub(number(&dir.join("memory.current"))?))
    };
    group.ancestors().filter_map(available).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_is_available() {
        let text = "MemTotal:        8000000 kB\nMemFree:          100 kB\nMemAvailable:    4000000 kB\n";
        assert_eq!(from_meminfo(text), Some(4_096_000_000));
        assert_eq!(from_meminfo("MemTotal: 1 kB\n"), None);
        assert!(available_bytes().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn limits_of_control_groups_count() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let put = |dir: &Path, name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
        put(&inner, "memory.max", "max\n");
        put(&inner, "memory.current", "10\n");
        put(&root.path().join("a"), "memory.max", "1000\n");
        put(&root.path().join("a"), "memory.current", "400\n");
        assert_eq!(available_in(root.path(), Path::new("a/b")), [600]);
        assert_eq!(available_in(root.path(), Path::new("")), Vec::<u64>::new());
    }
}

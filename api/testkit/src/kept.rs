//! What is costly to make and the same for several tests, whose processes share it.

use crate::turn::{Turn, directory};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const UNUSED: Duration = Duration::from_secs(3600);

/// The directory that `make` fills, once for all processes whose `inputs` are the same: those are what decides what it makes. Nobody may
/// change what is in it. `name` says what it is; what was made of other inputs, and not used for an hour, goes when `make` is called.
pub fn directory_of(name: &str, inputs: &[&[u8]], make: impl FnOnce(&Path)) -> PathBuf {
    let mut sum = Sha256::new();
    for input in inputs {
        sum.update(input.len().to_le_bytes());
        sum.update(input);
    }
    let place = directory().join("kept").join(name);
    let kept = place.join(format!("{:x}", sum.finalize()));
    let turn = Turn::take(&format!("kept-{name}"));
    if kept.exists() {
        File::open(&kept).unwrap().set_modified(SystemTime::now()).unwrap();
    } else {
        fs::create_dir_all(&place).unwrap();
        for other in fs::read_dir(&place).unwrap().flatten() {
            let used = other.metadata().unwrap().modified().unwrap();
            if used.elapsed().is_ok_and(|since| since > UNUSED) {
                fs::remove_dir_all(other.path()).unwrap();
            }
        }
        let aside = tempfile::tempdir_in(&place).unwrap();
        make(aside.path());
        fs::rename(aside.keep(), &kept).unwrap();
    }
    drop(turn);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_made_once_for_the_same_inputs() {
        let name = format!("test-{}", std::process::id());
        let made = |inputs: &[&[u8]]| {
            let mut made = false;
            let path = directory_of(&name, inputs, |directory| {
                made = true;
                fs::write(directory.join("file"), inputs.concat()).unwrap();
            });
            (made, fs::read(path.join("file")).unwrap())
        };
        assert_eq!(made(&[b"a", b"b"]), (true, b"ab".to_vec()));
        assert_eq!(made(&[b"a", b"b"]), (false, b"ab".to_vec()));
        assert_eq!(made(&[b"ab"]), (true, b"ab".to_vec()), "where one ends and the next begins is a difference");
        fs::remove_dir_all(directory().join("kept").join(&name)).unwrap();
        fs::remove_file(directory().join("turns").join(format!("kept-{name}"))).unwrap();
    }
}

//! `dev show fiemap`: where files are on a disk. Both programs look at the same ones.

use super::peer;
use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::Path,
    process::Command,
};

fn say(program: &Path, path: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(program);
    let output = command.args(["dev", "show", "fiemap"]).arg(path).env_remove("RUST_BACKTRACE").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn extents_of_files_are_told_as_the_released_program_does() {
    let Some(peer) = peer() else { return };
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let program = directory.path().join("coreos-installer");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_landfall"), &program).unwrap();
    let path = |name: &str| directory.path().join(name);
    let file = |name: &str| File::create(path(name)).unwrap();
    file("empty");
    file("small").write_all(b"hello").unwrap();
    let mut sparse = file("sparse");
    // More of them than are asked for at once.
    for hole in 0..70 {
        sparse.seek(SeekFrom::Start(hole << 20)).unwrap();
        sparse.write_all(&[1; 8192]).unwrap();
    }
    sparse.set_len(100 << 20).unwrap();
    sparse.sync_all().unwrap();
    File::open(path("small")).unwrap().sync_all().unwrap();
    preallocate(&path("preallocated"));
    if say(&program, &path("small")).2.contains("EOPNOTSUPP") {
        return testkit::skip::because("this file system tells of no extents");
    }
    for name in ["empty", "small", "sparse", "preallocated", "absent", ".", "/dev/null", "/proc/version"] {
        let (ours, theirs) = (say(&program, &path(name)), say(&peer, &path(name)));
        assert_eq!(ours, theirs, "{name}");
        println!("{name}: {} bytes, exit code {:?}", ours.1.len(), ours.0);
    }
    let sparse: serde_json::Value = serde_json::from_str(&say(&program, &path("sparse")).1).unwrap();
    assert_eq!(sparse["extents"].as_array().unwrap().len(), 70);
    fs::remove_file(path("sparse")).unwrap();
}

fn preallocate(path: &Path) {
    let status = Command::new("fallocate").args(["-l", "100k"]).arg(path).status().unwrap();
    assert!(status.success());
}

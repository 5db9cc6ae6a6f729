//! What the command says to bad input: each message names the thing, what was seen and what to do, and the exit status is
//! not zero. Run with `--nocapture` to read them.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::Read,
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
};
use testkit::disk::{Image, LoopDisk, MIB, run, skipped};
use testkit::http::{Server, reply};
use testkit::wait;

fn landfall(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_landfall"))
        .args(args)
        .stdin(Stdio::null())
        .env_remove("LANDFALL_LOG")
        .output()
        .unwrap()
}

/// Runs the command, which must fail, and returns the last line it says, printing it.
fn refused(what: &str, args: &[&str]) -> String {
    let output = landfall(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().last().unwrap_or_default().to_owned();
    println!("{what}:\n    {last}");
    assert_eq!(output.status.code(), Some(1), "{what}: {said}");
    last
}

fn has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "'{part}' is missing in: {message}");
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn images_that_do_not_fit_the_disk() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let install = |image: &Path, disk: &LoopDisk| {
        ["install", "--insecure", "--image-file", &text(image), &text(&disk.path())].map(ToOwned::to_owned).to_vec()
    };
    let say = |what: &str, args: Vec<String>| refused(what, &args.iter().map(String::as_str).collect::<Vec<_>>());

    let cut = image.packed(Some("zstd"));
    let len = fs::metadata(&cut).unwrap().len() * 3 / 4;
    fs::OpenOptions::new().write(true).open(&cut).unwrap().set_len(len).unwrap();
    let disk = LoopDisk::new(64 * MIB, 512, true);
    disk.put_old_tables(512);
    has(&say("image cut in mid-stream", install(&cut, &disk)), &["table was cleared", &len.to_string()]);
    disk.assert_cleared();

    let small = LoopDisk::new(16 * MIB, 512, true);
    has(&say("image larger than the disk", install(&image.packed(None), &small)), &["32 MiB", "16 MiB"]);

    let large_sectors = LoopDisk::new(64 * MIB, 4096, true);
    large_sectors.put_old_tables(4096);
    let message = say("512-byte image on a 4Kn disk", install(&image.packed(Some("gzip")), &large_sectors));
    has(&message, &["512", "4096", "nothing was written"]);
    large_sectors.assert_untouched(4096);
}

#[test]
fn disks_that_are_none_or_not_free() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let raw = text(&image.packed(None));
    for target in [raw.as_str(), "/dev/null", "/dev", "/dev/no-such-disk"] {
        has(
            &refused(&format!("{target} as the disk"), &["install", "--insecure", "--image-file", &raw, target]),
            &[target],
        );
    }
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let path = text(&disk.path());
    let dir = tempfile::tempdir().unwrap();
    run("mke2fs", &["-q", "-t", "ext4", &path]);
    run("mount", &[&path, &text(dir.path())]);
    let message = refused("disk with a mounted file system", &["install", "--insecure", "--image-file", &raw, &path]);
    run("umount", &[&text(dir.path())]);
    has(&message, &[&text(dir.path()), "nothing was written"]);
}

/// What the agent logs about a service; it must still be there afterwards.
fn agent_says(what: &str, url: &str, part: &str) {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_landfall"))
        .args(["agent", "--url", url, "--infra-env-id", "3f1c7a52-8a1e-4a0e-9a0a-5d2a3a8f6b11", "--interval", "1"])
        .args(["--host-id", "d3d368a5-914d-a95a-3644-9dfb4eb0903b"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = agent.stderr.take().unwrap();
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = stderr.read(&mut buffer) {
            let _ = sender.send(String::from_utf8_lossy(&buffer[..len]).into_owned());
        }
    });
    let mut said = String::new();
    let _ = wait::comes(|| {
        said.extend(lines.try_iter());
        said.contains(part)
    });
    let alive = agent.try_wait().unwrap().is_none();
    let _ = agent.kill();
    let _ = agent.wait();
    assert!(said.contains(part), "{what}: '{part}' is missing in: {said}");
    assert!(alive, "{what}: the agent gave up: {said}");
    println!("{what}:\n    {}", said.lines().find(|line| line.contains(part)).unwrap_or_default());
}

#[test]
fn services_that_do_not_answer_properly() {
    let body = r#"{"code":"500","href":"","id":500,"kind":"Error","reason":"database is gone"}"#;
    let broken = Server::start(move |_| reply("500 Internal Server Error", "", body));
    agent_says("a service that answers 500", &broken.url(""), "database is gone");
    let garbage = Server::start(|_| reply("201 Created", "", "<html>\u{1}\u{2}"));
    agent_says("a service that answers garbage", &garbage.url(""), "cannot parse the answer");
    let portal = Server::start(|_| reply("302 Found", "Location: http://127.0.0.1:9/login\r\n", ""));
    agent_says("a service behind a login page", &portal.url(""), "the service answered 302");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    drop(silent);
    agent_says("no service there", &url, "no answer from");
}

#[test]
fn isos_without_room_for_the_config() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.ign");
    fs::write(&config, r#"{"ignition":{"version":"3.2.0"}}"#).unwrap();
    let config = text(&config);
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("images")).unwrap();
    let mkiso = |name: &str| {
        let iso = text(&dir.path().join(name));
        run("xorriso", &["-as", "mkisofs", "-quiet", "-o", &iso, &text(&tree)]);
        iso
    };
    fs::write(tree.join("images/readme"), "nothing").unwrap();
    let plain = mkiso("plain.iso");
    has(
        &refused("ISO without an embed area", &["iso", "ignition", "embed", "-i", &config, &plain]),
        &[&plain, "image"],
    );
    has(&refused("not an ISO", &["iso", "ignition", "embed", "-i", &config, &config]), &["ISO"]);

    fs::write(tree.join("images/ignition.img"), vec![0; 262_144]).unwrap();
    let roomy = mkiso("roomy.iso");
    let large = dir.path().join("large.ign");
    let mut noise = fs::File::open("/dev/urandom").unwrap().take(400_000);
    let mut bytes = Vec::new();
    noise.read_to_end(&mut bytes).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(&large, format!(r#"{{"ignition":{{"version":"3.2.0"}},"x":"{hex}"}}"#)).unwrap();
    let before = fs::read(&roomy).unwrap();
    has(
        &refused("config larger than the area", &["iso", "ignition", "embed", "-i", &text(&large), &roomy]),
        &["262144"],
    );
    assert!(before == fs::read(&roomy).unwrap(), "a refused config leaves the ISO as it was");
}

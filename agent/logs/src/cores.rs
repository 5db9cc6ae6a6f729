//! What systemd-coredump stores of crashed programs.

use super::{
    item::{Item, Source},
    report::Report,
};
use journal::{Journal, Query, Range};
use kernel::order;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufReader, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Of a crash in the journal.
const FIELDS: &[&str] = &["COREDUMP_PID", "COREDUMP_EXE", "COREDUMP_FILENAME"];
/// This many are sent, the newest.
const MAX_CORES: usize = 32;
/// A larger one is left out.
const MAX_CORE_BYTES: u64 = 2 << 30;
const MAX_NAME: usize = 60;

/// The stored crashes: those the journal knows, by their program's name, and files it has forgotten.
pub(super) fn find(directory: &Path, journals: &[PathBuf], report: &mut Report) -> Vec<Item> {
    // Program and process, by file name.
    let mut known: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut journal = Journal::open(journals, &Query::coredumps(), Range::default(), FIELDS);
    while let Some(found) = journal.next() {
        let text = |name| found.field(name).map(|value| String::from_utf8_lossy(value).into_owned());
        let (Some(pid), Some(file)) = (text("COREDUMP_PID"), text("COREDUMP_FILENAME")) else { continue };
        let exe = text("COREDUMP_EXE").unwrap_or_default();
        // Only the name counts: no record leads out of the directory.
        if let Some(name) = file.rsplit('/').next() {
            known.insert(name.to_owned(), (base_name(&exe), pid));
        }
    }
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            report.add(format_args!("{}: {error}", directory.display()));
            return Vec::new();
        }
    };
    let mut files: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(|metadata| metadata.is_file())?;
            Some((metadata.modified().ok(), entry.file_name().into_string().ok()?))
        })
        .filter(|(_, name)| name.starts_with("core."))
        .collect();
    order::sort(&mut files);
    for (_, name) in files.drain(..files.len().saturating_sub(MAX_CORES)) {
        report.add(format_args!("the crash {name} was left out: there are more than {MAX_CORES}"));
    }
    let mut items = Vec::new();
    for (_, name) in files {
        let (exe, pid) = known.remove(&name).unwrap_or_else(|| named(&name));
        let item = format!("coredump_exe_{}_pid_{}", clean(&exe), clean(&pid));
        let path = directory.join(&name);
        match length(&path) {
            Ok(len) => items.push(Item { name: item, source: Source::Core(path), len, skip: 0 }),
            Err(error) => report.add(format_args!("the crash {} was left out: {error}", path.display())),
        }
    }
    items
}

/// Of `core.COMM.UID.BOOT.PID.TIME[.zst]` (systemd-coredump(8)): the program's and the process's names.
fn named(file: &str) -> (String, String) {
    let mut parts = file.split('.').skip(1);
    let comm = parts.next().unwrap_or("unknown").to_owned();
    (comm, parts.nth(2).unwrap_or("0").to_owned())
}

fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Part of a file's name in the archive.
fn clean(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let text: String = text.chars().take(MAX_NAME).map(plain).collect();
    if text.is_empty() { "unknown".to_owned() } else { text }
}

/// Bytes of the unpacked crash.
fn length(path: &Path) -> io::Result<u64> {
    let len = io::copy(&mut open(path)?.take(MAX_CORE_BYTES + 1), &mut io::sink())?;
    if len > MAX_CORE_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_CORE_BYTES} bytes")));
    }
    Ok(len)
}

/// The crash, unpacked as it is read.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let file: BufReader<File> = BufReader::new(file);
    Ok(match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(file)?;
            decoder.window_log_max(27)?;
            Box::new(decoder)
        }
        Some("xz") => {
            let stream = liblzma::stream::Stream::new_stream_decoder(256 << 20, 0).map_err(io::Error::other)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(file, stream))
        }
        Some("lz4") => Box::new(lz4_flex::frame::FrameDecoder::new(file)),
        _ => Box::new(file),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn crashes_are_unpacked_and_named_as_coredumpctl_would() {
        let directory = tempfile::TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        let core = b"a crash ".repeat(1000);
        fs::write(at("core.plain.0.boot.11.1"), &core).unwrap();
        fs::write(at("core.packed.0.boot.12.1.zst"), zstd::encode_all(core.as_slice(), 3).unwrap()).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(File::create(at("core.l.0.boot.13.1.lz4")).unwrap());
        lz4.write_all(&core).unwrap();
        lz4.finish().unwrap();
        let mut xz = liblzma::write::XzEncoder::new(File::create(at("core.x y.0.boot.14.1.xz")).unwrap(), 1);
        xz.write_all(&core).unwrap();
        xz.finish().unwrap();
        fs::write(at("core.broken.0.boot.15.1.zst"), b"no zstd").unwrap();
        fs::write(at("other"), b"x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("core.link.0.boot.16.1")).unwrap();
        let mut report = Report::default();
        let mut items = find(directory.path(), &[], &mut report);
        items.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "coredump_exe_l_pid_13",
                "coredump_exe_packed_pid_12",
                "coredump_exe_plain_pid_11",
                "coredump_exe_x_y_pid_14"
            ]
        );
        for item in items {
            let mut bytes = Vec::new();
            item.write(&mut bytes).unwrap();
            assert!(bytes == core, "{}", item.name);
        }
        assert!(report.to_string().starts_with("1 error occurred:\n\t* the crash "), "{report}");
    }
}

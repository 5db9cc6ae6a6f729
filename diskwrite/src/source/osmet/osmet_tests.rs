use super::*;
use proptest::prelude::*;
use testkit::disk::osmet as made;

/// An osmet file over an image with two objects, one of them cut off and filled with zeros.
struct Made {
    dir: tempfile::TempDir,
    image: Vec<u8>,
    objects: Vec<[u8; 32]>,
    partitions: Vec<made::Partition>,
}

fn noise(len: usize, mut state: u32) -> Vec<u8> {
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

fn make() -> Made {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    let mut image = noise(300_000, 1);
    // From byte 1000 of a file on, and a whole file that ends in the middle of its last block.
    let (long, short) = (noise(20_000, 2), noise(500, 3));
    let objects = vec![made::add_object(&repo, &long), made::add_object(&repo, &short)];
    image[110_000..120_000].copy_from_slice(&long[1000..11_000]);
    image[120_000..120_500].copy_from_slice(&short);
    image[120_500..124_096].fill(0);
    let first = made::Extent { file_offset: 1000, start: 110_000, len: 10_000, object: objects[0] };
    let second = made::Extent { file_offset: 0, start: 120_000, len: 4096, object: objects[1] };
    let partitions = vec![(100_000, 200_000, vec![first, second]), (200_000, 290_000, vec![])];
    made::write(&dir.path().join("a.osmet"), &image, 512, &partitions);
    Made { dir, image, objects, partitions }
}

impl Made {
    fn osmet(&self) -> Osmet {
        let found = osmet(self.dir.path(), "x86_64", 512).unwrap().unwrap();
        Osmet { repo: self.dir.path().join("repo"), ..found }
    }

    /// What comes before an error, and the error.
    fn unpack(&self, chunk: usize) -> (Vec<u8>, Option<String>) {
        let mut reader = match OsmetReader::open(&self.osmet()) {
            Ok(reader) => reader,
            Err(error) => return (vec![], Some(error.to_string())),
        };
        let (mut out, mut buf) = (Vec::new(), vec![0; chunk]);
        loop {
            match reader.read(&mut buf) {
                Ok(0) => return (out, None),
                Ok(count) => out.extend_from_slice(&buf[..count]),
                Err(error) => return (out, Some(error.into_inner().unwrap().to_string())),
            }
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("a.osmet")
    }
}

#[test]
fn picks_by_architecture_and_sector_size() {
    let dir = tempfile::tempdir().unwrap();
    for (name, sector, architecture) in [("b", 4096, "x86_64"), ("c", 512, "aarch64"), ("d", 512, "x86_64")] {
        fs::write(dir.path().join(name), made::header(sector, name, architecture)).unwrap();
    }
    fs::create_dir(dir.path().join("a")).unwrap();
    let pick = |architecture, sector| osmet(dir.path(), architecture, sector).unwrap();
    let found = pick("x86_64", 4096).unwrap();
    assert_eq!(found.to_string(), "b x86_64 (4096-byte sectors)");
    assert_eq!((found.path, found.repo), (dir.path().join("b"), "/sysroot/ostree/repo".into()));
    assert_eq!(pick("x86_64", 512).unwrap().description, "d");
    assert_eq!(pick("aarch64", 4096), None);
    assert_eq!(osmet(&dir.path().join("no"), "x86_64", 512).unwrap(), None);
    fs::write(dir.path().join("0"), "something else").unwrap();
    let error = osmet(dir.path(), "x86_64", 512).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot use the osmet file {}", dir.path().join("0").display()));
}

#[test]
fn puts_the_image_together() {
    let made = make();
    for chunk in [1 << 22, 4096, 997] {
        let (image, error) = made.unpack(chunk);
        assert!(error.is_none() && image == made.image, "{error:?}");
    }
}

#[test]
fn real_coreos_installer_unpacks_the_same() {
    if testkit::disk::skipped() {
        return;
    }
    let program = std::env::var_os("COREOS_INSTALLER").unwrap_or_else(|| "coreos-installer".into());
    let made = make();
    // It writes to block devices only.
    let out = testkit::disk::LoopDisk::new(8 << 20, 512, false);
    let mut command = std::process::Command::new(program);
    command.args(["dev", "extract", "osmet", "--osmet"]).arg(made.file()).arg(made.dir.path().join("repo"));
    match command.arg(out.path()).output() {
        Err(error) => testkit::skip::because(format_args!("coreos-installer: {error}")),
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let image = made.unpack(65536).0;
            assert!(out.read(0, u64::try_from(image.len()).unwrap()) == image);
        }
    }
}

#[test]
fn damage_is_found_before_the_last_byte() {
    let made = make();
    let object = made::object_path(&made.dir.path().join("repo"), &made.objects[0]);
    let good = fs::read(&object).unwrap();
    let mut bad = good.clone();
    bad[5000] ^= 1;
    fs::write(&object, &bad).unwrap();
    let (image, error) = made.unpack(4096);
    assert!(image.len() < made.image.len() && error.unwrap().contains("is damaged: its SHA-256 is"));
    fs::remove_file(&object).unwrap();
    let (image, error) = made.unpack(4096);
    assert_eq!(image.len(), 110_000);
    let error = error.unwrap();
    assert!(error.starts_with("cannot read byte 1000 of the live system's ") && error.contains("byte 110000"));
    fs::create_dir(&object).unwrap();
    assert!(made.unpack(4096).1.is_some());
}

#[test]
fn packed_part_is_neither_too_short_nor_too_long() {
    let made = make();
    let whole = fs::read(made.file()).unwrap();
    fs::write(made.file(), &whole[..whole.len() - 10_000]).unwrap();
    let (image, error) = made.unpack(4096);
    assert!(image.len() < made.image.len() && error.unwrap().starts_with("cannot unpack "));
    // The index of a shorter image, and the xz of this one.
    let short = &made.image[..made.image.len() - 1];
    made::write(&made.file(), short, 512, &made.partitions);
    let mut file = fs::read(made.file()).unwrap();
    file.truncate(file.len() - made::packed(short, &made.partitions).len());
    file.extend(made::packed(&made.image, &made.partitions));
    fs::write(made.file(), file).unwrap();
    let (_, error) = made.unpack(4096);
    assert!(error.unwrap().ends_with(&format!("holds more than the {} bytes of its image", short.len())));
}

#[test]
fn no_flipped_bit_passes() {
    let made = make();
    let whole = fs::read(made.file()).unwrap();
    let config = ProptestConfig::with_cases(64);
    proptest!(config, |(at in any::<prop::sample::Index>(), bit in 0u8..8, in_head in any::<bool>())| {
        let mut file = whole.clone();
        let at = at.index(if in_head { 200 } else { file.len() });
        file[at] ^= 1 << bit;
        fs::write(made.file(), &file).unwrap();
        if let Ok(Some(_)) = osmet(made.dir.path(), "x86_64", 512) {
            let (image, error) = made.unpack(65536);
            prop_assert!(error.is_some() || image == made.image);
        }
    });
}

//! A file out of layers: order, whiteouts, links, bounds.

use super::*;
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use tar::Header;

const BOUNDS: LayerBounds = LayerBounds { unpacked_bytes: 1 << 20, file_bytes: 1000 };

/// A layer of these entries: path, kind, and content or the target of a link.
fn layer(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, kind, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        // Not by the builder, which refuses hostile names.
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        let (target, content) = if is_link { (*content, "") } else { ("", *content) };
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn found_in(mut layer: &[u8], path: &str) -> Result<(Verdict, String), LayerError> {
    let mut file = tempfile::tempfile().unwrap();
    let verdict = search(&mut layer, &Place::parse(path.as_bytes()).unwrap(), BOUNDS, &file, &|| 500)?;
    file.rewind().unwrap();
    Ok((verdict, io::read_to_string(file).unwrap()))
}

fn verdict(entries: &[(&str, EntryType, &str)]) -> Verdict {
    found_in(&layer(entries), "usr/bin/program").unwrap().0
}

fn place(path: &str) -> Place {
    Place::parse(path.as_bytes()).unwrap()
}

#[test]
fn a_file_is_found_however_the_layer_is_packed() {
    let plain =
        layer(&[("./usr/bin/", EntryType::Directory, ""), ("./usr/bin/program", EntryType::Regular, "content")]);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&plain).unwrap();
    for packed in [plain.clone(), gzip.finish().unwrap(), zstd::encode_all(plain.as_slice(), 1).unwrap()] {
        assert_eq!(found_in(&packed, "usr/bin/program").unwrap(), (Verdict::File, "content".into()));
    }
    assert_eq!(found_in(&plain, "usr/bin/other").unwrap().0, Verdict::Nothing);
    let twice =
        [("usr/bin/program", EntryType::Regular, "a longer one"), ("/usr/bin/program", EntryType::Regular, "last")];
    assert_eq!(found_in(&layer(&twice), "usr/bin/program").unwrap(), (Verdict::File, "last".into()));
}

#[test]
fn long_names_are_read_in_either_form() {
    let long = format!("{}/program", "directory/".repeat(30));
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(7);
    builder.append_data(&mut header, &long, &b"content"[..]).unwrap();
    assert_eq!(found_in(&builder.into_inner().unwrap(), &long).unwrap(), (Verdict::File, "content".into()));

    let mut builder = tar::Builder::new(Vec::new());
    builder.append_pax_extensions([("path", long.as_bytes())]).unwrap();
    let mut header = Header::new_ustar();
    header.set_path("short").unwrap();
    header.set_size(7);
    header.set_cksum();
    builder.append(&header, &b"content"[..]).unwrap();
    assert_eq!(found_in(&builder.into_inner().unwrap(), &long).unwrap(), (Verdict::File, "content".into()));

    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(1 << 40);
    header.set_cksum();
    let error = found_in(header.as_bytes(), "usr/bin/program").unwrap_err();
    assert!(matches!(error, LayerError::Unpack(_)), "{error:?}");
}

#[test]
fn whiteouts_hide_what_is_below_but_not_beside() {
    use EntryType::{Directory, Regular};
    for hiding in ["usr/bin/.wh.program", "usr/.wh.bin", ".wh.usr", "usr/bin/.wh..wh..opq", "./.wh..wh..opq"] {
        assert_eq!(verdict(&[(hiding, Regular, "")]), Verdict::Hidden, "{hiding}");
        let beside = [("usr/bin/program", Regular, "new"), (hiding, Regular, "")];
        assert_eq!(verdict(&beside), Verdict::File, "{hiding}");
    }
    for other in
        ["usr/bin/.wh.programs", "usr/bin/program/.wh..wh..opq", "usr/lib/.wh..wh..opq", ".wh.program", "usr/bin/.wh."]
    {
        assert_eq!(verdict(&[(other, Regular, "")]), Verdict::Nothing, "{other}");
    }
    assert_eq!(verdict(&[("usr", Directory, ""), ("usr/bin", Directory, "")]), Verdict::Nothing);
    assert_eq!(verdict(&[("usr/bin", Regular, "a file where a directory was")]), Verdict::Hidden);
}

#[test]
fn links_lead_to_places_within_the_image() {
    use EntryType::{Link, Symlink};
    for (target, expected) in [
        ("other", "usr/bin/other"),
        ("../lib/./other", "usr/lib/other"),
        ("/opt/other", "opt/other"),
        ("../../../../../etc/passwd", "etc/passwd"),
        ("/../etc/passwd", "etc/passwd"),
    ] {
        assert_eq!(verdict(&[("usr/bin/program", Symlink, target)]), Verdict::Symlink(place(expected)), "{target}");
    }
    assert_eq!(verdict(&[("usr/bin", Symlink, "../opt")]), Verdict::Symlink(place("opt/program")));
    assert_eq!(verdict(&[("usr/bin/program", Link, "usr/bin/other")]), Verdict::Hardlink(place("usr/bin/other")));
    assert_eq!(verdict(&[("usr/bin/program", Link, "../../etc/passwd")]), Verdict::Nothing);
}

#[test]
fn names_out_of_the_image_match_nothing() {
    for path in ["../usr/bin/program", "usr/../../usr/bin/program", "/../usr/bin/program", "usr/bin/../bin/program"] {
        assert_eq!(verdict(&[(path, EntryType::Regular, "x")]), Verdict::Nothing, "{path}");
    }
    assert_eq!(Place::parse(b"a/../b"), None);
}

#[test]
fn what_is_too_large_or_of_another_kind_is_refused() {
    let of = |entries: &[(&str, EntryType, &str)]| found_in(&layer(entries), "usr/bin/program").unwrap_err();
    let long = of(&[("usr/bin/program", EntryType::Regular, &"x".repeat(1001))]);
    assert_eq!(long.to_string(), "usr/bin/program has 1001 bytes, more than 1000");
    let space = of(&[("usr/bin/program", EntryType::Regular, &"x".repeat(501))]);
    assert_eq!(space.to_string(), "501 bytes are needed, 500 are free");
    let kind = of(&[("usr/bin/program", EntryType::Fifo, "")]);
    assert_eq!(kind.to_string(), "usr/bin/program is neither a file nor a link");
    let zeros = "\0".repeat(2 << 20);
    let bomb = zstd::encode_all(layer(&[("zeros", EntryType::Regular, &zeros)]).as_slice(), 1).unwrap();
    assert!(bomb.len() < 10_000);
    assert_eq!(found_in(&bomb, "usr/bin/program").unwrap_err().to_string(), "it unpacks to more than 1048576 bytes");
    let whole = layer(&[("usr/bin/program", EntryType::Regular, &"x".repeat(400))]);
    assert!(found_in(&whole[..700], "usr/bin/program").is_err(), "a layer that ends in the file");
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, path: Vec<u8>, target: Vec<u8>) {
        let _ = found_in(&bytes, "usr/bin/program");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&bytes).unwrap();
        let _ = found_in(&gzip.finish().unwrap(), "usr/bin/program");
        if let Some(place) = Place::parse(&path) {
            let linked = place.linked(&target);
            prop_assert!(linked.0.iter().all(|part| part != b".." && part != b"." && !part.contains(&b'/')));
        }
    }
}

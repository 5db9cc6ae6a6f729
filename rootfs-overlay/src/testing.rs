//! A small ISO 9660 image for tests: directories one deep, files after them.

/// Sectors as the image has them.
const SECTOR: usize = 2048;

/// An image with `files` (`DIR/NAME.EXT`, content), and its bytes.
pub(crate) fn image(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut directories: Vec<&str> =
        files.iter().filter_map(|(path, _)| path.split_once('/')).map(|(d, _)| d).collect();
    directories.dedup();
    let mut next = 19 + u32::try_from(directories.len()).unwrap();
    let placed: Vec<(&str, u32, &[u8])> = files
        .iter()
        .map(|(path, content)| {
            let at = next;
            next += u32::try_from(content.len().div_ceil(SECTOR)).unwrap();
            (*path, at, *content)
        })
        .collect();

    let mut image = vec![0; SECTOR * usize::try_from(next).unwrap()];
    let mut root = vec![record("\0", 18, SECTOR, true), record("\x01", 18, SECTOR, true)];
    for (index, directory) in (19..).zip(&directories) {
        root.push(record(directory, index, SECTOR, true));
        let mut records = vec![record("\0", index, SECTOR, true), record("\x01", 18, SECTOR, true)];
        for (path, at, content) in &placed {
            if let Some((_, name)) = path.split_once('/').filter(|(parent, _)| parent == directory) {
                records.push(record(&format!("{name};1"), *at, content.len(), false));
            }
        }
        write(&mut image, index, &records.concat());
    }
    for (path, at, content) in &placed {
        write(&mut image, *at, content);
        if !path.contains('/') {
            root.push(record(&format!("{path};1"), *at, content.len(), false));
        }
    }
    write(&mut image, 18, &root.concat());

    let mut descriptor = vec![0; SECTOR];
    descriptor[..7].copy_from_slice(b"\x01CD001\x01");
    descriptor[40..72].copy_from_slice(format!("{:<32}", "test-volume").as_bytes());
    descriptor[80..84].copy_from_slice(&next.to_le_bytes());
    descriptor[156..190].copy_from_slice(&record("\0", 18, SECTOR, true));
    write(&mut image, 16, &descriptor);
    write(&mut image, 17, b"\xffCD001\x01");
    image
}

fn write(image: &mut [u8], sector: u32, bytes: &[u8]) {
    let at = usize::try_from(sector).unwrap() * SECTOR;
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A directory record, of even length.
fn record(name: &str, sector: u32, len: usize, is_directory: bool) -> Vec<u8> {
    let mut record = vec![0; (33 + name.len()).next_multiple_of(2)];
    record[0] = u8::try_from(record.len()).unwrap();
    record[2..6].copy_from_slice(&sector.to_le_bytes());
    record[10..14].copy_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
    record[25] = if is_directory { 2 } else { 0 };
    record[32] = u8::try_from(name.len()).unwrap();
    record[33..33 + name.len()].copy_from_slice(name.as_bytes());
    record
}

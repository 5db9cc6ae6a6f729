//! What is on a disk after an image that its signature fits, and one that it does not.

use crate::installs;

use diskwrite::{DecodeError, DiskState, Failure, InstallOptions, Trust, VerifyError};
use installs::*;
use std::fs;
use testkit::disk::{Image, LoopDisk, MIB, skipped};
use testkit::gpg::{Gpg, lacks};

#[test]
fn only_a_signed_image_gets_a_table() {
    if skipped() || lacks("gpg") {
        return;
    }
    let image = Image::new(512);
    let gpg = Gpg::default();
    let key = gpg.key("Ours <o@example.com>", "rsa2048", "sign,cert", "never", &[]);
    let trust =
        Trust { required: true, keyrings: vec![gpg.file("ring", &gpg.export(&[&key], true))], ..Default::default() };
    for tool in [None, Some("xz"), Some("gzip"), Some("zstd")] {
        let packed = image.packed(tool);
        let beside = format!("{}.sig", packed.display());
        let disk = LoopDisk::new(64 * MIB, 512, true);
        disk.put_old_tables(512);
        let options = InstallOptions { trust: trust.clone(), ..from_file(&disk, &packed) };

        let (error, cause) = fail(&options);
        let text = cause.to_string();
        assert!(text.starts_with("--insecure not specified and signature not found"), "{tool:?}: {text}");
        assert!(matches!(error.disk, DiskState::Untouched), "{error}");
        disk.assert_untouched(512);

        fs::write(&beside, gpg.sign(&key, &gpg.file("other", b"another image"), &[])).unwrap();
        let (error, cause) = fail(&options);
        assert!(is_bad(&cause, &key), "{tool:?}: {cause}");
        assert!(matches!(error.disk, DiskState::Cleared), "{error}");
        disk.assert_cleared();
        // Nor if none is required.
        let lax = Trust { required: false, ..trust.clone() };
        let (error, cause) = fail(&InstallOptions { trust: lax, ..options.clone() });
        assert!(is_bad(&cause, &key) && matches!(error.disk, DiskState::Cleared), "{error}: {cause}");
        disk.assert_cleared();

        fs::write(&beside, gpg.sign(&key, &packed, &[])).unwrap();
        go(&options).0.unwrap();
        assert_installed(&disk, &image);

        // The right signature, and the wrong sum.
        let both = Trust { sha256: Some([0; 32]), ..trust.clone() };
        let (error, _) = fail(&InstallOptions { trust: both, ..options });
        assert!(matches!(error.disk, DiskState::Cleared), "{error}");
        disk.assert_cleared();
    }
}

fn is_bad(cause: &Failure, made_by: &str) -> bool {
    let (Failure::Source(DecodeError::Verify(error)) | Failure::Verify(error)) = cause else { return false };
    matches!(error, VerifyError::Bad { key, .. } if key == made_by)
}

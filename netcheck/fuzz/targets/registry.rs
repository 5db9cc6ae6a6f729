#![no_main]

use netcheck::image::{
    auth, challenge, manifest,
    reference::{Digest, Name},
    registries,
};

// What registries say and what files say of them: manifests, challenges, names, registries.conf, credentials.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for content_type in manifest::ACCEPT.split(", ").map(Some).chain([None]) {
        let _ = manifest::parse(content_type, bytes);
    }
    if let Ok(file) = auth::parse(bytes) {
        file.login("quay.io", "a/b");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    challenge::parse(text);
    assert!(challenge::token_url("https://a.b/c", Some(text), text).is_ascii());
    if let Ok(digest) = text.parse::<Digest>() {
        assert_eq!(digest.to_string().parse::<Digest>().ok(), Some(digest));
    }
    if let Ok(registries) = registries::parse(text) {
        for name in ["quay.io/a/b:1", "a/b", "a.b:1/c"] {
            let name: Name = name.parse().expect("a name");
            if let Ok(endpoints) = registries.endpoints(&name) {
                // Each can be asked for by its name.
                endpoints
                    .iter()
                    .for_each(|endpoint| drop(endpoint.reference.to_string().parse::<Name>().expect("a name")));
            }
        }
    }
});

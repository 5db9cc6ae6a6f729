//! Contents inside a config: `data:` URLs as short as they can be, or as asked.

use crate::data_url;
use crate::model::Resource;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

/// How a content is put into its URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Text stays readable; every other byte takes three.
    Percent,
    /// Four bytes for three.
    Base64,
    /// Base64 of what gzip makes of it.
    Gzip,
    /// The shortest of these in the config.
    #[default]
    Smallest,
}

/// What `compression` costs in a config beside the URL.
const COMPRESSION_BYTES: usize = r#""compression":"gzip","#.len();

/// A resource that holds `bytes`.
pub fn resource<'a>(bytes: &[u8], encoding: Encoding) -> Resource<'a> {
    match encoding {
        Encoding::Percent => from_url(data_url::percent(bytes), false),
        Encoding::Base64 => from_url(data_url::base64(bytes), false),
        Encoding::Gzip => from_url(data_url::base64(&gzip(bytes)), true),
        Encoding::Smallest => {
            let candidates = [
                (data_url::percent(bytes), false),
                (data_url::base64(bytes), false),
                (data_url::base64(&gzip(bytes)), true),
            ];
            let cost = |(url, is_packed): &(String, bool)| url.len() + if *is_packed { COMPRESSION_BYTES } else { 0 };
            // The first of several that are as short, so a short text stays readable.
            let best = candidates.into_iter().min_by_key(cost);
            best.map(|(url, is_packed)| from_url(url, is_packed)).unwrap_or_default()
        }
    }
}

fn from_url<'a>(url: String, is_packed: bool) -> Resource<'a> {
    let compression = is_packed.then(|| "gzip".into());
    Resource { source: Some(url.into()), compression, ..Resource::default() }
}

/// Packed as well as gzip can, with the same bytes each time.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory can't fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    fn content(resource: &Resource<'_>) -> Vec<u8> {
        let data = data_url::decode(resource.source.as_deref().unwrap()).unwrap().data.into_owned();
        let mut content = Vec::new();
        match resource.compression.as_deref() {
            Some("gzip") => drop(flate2::read::GzDecoder::new(&data[..]).read_to_end(&mut content).unwrap()),
            _ => content = data,
        }
        content
    }

    #[test]
    fn the_shortest_is_taken() {
        let start = |bytes: &[u8]| {
            let resource = resource(bytes, Encoding::Smallest);
            let url: String = resource.source.as_deref().unwrap().chars().take(13).collect();
            (url, resource.compression.is_some())
        };
        assert_eq!(start(b""), ("data:,".into(), false));
        assert_eq!(start(b"node-1"), ("data:,node-1".into(), false));
        assert_eq!(start(&[0xFF; 12]), ("data:;base64,".into(), false));
        assert_eq!(start(&[b'x'; 500]), ("data:;base64,".into(), true));
    }

    proptest! {
        #[test]
        fn each_encoding_holds_the_content(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for encoding in [Encoding::Percent, Encoding::Base64, Encoding::Gzip, Encoding::Smallest] {
                prop_assert_eq!(&content(&resource(&bytes, encoding)), &bytes);
            }
        }
    }
}

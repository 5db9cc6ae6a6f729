//! The Ignition configs created by customizing, version 3.3.0, written as coreos-installer writes them: contents compressed and in
//! base64, omitted fields of files and units as null.

use super::schema::Config;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use flate2::Crc;
use miniz_oxide::deflate::{core::CompressorOxide, stream::deflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};
use serde::Serialize;

/// The version every system that can be customized understands.
const VERSION: &str = "3.3.0";
/// Magic, deflate, no flags, no time, best compression, unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255];

/// A duplicate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Duplicate {
    #[error("config already specifies path {0}")]
    Path(String),
    #[error("config already specifies unit {0}")]
    Unit(String),
}

/// A config in the making.
#[derive(Default)]
pub(crate) struct Builder {
    merge: Vec<Resource>,
    authorities: Vec<Resource>,
    files: Vec<File>,
    units: Vec<Unit>,
}

#[derive(Serialize)]
struct Resource {
    compression: &'static str,
    source: String,
}

#[derive(Serialize)]
struct File {
    contents: Resource,
    mode: u32,
    overwrite: Option<bool>,
    path: String,
}

#[derive(Serialize)]
struct Unit {
    contents: String,
    enabled: bool,
    mask: Option<bool>,
    name: String,
}

#[derive(Serialize)]
struct Document<'a> {
    ignition: Ignition<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<Storage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    systemd: Option<Systemd<'a>>,
}

#[derive(Serialize)]
struct Ignition<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Merge<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    security: Option<Security<'a>>,
    version: &'static str,
}

#[derive(Serialize)]
struct Merge<'a> {
    merge: &'a [Resource],
}

#[derive(Serialize)]
struct Security<'a> {
    tls: Tls<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tls<'a> {
    certificate_authorities: &'a [Resource],
}

#[derive(Serialize)]
struct Storage<'a> {
    files: &'a [File],
}

#[derive(Serialize)]
struct Systemd<'a> {
    units: &'a [Unit],
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { merge, authorities, files, units } = self;
        merge.is_empty() && authorities.is_empty() && files.is_empty() && units.is_empty()
    }

    /// Merges another config into it.
    pub(crate) fn merge(&mut self, config: &Config) {
        self.merge.push(resource(&config.to_json()));
    }

    /// Trusts certificates, PEM.
    pub(crate) fn add_authority(&mut self, pem: &[u8]) {
        self.authorities.push(resource(pem));
    }

    pub(crate) fn add_file(&mut self, path: String, mode: u32, content: &[u8]) -> Result<(), Duplicate> {
        if self.files.iter().any(|file| file.path == path) {
            return Err(Duplicate::Path(path));
        }
        self.files.push(File { contents: resource(content), mode, overwrite: None, path });
        Ok(())
    }

    /// Adds a unit that is enabled.
    pub(crate) fn add_unit(&mut self, name: String, contents: String) -> Result<(), Duplicate> {
        if self.units.iter().any(|unit| unit.name == name) {
            return Err(Duplicate::Unit(name));
        }
        self.units.push(Unit { contents, enabled: true, mask: None, name });
        Ok(())
    }

    /// As written, with a final newline.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let Self { merge, authorities, files, units } = self;
        let config = (!merge.is_empty()).then_some(Merge { merge });
        let security =
            (!authorities.is_empty()).then_some(Security { tls: Tls { certificate_authorities: authorities } });
        let document = Document {
            ignition: Ignition { config, security, version: VERSION },
            storage: (!files.is_empty()).then_some(Storage { files }),
            systemd: (!units.is_empty()).then_some(Systemd { units }),
        };
        let mut json = serde_json::to_vec(&document)?;
        json.push(b'\n');
        Ok(json)
    }
}

fn resource(content: &[u8]) -> Resource {
    Resource { compression: "gzip", source: format!("data:;base64,{}", BASE64.encode(gzip(content))) }
}

/// With coreos-installer's compressor: another one's output would work too, but have other bytes.
fn gzip(content: &[u8]) -> Vec<u8> {
    let mut state = Box::<CompressorOxide>::default();
    state.set_format_and_level(DataFormat::Raw, 9);
    let mut out = GZIP_HEADER.to_vec();
    let mut rest = content;
    let mut buffer = vec![0; 32 << 10];
    loop {
        let result = deflate(&mut state, rest, &mut buffer, MZFlush::Finish);
        rest = &rest[result.bytes_consumed..];
        out.extend_from_slice(&buffer[..result.bytes_written]);
        // It can't fail: the buffer has room, and finish is called once.
        if !matches!(result.status, Ok(MZStatus::Ok)) {
            break;
        }
    }
    let mut crc = Crc::new();
    crc.update(content);
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&crc.amount().to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    #[test]
    fn a_config_says_what_it_has_and_no_more() {
        let text = |builder: &Builder| String::from_utf8(builder.to_json().unwrap()).unwrap();
        let mut builder = Builder::default();
        assert_eq!(text(&builder), "{\"ignition\":{\"version\":\"3.3.0\"}}\n");
        builder.add_file("/a".to_owned(), 0o600, b"x").unwrap();
        builder.add_unit("a.service".to_owned(), "[Unit]".to_owned()).unwrap();
        assert_eq!(
            text(&builder),
            "{\"ignition\":{\"version\":\"3.3.0\"},\"storage\":{\"files\":[{\"contents\":{\"compression\":\"gzip\",\"source\":\
             \"data:;base64,H4sIAAAAAAAC/6sAAIMW3IwBAAAA\"},\"mode\":384,\"overwrite\":null,\"path\":\"/a\"}]},\"systemd\":\
             {\"units\":[{\"contents\":\"[Unit]\",\"enabled\":true,\"mask\":null,\"name\":\"a.service\"}]}}\n"
        );
        let again = builder.add_file("/a".to_owned(), 0o600, b"y").unwrap_err();
        assert_eq!(again.to_string(), "config already specifies path /a");
        let again = builder.add_unit("a.service".to_owned(), String::new()).unwrap_err();
        assert_eq!(again.to_string(), "config already specifies unit a.service");
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(content in proptest::collection::vec(any::<u8>(), 0..400), times in 0..400_usize) {
            let content = content.repeat(times);
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&gzip(&content)[..]).read_to_end(&mut unpacked).unwrap();
            prop_assert_eq!(unpacked, content);
        }
    }
}

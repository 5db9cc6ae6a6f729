//! Options of `landfall serve` about downloads of OS images.

use super::{Access, IsoStore};
use crate::media::Media;
use crate::releases::{Listing, OsImage, string_map};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use ureq::http::{HeaderName, HeaderValue};

/// Downloads of OS images.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Versions")]
pub(crate) struct IsoStoreArgs {
    /// Do not download OS images of --os-images: their hosts boot --iso, or a file of this machine
    #[arg(long)]
    pub(crate) no_download: bool,

    /// Headers of requests for OS images, a JSON object: {"Authorization":"Bearer TOKEN"}. They are not sent on after a redirect.
    /// The object itself may stand in place of the file's name
    #[arg(long, value_name = "FILE", env = "OS_IMAGES_REQUEST_HEADERS", hide_env_values = true)]
    pub(crate) os_images_request_headers: Option<Listing>,

    /// Parameters added to the addresses of OS images, a JSON object. The object itself may stand in place of the file's name
    #[arg(long, value_name = "FILE", env = "OS_IMAGES_REQUEST_QUERY_PARAMS", hide_env_values = true)]
    pub(crate) os_images_request_query_params: Option<Listing>,

    /// CA certificates that downloads of OS images trust besides this system's, PEM
    #[arg(long, value_name = "FILE", env = "OS_IMAGE_DOWNLOAD_TRUSTED_CA_FILE")]
    pub(crate) os_images_ca: Option<PathBuf>,
}

impl IsoStoreArgs {
    /// The store for those images that neither are files nor replaced by a `--iso` for their processor.
    pub(crate) fn open(
        &self,
        state_directory: &Path,
        images: &[OsImage],
        media: &Media,
        reserve_bytes: u64,
        warns_without_agent: bool,
    ) -> anyhow::Result<IsoStore> {
        if self.no_download {
            return Ok(IsoStore::default());
        }
        let wanted = images.iter().filter(|image| image.offline || media.iso_for(&image.cpu_architecture).is_none());
        let access = Access {
            headers: self.headers()?,
            query: self.query()?,
            ca: self.os_images_ca.clone(),
            reserve_bytes,
            warns_without_agent,
            ..Access::default()
        };
        access.agent().context("cannot set up downloads of OS images")?;
        let store = IsoStore::open(state_directory, wanted, access)?;
        if !store.is_empty() {
            tracing::info!(images = store.len(), "OS images that are not stored yet are downloaded");
        }
        Ok(store)
    }

    fn headers(&self) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
        let mut headers = Vec::new();
        for (name, value) in self.os_images_request_headers.as_ref().map(string_map).transpose()?.unwrap_or_default() {
            let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value)) else {
                bail!("--os-images-request-headers: {name:?} or its value cannot be in a header");
            };
            value.set_sensitive(true);
            headers.push((name, value));
        }
        Ok(headers)
    }

    fn query(&self) -> anyhow::Result<Vec<(String, api::Secret)>> {
        let map = self.os_images_request_query_params.as_ref().map(string_map).transpose()?.unwrap_or_default();
        Ok(map.into_iter().map(|(name, value)| (name, api::Secret::new(value))).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn secrets_of_requests_are_read_and_not_shown() {
        let listing = |text: &str| Some(Listing::Text(text.to_owned()));
        let args = IsoStoreArgs {
            os_images_request_headers: listing(r#"{"X-Token": "hunter2"}"#),
            os_images_request_query_params: listing(r#"{"key": "hunter2"}"#),
            ..IsoStoreArgs::default()
        };
        let (headers, query) = (args.headers().unwrap(), args.query().unwrap());
        assert_eq!((headers[0].0.as_str(), headers[0].1.as_bytes()), ("x-token", b"hunter2".as_slice()));
        assert_eq!((query[0].0.as_str(), query[0].1.expose()), ("key", "hunter2"));
        assert!(!format!("{headers:?}{query:?}").contains("hunter2"));
        for bad in [r#"{"a b": "c"}"#, r#"{"a": "b\nhunter2"}"#, r#"{"a": 1}"#, "[]"] {
            let bad = IsoStoreArgs { os_images_request_headers: listing(bad), ..IsoStoreArgs::default() };
            let error = format!("{:#}", bad.headers().unwrap_err());
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}

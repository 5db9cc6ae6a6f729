//! Live ISOs of listed OS images that are elsewhere: downloaded once in the background, checked, and kept in the state directory.

mod args;
mod check;
mod fetch;
mod files;
#[cfg(test)]
mod tests;

pub(crate) use args::IsoStoreArgs;
pub use fetch::{Access, Pace};
pub use files::StoreError;

use crate::media::LiveIso;
use crate::releases::OsImage;
use crate::text::chain;
use api::http::public_url;
use files::Place;
use kernel::Cancel;
use serde::Serialize;
use std::{
    path::Path,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// Downloads at once.
pub(crate) const AT_ONCE: usize = 2;
/// Below the state directory.
const DIRECTORY: &str = "os-images";

/// The ISOs, and how far each is.
#[derive(Debug, Default)]
pub struct IsoStore {
    slots: Vec<Slot>,
    access: Access,
    states: Mutex<Vec<Progress>>,
}

/// An image's state, and how many attempts failed.
#[derive(Clone, Debug, Default)]
struct Progress {
    state: State,
    tries: u32,
}

#[derive(Debug)]
struct Slot {
    image: OsImage,
    place: Place,
    iso: OnceLock<LiveIso>,
}

/// How far an image is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waiting,
    /// What was stored before is read.
    Checking,
    Fetching {
        bytes: u64,
        total: Option<u64>,
    },
    Failed {
        why: String,
        again: Instant,
    },
    Ready,
}

/// An image of the store.
pub(crate) enum Found<'a> {
    Ready(&'a LiveIso),
    /// Why it is not ready yet.
    Pending(String),
}

/// One image, as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Shown<'a> {
    openshift_version: &'a str,
    cpu_architecture: &'a str,
    version: &'a str,
    url: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What a worker does next.
enum Next {
    Obtain(usize),
    Sleep(Duration),
    Nothing,
}

impl IsoStore {
    /// A store below `state_directory` for those of `images` that are elsewhere; other files that were downloaded to it before are
    /// removed. Images that are equal in build, processor and kind are one.
    pub fn open<'a>(
        state_directory: &Path,
        images: impl Iterator<Item = &'a OsImage>,
        access: Access,
    ) -> Result<Self, StoreError> {
        let directory = state_directory.join(DIRECTORY);
        let mut store = Self { access, ..Self::default() };
        for image in images.filter(|image| image.path().is_none()) {
            if store.slot(image).is_none() {
                let place = Place::new(&directory, image);
                store.slots.push(Slot { image: image.clone(), place, iso: OnceLock::new() });
            }
        }
        store.states = Mutex::new(vec![Progress::default(); store.slots.len()]);
        if !store.slots.is_empty() || directory.is_dir() {
            let places: Vec<&Place> = store.slots.iter().map(|slot| &slot.place).collect();
            files::prepare(&directory, &places)?;
        }
        Ok(store)
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn slot(&self, image: &OsImage) -> Option<(usize, &Slot)> {
        let key = |image: &OsImage| (image.version.clone(), image.cpu_architecture.clone(), image.offline);
        self.slots.iter().enumerate().find(|(_, slot)| key(&slot.image) == key(image))
    }

    /// The ISO of an image, if it is one of the store's.
    pub(crate) fn find(&self, image: &OsImage) -> Option<Found<'_>> {
        let (index, slot) = self.slot(image).filter(|_| image.path().is_none())?;
        if let Some(iso) = slot.iso.get() {
            return Some(Found::Ready(iso));
        }
        let how_far = match self.states().get(index).map(|progress| &progress.state) {
            Some(State::Fetching { bytes, total: Some(total) }) if *total > 0 => {
                format!("it is being downloaded, {} %", bytes.saturating_mul(100) / total)
            }
            Some(State::Fetching { .. }) => "it is being downloaded".to_owned(),
            Some(State::Checking) => "the stored file is being checked".to_owned(),
            Some(State::Failed { why, again, .. }) => {
                let wait = again.saturating_duration_since(Instant::now()).as_secs();
                format!("its download failed and is tried again in {wait} s: {why}")
            }
            _ => "its download has not begun".to_owned(),
        };
        let OsImage { version, cpu_architecture, .. } = &slot.image;
        Some(Found::Pending(format!("the OS image {version} for {cpu_architecture} is not ready: {how_far}")))
    }

    /// Whether all images are ready.
    pub fn is_ready(&self) -> bool {
        self.slots.iter().all(|slot| slot.iso.get().is_some())
    }

    /// All images, in the order of the list.
    pub(crate) fn show(&self) -> Vec<Shown<'_>> {
        let states = self.states().clone();
        let show = |(slot, Progress { state, .. }): (&'_ Slot, Progress)| {
            let mut shown = Shown {
                openshift_version: "",
                cpu_architecture: "",
                version: "",
                url: public_url(&slot.image.url),
                state: "waiting",
                bytes: None,
                total_bytes: None,
                error: None,
            };
            match state {
                State::Waiting => {}
                State::Checking => shown.state = "checking",
                State::Ready => shown.state = "ready",
                State::Fetching { bytes, total } => {
                    (shown.state, shown.bytes, shown.total_bytes) = ("downloading", Some(bytes), total);
                }
                State::Failed { why, .. } => (shown.state, shown.error) = ("failed", Some(why)),
            }
            shown
        };
        let shown = self.slots.iter().zip(states);
        shown
            .map(|(slot, state)| Shown {
                openshift_version: &slot.image.openshift_version,
                cpu_architecture: &slot.image.cpu_architecture,
                version: &slot.image.version,
                ..show((slot, state))
            })
            .collect()
    }

    fn states(&self) -> MutexGuard<'_, Vec<Progress>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, index: usize, state: State) {
        if let Some(own) = self.states().get_mut(index) {
            own.state = state;
        }
    }

    /// Takes the next image that is due.
    fn next(&self, now: Instant) -> Next {
        let mut states = self.states();
        let wait = |progress: &Progress| match &progress.state {
            State::Waiting => Some(Duration::ZERO),
            State::Failed { again, .. } => Some(again.saturating_duration_since(now)),
            State::Checking | State::Fetching { .. } | State::Ready => None,
        };
        let due = states.iter_mut().enumerate().filter_map(|(index, own)| Some((wait(own)?, index, own)));
        match due.min_by_key(|(wait, index, _)| (*wait, *index)) {
            Some((wait, index, own)) if wait.is_zero() => {
                own.state = State::Checking;
                Next::Obtain(index)
            }
            Some((wait, ..)) => Next::Sleep(wait),
            None => Next::Nothing,
        }
    }

    /// Gets images until there is nothing more to do, or it is cancelled.
    pub fn work(&self, cancel: &Cancel) {
        while !cancel.is_cancelled() {
            match self.next(Instant::now()) {
                Next::Obtain(index) => self.obtain(index, cancel),
                Next::Sleep(wait) => drop(cancel.sleep(wait)),
                Next::Nothing => return,
            }
        }
    }

    fn obtain(&self, index: usize, cancel: &Cancel) {
        let Some(slot) = self.slots.get(index) else { return };
        let url = public_url(&slot.image.url);
        let mut begin = None;
        let mut progress = |bytes, total| {
            if let Some(own) = self.states().get_mut(index) {
                own.state = State::Fetching { bytes, total };
                if bytes > *begin.get_or_insert(bytes) {
                    own.tries = 0;
                }
            }
        };
        match fetch::obtain(&slot.image, &slot.place, &self.access, cancel, &mut progress) {
            Ok(iso) => {
                tracing::info!(url, version = slot.image.version, file = %iso.path().display(), "the OS image is ready");
                // Only this worker has the slot.
                let _ = slot.iso.set(iso);
                self.set(index, State::Ready);
            }
            Err(_) if cancel.is_cancelled() => {}
            Err(error) => {
                let mut states = self.states();
                let Some(own) = states.get_mut(index) else { return };
                let pause = match error.is_lasting() {
                    true => self.access.pace.longest_pause,
                    false => self.access.pace.pause(own.tries),
                };
                own.tries = own.tries.saturating_add(1);
                let why = chain(&error);
                tracing::warn!(url, error = why, retry_in_s = pause.as_secs(), "cannot get the OS image");
                own.state = State::Failed { why, again: Instant::now() + pause };
            }
        }
    }
}

//! The machine that facts are read from: the running system, or one captured from another machine.

use crate::{
    archive::{self, ArchiveError},
    ask::{Patience, Question},
};
use kernel::record::Recorder;
use std::{
    io,
    ops::Deref,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Longest answer of a captured device or table.
const ANSWER_BYTES: usize = 64 << 20;

/// A directory that stands for `/` (a [`kernel::Root`]), and devices to ask: this crate reads files and asks devices only through it.
#[derive(Debug)]
pub struct Root {
    tree: kernel::Root,
    /// What the running system is asked with; a captured tree has only files.
    patience: Option<Patience>,
    /// Where an archive was unpacked to, removed with it.
    _unpacked: Option<TempDir>,
}

impl Deref for Root {
    type Target = kernel::Root;

    fn deref(&self) -> &kernel::Root {
        &self.tree
    }
}

/// Why a root can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// Neither a directory nor a file.
    #[error("cannot open {} as a system root: it must be a directory such as / or a capture", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// A file that is not a capture.
    #[error("cannot use {} as a system root: it must be a directory such as / or a capture", path.display())]
    Archive { path: PathBuf, source: ArchiveError },
}

impl Root {
    /// The running system when `path` is `/`, else a captured tree: a directory, or a file of `landfall capture` or other
    /// tar archive, which is unpacked into a temporary directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RootError> {
        let path = path.as_ref();
        if !path.is_file() {
            return Self::open_dir(path, None);
        }
        let (unpacked, root) =
            archive::unpack(path).map_err(|source| RootError::Archive { path: path.to_owned(), source })?;
        Self::open_dir(&root, Some(unpacked))
    }

    fn open_dir(path: &Path, unpacked: Option<TempDir>) -> Result<Self, RootError> {
        let tree = kernel::Root::open(path).map_err(|source| RootError::Open { path: path.to_owned(), source })?;
        Ok(Self { patience: tree.is_live().then(Patience::default), tree, _unpacked: unpacked })
    }

    /// Records all that is read from now on.
    pub(crate) fn recording(self) -> Self {
        Self { tree: self.tree.recording(), ..self }
    }

    /// What was read since.
    pub(crate) fn into_record(self) -> Option<Recorder> {
        self.tree.into_record()
    }

    /// The answer of the kernel or a device, or what a captured machine had answered. A device that does not answer in
    /// time is not asked again.
    pub(crate) fn ask(&self, question: &Question) -> io::Result<Vec<u8>> {
        self.ask_all(std::slice::from_ref(question)).pop().unwrap_or_else(|| Err(io::ErrorKind::Other.into()))
    }

    /// The answers to several questions, in their order; devices are asked at the same time.
    pub(crate) fn ask_all(&self, questions: &[Question]) -> Vec<io::Result<Vec<u8>>> {
        let Some(patience) = &self.patience else {
            return questions.iter().map(|question| self.read(question.path(), ANSWER_BYTES)).collect();
        };
        let answers = patience.ask_all(questions);
        if let Some(recorder) = self.recorder() {
            for (question, answer) in questions.iter().zip(&answers) {
                recorder.answer(Path::new(&question.path()), answer);
            }
        }
        answers
    }

    /// Attributes in one directory of sysfs whose driver asks a device for them, in their order: with the time limit for
    /// devices.
    pub(crate) fn measurements(&self, dir: &str, files: &[String]) -> Vec<Option<String>> {
        self.measured(&files.iter().map(|file| format!("{dir}/{file}")).collect::<Vec<_>>())
    }

    /// The same, wherever they are.
    pub(crate) fn measured(&self, paths: &[String]) -> Vec<Option<String>> {
        let places: Vec<Option<PathBuf>> = paths.iter().map(|path| self.resolve(path)).collect();
        let question = |path: &PathBuf| Question::Measurement { path: path.to_string_lossy().into_owned() };
        let questions: Vec<Question> = places.iter().flatten().map(question).collect();
        let mut answers = self.ask_all(&questions).into_iter();
        let text = |bytes: Vec<u8>| {
            String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
        };
        places.iter().map(|place| place.as_ref().and_then(|_| answers.next()?.ok()).map(text)).collect()
    }
}

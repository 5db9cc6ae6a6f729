//! Manifests between the two commands: split into documents, patched, put in.

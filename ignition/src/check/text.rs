//! Checks of single texts.

/// A path that is absolute and has nothing to leave out.
pub(super) fn path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        Err("path not specified")
    } else if !path.starts_with('/') {
        Err("path not absolute")
    } else if clean(path) != path {
        Err("path is not fully simplified")
    } else {
        Ok(())
    }
}

/// The same path without what leads nowhere, by its text alone.
pub(crate) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (path.starts_with('/'), joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// Empty, or hexadecimal digits in five groups.
pub(super) fn is_guid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').collect();
    let is_group =
        |(group, len): (&&str, usize)| group.len() == len && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.is_empty() || groups.len() == 5 && groups.iter().zip([8, 4, 4, 4, 12]).all(is_group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_clean_or_the_reason_is_given() {
        for good in ["/", "/a", "/a/b.c/..d"] {
            assert_eq!(path(good), Ok(()), "{good}");
        }
        for (bad, fault) in [
            ("", "path not specified"),
            ("a", "path not absolute"),
            ("/a/", "path is not fully simplified"),
            ("//a", "path is not fully simplified"),
            ("/a/./b", "path is not fully simplified"),
            ("/..", "path is not fully simplified"),
        ] {
            assert_eq!(path(bad), Err(fault), "{bad}");
        }
        for (given, cleaned) in
            [("a/../..", ".."), ("", "."), ("/../a", "/a"), ("a/./b/", "a/b"), ("../../a", "../../a")]
        {
            assert_eq!(clean(given), cleaned, "{given}");
        }
    }

    #[test]
    fn guids_have_their_form() {
        for good in ["", "01234567-89ab-CDEF-EDCB-A98765432101"] {
            assert!(is_guid(good), "{good}");
        }
        for bad in [
            "x",
            "01234567-89AB-CDEF-EDCB-A9876543210",
            "01234567-89AB-CDEF-EDCBA98765432101-",
            "g1234567-89AB-CDEF-EDCB-A98765432101",
        ] {
            assert!(!is_guid(bad), "{bad}");
        }
    }
}

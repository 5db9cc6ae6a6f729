//! Telling Butane from Ignition: people take one for the other.

/// As far as the two differ.
const MAX_LOOK_BYTES: usize = 64 << 10;

/// What to do with a config that is Butane.
pub const ADVICE: &str = "it is Butane: `landfall ignition translate --strict FILE` makes an Ignition config of it";

/// Whether a config is Butane: YAML with a variant at the top.
pub fn is_butane(config: &[u8]) -> bool {
    let start = &config[..config.len().min(MAX_LOOK_BYTES)];
    start.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"variant:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_variant_at_the_top_makes_it_butane() {
        assert!(is_butane(b"# node\nvariant: fcos\nversion: 1.5.0\n"));
        for other in
            [&b"{\"ignition\": {\"version\": \"3.4.0\"}}"[..], b"a:\n  variant: x\n", b"", b"{\n\"variant\": 1}"]
        {
            assert!(!is_butane(other), "{other:?}");
        }
    }
}

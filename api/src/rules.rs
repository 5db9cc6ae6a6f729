//! Rules for texts that both ends of the wire must share.

/// Names that are not valid hostnames.
pub const FORBIDDEN_HOSTNAMES: [&str; 6] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
];

/// Flags that `installer_args` may hold.
pub const INSTALLER_FLAGS: [&str; 9] = [
    "--append-karg",
    "--delete-karg",
    "-n",
    "--copy-network",
    "--network-dir",
    "--save-partlabel",
    "--save-partindex",
    "--image-url",
    "--image-file",
];

/// Whether a value in `installer_args` may hold `c`. The published pattern has `+-=` inside a class, which is the range from
/// `+` to `=`.
pub fn is_installer_value_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "@!#$%*()_/.,\";':{}[]".contains(c) || ('+'..='=').contains(&c)
}

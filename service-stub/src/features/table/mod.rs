//! The rules, feature by feature. Exclusions are in the order in which they are published.

pub(crate) mod generic;
pub(crate) mod networks;
pub(crate) mod operators;
pub(crate) mod platforms;

use super::feature::{Feature, features};
use super::row::Row;

macro_rules! rows {
    ($($variant:ident $id:literal $row:path,)*) => {
        impl Feature {
            /// Its rules.
            pub(crate) fn row(self) -> &'static Row {
                match self {
                    $(Self::$variant => &$row,)*
                }
            }
        }
    };
}

features!(rows);

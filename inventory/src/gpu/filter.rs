//! Which PCI functions count as graphics or accelerators: by default four classes, else what a file says.
//!
//! The file is YAML of one shape only, three lists of texts; no other YAML is understood here.

/// Which PCI functions are reported: by class, by class and vendor, or by class, vendor and device; all in lower-case
/// hexadecimal digits without blanks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuFilter {
    classes: Vec<String>,
    vendors: Vec<String>,
    models: Vec<String>,
}

/// A file that is not such a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: {what}: {seen:?}; expected lines such as `classes: ['0300']`, `vendors: ['0302 10de']` and `models: ['1200 1da3 1020']`"
)]
pub struct GpuFilterError {
    /// Counted from 1.
    pub line: usize,
    pub what: &'static str,
    pub seen: String,
}

impl Default for GpuFilter {
    /// PCI base class and subclass: VGA, 3D, other display, processing accelerator.
    fn default() -> Self {
        let classes = ["0300", "0302", "0380", "1200"].map(str::to_owned).to_vec();
        Self { classes, vendors: Vec::new(), models: Vec::new() }
    }
}

impl GpuFilter {
    /// Takes a file apart. It stands for all three lists: one that is not in it is empty.
    pub fn parse(text: &str) -> Result<Self, GpuFilterError> {
        let mut filter = Self { classes: Vec::new(), vendors: Vec::new(), models: Vec::new() };
        // The list that items belong to, and how many digits one has.
        let mut list: Option<(&mut Vec<String>, usize)> = None;
        let mut is_open = false;
        for (index, line) in text.lines().enumerate() {
            let fail = |what, seen: &str| GpuFilterError { line: index + 1, what, seen: seen.to_owned() };
            let content = uncommented(line).trim_end();
            let mut rest = content.trim_start();
            if rest.is_empty() || matches!(rest, "---" | "...") {
                continue;
            }
            if !is_open && let Some(item) = rest.strip_prefix('-') {
                let (list, digits) = list.as_mut().ok_or_else(|| fail("an item outside of a list", rest))?;
                list.push(item_of(item, *digits).ok_or_else(|| fail("not an identifier of this list", item.trim()))?);
                continue;
            }
            if !is_open {
                let (key, value) = rest.split_once(':').ok_or_else(|| fail("neither a list nor an item", rest))?;
                list = Some(match key.trim().trim_matches(['\'', '"']) {
                    "classes" => (&mut filter.classes, 4),
                    "vendors" => (&mut filter.vendors, 8),
                    "models" => (&mut filter.models, 12),
                    _ => return Err(fail("an unknown list", key.trim())),
                });
                rest = match value.trim() {
                    "" | "null" | "~" => continue,
                    value => value.strip_prefix('[').ok_or_else(|| fail("not a list", value))?,
                };
                is_open = true;
            }
            let Some((list, digits)) = &mut list else { continue };
            let inside = match rest.strip_suffix(']') {
                Some(inside) => {
                    is_open = false;
                    inside
                }
                None => rest,
            };
            for item in inside.split(',').filter(|item| !item.trim().is_empty()) {
                list.push(item_of(item, *digits).ok_or_else(|| fail("not an identifier of this list", item.trim()))?);
            }
        }
        if is_open {
            return Err(GpuFilterError {
                line: text.lines().count(),
                what: "a list without an end",
                seen: String::new(),
            });
        }
        Ok(filter)
    }

    /// Whether a function is reported. All are lower-case hexadecimal digits.
    pub(crate) fn wants(&self, class: &str, vendor: &str, device: &str) -> bool {
        let lists = |list: &[String], id: String| list.contains(&id);
        lists(&self.classes, class.to_owned())
            || lists(&self.vendors, format!("{class}{vendor}"))
            || lists(&self.models, format!("{class}{vendor}{device}"))
    }
}

/// No identifier has a `#` in it.
fn uncommented(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

fn item_of(text: &str, digits: usize) -> Option<String> {
    let text = text.trim();
    let plain = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(text);
    let id: String = plain.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase()).collect();
    (id.len() == digits && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(classes: &[&str], vendors: &[&str], models: &[&str]) -> GpuFilter {
        let own = |list: &[&str]| list.iter().map(|id| (*id).to_owned()).collect();
        GpuFilter { classes: own(classes), vendors: own(vendors), models: own(models) }
    }

    #[test]
    fn all_ways_to_write_a_list() {
        let text = "---\n# ours\nclasses: ['0300', \"0302\",0380]\nvendors:\n  - '0302 10DE' # theirs\n- 0300 1002\n\
                    \"models\": [\n  '1200 1da3 1020',\n  '1200 1da3 1060',\n]\n";
        let expected = filter(&["0300", "0302", "0380"], &["030210de", "03001002"], &["12001da31020", "12001da31060"]);
        assert_eq!(GpuFilter::parse(text), Ok(expected));
        assert_eq!(GpuFilter::parse(""), Ok(filter(&[], &[], &[])));
        assert_eq!(GpuFilter::parse("classes: []\nmodels: null\n"), Ok(filter(&[], &[], &[])));
    }

    #[test]
    fn what_is_no_filter() {
        for (text, line) in [
            ("clases: ['0300']", 1),
            ("classes: 0300", 1),
            ("classes: ['300']", 1),
            ("\nvendors: ['0300']", 2),
            ("models:\n- 0300 10de 12zz", 2),
            ("- '0300'", 1),
            ("0300", 1),
            ("classes: ['0300',\n", 1),
        ] {
            assert_eq!(GpuFilter::parse(text).unwrap_err().line, line, "{text}");
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(text in "(classes|vendors|models|-|:|\\[|\\]|'|\"|,|#|\n| |0300|10de|é){0,40}") {
            let _ = GpuFilter::parse(&text);
        }
    }
}

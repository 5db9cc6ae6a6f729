//! `WWW-Authenticate`: what a registry wants to see (RFC 9110 §11.6.1), and the URL of its token server
//! (distribution's token authentication specification).

use std::fmt::Write;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// User name and password with every request (RFC 7617).
    Basic,
    /// A token that `realm` gives out.
    Bearer {
        /// URL of the token server.
        realm: String,
        /// The registry's name there.
        service: Option<String>,
        /// What the token is to permit.
        scope: Option<String>,
    },
}

/// The challenges of one header field that we can answer, in order. What can't be parsed ends the list.
pub fn parse(header: &str) -> Vec<Challenge> {
    let mut challenges = Vec::new();
    let mut rest = header;
    while let Some((scheme, after)) = token(rest.trim_start_matches([',', ' ', '\t'])) {
        let (parameters, after) = parameters(after);
        rest = after;
        let get = |name: &str| parameters.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        if scheme.eq_ignore_ascii_case("basic") {
            challenges.push(Challenge::Basic);
        } else if scheme.eq_ignore_ascii_case("bearer")
            && let Some(realm) = get("realm")
        {
            challenges.push(Challenge::Bearer { realm, service: get("service"), scope: get("scope") });
        }
    }
    challenges
}

/// The URL to ask for a token.
pub fn token_url(realm: &str, service: Option<&str>, scope: &str) -> String {
    let mut url = realm.to_owned();
    let queries = service.map(|service| ("service", service)).into_iter().chain([("scope", scope)]);
    for (name, value) in queries {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(name);
        url.push('=');
        for byte in value.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(char::from(byte)),
                // Writing to a String does not fail.
                _ => drop(write!(url, "%{byte:02X}")),
            }
        }
    }
    url
}

/// A token (RFC 9110 §5.6.2) and what follows it.
fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// `name=value` pairs, names in lower case, up to the next scheme or the end.
fn parameters(mut rest: &str) -> (Vec<(String, String)>, &str) {
    let mut found = Vec::new();
    loop {
        let start = rest.trim_start_matches([',', ' ', '\t']);
        let Some((name, after)) = token(start) else { return (found, start) };
        // What is followed by no equals sign is the next challenge's scheme.
        let Some(after) = after.trim_start().strip_prefix('=') else { return (found, start) };
        let Some((value, after)) = value(after.trim_start()) else { return (found, "") };
        found.push((name.to_ascii_lowercase(), value));
        rest = after;
    }
}

fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else { return token(text).map(|(value, rest)| (value.to_owned(), rest)) };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Challenge::Bearer { realm: realm.into(), service: owned(service), scope: owned(scope) }
    }

    #[test]
    fn challenges_of_registries() {
        let quay = r#"Bearer realm="https://quay.io/v2/auth",service="quay.io",scope="repository:a/b:pull,push""#;
        assert_eq!(parse(quay), [bearer("https://quay.io/v2/auth", Some("quay.io"), Some("repository:a/b:pull,push"))]);
        assert_eq!(parse(r#"Basic realm="basic-realm""#), [Challenge::Basic]);
        assert_eq!(parse("BASIC"), [Challenge::Basic]);
        let both = r#"Negotiate, Basic realm="a \"quoted\" one", bearer Realm = "https://a/b" , error="invalid_token""#;
        assert_eq!(parse(both), [Challenge::Basic, bearer("https://a/b", None, None)]);
    }

    #[test]
    fn what_is_damaged_ends_the_list() {
        for text in ["", "Bearer", "Bearer service=\"a\"", "Bearer realm=\"https://a", "\u{e9}", "Bearer realm=\"a\\"] {
            assert_eq!(parse(text), [], "{text}");
        }
    }

    #[test]
    fn queries_are_escaped() {
        assert_eq!(
            token_url("https://a/t", Some("r&d é"), "repository:a/b:pull"),
            "https://a/t?service=r%26d%20%C3%A9&scope=repository%3Aa%2Fb%3Apull"
        );
        assert_eq!(token_url("https://a/t?x=1", None, "s"), "https://a/t?x=1&scope=s");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in any::<String>(), like in r#"[ a-zA-Z,="\\]{0,60}"#) {
            parse(&text);
            parse(&like);
        }
    }
}

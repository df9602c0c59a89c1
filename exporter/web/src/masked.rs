//! Credentials in addresses, which no error may show.

use std::borrow::Cow;

/// The text without user and password of an address in it: `http://user:secret@host/` is `http://***@host/`. What is no
/// address as it should be, such as one whose password has a slash, loses rather more than too little.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    let scheme = text.find("://").map(|at| at + 3);
    let (before, rest) = text.split_at(scheme.unwrap_or(0));
    let end = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let at = match authority.rfind('@') {
        Some(at) if scheme.is_some() || authority[..at].contains(':') => Some(at),
        None if !may_have_port(authority) => rest.rfind('@'),
        _ => None,
    };
    match at {
        Some(at) => format!("{before}***{}", &rest[at..]).into(),
        None => text.into(),
    }
}

/// Is what follows its last colon, if anything does, a port or a part of an IPv6 address?
fn may_have_port(authority: &str) -> bool {
    let after = authority.rsplit_once(':').map_or("", |(_, after)| after);
    authority.starts_with('[') || after.bytes().all(|byte| byte.is_ascii_digit())
}

/// An address without its query, which may hold a secret.
#[must_use]
pub fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_are_masked_and_nothing_else() {
        for (text, expected) in [
            ("http://u:s3cret@h:1/p?q", "http://***@h:1/p?q"),
            ("https://u@h", "https://***@h"),
            ("http://u:p@ss@h/", "http://***@h/"),
            ("http://h/a@b", "http://h/a@b"),
            ("u:s3cret@h:1", "***@h:1"),
            ("me@h", "me@h"),
            ("http://u:s3/cret@h/", "http://***@h/"),
            ("http://u:s3cret@[::1/", "http://***@[::1/"),
            ("http://[::1]:9400/a@b", "http://[::1]:9400/a@b"),
            ("http://h:9400/a@b", "http://h:9400/a@b"),
            ("", ""),
        ] {
            assert_eq!(masked(text), expected, "{text}");
        }
        assert_eq!(without_query("http://h/p?token=s3cret"), "http://h/p");
    }
}

//! Credentials in addresses, which no error may show.

use std::borrow::Cow;

/// The text without user and password of an address in it: `http://user:secret@host/` is `http://***@host/`.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    let Some(begin) = text.find("://").map(|at| at + 3) else { return text.into() };
    let (before, rest) = text.split_at(begin);
    let end = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{before}***{}", &rest[at..]).into(),
        None => text.into(),
    }
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
            ("u:p@h", "u:p@h"),
            ("", ""),
        ] {
            assert_eq!(masked(text), expected, "{text}");
        }
        assert_eq!(without_query("http://h/p?token=s3cret"), "http://h/p");
    }
}

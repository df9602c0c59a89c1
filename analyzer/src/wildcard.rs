//! Patterns of the configuration.

/// Does the text have the form of the pattern, in which `*` stands for any characters?
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(between) = last.replace(part) {
            let Some((_, after)) = rest.split_once(between) else { return false };
            rest = after;
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, is_match) in [
            ("*", "", true),
            ("*", "NVIDIA H100 80GB HBM3", true),
            ("NVIDIA H100*", "NVIDIA H100 80GB HBM3", true),
            ("*H100*HBM3", "NVIDIA H100 80GB HBM3", true),
            ("*H100*", "NVIDIA A100-SXM4-80GB", false),
            ("NVIDIA H100", "NVIDIA H100 80GB HBM3", false),
            ("a*a", "a", false),
            ("", "x", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, text), is_match, "{pattern} {text}");
        }
    }
}

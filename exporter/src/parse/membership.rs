//! `/proc/PID/cgroup`: where a process is in each cgroup hierarchy (cgroups(7)).

use std::borrow::Cow;

use super::{ParseError, Parsed, each_line};

/// A process's place in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership<'a> {
    /// v1 controllers as the kernel lists them (`cpu,cpuacct`, `name=systemd`); empty for v2.
    pub controllers: &'a str,
    /// The cgroup, from the hierarchy's root.
    pub path: Cow<'a, str>,
}

/// Parses the file. Hierarchies in which the path cannot be known from here are left out.
pub fn parse(text: &str) -> Parsed<Vec<Membership<'_>>> {
    let mut memberships = Vec::new();
    let parsed = each_line(text, |number, line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next().filter(|p| p.starts_with('/'))) else {
            return Err(ParseError::new(number, "hierarchy:controllers:/path", line));
        };
        if let Some(path) = from_the_root(path) {
            memberships.push(Membership { controllers, path });
        }
        Ok(())
    });
    parsed.map(|()| memberships)
}

/// The path from the hierarchy's root.
///
/// A reader in a cgroup namespace of its own sees other cgroups relative to its own: `/../../user-1000.slice/…`. The
/// folders left out in between are known only below a systemd slice, whose name spells its parents (systemd.slice(5)).
fn from_the_root(path: &str) -> Option<Cow<'_, str>> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let mut rest = path;
    while let Some(outside) = rest.strip_prefix("/..").filter(|r| r.is_empty() || r.starts_with('/')) {
        rest = outside;
    }
    if rest.len() == path.len() {
        return Some(Cow::Borrowed(path));
    }
    let first = rest.get(1..)?.split('/').next()?;
    let stem = first.strip_suffix(".slice").unwrap_or_default();
    let dashes = stem.match_indices('-').filter(|(at, _)| *at > 0);
    let parents: String = dashes.map(|(at, _)| format!("/{}.slice", &stem[..at])).collect();
    Some(Cow::Owned(parents + rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(text: &str) -> Vec<(String, String)> {
        parse(text).value.into_iter().map(|m| (m.controllers.to_owned(), m.path.into_owned())).collect()
    }

    fn pair(controllers: &str, path: &str) -> (String, String) {
        (controllers.to_owned(), path.to_owned())
    }

    #[test]
    fn hybrid_hosts_have_both_kinds() {
        let text = "5:cpu,cpuacct:/a:b\n1:name=systemd:/init.scope\n0::/unified\n";
        let expected = [pair("cpu,cpuacct", "/a:b"), pair("name=systemd", "/init.scope"), pair("", "/unified")];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn private_namespaces() {
        for (seen, path) in [
            ("/../../user-1000.slice/session-3.scope", "/user.slice/user-1000.slice/session-3.scope"),
            (
                "/../kubepods-besteffort-podx.slice/c",
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podx.slice/c",
            ),
            ("/../lab/x", "/lab/x"),
            ("/..x/y", "/..x/y"),
            ("/gone (deleted)", "/gone"),
        ] {
            assert_eq!(paths(&format!("0::{seen}\n")), [pair("", path)]);
        }
        assert_eq!(paths("0::/..\n"), []);
    }

    #[test]
    fn malformed_lines_are_named() {
        assert_eq!(parse("0::/\nnonsense\n").left_out.first.unwrap().line, 2);
        assert_eq!(parse("0::relative").left_out.count, 1);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(0::|[0-9]:cpu:|/|\\.\\.|-|\\.slice|\n|\\PC)*") {
            let _ = parse(&text);
        }
    }
}

//! The section about who may do what.

use std::fmt;

use goodput_web::{Grant, Scope, Who};
use serde_saphyr::Spanned;

use super::file::{non_empty, text};
use super::yaml::{Fields, Mistake, Value, line, list};

/// The section.
#[derive(Debug, Default)]
pub(super) struct Web {
    pub(super) access: Vec<Grant>,
    pub(super) findings_write: Option<bool>,
}

/// Reads the section.
pub(super) fn web(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Web {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let access = fields.take("access");
    let findings_write = fields.optional("findings_write", None, mistakes, |value| match text(value) {
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        _ => Err("true or false".to_owned()),
    });
    fields.finish(mistakes);
    let Some((name, value)) = access else { return Web { findings_write, ..Web::default() } };
    let items = list(&name, value, mistakes).iter().enumerate();
    let access = items.filter_map(|(n, item)| grant(format!("{name}[{n}]."), item, mistakes)).collect();
    Web { access, findings_write }
}

fn grant(path: String, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Grant> {
    let mut fields = Fields::of(item, path.clone(), mistakes);
    let mut named = Vec::new();
    for (key, who) in [
        ("user", Who::User as fn(String) -> Who),
        ("group", Who::Group),
        ("token_file", |path| Who::Token(path.into())),
    ] {
        named.extend(fields.optional(key, None, mistakes, |value| non_empty(value).map(Some)).map(who));
    }
    let scopes = fields.required("scopes", mistakes, scopes);
    fields.finish(mistakes);
    if named.len() != 1 {
        let text = format!("{path}user: expected one of user, group and token_file, found {}", named.len());
        mistakes.push(Mistake { line: line(item), text });
    }
    Some(Grant { who: named.pop()?, scopes: scopes? })
}

fn scopes(value: &Value) -> Result<Vec<Scope>, String> {
    let expected = || "a list of ingest, read:all and admin".to_owned();
    let Value::List(items) = value else { return Err(expected()) };
    let scope = |item: &Spanned<Value>| text(&item.value).and_then(|text| text.parse().ok()).ok_or_else(expected);
    let scopes: Vec<_> = items.iter().map(scope).collect::<Result<_, _>>()?;
    if scopes.is_empty() { Err(expected()) } else { Ok(scopes) }
}

/// In the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, grants: &[Grant], findings_write: Option<bool>) -> fmt::Result {
    writeln!(f, "web:\n  access:{}", if grants.is_empty() { " []" } else { "" })?;
    for Grant { who, scopes } in grants {
        let scopes: Vec<_> = scopes.iter().map(|scope| format!("'{}'", scope.name())).collect();
        let (key, name) = match who {
            Who::User(name) => ("user", name.clone()),
            Who::Group(name) => ("group", name.clone()),
            Who::Token(path) => ("token_file", path.display().to_string()),
        };
        writeln!(f, "    - {{{key}: {name:?}, scopes: [{}]}}", scopes.join(", "))?;
    }
    match findings_write {
        Some(is_on) => writeln!(f, "  findings_write: {is_on}"),
        None => writeln!(f, "  # findings_write: by default true on loopback addresses without --web.external-url"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn the_section_is_read_and_printed_as_a_config() {
        let text = "web:\n  access:\n  - {user: prometheus, scopes: [ingest]}\n  - {group: ops, scopes: ['read:all', admin]}\n  \
                    - {token_file: /etc/goodput/token, scopes: ['read:all']}\n";
        let access = Config::parse(text).unwrap().access;
        let grant = |who, scopes: &[Scope]| Grant { who, scopes: scopes.to_vec() };
        let expected = [
            grant(Who::User("prometheus".into()), &[Scope::Ingest]),
            grant(Who::Group("ops".into()), &[Scope::ReadAll, Scope::Admin]),
            grant(Who::Token("/etc/goodput/token".into()), &[Scope::ReadAll]),
        ];
        assert_eq!(access, expected);
        let printed = Config { access: access.clone(), ..Config::default() }.to_string();
        assert_eq!(Config::parse(&printed).unwrap().access, access);
        for (text, expected) in
            [("web: {findings_write: true}\n", Some(true)), ("web: {findings_write: false}\n", Some(false)), ("", None)]
        {
            let config = Config::parse(text).unwrap();
            assert_eq!(config.findings_write, expected);
            assert_eq!(Config::parse(&config.to_string()).unwrap().findings_write, expected);
        }
        let mistakes = Config::parse("web: {findings_write: perhaps}\n").unwrap_err();
        assert!(mistakes[0].text.contains("web.findings_write: expected true or false"), "{mistakes:?}");
        assert_eq!(Config::parse(&Config::default().to_string()).unwrap().access, []);
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        for (item, error) in [
            ("{user: a}", "3: web.access[0].scopes: missing"),
            ("{user: a, scopes: [write]}", "3: web.access[0].scopes: expected a list of ingest, read:all and admin"),
            ("{user: a, scopes: []}", "3: web.access[0].scopes: expected a list of ingest"),
            (
                "{user: a, group: b, scopes: [admin]}",
                "3: web.access[0].user: expected one of user, group and token_file, found 2",
            ),
            ("{scopes: [admin]}", "3: web.access[0].user: expected one of user, group and token_file, found 0"),
            ("{token: abc, user: a, scopes: [admin]}", "3: web.access[0].token"),
        ] {
            let mistakes = Config::parse(&format!("web:\n  access:\n  - {item}\n")).unwrap_err();
            let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
            assert!(shown.iter().any(|line| line.starts_with(error)), "{item}: {shown:?}");
        }
    }
}

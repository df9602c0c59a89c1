//! How a job or a discovery reaches its servers: TLS and credentials.

use std::fmt::{self, Write as _};

use goodput_settings::kind::{Path, Switch, Unset};
use serde_saphyr::Spanned;

use super::super::file::{non_empty, text};
use super::super::rows;
use super::super::yaml::{Fields, Mistake, Value, line};
use crate::ingest::access::{Access, Credentials, Tls};

/// `tls_config`, `basic_auth` and `authorization` of a job or a discovery.
pub(super) fn access(
    fields: &mut Fields<'_>,
    path: &str,
    item: &Spanned<Value>,
    mistakes: &mut Vec<Mistake>,
) -> Access {
    let tls = fields.take("tls_config").map(|(name, value)| tls(&name, value, mistakes)).unwrap_or_default();
    let basic = fields.take("basic_auth").map(|(name, value)| basic(&name, value, mistakes));
    let token = fields.take("authorization").map(|(name, value)| token(&name, value, mistakes));
    if basic.is_some() && token.is_some() {
        let text = format!("{path}authorization: expected only one of basic_auth and authorization");
        mistakes.push(Mistake { line: line(item), text });
    }
    Access { tls, credentials: basic.or(token).flatten() }
}

fn tls(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Tls {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let ca_file = fields.optional("ca_file", None, mistakes, rows::of::<Unset<Path>>);
    let cert = fields.optional("cert_file", None, mistakes, rows::of::<Unset<Path>>);
    let key = fields.optional("key_file", None, mistakes, rows::of::<Unset<Path>>);
    let server_name = fields.optional("server_name", None, mistakes, server_name);
    let insecure_skip_verify = fields.optional("insecure_skip_verify", false, mistakes, rows::of::<Switch>);
    fields.finish(mistakes);
    for (given, missing) in [(&cert, "key_file"), (&key, "cert_file")] {
        if given.is_some() && (cert.is_none() || key.is_none()) {
            mistakes.push(Mistake { line: line(value), text: format!("{name}.{missing}: missing") });
        }
    }
    Tls { ca_file, identity: cert.zip(key), server_name, insecure_skip_verify }
}

fn basic(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Credentials> {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let username = fields.required("username", mistakes, non_empty);
    let password_file = fields.required("password_file", mistakes, rows::of::<Path>);
    fields.finish(mistakes);
    Some(Credentials::Basic { username: username?, password_file: password_file? })
}

fn token(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Credentials> {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let scheme = fields.optional("type", "Bearer".to_owned(), mistakes, |value| {
        let word = non_empty(value)?;
        let is_word = word.chars().all(|c| c.is_ascii_alphanumeric()) && !word.eq_ignore_ascii_case("basic");
        if is_word { Ok(word) } else { Err("a scheme such as Bearer; for Basic there is basic_auth".into()) }
    });
    let credentials_file = fields.required("credentials_file", mistakes, rows::of::<Path>);
    fields.finish(mistakes);
    Some(Credentials::Token { scheme, credentials_file: credentials_file? })
}

fn server_name(value: &Value) -> Result<Option<String>, String> {
    let name = text(value).filter(|name| {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        !name.is_empty() && name.chars().all(letters) && name.parse::<std::net::IpAddr>().is_err()
    });
    name.map(|name| Some(name.to_owned())).ok_or_else(|| "a DNS name".into())
}

/// Writes the keys of an access in the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, access: &Access, indent: &str) -> fmt::Result {
    let Tls { ca_file, identity, server_name, insecure_skip_verify } = &access.tls;
    let (cert, key) = identity.as_ref().map(|(cert, key)| (cert, key)).unzip();
    let mut tls = String::new();
    for (name, path) in [("ca_file", ca_file.as_ref()), ("cert_file", cert), ("key_file", key)] {
        if let Some(path) = path {
            writeln!(tls, "{indent}  {name}: {path:?}")?;
        }
    }
    if let Some(name) = server_name {
        writeln!(tls, "{indent}  server_name: {name}")?;
    }
    if *insecure_skip_verify {
        writeln!(tls, "{indent}  insecure_skip_verify: true")?;
    }
    if !tls.is_empty() {
        write!(f, "{indent}tls_config:\n{tls}")?;
    }
    match &access.credentials {
        None => Ok(()),
        Some(Credentials::Basic { username, password_file }) => {
            writeln!(f, "{indent}basic_auth: {{username: {username:?}, password_file: {password_file:?}}}")
        }
        Some(Credentials::Token { scheme, credentials_file }) => {
            writeln!(f, "{indent}authorization: {{type: {scheme}, credentials_file: {credentials_file:?}}}")
        }
    }
}

//! Where the targets of a job are listed: in files, by a server, in DNS.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use goodput_settings::kind::Period;
use serde_saphyr::Spanned;

use super::super::file::text;
use super::super::rows;
use super::super::yaml::{Fields, Mistake, Value, line};
use super::{access, texts};
use crate::ingest::job::{Discovery, Family, Record};

/// Reading a few small files costs next to nothing, and a target that comes or goes should not wait.
const FILE_REFRESH: Duration = Duration::from_secs(5);
/// Prometheus' own default for `http_sd_configs`.
pub(super) const HTTP_REFRESH: Duration = Duration::from_mins(1);
/// Prometheus' own default for `dns_sd_configs`.
const DNS_REFRESH: Duration = Duration::from_secs(30);

/// An entry of `file_sd_configs`.
pub(super) fn files(path: &str, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Discovery> {
    let mut fields = Fields::of(item, path.to_owned(), mistakes);
    let patterns = fields.take("files").map(|(name, value)| texts(&name, value, mistakes, pattern));
    if patterns.as_ref().is_none_or(Vec::is_empty) {
        mistakes.push(Mistake { line: line(item), text: format!("{path}files: expected at least one") });
    }
    let refresh = fields.optional("refresh_interval", FILE_REFRESH, mistakes, rows::of::<Period>);
    fields.finish(mistakes);
    Some(Discovery::Files { patterns: patterns?.into_iter().map(PathBuf::from).collect(), refresh })
}

fn pattern(value: &Value) -> Result<String, String> {
    let known = |text: &&str| {
        glob::Pattern::new(text).is_ok() && [".json", ".yml", ".yaml"].iter().any(|ending| text.ends_with(ending))
    };
    text(value)
        .filter(known)
        .map(str::to_owned)
        .ok_or_else(|| "a path or pattern that ends in .json, .yml or .yaml".into())
}

/// An entry of `http_sd_configs`.
pub(super) fn http(path: &str, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Discovery> {
    let mut fields = Fields::of(item, path.to_owned(), mistakes);
    let url = fields.required("url", mistakes, url);
    let refresh = fields.optional("refresh_interval", HTTP_REFRESH, mistakes, rows::of::<Period>);
    let access = Arc::new(access::access(&mut fields, path, item, mistakes));
    fields.finish(mistakes);
    Some(Discovery::Http { url: url?, access, refresh })
}

fn url(value: &Value) -> Result<String, String> {
    let given = text(value).unwrap_or_default();
    let parsed: Option<reqwest::Url> = given.parse().ok();
    // A password in an address would be shown by whatever names it.
    let plain = |url: &reqwest::Url| ["http", "https"].contains(&url.scheme()) && url.username().is_empty();
    match parsed.filter(|url| plain(url) && url.password().is_none()) {
        Some(_) => Ok(given.to_owned()),
        None => Err("an address such as http://inventory:8080/targets, without user and password".into()),
    }
}

/// An entry of `dns_sd_configs`.
pub(super) fn dns(path: &str, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Discovery> {
    let mut fields = Fields::of(item, path.to_owned(), mistakes);
    let names = fields.take("names").map(|(name, value)| texts(&name, value, mistakes, dns_name));
    if names.as_ref().is_none_or(Vec::is_empty) {
        mistakes.push(Mistake { line: line(item), text: format!("{path}names: expected at least one") });
    }
    let record = record(&mut fields, mistakes);
    let refresh = fields.optional("refresh_interval", DNS_REFRESH, mistakes, rows::of::<Period>);
    fields.finish(mistakes);
    Some(Discovery::Dns { names: names?, record: record?, refresh })
}

fn dns_name(value: &Value) -> Result<String, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name = text(value).filter(|name| !name.is_empty() && name.chars().all(known));
    name.map(str::to_owned).ok_or_else(|| "a DNS name".into())
}

/// What is looked up; without a type SRV, as in Prometheus.
fn record(fields: &mut Fields<'_>, mistakes: &mut Vec<Mistake>) -> Option<Record> {
    let before = mistakes.len();
    match fields.optional("type", None, mistakes, family) {
        // What the port has to be follows from the type.
        _ if mistakes.len() > before => fields.take("port").and(None),
        Some(family) => fields.required("port", mistakes, port).map(|port| Record::Address(family, port)),
        None => fields.optional("port", Some(Record::Service), mistakes, no_port),
    }
}

/// None of SRV.
fn family(value: &Value) -> Result<Option<Family>, String> {
    match text(value) {
        Some("SRV") => Ok(None),
        given => {
            let known = [Family::A, Family::Aaaa].into_iter().find(|family| given == Some(family.name()));
            known.map(Some).ok_or_else(|| "A, AAAA or SRV".into())
        }
    }
}

fn no_port(_: &Value) -> Result<Option<Record>, String> {
    Err("no port with the type SRV, whose records have it".into())
}

fn port(value: &Value) -> Result<u16, String> {
    let port = text(value).and_then(|text| text.parse().ok());
    port.filter(|port| *port > 0).ok_or_else(|| "a port from 1 to 65535".into())
}

/// Writes an entry in the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, discovery: &Discovery) -> fmt::Result {
    let refresh = discovery.refresh().as_millis();
    match discovery {
        Discovery::Files { patterns, .. } => {
            writeln!(f, "      - files: {patterns:?}\n        refresh_interval: {refresh}ms")
        }
        Discovery::Http { url, access, .. } => {
            writeln!(f, "      - url: {url:?}\n        refresh_interval: {refresh}ms")?;
            access::write(f, access, "        ")
        }
        Discovery::Dns { names, record, .. } => {
            writeln!(f, "      - names: {names:?}\n        type: {}", record.name())?;
            if let Record::Address(_, port) = record {
                writeln!(f, "        port: {port}")?;
            }
            writeln!(f, "        refresh_interval: {refresh}ms")
        }
    }
}

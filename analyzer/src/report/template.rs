//! The same work: runs whose names differ in numbers, dates and hashes alone, that hold as many GPUs of one model.

use schemars::JsonSchema;
use serde::Serialize;

/// What runs of the same work have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Template {
    /// The run's name, with `*` for digits, dates and hashes.
    pub name: String,
    /// The account or namespace, where known.
    pub account: Option<String>,
    /// The image, where known.
    pub image: Option<String>,
    /// How many GPUs it holds at once.
    pub gpus: usize,
    /// Their model, where known and one.
    pub model: Option<String>,
}

/// What is known of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work<'a> {
    pub(super) name: &'a str,
    pub(super) account: Option<&'a str>,
    pub(super) image: Option<&'a str>,
    pub(super) gpus: usize,
    pub(super) model: Option<&'a str>,
}

/// What parts a name into words; a slash also parts levels, which are never joined.
const SEPARATORS: [char; 9] = ['-', '_', '.', ':', '@', '+', '=', ',', ' '];
/// Letters and digits of names that Kubernetes makes up: no vowels, and nothing that is read as another.
const MADE_UP: &str = "bcdfghjklmnpqrstvwxz2456789";
/// Lengths of the words of a UUID.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];
/// What stands before an id that tells nothing of the work.
const IDS: [&str; 9] = ["slurm", "job", "container", "pod", "pid", "user", "session", "scope", "slice"];

impl Template {
    /// None where neither the name nor an account tells one work from another.
    pub(super) fn of(work: &Work<'_>) -> Option<Self> {
        let name = normalised(work.name);
        if work.account.is_none() && !tells(&name) {
            return None;
        }
        let own = |text: Option<&str>| text.map(str::to_owned);
        Some(Self { name, account: own(work.account), image: own(work.image), gpus: work.gpus, model: own(work.model) })
    }

    /// One line that stands for all of it; parts that are not known are empty.
    pub(super) fn key(&self) -> String {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        let Self { name, account, image, gpus, model } = self;
        [name.clone(), part(account), part(image), gpus.to_string(), part(model)].join("\u{1f}")
    }
}

/// The name with `*` for what differs from run to run: digits, dates, hashes, UUIDs and endings that are made up.
pub(super) fn normalised(name: &str) -> String {
    name.split('/').map(level).collect::<Vec<_>>().join("/")
}

/// Does the name say anything but what gave its id?
fn tells(normalised: &str) -> bool {
    let words = normalised.split(['/', '*']).flat_map(|level| level.split(SEPARATORS));
    words.filter(|word| word.chars().any(char::is_alphabetic)).any(|word| !IDS.contains(&word))
}

fn level(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut separators: Vec<char> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(SEPARATORS) {
        let (word, after) = rest.split_at(at);
        let mut left = after.chars();
        words.push(word);
        separators.extend(left.next());
        rest = left.as_str();
    }
    words.push(rest);
    let mut shown = String::new();
    let mut n = 0;
    while n < words.len() {
        let is_uuid = words.get(n..n + UUID.len()).is_some_and(is_uuid);
        let last = if is_uuid { n + UUID.len() - 1 } else { n };
        let word = if is_uuid { "*".to_owned() } else { generic(words[n]) };
        let joins = n > 0 && word == "*" && shown.ends_with('*') && ends_in_generic(&shown);
        if !joins {
            shown.extend(n.checked_sub(1).map(|before| separators[before]));
            shown += &word;
        }
        n = last + 1;
    }
    shown
}

/// Is the last word nothing but `*`?
fn ends_in_generic(shown: &str) -> bool {
    shown.rsplit(SEPARATORS).next() == Some("*")
}

fn is_uuid(words: &[&str]) -> bool {
    words.iter().zip(UUID).all(|(word, length)| word.len() == length && is_hex(word))
}

fn is_hex(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_hexdigit())
}

fn has_digit(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit())
}

fn generic(word: &str) -> String {
    if is_time(word) || is_hash(word) || is_made_up(word) {
        return "*".to_owned();
    }
    let mut shown = String::new();
    for c in word.chars() {
        match c.is_ascii_digit() {
            true if shown.ends_with('*') => {}
            true => shown.push('*'),
            false => shown.push(c),
        }
    }
    shown
}

/// `20261118T1000Z`, as a whole or the part of it that stands between separators.
fn is_time(word: &str) -> bool {
    let digits = word.strip_suffix('Z').unwrap_or(word);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.split_once('T').is_some_and(|(date, time)| is_digits(date) && is_digits(time)) || is_digits(digits)
}

fn is_hash(word: &str) -> bool {
    word.len() >= 6 && is_hex(word) && has_digit(word)
}

/// The ending of a pod's name (5), or the hash of its ReplicaSet (8 to 10).
fn is_made_up(word: &str) -> bool {
    let is_made_of = word.chars().all(|c| MADE_UP.contains(c));
    is_made_of && (word.len() == 5 || ((8..=10).contains(&word.len()) && has_digit(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_in_what_is_no_number_date_or_hash() {
        for (name, shown) in [
            ("train", "train"),
            ("ml/PyTorchJob/llm-7", "ml/PyTorchJob/llm-*"),
            ("team-vision/resnet-sweep-7", "team-vision/resnet-sweep-*"),
            ("nightly-2026-11-18", "nightly-*"),
            ("nightly_20261118T1000Z_v2", "nightly_*_v*"),
            ("eval-2026-11-18T10:00:00Z", "eval-*"),
            ("web-7d4b9c6f5d-x2x4z", "web-*"),
            ("llama2-run12", "llama*-run*"),
            ("bert@3f2a9c1e", "bert@*"),
            ("sweep-7a96c459-12ab-beef-cafe-0123456789ab-lr", "sweep-*-lr"),
            ("pod-7a96c459-12ab-beef-cafe-0123456789ab", "pod-*"),
            ("facade-decade", "facade-decade"),
            ("slurm/4211", "slurm/*"),
            ("größe-7", "größe-*"),
            ("--1--2", "--*--*"),
            ("", ""),
        ] {
            assert_eq!(normalised(name), shown, "{name}");
            assert_eq!(normalised(&normalised(name)), normalised(name), "{name}: twice is once");
        }
    }

    #[test]
    fn an_id_alone_is_no_work_unless_an_account_is_known() {
        let of = |name, account| Template::of(&Work { name, account, gpus: 8, model: Some("H100"), ..Work::default() });
        for id in ["slurm-4711", "job/4711", "container-38f8447a46ed", "user-1000.slice", "4711", "pod-x2x4z"] {
            assert_eq!(of(id, None), None, "{id}");
        }
        assert!(of("slurm-4711", Some("physics")).is_some() && of("ml/train-0", None).is_some());
        assert_eq!(of("slurm-4711", Some("physics")), of("slurm-4712", Some("physics")));
        assert_ne!(of("slurm-4711", Some("physics")), of("slurm-4711", Some("vision")));
        let other = Template { gpus: 4, ..of("ml/train-0", None).unwrap() };
        assert_ne!(other.key(), of("ml/train-0", None).unwrap().key());
    }
}

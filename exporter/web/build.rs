//! Notes what is built: commit, day and target. Only git is asked; what it cannot say is `unknown`.

use std::env::var;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=GOODPUT_REVISION");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    // A development build says nothing of its commit: each commit would build everything again.
    let is_release = var("PROFILE").is_ok_and(|profile| profile == "release");
    let git = |args: &[&str]| git(args).filter(|_| is_release);
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).is_file()) {
        println!("cargo:rerun-if-changed={log}");
    }
    let revision = var("GOODPUT_REVISION").ok().or_else(|| git(&["describe", "--always", "--dirty", "--exclude=*"]));
    let second = var("SOURCE_DATE_EPOCH").ok().or_else(|| git(&["log", "-1", "--format=%ct"]));
    let day = second.and_then(|second| second.parse().ok()).map(day);
    for (name, value) in [("REVISION", revision), ("DATE", day), ("TARGET", var("TARGET").ok())] {
        println!("cargo:rustc-env=GOODPUT_{name}={}", value.as_deref().unwrap_or("unknown"));
    }
}

/// What git answers; nothing where it is missing or this is no repository.
#[allow(clippy::disallowed_methods, reason = "the revision is asked of git")]
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Some(text).filter(|text| output.status.success() && !text.is_empty())
}

/// The day of a second since 1970, in UTC (Howard Hinnant's `civil_from_days`).
fn day(second: i64) -> String {
    let days = second.div_euclid(86_400) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + i64::from(month <= 2))
}

//! Flags of `why`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::config::{duration, host_port};

/// What `why` looks at.
#[derive(Args, Debug)]
pub struct WhyArgs {
    /// The exporter; without it the goodput-exporter next to this program, else that in PATH, is started for as long
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub target: Option<String>,
    /// For how long, 5s to 1h
    #[arg(long = "for", default_value = "60s", value_name = "DURATION", value_parser = why_duration)]
    pub duration: Duration,
    /// Only this GPU: its index or UUID
    #[arg(long, value_name = "GPU")]
    pub gpu: Option<String>,
    /// Only GPUs that this owner holds
    #[arg(long, value_name = "OWNER", conflicts_with = "gpu")]
    pub owner: Option<String>,
    /// Also every GPU with all of its classes and the numbers behind them
    #[arg(long)]
    pub verbose: bool,
    /// Form of the answer; json has raw values
    #[arg(long, default_value = "text")]
    pub format: WhyFormat,
}

/// Form of the answer to `why`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhyFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

fn why_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text).map_err(|expected| format!("expected {expected}"))?;
    let allowed = Duration::from_secs(5)..=Duration::from_secs(3600);
    if allowed.contains(&duration) { Ok(duration) } else { Err("expected 5s to 1h".into()) }
}

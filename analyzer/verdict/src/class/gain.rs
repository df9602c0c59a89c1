//! What acting on a class is said to return. A figure has a source and a grade.

use schemars::JsonSchema;
use serde::Serialize;

goodput_catalog::named! {
    /// How well a figure is founded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Grade {
        /// The vendor's documentation.
        Vendor = "vendor",
        /// A handbook that gives no measurement.
        Book = "book estimate",
        /// A GPU that is given back has all of its time: no measurement is needed, but another user is.
        Definition = "by definition, if someone else uses it",
    }
}

/// What the figure is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Share of the loss that goes away, 0 to 1.
    Loss,
    /// More work in the same time: a ratio above that of now. Time `t` of the owner on the GPU becomes `t / (1 + gain)`.
    Throughput,
    /// Seconds per start and GPU.
    Start,
}

/// A range of what is to be expected. What a finding promises is capped by its measured loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gain {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Of what.
    pub basis: Basis,
    /// How well founded.
    pub grade: Grade,
    /// Where it is from.
    pub source: &'static str,
}

impl Gain {
    /// To be read.
    #[must_use]
    pub fn range(&self) -> String {
        let percent = |of: &str| format!("{} to {} % {of}", (self.low * 100.0).round(), (self.high * 100.0).round());
        match self.basis {
            Basis::Loss => percent("of the loss"),
            Basis::Throughput => percent("more throughput"),
            Basis::Start => format!("{} to {} s per start and GPU", self.low, self.high),
        }
    }
}

//! A roll-up as one text: every name once, and numbers in their places. A week of a large fleet has hundreds of thousands.

use std::collections::HashMap;

use goodput_exposition::sample::TimeMs;
use serde::{Deserialize, Serialize};

use super::{Allocation, Grounds, Held, Part, RollUp, Stretch};
use crate::{Cause, CauseKind, Class, Culprit, Energy, Instance, Version};

/// What a roll-up says of its GPUs. Its node and its time are told beside it. New fields of a row come last.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sums {
    /// The rows below name these by their place.
    names: Vec<String>,
    grounds: Vec<GroundsRow>,
    held: Vec<HeldRow>,
}

/// Place in [`Sums::names`].
type Name = u32;

/// Busy signal, missing signals, contradictions.
#[derive(Debug, Serialize, Deserialize)]
struct GroundsRow(Option<Name>, Vec<Name>, Vec<Name>);

/// GPU, MIG instance and its profile, model, owner, run, account, parts.
#[derive(Debug, Serialize, Deserialize)]
struct HeldRow(Name, Option<(u32, Option<Name>)>, Option<Name>, Option<Name>, Option<Name>, Option<Name>, Vec<PartRow>);

/// Class, grounds, GPU-milliseconds, confidence, stretches from the start of the roll-up on, versions of the rule and of
/// all rules, node and GPU that caused it, energy (millijoules, for how long, of it counted), variance, cause and at what.
#[derive(Debug, Serialize, Deserialize)]
struct PartRow(
    Class,
    usize,
    i64,
    f64,
    Vec<(TimeMs, TimeMs, i64)>,
    Option<(u32, u32)>,
    Option<(Name, Option<Name>)>,
    Option<(i64, i64, i64)>,
    Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<(CauseKind, Option<Name>)>,
);

impl Sums {
    /// Of a roll-up.
    #[must_use]
    pub fn of(hour: &RollUp) -> Self {
        let mut names = Names::default();
        let grounds = hour.grounds.iter().map(|g| {
            let Grounds { busy_signal, missing, contradictions } = g;
            GroundsRow(names.maybe(busy_signal.as_ref()), names.all(missing), names.all(contradictions))
        });
        let grounds = grounds.collect();
        let held = hour.held.iter().map(|Held { allocation, parts }| {
            let Allocation { gpu, gpu_instance, model, owner, run, account } = allocation;
            let instance = gpu_instance.as_ref().map(|i| (i.id, names.maybe(i.profile.as_ref())));
            let [model, owner, run, account] = [model, owner, run, account].map(|name| names.maybe(name.as_ref()));
            let parts = parts.iter().map(|part| names.part(part, hour.start_ms)).collect();
            HeldRow(names.place(gpu), instance, model, owner, run, account, parts)
        });
        let held = held.collect();
        Self { names: names.all, grounds, held }
    }

    /// The roll-up of a node from one time to another; none where a place names nothing.
    #[must_use]
    pub fn hour(self, (cluster, node): (Option<String>, String), start_ms: TimeMs, end_ms: TimeMs) -> Option<RollUp> {
        let places = Places { names: &self.names, grounds: self.grounds.len(), start_ms };
        let grounds = self.grounds.iter().map(|GroundsRow(busy, missing, contradictions)| {
            Some(Grounds {
                busy_signal: places.maybe(*busy)?,
                missing: places.all(missing)?,
                contradictions: places.all(contradictions)?,
            })
        });
        let grounds = grounds.collect::<Option<_>>()?;
        let held = self.held.into_iter().map(|row| places.held(row)).collect::<Option<_>>()?;
        Some(RollUp { cluster, node, start_ms, end_ms, grounds, held })
    }
}

/// Names that are given places.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    places: HashMap<String, Name>,
}

impl Names {
    fn place(&mut self, name: &str) -> Name {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.all.len() as Name;
        self.all.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }

    fn maybe(&mut self, name: Option<&String>) -> Option<Name> {
        name.map(|name| self.place(name))
    }

    fn all(&mut self, names: &[String]) -> Vec<Name> {
        names.iter().map(|name| self.place(name)).collect()
    }

    fn part(&mut self, part: &Part, start_ms: TimeMs) -> PartRow {
        let stretches = part.stretches.iter().map(|s| (s.start_ms - start_ms, s.end_ms - start_ms, s.ms));
        PartRow(
            part.class,
            part.grounds,
            part.ms,
            part.confidence_ms,
            stretches.collect(),
            part.version.map(|version| (version.rule, version.rules)),
            part.charged_to.as_ref().map(|culprit| (self.place(&culprit.node), self.maybe(culprit.gpu.as_ref()))),
            part.energy.map(|energy| (energy.mj, energy.ms, energy.counted_ms)),
            part.variance_ms2,
            part.cause.as_ref().map(|cause| (cause.kind, self.maybe(cause.which.as_ref()))),
        )
    }
}

/// What places name.
struct Places<'a> {
    names: &'a [String],
    grounds: usize,
    start_ms: TimeMs,
}

impl Places<'_> {
    fn name(&self, place: Name) -> Option<String> {
        self.names.get(place as usize).cloned()
    }

    /// None inside where there is no name.
    #[allow(clippy::option_option, reason = "the outer one says that a place names nothing")]
    fn maybe(&self, place: Option<Name>) -> Option<Option<String>> {
        place.map_or(Some(None), |place| self.name(place).map(Some))
    }

    fn all(&self, places: &[Name]) -> Option<Vec<String>> {
        places.iter().map(|place| self.name(*place)).collect()
    }

    fn held(&self, HeldRow(gpu, instance, model, owner, run, account, parts): HeldRow) -> Option<Held> {
        let gpu_instance = match instance {
            Some((id, profile)) => Some(Instance { id, profile: self.maybe(profile)? }),
            None => None,
        };
        let allocation = Allocation {
            gpu: self.name(gpu)?,
            gpu_instance,
            model: self.maybe(model)?,
            owner: self.maybe(owner)?,
            run: self.maybe(run)?,
            account: self.maybe(account)?,
        };
        Some(Held { allocation, parts: parts.into_iter().map(|row| self.part(row)).collect::<Option<_>>()? })
    }

    fn part(&self, row: PartRow) -> Option<Part> {
        let PartRow(class, grounds, ms, confidence_ms, stretches, version, charged, energy, variance_ms2, cause) = row;
        let charged_to = match charged {
            Some((node, gpu)) => Some(Culprit { node: self.name(node)?, gpu: self.maybe(gpu)? }),
            None => None,
        };
        let cause = match cause {
            Some((kind, which)) => Some(Cause { kind, which: self.maybe(which)? }),
            None => None,
        };
        let stretch = |(from, to, ms)| {
            let at = |offset: i64| self.start_ms.checked_add(offset);
            Some(Stretch { start_ms: at(from)?, end_ms: at(to)?, ms })
        };
        Some(Part {
            class,
            charged_to,
            cause,
            grounds: (grounds < self.grounds).then_some(grounds)?,
            version: version.map(|(rule, rules)| Version { rule, rules }),
            ms,
            confidence_ms,
            energy: energy.map(|(mj, ms, counted_ms)| Energy { mj, ms, counted_ms }),
            variance_ms2,
            stretches: stretches.into_iter().map(stretch).collect::<Option<_>>()?,
        })
    }
}

//! How the fields of results become values of columns, and the other way round.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Cells, Field, Value};
use goodput_verdict::{
    Advice, Cause, CauseKind, Class, Counted, Culprit, Energy, Evidence, Forecast, Instance, Kind, Version,
};

/// Fields of one column each.
macro_rules! fields {
    ($($field:ty: $value:ident => $put:expr, $cells:ident => $take:expr;)+) => {$(
        impl Field for $field {
            fn put<'a>(&'a self, row: &mut Vec<Value<'a>>) {
                let $value = self;
                row.push($put);
            }

            fn take($cells: &mut Cells<'_>) -> sqlx::Result<Self> {
                $take
            }
        }
    )+};
}

fields! {
    i64: number => (*number).into(), cells => cells.one();
    f64: number => (*number).into(), cells => cells.one();
    Option<i64>: number => (*number).into(), cells => cells.one();
    Option<f64>: number => (*number).into(), cells => cells.one();
    String: text => text.into(), cells => cells.one();
    Option<String>: text => text.as_ref().into(), cells => cells.one();
    Class: class => class.name().into(), cells => cells.named(Class::ALL, Class::name);
    Advice: advice => advice.name().into(), cells => cells.named(Advice::ALL, Advice::name);
    Vec<String>: texts => json(texts), cells => cells.json();
    Vec<Evidence>: all => evidence(all), cells => cells.json();
    Forecast: forecast => readable(forecast), cells => cells.json();
}

impl Field for Option<Counted> {
    fn put<'a>(&'a self, row: &mut Vec<Value<'a>>) {
        row.push(self.as_ref().map_or_else(|| None::<String>.into(), readable));
    }

    fn take(cells: &mut Cells<'_>) -> sqlx::Result<Self> {
        let text: Option<&str> = cells.one()?;
        text.map(serde_json::from_str).transpose().map_err(|error| sqlx::Error::Decode(error.into()))
    }
}

impl Field for Kind {
    fn put<'a>(&'a self, row: &mut Vec<Value<'a>>) {
        row.extend([self.sort().name(), self.which()].map(Value::from));
    }

    fn take(cells: &mut Cells<'_>) -> sqlx::Result<Self> {
        let (sort, which): (&str, &str) = (cells.one()?, cells.one()?);
        let found = Kind::all().find(|kind| (kind.sort().name(), kind.which()) == (sort, which));
        found.ok_or_else(|| sqlx::Error::Decode(format!("unknown kind of risk {sort} {which}").into()))
    }
}

/// Rows of releases before there was energy have none.
impl Field for Option<Energy> {
    fn put<'a>(&'a self, row: &mut Vec<Value<'a>>) {
        row.extend([self.map(|e| e.mj), self.map(|e| e.ms), self.map(|e| e.counted_ms)].map(Value::from));
    }

    fn take(cells: &mut Cells<'_>) -> sqlx::Result<Self> {
        let (mj, ms, counted_ms) = (cells.one::<Option<i64>>()?, cells.one(), cells.one());
        mj.map(|mj| Ok(Energy { mj, ms: ms?, counted_ms: counted_ms? })).transpose()
    }
}

/// Rows of releases before there were culprits have none.
impl Field for Option<Culprit> {
    fn put<'a>(&'a self, row: &mut Vec<Value<'a>>) {
        let culprit = self.as_ref();
        row.extend([culprit.map(|c| &c.node), culprit.and_then(|c| c.gpu.as_ref())].map(Value::from));
    }

    fn take(cells: &mut Cells<'_>) -> sqlx::Result<Self> {
        let (node, gpu): (Option<String>, Option<String>) = (cells.one()?, cells.one()?);
        Ok(node.map(|node| Culprit { node, gpu }))
    }
}

/// Rows of releases without causes have none.
impl Field for Option<Cause> {
    fn put<'a>(&'a self, row: &mut Vec<Value<'a>>) {
        let cause = self.as_ref();
        row.push(cause.map(|cause| cause.kind.name()).into());
        row.push(cause.and_then(|cause| cause.which.as_ref()).into());
    }

    fn take(cells: &mut Cells<'_>) -> sqlx::Result<Self> {
        let (kind, which): (Option<&str>, Option<String>) = (cells.one()?, cells.one()?);
        let Some(name) = kind else { return Ok(None) };
        let known = CauseKind::ALL.iter().find(|kind| kind.name() == name);
        let kind = *known.ok_or_else(|| sqlx::Error::Decode(format!("unknown cause {name}").into()))?;
        Ok(Some(Cause { kind, which }))
    }
}

/// Rows of releases before instances were judged have none.
impl Field for Option<Instance> {
    fn put<'a>(&'a self, row: &mut Vec<Value<'a>>) {
        let instance = self.as_ref();
        row.extend([instance.map(|i| i.id).into(), instance.and_then(|i| i.profile.as_ref()).into()]);
    }

    fn take(cells: &mut Cells<'_>) -> sqlx::Result<Self> {
        let (id, profile) = (cells.small()?, cells.one());
        id.map(|id| Ok(Instance { id, profile: profile? })).transpose()
    }
}

/// Rows of releases whose rules had no versions have none.
impl Field for Option<Version> {
    fn put<'a>(&'a self, row: &mut Vec<Value<'a>>) {
        row.extend([self.map(|version| version.rule), self.map(|version| version.rules)].map(Value::from));
    }

    fn take(cells: &mut Cells<'_>) -> sqlx::Result<Self> {
        let (rule, rules) = (cells.small()?, cells.small()?);
        Ok(rule.zip(rules).map(|(rule, rules)| Version { rule, rules }))
    }
}

/// JSON has no NaN; it would be written as null and never be read again.
pub(super) fn evidence(evidence: &[Evidence]) -> Value<'static> {
    match evidence.iter().find(|e| !e.value.is_finite() || !e.threshold.is_finite()) {
        Some(evidence) => Value::Refused(format!("evidence {} is not a finite number", evidence.signal)),
        None => json(evidence),
    }
}

fn json<T: Serialize + ?Sized>(value: &T) -> Value<'static> {
    serde_json::to_string(value).map_or_else(|error| Value::Refused(error.to_string()), Value::from)
}

/// JSON that can be read again: a number that is not finite becomes null, which is no number.
pub(super) fn readable<T: Serialize + DeserializeOwned>(value: &T) -> Value<'static> {
    let text = serde_json::to_string(value).and_then(|text| serde_json::from_str::<T>(&text).map(|_| text));
    text.map_or_else(|error| Value::Refused(format!("it cannot be read again: {error}")), Value::from)
}

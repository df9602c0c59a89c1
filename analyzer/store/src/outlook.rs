//! Risks, advisories and standings.

use std::ops::Range;

use sqlx::SqliteConnection;

use super::Place;
use super::checked::Reading;
use super::columns::{ADVISORIES, RISKS, STANDINGS};
use super::row::Session;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Outlook, Risk};

pub(super) async fn select(
    connection: &mut impl Session,
    reading: &mut Reading,
    window: &Range<TimeMs>,
) -> sqlx::Result<Outlook> {
    Ok(Outlook {
        risks: RISKS.select(connection, reading, window).await?,
        advisories: ADVISORIES.select(connection, reading, window).await?,
        standings: STANDINGS.select(connection, reading, window).await?,
    })
}

/// The first that does not belong to the node and window, in words.
pub(super) fn misplaced(place: Place<'_>, window: &Range<TimeMs>, outlook: &Outlook) -> Option<String> {
    let risks = outlook.risks.iter().map(|r| {
        let of = &r.last;
        ("risk", &of.entity, Place::new(&of.cluster, &of.node), r.start_ms, r.end_ms)
    });
    let advisories = outlook.advisories.iter();
    let advisories = advisories.map(|a| ("advisory", &a.gpu, Place::new(&a.cluster, &a.node), a.start_ms, a.end_ms));
    let standings = outlook.standings.iter();
    let standings = standings.map(|s| ("standing", &s.node, Place::new(&s.cluster, &s.node), s.start_ms, s.end_ms));
    let is_outside = |(_, _, on, start, end): &(_, _, Place<'_>, TimeMs, TimeMs)| {
        *on != place || *start < window.start || *end > window.end
    };
    let (what, entity, on, start, end) = risks.chain(advisories).chain(standings).find(is_outside)?;
    Some(format!("{what} of {entity} on {on} from {start} to {end}"))
}

/// An error where one of the risks is none.
pub(super) fn check(outlook: &Outlook) -> sqlx::Result<()> {
    let none = outlook.risks.iter().find(|risk| !risk.last.is_risk());
    none.map_or(Ok(()), |Risk { last, .. }| Err(sqlx::Error::Encode(format!("{} is not at risk", last.entity).into())))
}

pub(super) async fn replace(
    connection: &mut SqliteConnection,
    place: Place<'_>,
    window: &Range<TimeMs>,
    outlook: &Outlook,
) -> sqlx::Result<()> {
    check(outlook)?;
    ADVISORIES.replace(connection, window, Some(place), &outlook.advisories).await?;
    RISKS.replace(connection, window, Some(place), &outlook.risks).await?;
    STANDINGS.replace(connection, window, Some(place), &outlook.standings).await
}

//! What is said of GPU-time, and stored: the classes of the ledger, verdicts, advisories, risks, standings of nodes, and
//! what jobs report of themselves. Plain values; who makes them is `goodput-rules`, who keeps them `goodput-store`.

mod achieved;
mod advisory;
mod cause;
mod class;
mod delivered;
pub mod event;
mod finding;
mod instance;
mod interval;
mod kind;
mod latency;
mod message;
pub mod owner;
mod prospect;
mod roll_up;
mod standing;
mod team_time;
mod used;

pub use achieved::{Achieved, Counted, SLOT_MS, Served};
pub use advisory::{Advice, Advisory};
pub use cause::{Cause, CauseKind, filesystem_of_target};
pub use class::{Basis, Class, ClassInfo, Gain, Grade, Group, Remedy};
pub use delivered::Delivered;
pub use finding::{FindingAction, FindingEvent, FindingWeek};
pub use instance::Instance;
pub use interval::{Culprit, DOUBTED, Energy, Evidence, Interval, Version};
pub use kind::{Eviction, Fault, Kind, Level, Memory, Room, Sort};
pub use latency::{Histogram, Latency};
pub use message::{Message, MessageState, Unsubscribed};
pub use prospect::{Damage, Exhaustion, Forecast, Outlook, Prospect, Risk, Shape, TimeToLimit};
pub use roll_up::{Allocation, Grounds, Held, Part, RollUp, Stretch, Sums};
pub use standing::{CheckEnd, CollectiveUse, Drift, Measure, Paired, Standing};
pub use team_time::TeamTime;
pub use used::{MountUse, PortUse};

/// Milliseconds of an hour; verdicts are kept hour by hour.
pub const HOUR_MS: i64 = 3_600_000;

/// Milliseconds of a day; days of roll-ups are those of UTC.
pub const DAY_MS: i64 = 24 * HOUR_MS;

//! Columns of results, one row each: name in SQL, kind, name in exported files, what it says. Statements, what is
//! written and read, checksums, exported files and their tables in `docs/use/history.md` follow from the rows.
//!
//! A new column is a row at the end of its table: checksums of rows of earlier releases cover the columns before it.

mod cells;
mod column;
mod fields;
mod kept;

pub use column::{Column, Derived, Kind, Stored, exported};
pub(super) use kept::{IN_WINDOW, Kept, in_window};

pub use super::checked::Value;
pub use super::row::Row;
use cells::{Cells, Field};
use column::{integer, real, text, time};
use fields::readable;
use goodput_verdict::{
    Achieved, Advisory, Damage, Exhaustion, Interval, Prospect, Risk, RollUp, Standing, Sums, TimeToLimit,
};

/// A table of results: for every field the columns that hold it. Where fields are not all the row's own, its shape says
/// where they are; it takes a row apart and puts it together, so a field without columns does not compile.
macro_rules! columns {
    ($name:ident: $row:ident in $table:literal ordered by $order:literal { $($field:ident: $columns:tt,)+ }) => {
        columns!($name: $row as ($row { $($field),+ }), [], in $table ordered by $order { $($field: $columns,)+ });
    };
    ($name:ident: $row:ident as ($($shape:tt)+), $derived:expr, in $table:literal ordered by $order:literal {
        $($field:ident: [$($column:expr),+ $(,)?],)+
    }) => {
        pub(super) static $name: Kept<$row> = {
            const NAMES: &[&str] = &[$($($column.name),+),+];
            Kept::new($table, NAMES, $order)
        };

        impl Stored for $row {
            const COLUMNS: &'static [Column] = &[$($($column),+),+];
            const DERIVED: &'static [Derived<Self>] = &$derived;

            fn values(&self) -> Vec<Value<'_>> {
                let $($shape)+ = self;
                let mut row = Vec::with_capacity(Self::COLUMNS.len());
                $($field.put(&mut row);)+
                row
            }

            fn read(row: Row<'_>) -> sqlx::Result<Self> {
                let mut cells = Cells::of(row);
                $(let $field = cells.take()?;)+
                Ok($($shape)+)
            }
        }
    };
}

columns! { INTERVALS: Interval in "intervals" ordered by
    "node, gpu, start_ms, class, owner NULLS FIRST, charged_node NULLS FIRST, charged_gpu NULLS FIRST,
    gpu_instance NULLS FIRST, gpu_instance_profile NULLS FIRST, cluster NULLS FIRST, end_ms, run NULLS FIRST,
    account NULLS FIRST, cause NULLS FIRST, which NULLS FIRST, ms" {
    node: [text("node", NODE)],
    start_ms: [time("start_ms", "start", START)],
    end_ms: [time("end_ms", "end", END)],
    gpu: [text("gpu", GPU)],
    model: [text("model", MODEL)],
    owner: [text("owner", OWNER)],
    class: [text("class", "[what the time went into](../reference/rules.md)")],
    ms: [integer("ms", "GPU-milliseconds of the class within; those of a GPU sum to the time judged").named("gpu_ms")],
    confidence: [real("confidence", CONFIDENCE)],
    busy_signal: [text("busy_signal", "signal that told busy from not busy")],
    evidence: [text("evidence", EVIDENCE)],
    missing: [text("missing", "JSON list of signals whose absence kept rules from judging")],
    energy: [
        integer("energy_mj", "millijoules drawn"),
        integer("energy_ms", "GPU-milliseconds for which the energy is known"),
        integer("energy_counted_ms", "GPU-milliseconds of these for which the board counted it"),
    ],
    charged_to: [
        text(
            "charged_node",
            "node of the GPU or the port that caused it, where that is another; the time is on the row of the GPU that lost it",
        ),
        text("charged_gpu", "UUID of the GPU that caused it; null where it is no GPU"),
    ],
    gpu_instance: [
        integer(
            "gpu_instance",
            "MIG instance whose row it is, as `GPU_I_ID`; null of the GPU itself. With its rows those of its GPU sum to \
             the window",
        ),
        text("gpu_instance_profile", "its profile, as `GPU_I_PROFILE`"),
    ],
    variance_ms2: [
        integer(
            "variance_ms2",
            "[what sampling leaves unknown](report.md#what-sampling-leaves-unknown) of `gpu_ms`, in ms²; null of \
             releases that did not tell",
        )
        .named("gpu_ms_variance"),
    ],
    version: [
        integer(
            "rule_version",
            "[version](../reference/rules.md#versions-of-rules) of the rules of the class; null of releases that did not tell",
        ),
        integer("rules_version", "version of all rules together; null of releases that did not tell"),
    ],
    run: [text("run", RUN)],
    account: [text("account", "namespace of a pod, account of a Slurm job")],
    cluster: [text("cluster", CLUSTER)],
    cause: [
        text(
            "cause",
            "of `network_slow`: [what made the network slow](../reference/rules.md#network_slow); of `unallocated`: [who waited](../reference/rules.md#unallocated); null of classes without causes",
        ),
        text("which", "RDMA port (`device/port`) or network interface of `charged_node` that has the cause; of a free GPU who waited; null where none is named"),
    ],
}}

columns! { ADVISORIES: Advisory in "advisories" ordered by
    "node, gpu, start_ms, advice, owner NULLS FIRST, cluster NULLS FIRST, end_ms, run NULLS FIRST, cause NULLS FIRST,
    which NULLS FIRST, free NULLS FIRST" {
    node: [text("node", NODE)],
    start_ms: [time("start_ms", "start", START)],
    end_ms: [time("end_ms", "end", END)],
    gpu: [text("gpu", GPU)],
    model: [text("model", MODEL)],
    owner: [text("owner", OWNER)],
    advice: [text("advice", "what is advised")],
    confidence: [real("confidence", CONFIDENCE)],
    evidence: [text("evidence", EVIDENCE)],
    run: [text("run", RUN)],
    cluster: [text("cluster", CLUSTER)],
    cause: [
        text("cause", "of a network: [what its ports show](../reference/rules.md#network_slow); null of other advice"),
        text("which", "RDMA port (`device/port`) or network interface of `node` that shows it; null where none is named"),
    ],
    free: [text("free", "of `scattered_gpus` the GPUs that were free when the run began; null of other advice")],
}}

columns! { RISKS: Risk as (Risk {
    start_ms, end_ms, earliest_ms, last: Prospect { cluster, node, entity, owners, made_ms, kind, forecast }
}), FORECAST, in "risks" ordered by "node, cluster NULLS FIRST, kind, which, entity, start_ms, end_ms, made_ms" {
    node: [text("node", "name of the node")],
    start_ms: [time("start_ms", "start", START)],
    end_ms: [time("end_ms", "end", END)],
    kind: [
        text("kind", "`memory`, `disk`, `eviction` or `hardware`"),
        text(
            "which",
            "of memory `gpu`, `cgroup` or `host`; of a disk `bytes` or `inodes`; of an eviction the kubelet's signal; \
             of hardware the signal that shows it",
        ),
    ],
    entity: [text("entity", "UUID (of a MIG instance with `/` and its id), owner, mount point, RDMA port (`device/port`), network interface, PCI address of an NVSwitch, or node")],
    owners: [text("owners", "JSON list of who held the GPU; of an eviction or a part of the network, the node's GPUs")],
    earliest_ms: [time(
        "earliest_ms",
        "earliest",
        "when the limit was expected, at the earliest of all forecasts",
    )],
    made_ms: [time("made_ms", "made", "when the last forecast was made")],
    forecast: [text("forecast", "").unexported()],
    cluster: [text("cluster", CLUSTER)],
}}

columns! { ACHIEVED: Achieved in "achieved" ordered by
    "metric, owner NULLS FIRST, subject, start_ms, cluster NULLS FIRST, end_ms, unit, amount,
    model NULLS FIRST" {
    start_ms: [time("start_ms", "start", START)],
    end_ms: [time("end_ms", "end", END)],
    metric: [text("metric", "name of the counter")],
    unit: [text("unit", "what it counts")],
    owner: [text("owner", "who holds GPUs; null where the series could not be joined to anyone")],
    subject: [text("subject", "what the series' owner label said; of a server its pod or owner, else the target of the scrape")],
    amount: [real("amount", "how much the counter grew, in `unit`")],
    covered_ms: [integer("covered_ms", "milliseconds of the window for which it is known")],
    ideal: [real("ideal", "what one GPU could do per second, as configured then").named("ideal_per_gpu_second")],
    cluster: [text("cluster", "cluster of the owner's GPUs, of the series where it has no owner; null where they name none, and of earlier releases")],
    served: [text(
        "served",
        "JSON object of all that an inference server counted; null of counters that are configured. `amounts`: `requests`, \
         `failed_requests`, `prompt_tokens`, `cached_tokens` and `generation_tokens`, each with the growth and the name of its \
         counter; empty where the server was there without a counter. `metric`, `unit` and `amount` are those of the last. \
         `latencies`: `time_to_first_token`, `time_per_output_token` and `end_to_end` of requests, by buckets: a list is a \
         bound in seconds, how many requests are between it and the next, the next bound and so on; without a last bound \
         these are above it. `demand`: of each five minutes, how much of the server its requests needed (1: all of it, null: it \
         did not report)",
    )],
    model: [text("model", "model that the server served; null where the series do not name it")],
}}

const NODE: &str = "node of the GPU";
const GPU: &str = "UUID of the GPU";
const MODEL: &str = "model of the GPU";
const START: &str = "start of the time that the row is about";
const END: &str = "its end, exclusive";
const OWNER: &str = "pod, job or unit that held the GPU";
const RUN: &str = "run that the owner is: its own name, or that of the job whose ranks are owners, as pods are";
const CLUSTER: &str = "cluster of the node: names of nodes and runs are unique within one; null where series name none";
const CONFIDENCE: &str = "0 to 1";
const EVIDENCE: &str = "JSON list of signal, value, unit and threshold";

/// The last forecast of a risk: one column in the database, many in files.
const FORECAST: [Derived<Risk>; 11] = [
    (text("shape", "`plateau`, `leak` or `sawtooth`"), |r| exhausted(r, |e| e.shape.name())),
    (real("used", "bytes, or inodes"), |r| exhausted(r, |e| e.used)),
    (real("limit", "bytes, or inodes"), |r| exhausted(r, |e| e.limit)),
    (real("slope_per_second", "growth of `used`"), |r| exhausted(r, |e| e.slope)),
    (real("slope_low_per_second", "lower end of its 90 % interval"), |r| exhausted(r, |e| e.slope_low)),
    (real("slope_high_per_second", "upper end of its 90 % interval"), |r| exhausted(r, |e| e.slope_high)),
    (real("soonest_seconds", "from `made` to the limit, at the high slope"), |r| left(r, |t| Some(t.soonest_seconds))),
    (real("likely_seconds", "from `made` to the limit"), |r| left(r, |t| Some(t.likely_seconds))),
    (real("latest_seconds", "at the low slope; null beyond the horizon"), |r| left(r, |t| t.latest_seconds)),
    (text("level", "of hardware: `watch` or `act`"), |r| damaged(r, |d| d.level.name().into())),
    (text("evidence", "of hardware, as of intervals"), |r| damaged(r, |d| fields::evidence(&d.evidence))),
];

fn exhausted<'a, T: Into<Value<'a>>>(risk: &'a Risk, of: fn(&Exhaustion) -> T) -> Value<'a> {
    risk.last.exhaustion().map(of).into()
}

fn left(risk: &Risk, of: fn(&TimeToLimit) -> Option<f64>) -> Value<'_> {
    risk.last.at_risk().and_then(|left| of(&left)).into()
}

fn damaged(risk: &Risk, of: fn(&Damage) -> Value<'_>) -> Value<'_> {
    risk.last.damage().map_or(Value::Null, of)
}

pub(super) static STANDINGS: Kept<Standing> =
    Kept::new("standings", &["node", "start_ms", "end_ms", "standing"], "node, start_ms, cluster NULLS FIRST");

/// One column has all; the others are what rows are found by.
impl Stored for Standing {
    const COLUMNS: &'static [Column] = &[
        text("node", "").unexported(),
        time("start_ms", "", "").unexported(),
        time("end_ms", "", "").unexported(),
        text("standing", "").unexported(),
    ];

    fn values(&self) -> Vec<Value<'_>> {
        vec![(&self.node).into(), self.start_ms.into(), self.end_ms.into(), readable(self)]
    }

    fn read(row: Row<'_>) -> sqlx::Result<Self> {
        Cells::of(row).after(3).json()
    }
}

pub(super) static HOURS: Kept<RollUp> = Kept::new(
    "hours",
    &["node", "start_ms", "end_ms", "sums", "cluster"],
    "node, start_ms, cluster NULLS FIRST, end_ms",
);

pub(super) static DAYS: Kept<RollUp> = Kept::new(
    "days",
    &["node", "start_ms", "end_ms", "sums", "cluster"],
    "node, start_ms, cluster NULLS FIRST, end_ms",
)
.without_window();

/// As of [`Standing`]; node, time and cluster are told by their columns alone.
impl Stored for RollUp {
    const COLUMNS: &'static [Column] = &[
        text("node", "").unexported(),
        time("start_ms", "", "").unexported(),
        time("end_ms", "", "").unexported(),
        text("sums", "").unexported(),
        text("cluster", "").unexported(),
    ];

    fn values(&self) -> Vec<Value<'_>> {
        let Self { cluster, node, start_ms, end_ms, .. } = self;
        let sums = readable(&Sums::of(self));
        vec![node.into(), (*start_ms).into(), (*end_ms).into(), sums, cluster.as_ref().into()]
    }

    fn read(row: Row<'_>) -> sqlx::Result<Self> {
        let mut cells = Cells::of(row);
        let (node, start_ms, end_ms) = (cells.one()?, cells.one()?, cells.one()?);
        let sums: Sums = cells.json()?;
        let hour = sums.hour((cells.one()?, node), start_ms, end_ms);
        hour.ok_or_else(|| sqlx::Error::Decode("sums that name what is not there".into()))
    }
}

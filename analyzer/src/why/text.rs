//! The answer for people: what is wrong, a table of the GPUs, then one block for each job and cause.

use std::fmt::Write as _;

use super::answer::{AdvisoryAnswer, Answer, ClassAnswer, GpuAnswer};
use super::block::{Advised, Loss, advised, losses};
use super::table::{Column, lines, wrapped};
use crate::report::text::{UNKNOWN, cause, percent, port, short, sure};
use crate::report::units::measure;
use crate::report::{About, filled};
use goodput_verdict::{Class, Culprit, Evidence, Remedy};

/// How the answer is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Columns of the terminal. Commands are never broken.
    pub(super) width: usize,
    /// Every GPU with all of its classes, too?
    pub(super) is_verbose: bool,
}

impl Answer {
    /// For people.
    pub(super) fn text(&self, form: Form) -> String {
        let mut text = format!("{}\n", self.health.lines(form.is_verbose).join("\n"));
        let (mut ill, healthy): (Vec<&GpuAnswer>, Vec<&GpuAnswer>) =
            self.gpus.iter().partition(|gpu| self.needs_attention(gpu));
        // The order of GPUs with equal losses stays that of their indices.
        ill.sort_by(|a, b| b.lost().total_cmp(&a.lost()));
        if !ill.is_empty() {
            text += &format!("\n{}", self.table(&ill, form.width));
        }
        if !healthy.is_empty() {
            let line = format!("{}: nothing to do", named(&healthy, self.has_one_node()));
            text.push('\n');
            wrapped(&mut text, "healthy  ", "         ", &line, form.width);
        }
        for (n, one) in self.collectives.iter().enumerate() {
            text.push_str(if n == 0 { "\n" } else { "" });
            wrapped(&mut text, "collectives  ", "             ", &one.line(), form.width);
        }
        self.write_damage(&mut text, form.width);
        losses(&ill, &|gpu| self.health.remedies(gpu).is_some()).iter().for_each(|loss| loss.write(&mut text, form));
        advised(&self.gpus).iter().for_each(|advised| advised.write(&mut text, form));
        if form.is_verbose {
            self.gpus.iter().for_each(|gpu| gpu.write(&mut text));
        }
        for reason in &self.unjoined {
            let _ = writeln!(text, "\nnote: {reason}");
        }
        text
    }

    fn needs_attention(&self, gpu: &GpuAnswer) -> bool {
        gpu.causes().next().is_some() || self.health.damage.iter().any(|damage| damage.gpu.as_ref() == Some(&gpu.gpu))
    }

    fn has_one_node(&self) -> bool {
        self.gpus.windows(2).all(|pair| pair[0].node == pair[1].node)
    }

    fn table(&self, gpus: &[&GpuAnswer], width: usize) -> String {
        let columns = [
            Column::left("GPU"),
            Column::flexible("job"),
            Column::right("busy"),
            Column::flexible("cause"),
            Column::right("lost"),
        ];
        let row = |gpu: &&GpuAnswer| {
            let damage = self.health.damage.iter().find(|damage| damage.gpu.as_ref() == Some(&gpu.gpu));
            let cause = gpu.causes().next().map(|class| class.class.title().to_owned());
            [
                place(gpu, self.has_one_node()),
                gpu.holder().to_owned(),
                gpu.busy().map_or(UNKNOWN.to_owned(), |busy| percent(Some(busy))),
                cause.or_else(|| damage.map(|damage| damage.what.clone())).unwrap_or_default(),
                gpu.busy().map_or(UNKNOWN.to_owned(), |_| percent(Some(gpu.lost()))),
            ]
        };
        lines(&columns, &gpus.iter().map(row).collect::<Vec<_>>(), width)
    }

    /// What to do about damage that has to be repaired at once, by fault.
    fn write_damage(&self, text: &mut String, width: usize) {
        let mut seen: Vec<&[Remedy]> = Vec::new();
        for gpu in &self.gpus {
            let Some(remedies) = self.health.remedies(&gpu.gpu).filter(|remedies| !seen.contains(remedies)) else {
                continue;
            };
            seen.push(remedies);
            let alike = |other: &&GpuAnswer| self.health.remedies(&other.gpu) == Some(remedies);
            let gpus: Vec<&GpuAnswer> = self.gpus.iter().filter(alike).collect();
            let _ = writeln!(text, "\nDamaged: {}", named(&gpus, self.has_one_node()));
            write_remedies(text, remedies, &gpu.commands, width);
        }
    }
}

impl GpuAnswer {
    /// Losses that are large enough to act on, the greatest first. Time without data is one: it is to be explained.
    pub(super) fn causes(&self) -> impl Iterator<Item = &ClassAnswer> {
        let is_worth_while =
            |class: &&ClassAnswer| class.class != Class::Productive && class.share >= super::answer::MIN_LOSS;
        self.classes.iter().filter(is_worth_while)
    }

    fn share(&self, class: Class) -> f64 {
        self.classes.iter().filter(|one| one.class == class).map(|one| one.share).sum()
    }

    /// The part of the known time in which it worked; `None` where nothing is known.
    fn busy(&self) -> Option<f64> {
        let known = 1.0 - self.share(Class::NoData);
        (known > 0.0).then(|| self.share(Class::Productive) / known)
    }

    /// The part of the known time that was lost.
    fn lost(&self) -> f64 {
        self.busy().map_or(0.0, |busy| 1.0 - busy)
    }

    /// Who held it for most of its losses, else who holds it.
    fn holder(&self) -> &str {
        match self.causes().next().or(self.classes.first()) {
            Some(class) => class.holder(),
            None => UNKNOWN,
        }
    }

    /// All that is known of it.
    fn write(&self, text: &mut String) {
        let index = self.index.as_deref().unwrap_or("?");
        let model = self.model.as_deref().unwrap_or("model unknown");
        let _ = writeln!(text, "\nGPU {index} on {}  {model}  {}", self.node, self.gpu);
        self.classes.iter().for_each(|class| class.write(text));
        for advisory in &self.advisories {
            let name = advisory.advice.name();
            let _ = writeln!(text, "  advisory  {name}: {}", advisory.meaning);
            write_evidence(text, &advisory.evidence);
        }
    }
}

impl ClassAnswer {
    pub(super) fn holder(&self) -> &str {
        match self.class {
            Class::Unallocated | Class::StrandedMig => "free",
            _ => self.owner.as_deref().unwrap_or(UNKNOWN),
        }
    }

    fn write(&self, text: &mut String) {
        let share = percent(Some(self.share));
        let _ = writeln!(text, "  {share:>7}  {}: {}", self.class.name(), self.meaning);
        if self.class != Class::Productive {
            let (holder, confidence, version) = (self.holder(), percent(Some(self.confidence)), self.rule_version);
            let _ = writeln!(text, "           held by {holder}; confidence {confidence}; rule version {version}");
        }
        if let Some(culprit) = self.culprit() {
            let _ = writeln!(text, "           {culprit}");
        }
        if let Some(known) = &self.cause {
            let _ = writeln!(text, "           cause {}", cause(known.kind));
        }
        if let Some(signal) = &self.busy_signal {
            let _ = writeln!(text, "           busy or not by {signal}");
        }
        write_evidence(text, &self.evidence);
        if !self.missing.is_empty() && self.class != Class::Productive {
            let _ = writeln!(text, "           not judged for lack of {}", self.missing.join(", "));
        }
    }

    /// What or who it comes from; of a free GPU who waited.
    fn culprit(&self) -> Option<String> {
        let how = if self.class == Class::Unallocated { "who waited:" } else { "caused by" };
        Some(format!("{how} {}", self.named_culprit()?))
    }

    fn named_culprit(&self) -> Option<String> {
        let Some(Culprit { node, gpu }) = &self.charged_to else {
            return self.which().map(str::to_owned);
        };
        let Some(gpu) = gpu else {
            return Some(port(node, self.which()));
        };
        let gpu = self.culprit_index.as_deref().unwrap_or_else(|| short(gpu));
        Some(format!("GPU {gpu} on {node}"))
    }
}

impl Loss<'_> {
    fn write(&self, text: &mut String, form: Form) {
        let (_, class) = self.greatest;
        let shown = format!("{} ({}): {}", class.class.title(), class.class.name(), class.holder());
        text.push('\n');
        wrapped(text, "", "  ", &shown, form.width);
        wrapped(text, "  ", "  ", class.meaning, form.width);
        if let Some(known) = &class.cause {
            wrapped(text, "  ", "  ", &format!("cause {}", cause(known.kind)), form.width);
        }
        let (gpus, share) = (named(&self.gpus, true), percent(Some(self.share / self.gpus.len() as f64)));
        let culprit = class.culprit().map(|culprit| format!("; {culprit}")).unwrap_or_default();
        let lost = format!("lost {share} of {gpus}; confidence {}{culprit}", sure(class.confidence));
        wrapped(text, "  ", "  ", &lost, form.width);
        write_evidence(text, &class.evidence);
        if class.class == Class::Unexplained && !class.missing.is_empty() {
            let missing = format!("not judged for lack of {}", class.missing.join(", "));
            wrapped(text, "           ", "           ", &missing, form.width);
        }
        write_remedies(text, class.remedies(), &self.commands(), form.width);
    }
}

impl Advised<'_> {
    fn write(&self, text: &mut String, form: Form) {
        let (gpu, AdvisoryAnswer { advice, meaning, owner, cause: known, free, evidence, remedies, confidence }) =
            self.first;
        let holder = owner.as_deref().unwrap_or(UNKNOWN);
        let shown = format!("Advisory ({}): {holder} on {}", advice.name(), named(&self.gpus, true));
        text.push('\n');
        wrapped(text, "", "  ", &shown, form.width);
        wrapped(text, "  ", "  ", &format!("{meaning} Confidence {}.", sure(*confidence)), form.width);
        if let Some(known) = known {
            wrapped(text, "  ", "  ", &format!("cause {}", cause(known.kind)), form.width);
        }
        if let Some(free) = free {
            wrapped(text, "  ", "  ", &format!("free when it began: {free}"), form.width);
        }
        write_evidence(text, evidence);
        let about = About { owner: owner.as_deref(), ..gpu.about() };
        write_remedies(text, remedies, &filled(remedies, &about), form.width);
    }
}

/// `GPU 0, 3`.
fn named(gpus: &[&GpuAnswer], has_one_node: bool) -> String {
    let places: Vec<String> = gpus.iter().map(|gpu| place(gpu, has_one_node)).collect();
    format!("GPU {}", places.join(", "))
}

fn place(gpu: &GpuAnswer, has_one_node: bool) -> String {
    let index = gpu.index.as_deref().unwrap_or_else(|| short(&gpu.gpu));
    if has_one_node { index.to_owned() } else { format!("{index} on {}", gpu.node) }
}

fn write_remedies(text: &mut String, remedies: &[Remedy], commands: &[Option<String>], width: usize) {
    for (n, (remedy, command)) in remedies.iter().zip(commands).enumerate() {
        if n == 0 {
            text.push_str("  what to do\n");
        }
        wrapped(text, &format!("    {}. ", n + 1), "       ", remedy.action, width);
        if let Some(command) = command {
            let _ = writeln!(text, "         {command}");
        }
        let terms = format!("restarts: {}; who: {}; risk: {}", remedy.restarts, remedy.who, remedy.risk);
        wrapped(text, "       ", "       ", &terms, width);
    }
}

fn write_evidence(text: &mut String, evidence: &[Evidence]) {
    for e in evidence {
        let (value, threshold) = (measure(e.value, &e.unit), measure(e.threshold, &e.unit));
        let _ = writeln!(text, "           {} = {value} (threshold {threshold})", e.signal);
    }
}
